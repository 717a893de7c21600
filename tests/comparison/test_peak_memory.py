"""Peak memory of a recipe's training: that of a process of its own, whatever this one holds."""

import mmap
import os
import shutil
import signal
import tempfile
import threading
import time
from dataclasses import replace

import pytest
from limits import file_size_limit

from bertsmith.comparison.peak_memory import add_peak_memory, measure_peak_memory
from bertsmith.comparison.recipes import read_comparison
from bertsmith.comparison.runs import ComparisonContext, run_all
from bertsmith.system.memory import peak_bytes
from bertsmith.training.run_folder import RunFolder

MEGABYTE = 2**20

pytestmark = [
    pytest.mark.skipif(peak_bytes() is None, reason="needs the peak memory of a process"),
    pytest.mark.same_on_all_computers,
]


def with_preset(recipe, preset):
    return replace(recipe, job=replace(recipe.job, model=replace(recipe.job.model, preset=preset)))


def test_a_larger_model_needs_more_and_what_this_process_holds_does_not_count(finished):
    tiny, *_ = read_comparison(finished).recipes
    folder = RunFolder(finished.out / "next-sentence" / "seed-0")
    with mmap.mmap(-1, 1024 * MEGABYTE) as memory:
        memory.write(bytes(1024 * MEGABYTE))
        of_tiny = measure_peak_memory(tiny, folder)
    of_small = measure_peak_memory(with_preset(tiny, "small"), folder)
    # 12 million weights more, in fp32, each with its gradient and two means.
    assert of_tiny + 12e6 * 4 * 4 < of_small < of_tiny + 1024 * MEGABYTE


def test_a_failed_measurement_is_told_and_loses_nothing(finished, tmp_path):
    settings = replace(finished, out=shutil.copytree(finished.out, tmp_path / "out"))
    told = []
    work = ComparisonContext(
        read_comparison(replace(settings, measure_memory=True)), (), "", told.append
    )
    results = run_all(work)
    before = [result.to_json() for result in results]
    told.clear()
    with file_size_limit(100_000):  # of the model that the trial saves
        add_peak_memory(work, results[:1])
    assert len(told) == 2 and told[1].startswith("next sentence: peak memory not measured: ")
    assert [result.to_json() for result in results] == before


def test_a_stop_leaves_no_files_of_the_trial(finished, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # for the process of the trial
    tiny, *_ = read_comparison(finished).recipes
    folder = RunFolder(finished.out / "next-sentence" / "seed-0")

    def stop():
        deadline = time.monotonic() + 600
        while time.monotonic() < deadline and not [*tmp_path.glob("bertsmith-*/run")]:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=stop)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        measure_peak_memory(tiny, folder)
    thread.join()
    assert [*tmp_path.glob("bertsmith-*")] == []
