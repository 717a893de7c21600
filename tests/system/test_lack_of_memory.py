"""Too little memory is one line: what could not be had, and what needs less."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from safetensors import SafetensorError
from tiny_models import save_tiny, write_reviews

from bertsmith.system.memory import asked_bytes, lacks_memory

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits are Linux's")

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
    assert line.startswith("bertsmith: finetune classify: found too little memory")
    assert "--batch-size" in line and "--max-length" in line
    assert not (tmp_path / "out").exists()


def test_what_libraries_say_of_it():
    with pytest.raises(RuntimeError) as torch_error:
        torch.empty(2**45)
    assert lacks_memory(torch_error.value)
    assert asked_bytes(torch_error.value) == 2**47
    with pytest.raises(MemoryError) as numpy_error:
        np.empty(2**45)
    assert asked_bytes(numpy_error.value) == 2**48
    cuda = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has ...")
    assert lacks_memory(cuda) and asked_bytes(cuda) == 5 * 2**29
    assert lacks_memory(SafetensorError("Cannot allocate memory (os error 12)"))
    assert lacks_memory(MemoryError()) and asked_bytes(MemoryError()) is None
    assert not lacks_memory(RuntimeError("shape '[2]' is invalid for input of size 3"))
