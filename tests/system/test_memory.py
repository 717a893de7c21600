"""Memory is what the system says; too little is one line: what was asked for, what needs less."""

import mmap
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from limits import file_size_limit
from refusals import check_message, refuses
from safetensors import SafetensorError
from tiny_models import save_tiny, write_reviews

from bertsmith.errors import ConfigError
from bertsmith.model.shared import SharedFile
from bertsmith.system.memory import (
    available_bytes,
    lacks_memory,
    own_peak_bytes,
    peak_bytes,
    requested_bytes,
    resident_bytes,
)

MEGABYTE = 2**20

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's /proc and limits")

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
    assert resident_bytes([2**22 + 1]) is None
    assert available_bytes() > 0


OWN_PEAK = "from bertsmith.system.memory import own_peak_bytes; print(own_peak_bytes())"


@on_linux
def test_the_peak_of_a_process_is_without_that_of_the_one_that_started_it():
    with mmap.mmap(-1, 256 * MEGABYTE) as memory:
        memory.write(bytes(256 * MEGABYTE))
        command = [sys.executable, "-c", OWN_PEAK]
        of_child = int(subprocess.run(command, capture_output=True, check=True).stdout)
    assert MEGABYTE < of_child < 200 * MEGABYTE
    assert 256 * MEGABYTE < own_peak_bytes() <= peak_bytes()


CUT_NAME = """
from pathlib import Path
Path("/proc/self/comm").write_bytes("a词词词词词".encode())  # 16 bytes, of which Linux keeps 15
try:
    Path("/proc/self/status").read_text(encoding="utf-8")
except UnicodeDecodeError:
    from bertsmith.system.memory import own_peak_bytes
    print(own_peak_bytes())
"""


@on_linux
def test_the_name_of_a_process_may_be_cut_within_a_character():
    done = subprocess.run([sys.executable, "-c", CUT_NAME], capture_output=True, check=True)
    assert int(done.stdout) > MEGABYTE


def test_a_limit_on_the_size_of_files_is_named():
    with refuses(ConfigError, "2.0 MB", "ulimit -f", worded=False), file_size_limit(100_000):
        SharedFile(2_000_000)


LIMITED = """
import resource, sys
from pathlib import Path
import torch
from bertsmith.cli import main
torch.set_num_threads(1)
warm, words, more = sys.argv[1].split(), sys.argv[2].split(), int(sys.argv[3])
main(warm)  # what it loads is no part of the limit
size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + more, size + more))
main(words)
"""


@pytest.mark.same_on_all_computers
@on_linux
def test_a_limit_is_met_with_one_line(tmp_path):
    labels = ("neg", "pos")
    save_tiny(tmp_path / "small", "classify", labels=labels)
    save_tiny(tmp_path / "wide", "classify", labels=labels, intermediate_size=400_000,
              num_hidden_layers=1)  # fmt: skip
    rows = write_reviews(tmp_path / "data.csv", 50)
    words = (
        f"finetune classify --model {tmp_path}/wide --train {rows} --eval {rows} --steps 1 "
        f"--threads 1 --out {tmp_path}/out --device cpu --precision fp32"
    )
    warm = f"predict {tmp_path}/small x --device cpu --precision fp32"
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, warm, words, str(40 * 2**20)],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    *notes, line = done.stderr.splitlines()
    assert "Traceback" not in notes
    flags = ("--max-length", "--batch-size", "--micro-batch-size", "--threads", "--processes")
    check_message(line, "bertsmith: finetune classify: ", *flags, worded=False)
    assert not (tmp_path / "out").exists()


def test_what_libraries_say_of_it():
    with pytest.raises(RuntimeError) as torch_error:
        torch.empty(2**45)
    assert lacks_memory(torch_error.value)
    assert requested_bytes(torch_error.value) == 2**47
    with pytest.raises(MemoryError) as numpy_error:
        np.empty(2**45)
    assert requested_bytes(numpy_error.value) == 2**48
    cuda = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has ...")
    assert lacks_memory(cuda) and requested_bytes(cuda) == 5 * 2**29
    assert lacks_memory(SafetensorError("Cannot allocate memory (os error 12)"))
    assert not lacks_memory(RuntimeError("shape '[2]' is invalid for input of size 3"))
