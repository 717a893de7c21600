"""What the caller has set in torch changes no result, and no fit changes it or another's."""

import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from tiny_models import reviews, save_tiny

import bertsmith
from bertsmith.model.attention_paths import measure_paths
from bertsmith.system.torch_modes import drawing_from, usual_modes

QUICK = {"steps": 3, "threads": 1, "device": "cpu", "precision": "fp32", "batch_size": 4}
EXAMPLES = reviews(16)
TEXTS = [example.text for example in EXAMPLES]
LABELS = [example.label for example in EXAMPLES]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("model") / "m", "masked_lm")


def fit(folder, seed=0):
    classifier = bertsmith.TextClassifier(folder, seed=seed, **QUICK)
    return classifier.fit(TEXTS, LABELS, show_progress=False)


@pytest.fixture(scope="module")
def expected(folder):
    return [fit(folder, seed).predict_proba(TEXTS) for seed in range(3)]


def global_states():
    return (
        torch.get_rng_state().tolist(),
        repr(np.random.get_state()),
        random.getstate(),
        torch.get_default_dtype(),
        torch.get_default_device(),
        torch.get_num_threads(),
        torch.is_grad_enabled(),
    )


@contextmanager
def default_type(dtype):
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@contextmanager
def default_device(name):
    torch.set_default_device(name)
    try:
        yield
    finally:
        torch.set_default_device(None)


MODES = {
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "float64": lambda: default_type(torch.float64),
    "bfloat16": lambda: default_type(torch.bfloat16),
    "meta": lambda: default_device("meta"),
    "meta in a block": lambda: torch.device("meta"),
}


@pytest.mark.parametrize("mode", MODES)
def test_modes_of_the_caller_change_no_result(folder, expected, mode):
    with MODES[mode]():
        before = global_states()
        found = fit(folder)
        probabilities = found.predict_proba(TEXTS)
        vectors = bertsmith.load(folder, task="vectors", precision="fp32").encode(TEXTS[0])
        model = bertsmith.load_model(folder)
        assert global_states() == before
    assert np.array_equal(probabilities, expected[0])
    assert vectors.dtype == np.float32
    weights = dict(model.named_parameters())
    assert not any(weight.is_inference() or weight.is_meta for weight in weights.values())
    assert {weight.dtype for weight in weights.values()} == {torch.float32}


def test_fits_in_threads_are_those_one_after_the_other(folder, expected):
    with ThreadPoolExecutor(3) as pool:
        classifiers = list(pool.map(lambda seed: fit(folder, seed), range(3)))
    probabilities = [classifier.predict_proba(TEXTS) for classifier in classifiers]
    assert all(np.array_equal(*pair) for pair in zip(probabilities, expected, strict=True))


def test_predictions_during_fits_are_equal_up_to_the_route_of_products(folder, expected):
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda seed: fit(folder, seed).predict_proba(TEXTS), range(3)))
    for probabilities, alone in zip(found, expected, strict=True):
        np.testing.assert_allclose(probabilities, alone, rtol=0, atol=2e-6)


def test_fits_in_threads_leave_every_thread_its_number_of_threads(folder):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        for _ in range(3):
            with ThreadPoolExecutor(3) as pool:
                list(pool.map(lambda seed: fit(folder, seed), range(3)))
                assert set(pool.map(lambda _: torch.get_num_threads(), range(6))) == {2}
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(torch.get_num_threads).result() == 2
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_measuring_draws_nothing():
    before = global_states()
    measure_paths()
    assert global_states() == before


@pytest.mark.parametrize(
    "draw",
    [
        lambda: torch.rand(5),
        lambda: torch.randperm(9),
        lambda: torch.normal(0.0, torch.ones(5)),
        lambda: torch.nn.Linear(3, 4).weight.detach(),
        lambda: torch.nn.init.trunc_normal_(torch.empty(50)),
        lambda: torch.nn.init.orthogonal_(torch.empty(4, 4)),
    ],
)
def test_a_generator_of_its_own_gives_the_global_ones_numbers(draw):
    torch.manual_seed(7)
    expected, before = draw(), torch.get_rng_state()
    with drawing_from(7):
        found = draw()
    assert torch.equal(found, expected)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_default_type_is_restored_when_the_last_block_ends():
    with default_type(torch.float64):
        first, second = usual_modes(), usual_modes()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert torch.get_default_dtype() == torch.float32
        second.__exit__(None, None, None)
        assert torch.get_default_dtype() == torch.float64
