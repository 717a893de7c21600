"""Texts are read in groups, by as many threads as there are; neither changes what is found."""

import numpy as np
import pytest
import torch
from tiny_models import tiny_model
from torch_threads import threads

from bertsmith.data.encoded_texts import EncodedTexts
from bertsmith.model import attention_paths
from bertsmith.tasks.inference import compute_in_order, set_precision
from bertsmith.tasks.text_vectors import mean_vectors


@pytest.fixture(autouse=True)
def torch_as_before():
    with threads(torch.get_num_threads()):
        yield


def texts(count):
    rng = np.random.default_rng(0)
    ids = [rng.integers(5, 9, rng.integers(2, 12)) for _ in range(count)]
    rows = [row.astype(np.int32) for row in ids]
    return EncodedTexts.of((row, np.zeros_like(row), 0) for row in rows)


@pytest.mark.parametrize("count", [1, 40])
def test_threads_do_not_change_what_is_computed(count):
    rows, model = texts(count), tiny_model()
    torch.set_num_threads(1)
    alone = [
        compute_in_order(model, EncodedTexts.of([(ids, types, 0)]), mean_vectors)
        for ids, types in zip(rows.ids, rows.type_ids, strict=True)
    ]
    for number in (1, 2, 3):
        torch.set_num_threads(number)
        found = compute_in_order(model, rows, mean_vectors)
        np.testing.assert_allclose(found, np.concatenate(alone), atol=1e-6)
        assert torch.get_num_threads() == number


def test_the_machine_is_measured_before_threads_read(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    torch.set_num_threads(2)
    attention_paths.measured_paths.cache_clear()
    model = tiny_model()
    set_precision(model, "auto", torch.device("cpu"))
    monkeypatch.setattr(attention_paths, "measure_paths", None)  # even if the cache is lost
    (tmp_path / "bertsmith" / "measurements.json").unlink()
    compute_in_order(model, texts(200), mean_vectors)
    attention_paths.measured_paths.cache_clear()
