"""Memory is what the system says; weights that processes share lie in it once."""

import mmap
import os
import pickle
import subprocess
import sys

import pytest
import torch
from limits import file_size_limit
from tiny_models import tiny_model

from bertsmith.errors import ConfigError
from bertsmith.model.shared import SharedFile, SharedModel
from bertsmith.system.memory import available_bytes, resident_bytes

MEGABYTE = 2**20

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")


@on_linux
def test_more_memory_is_seen():
    before = resident_bytes([os.getpid()])
    # Its own pages, not some that the process has held before.
    with mmap.mmap(-1, 64 * MEGABYTE) as held:
        for place in range(0, len(held), mmap.PAGESIZE):
            held[place] = 1
        after = resident_bytes([os.getpid()])
    assert after - before == pytest.approx(64 * MEGABYTE, rel=0.1)
    assert resident_bytes([2**22 + 1]) is None
    assert available_bytes() > 0


LOOK = """
import mmap, sys
with open(sys.argv[1], "rb") as file:
    memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
print(sum(memory[i] for i in range(0, len(memory), mmap.PAGESIZE)), flush=True)
input()
"""


@on_linux
def test_what_is_shared_counts_once():
    size = 64 * MEGABYTE
    file = SharedFile(size)
    memory = file.map()
    memory.fill_(1)
    command = [sys.executable, "-c", LOOK, str(file.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert int(process.stdout.readline()) == size // mmap.PAGESIZE
        both = resident_bytes([os.getpid(), process.pid])
        mine, other = resident_bytes([os.getpid()]), resident_bytes([process.pid])
        process.communicate(b"\n")
    file.close()
    # Alone, each counts half of what it shares, and code of its own.
    assert size < both <= mine + other


def test_weights_are_sent_by_their_place_and_keep_types_and_mode():
    model = tiny_model("classify", num_labels=3, hidden_size=96).to(torch.bfloat16).train()
    model.heads.float()
    expected = {name: weight.clone() for name, weight in model.state_dict().items()}
    shared = SharedModel(model)
    pickled = pickle.dumps(shared)
    assert len(pickled) < sum(p.nbytes for p in model.parameters()) / 2
    copy = pickle.loads(pickled).model
    assert copy.training and not any(p.requires_grad for p in copy.parameters())
    for name, weight in expected.items():
        assert copy.state_dict()[name].dtype == weight.dtype
        assert torch.equal(copy.state_dict()[name], weight), name
    with torch.no_grad():
        shared.model.layers[1].feed_forward.up.bias[5] = 41.0
    assert copy.layers[1].feed_forward.up.bias[5] == 41.0


def test_a_limit_on_the_size_of_files_is_named():
    said = r"2\.0 MB that processes share.*ulimit -f"
    with pytest.raises(ConfigError, match=said), file_size_limit(100_000):
        SharedFile(2_000_000)
