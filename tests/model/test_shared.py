"""A model whose weights are mapped where they lie; and what its last layer gives."""

import multiprocessing
import os
import pickle
import subprocess
import sys

import pytest
import torch
from tiny_models import tiny_model

from bertsmith.data.batches import pack
from bertsmith.model.bert import OutputRecorder
from bertsmith.model.last_layer import watch_last_layer
from bertsmith.model.shared import SharedModel


def batch():
    rows = [[2, 5, 6, 3], [2, 7, 3], [2, 9, 10, 11, 12, 3]]
    return pack([torch.tensor(row).numpy() for row in rows])


def encode(shared):
    with torch.no_grad():
        return shared.model.encode(batch())


def send_back(pickled, connection):
    """What another process computes with the model, as plain numbers."""
    torch.set_num_threads(1)
    connection.send(encode(pickle.loads(pickled)).tolist())


def test_another_process_computes_the_same():
    shared = SharedModel(tiny_model("classify", num_labels=3))
    before = encode(shared)
    spawn = multiprocessing.get_context("spawn")
    mine, theirs = spawn.Pipe()
    process = spawn.Process(target=send_back, args=(pickle.dumps(shared), theirs))
    process.start()
    try:
        found = torch.tensor(mine.recv())
    finally:
        process.join(60)
    torch.testing.assert_close(found, before, rtol=0.0, atol=1e-6)
    assert torch.equal(encode(shared), before)


def test_weights_are_sent_by_their_place():
    shared = SharedModel(tiny_model("classify", num_labels=3, hidden_size=96))
    num_bytes = sum(p.numel() * p.element_size() for p in shared.model.parameters())
    pickled = pickle.dumps(shared)
    assert len(pickled) < num_bytes / 3
    copy = pickle.loads(pickled)
    assert not any(p.requires_grad for p in copy.model.parameters())
    with torch.no_grad():
        shared.model.layers[1].feed_forward.up.bias[5] = 41.0
    assert copy.model.layers[1].feed_forward.up.bias[5] == 41.0


def test_types_and_mode_stay():
    model = tiny_model("classify", num_labels=3).to(torch.bfloat16).train()
    model.heads.float()
    shared = SharedModel(model)
    copy = pickle.loads(pickle.dumps(shared)).model
    assert copy.training
    for mine, theirs in zip(shared.model.parameters(), copy.parameters(), strict=True):
        assert mine.dtype == theirs.dtype
        assert torch.equal(mine, theirs)


def test_the_last_layer_is_seen_from_beside():
    model = tiny_model()
    trace = OutputRecorder(hidden_states=[])
    with torch.no_grad():
        model.encode(batch(), trace)
        with watch_last_layer(model) as seen:
            model.encode(batch())
    assert torch.equal(seen.vectors(batch()), trace.hidden_states[-1])
    assert not model.layers[-1]._forward_hooks


@pytest.mark.skipif(os.name == "nt", reason="there are no such limits")
def test_a_limit_on_the_size_of_files_is_named():
    code = (
        "import resource, bertsmith.model.shared as shared\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "try: shared.SharedFile(2_000_000)\n"
        "except shared.ConfigError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "2.0 MB that processes share" in done.stdout
    assert "ulimit -f" in done.stdout
