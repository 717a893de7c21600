"""A model whose weights are mapped where they lie; and what its last layer gives."""

import multiprocessing
import pickle

import pytest
import torch
from tiny_models import tiny_model

from bertsmith.data.batches import pack
from bertsmith.errors import ConfigError
from bertsmith.model.shared import SharedFile, SharedModel


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


def test_weights_are_sent_by_their_place_and_keep_types_and_mode():
    model = tiny_model("classify", num_labels=3, hidden_size=96).to(torch.bfloat16).train()
    model.heads.float()
    shared = SharedModel(model)
    pickled = pickle.dumps(shared)
    assert len(pickled) < sum(p.nbytes for p in model.parameters()) / 2
    copy = pickle.loads(pickled).model
    assert copy.training and not any(p.requires_grad for p in copy.parameters())
    with torch.no_grad():
        shared.model.layers[1].feed_forward.up.bias[5] = 41.0
    assert copy.layers[1].feed_forward.up.bias[5] == 41.0
    for mine, theirs in zip(shared.model.parameters(), copy.parameters(), strict=True):
        assert mine.dtype == theirs.dtype
        assert torch.equal(mine, theirs)


def test_a_limit_on_the_size_of_files_is_named():
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.raises(ConfigError, match=r"2\.0 MB that processes share.*ulimit -f"):
            SharedFile(2_000_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
