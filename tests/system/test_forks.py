"""What computes in a forked child ends, whatever its parent was at when it was forked."""

import os
import pickle
import signal
import threading
import time
import traceback

import pytest
import torch
import torch_threads
from tiny_models import reviews, save_tiny

import bertsmith
from bertsmith.system.forks import ForkSafeLock
from bertsmith.system.matrix_products import using_route
from bertsmith.system.torch_modes import _default_float32
from bertsmith.tokenization.bulk_encoding import BulkEncoder

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
SECONDS = 600
QUICK = {"steps": 2, "device": "cpu", "precision": "fp32", "batch_size": 4}
EXAMPLES = reviews(24)
TEXTS = [example.text for example in EXAMPLES]
LABELS = [example.label for example in EXAMPLES]


def answers_in_child(work):
    """Return whether `work`, after something that torch divides among threads, ends there."""
    large = torch.ones(10**6)
    with torch_threads.threads(2):
        large.exp()  # torch starts its threads
        child = os.fork()
        if not child:
            try:
                large.exp()
                work()
                os._exit(0)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "m"
    return save_tiny(folder, "classify", labels=("neg", "pos"))


@pytest.fixture(scope="module")
def predictor(folder):
    return bertsmith.load(folder, device="cpu", precision="fp32")


def test_predictions_are_the_parents(predictor):
    before = [prediction.answer for prediction in predictor(TEXTS)]

    def predict():
        assert predictor(TEXTS[0]).answer == before[0]
        assert [prediction.answer for prediction in predictor(TEXTS)] == before
        predictor.encode(TEXTS[:1])
        pickle.loads(pickle.dumps(predictor))(TEXTS[0])

    assert answers_in_child(predict)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_folder_is_loaded(folder, precision):
    def load():
        bertsmith.load(folder, device="cpu", precision=precision)(TEXTS[0])

    assert answers_in_child(load)


@pytest.mark.parametrize("threads", [None, 2])
def test_a_model_is_trained(folder, threads):
    def fit():
        classifier = bertsmith.TextClassifier(folder, threads=threads, **QUICK)
        classifier.fit(TEXTS, LABELS, show_progress=False).predict(TEXTS[:2])

    assert answers_in_child(fit)


def test_a_lock_that_another_thread_holds_is_open_in_the_child():
    resets = []
    lock = ForkSafeLock(lambda: resets.append(1))
    is_held, may_end = threading.Event(), threading.Event()

    def hold():
        with lock:
            is_held.set()
            may_end.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    is_held.wait()

    def enter():
        with lock:
            assert resets == [1]

    try:
        assert answers_in_child(enter)
    finally:
        may_end.set()
        thread.join()
    assert not resets


def test_a_lock_that_the_forking_thread_holds_is_still_held_in_the_child():
    resets = []
    lock = ForkSafeLock(lambda: resets.append(1))
    lock.__enter__()

    def leave():
        lock.__exit__()
        with lock:
            assert not resets

    try:
        assert answers_in_child(leave)
    finally:
        lock.__exit__()


@pytest.mark.parametrize(("setter", "block"), [
    ("set_float32_matmul_precision", lambda: using_route("medium")),
    ("set_default_dtype", _default_float32),
])  # fmt: skip
def test_a_setting_of_torch_is_changed_though_another_thread_was_changing_it(
    setter, block, monkeypatch
):
    is_changing, may_end = threading.Event(), threading.Event()
    set_value = getattr(torch, setter)

    def wait_and_set(value):
        if threading.current_thread() is thread:
            is_changing.set()
            may_end.wait()
        set_value(value)

    def enter():
        with block():
            pass

    thread = threading.Thread(target=enter)
    monkeypatch.setattr(torch, setter, wait_and_set)
    thread.start()
    is_changing.wait()
    try:
        assert answers_in_child(enter)
    finally:
        may_end.set()
        thread.join()


def test_texts_are_encoded_though_another_thread_was_encoding():
    encoder = BulkEncoder(lambda chunk: list(chunk), lowercase=False)
    is_encoding, may_end = threading.Event(), threading.Event()

    def texts():
        is_encoding.set()
        may_end.wait()
        yield b"a film"

    thread = threading.Thread(target=encoder.encode, args=(texts(),))
    thread.start()
    is_encoding.wait()

    def encode():
        assert encoder.encode([b"b"])[0].tolist() == [98]

    try:
        assert answers_in_child(encode)
    finally:
        may_end.set()
        thread.join()
