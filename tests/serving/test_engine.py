"""The engine answers each request as if it had come alone; refusing one harms no other."""

import json
import platform
import time
from dataclasses import replace
from queue import SimpleQueue

import numpy as np
import pytest
import torch
from refusals import refuses
from tiny_models import reviews, save_tiny, save_tiny_of, tiny_tokenizer

from bertsmith import load
from bertsmith.data.windowing import Windowing
from bertsmith.errors import CheckpointError, ConfigError
from bertsmith.model.config_file import TASK_SETTINGS
from bertsmith.serving import text_encoding
from bertsmith.serving.characters import CHARACTERS_PER_TOKEN
from bertsmith.serving.engine import SLICE_CHARACTERS, Engine
from bertsmith.serving.free_memory import BATCHES_BETWEEN_CHECKS
from bertsmith.serving.messages import (
    Answers,
    Cancel,
    Cancelled,
    ComputedBatch,
    ComputeRequest,
    QueueState,
    Refusal,
    Stop,
)
from bertsmith.serving.recent_speed import RecentSpeed
from bertsmith.serving.served_model import MAX_WARM_UP_LENGTH, ServedModel
from bertsmith.tasks.linear_classification import with_linear_head
from bertsmith.tasks.linear_head import LinearHead
from bertsmith.tasks.token_ngrams import TokenNgrams
from bertsmith.tokenization.wordpiece import WordPieceTokenizer

TEXTS = [example.text for example in reviews(12)]


class Outbox:
    """The messages that an engine has sent."""

    def __init__(self):
        self.messages = []

    def send(self, message):
        self.messages.append(message)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def classifier_folder(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("classifier"), "classify", labels=("bad", "good"))


def served(**folders):
    return {
        name: ServedModel.load(name, folder, device="cpu", precision="fp32", max_length=None)
        for name, folder in folders.items()
    }


def engine_of(models, max_batch_tokens=1000, max_text_tokens=1000):
    """An engine, and the list of what it sends."""
    outbox = Outbox()
    engine = Engine(
        models, outbox, max_batch_tokens=max_batch_tokens, max_text_tokens=max_text_tokens
    )
    return engine, outbox.messages


def answers_of(models, *messages, **limits):
    engine, sent = engine_of(models, **limits)
    inbox = SimpleQueue()
    for message in [*messages, Stop()]:
        inbox.put(message)
    engine.run(inbox)
    return {
        message.request_id: message
        for message in sent
        if not isinstance(message, QueueState | ComputedBatch)
    }


def work(number, texts, kind="vectors", model="m", **options):
    return ComputeRequest(number, model, kind, [{"text": text} for text in texts], **options)


@pytest.mark.parametrize("max_batch_tokens", [1, 40, 1000])
def test_requests_that_share_batches_get_their_own_answers(folder, max_batch_tokens):
    models = served(m=folder)
    answers = answers_of(
        models,
        work(1, TEXTS[:5]),
        work(2, TEXTS[5:6]),
        work(3, TEXTS[6:]),
        max_batch_tokens=max_batch_tokens,
    )
    vectors = [p.vector for number in (1, 2, 3) for p in answers[number].predictions]
    expected = load(folder, task="vectors", device="cpu", precision="fp32").encode(TEXTS)
    np.testing.assert_allclose(vectors, expected, atol=1e-6)


def test_a_classifier_gives_predictions_and_logits(classifier_folder):
    models = served(m=classifier_folder)
    answers = answers_of(models, work(1, TEXTS[:3], "predict"))[1]
    expected = load(classifier_folder, device="cpu", precision="fp32").predict(TEXTS[:3])
    assert [p.label for p in answers.predictions] == [p.label for p in expected]
    for logits, prediction in zip(answers.raw, answers.predictions, strict=True):
        shares = torch.tensor(logits).softmax(-1).tolist()
        assert shares == pytest.approx(list(prediction.probabilities.values()), abs=1e-6)
    assert models["m"].info.labels == ("bad", "good")
    assert models["m"].info.kinds == ("predict",)


@pytest.mark.parametrize("options", [(), (("windowing", Windowing()),)])
def test_two_linear_heads_with_the_same_labels_answer_by_their_own_weights(
    classifier_folder, options
):
    ngrams = TokenNgrams(np.zeros(0, np.int64), np.zeros(0, np.float32), 23, frozenset())

    def with_bias(*bias):
        model = served(m=classifier_folder)["m"]
        weights = (np.zeros((24, 2), np.float32), np.array(bias, np.float32))
        linear = LinearHead(*weights, ngrams, np.zeros((0, 2), np.float32))
        task = with_linear_head(model.definitions["predict"], linear)
        return replace(model, definitions={"predict": task})

    models = {"a": with_bias(3, -3), "b": with_bias(-3, 3)}
    assert models["a"].definitions == models["b"].definitions  # the weights are not compared
    works = [
        work(number, TEXTS[:2], "predict", model=model, options=options)
        for number, model in enumerate("aba", 1)
    ]
    answers = answers_of(models, *works)
    labels = [[p.label for p in answers[number].predictions] for number in (1, 2, 3)]
    assert labels == [["bad"] * 2, ["good"] * 2, ["bad"] * 2]


def test_models_and_kinds_are_computed_apart(folder, classifier_folder):
    models = served(a=folder, b=classifier_folder)
    answers = answers_of(
        models,
        work(1, TEXTS[:2], model="a"),
        work(2, TEXTS[:2], "predict", model="b"),
        work(3, TEXTS[:1], "token_vectors", model="a"),
    )
    tokens = answers[3].predictions[0]
    assert tokens.shape == (answers[3].num_tokens[0], models["a"].info.hidden_size)
    vector = answers[1].predictions[0].vector
    np.testing.assert_allclose(tokens.mean(0), vector, atol=1e-6)
    assert len(answers[2].predictions) == 2


@pytest.mark.parametrize("prompts", [{"query": 5}, ["query: "]])
def test_prompts_that_are_no_texts_are_refused_before_the_first_request(prompts, tmp_path):
    settings = save_tiny(tmp_path / "m") / "config_sentence_transformers.json"
    settings.write_text(json.dumps({"prompts": prompts}))
    with refuses(CheckpointError, "config_sentence_transformers.json: prompts is "):
        served(m=tmp_path / "m")


def test_windows_that_are_too_short_for_the_stride_are_refused_before_the_first_request(tmp_path):
    folder = save_tiny(tmp_path / "m", "answer")
    config = json.loads((folder / "config.json").read_text())
    config[TASK_SETTINGS] = {"task": "answer", "stride": 12}
    (folder / "config.json").write_text(json.dumps(config))
    options = {"device": "cpu", "precision": "fp32"}
    assert ServedModel.load("m", folder, max_length=24, **options).info.max_length == 24
    with refuses(ConfigError, "share 12 tokens", "window of 23 tokens", "--max-length"):
        ServedModel.load("m", folder, max_length=23, **options)
    vectors = ServedModel.load("m", folder, max_length=23, pooling="mean", **options)
    assert vectors.info.max_length == 23


def test_a_text_that_is_too_long_is_cut_or_refused(folder):
    long = " ".join(TEXTS * 10)
    models = served(m=folder)
    answers = answers_of(
        models,
        work(1, [TEXTS[0], long]),
        work(2, [TEXTS[0], long], may_cut=False),
        work(3, [TEXTS[0]], may_cut=False),
    )
    assert answers[1].num_tokens[1] == models["m"].info.max_length
    assert isinstance(answers[2], Refusal)
    assert answers[2].index == 1
    assert isinstance(answers[3], Answers)


def test_a_text_above_the_limit_of_the_server_is_refused(classifier_folder):
    models = served(m=classifier_folder)
    refusal = answers_of(
        models, work(1, [TEXTS[0], " ".join(TEXTS * 10)], "predict"), max_text_tokens=100
    )[1]
    assert isinstance(refusal, Refusal)
    assert refusal.index == 1
    assert not refusal.is_backend


def test_a_text_whose_output_is_nan_is_refused_by_its_index(folder):
    models = served(m=folder)
    word = models["m"].loaded.tokenizer.encode_ids(TEXTS[2])[0]
    with torch.no_grad():
        models["m"].loaded.model.embeddings.word.weight[word] = torch.nan
    clean = [t for t in TEXTS if word not in models["m"].loaded.tokenizer.encode_ids(t)][:2]
    answers = answers_of(models, work(1, [*clean, TEXTS[2]]), work(2, clean))
    assert isinstance(answers[1], Refusal)
    assert answers[1].index == 2
    assert answers[1].is_backend
    assert isinstance(answers[2], Answers)


def test_a_request_that_cannot_be_computed_fails_alone(folder):
    models = served(m=folder)
    bad_ids = models["m"].loaded.tokenizer.encode_ids(TEXTS[2])

    def lack_memory(module, args):
        ids = args[0].input_ids.tolist()
        if any(ids[start : start + len(bad_ids)] == bad_ids for start in range(len(ids))):
            raise RuntimeError("could not allocate\nwith a stack below")

    models["m"].loaded.model.embeddings.register_forward_pre_hook(lack_memory)
    answers = answers_of(models, work(1, TEXTS[:2]), work(2, [TEXTS[2]]), work(3, TEXTS[3:5]))
    assert isinstance(answers[1], Answers)
    assert isinstance(answers[3], Answers)
    assert answers[2].is_backend
    assert "stack" not in answers[2].message


def test_the_input_that_is_wrong_is_named(folder):
    refusal = answers_of(
        served(m=folder), ComputeRequest(1, "m", "vectors", [{"text": "a"}, {"text": 3}])
    )[1]
    assert refusal.index == 1
    assert not refusal.is_backend


def test_a_request_whose_client_has_hung_up_is_not_even_encoded(folder):
    never_read = ComputeRequest(1, "m", "vectors", [{"text": None}])  # a refusal, if it were read
    answers = answers_of(served(m=folder), never_read, work(2, TEXTS[:1]), Cancel(1))
    assert answers[1] == Cancelled(1)
    assert isinstance(answers[2], Answers)


def test_only_a_request_without_an_answer_is_cancelled(folder):
    engine, sent = engine_of(served(m=folder), max_batch_tokens=20)
    engine.accept(work(1, TEXTS))
    engine.accept(work(2, TEXTS[:1]))
    engine.encode_some()
    while not engine.queue.cancel(2):
        engine.compute_batch()
    engine.cancel(1)
    while engine.queue:
        engine.compute_batch()
    engine.cancel(1)
    engine.cancel(7)
    assert [message for message in sent if isinstance(message, Cancelled)] == [Cancelled(1)]


def test_a_long_request_is_encoded_in_slices_between_batches(folder):
    engine, sent = engine_of(served(m=folder))
    slices = 3
    text = " ".join(TEXTS)
    engine.accept(work(1, [text] * (slices * SLICE_CHARACTERS // len(text))))
    engine.encode_some()
    assert not engine.queue
    engine.accept(work(2, TEXTS[:1]))
    for _ in range(slices + 1):
        engine.encode_some()
        engine.compute_batch()
    assert next(message.request_id for message in sent if isinstance(message, Answers)) == 2
    while not engine.is_idle:
        engine.compute_batch()
    (long,) = [m for m in sent if isinstance(m, Answers) and m.request_id == 1]
    vectors = np.stack([prediction.vector for prediction in long.predictions])
    (expected,) = load(folder, task="vectors", device="cpu", precision="fp32").encode([text])
    np.testing.assert_allclose(vectors, np.tile(expected, (len(vectors), 1)), atol=1e-6)


def test_long_texts_that_are_refused_hold_up_no_batch(folder):
    engine, sent = engine_of(served(m=folder))
    for number in (1, 2, 3):
        engine.accept(work(number, ["a " * SLICE_CHARACTERS], may_cut=False))
    engine.encode_some()
    assert [message.request_id for message in sent] == [1]  # the others wait until after a batch


def test_a_text_in_a_later_slice_is_named_by_its_index(folder):
    long = "a " * SLICE_CHARACTERS
    refusal = answers_of(
        served(m=folder), ComputeRequest(1, "m", "vectors", [{"text": long}] * 2 + [{"text": 3}])
    )[1]
    assert refusal.index == 2


def test_token_vectors_are_bounded(folder, monkeypatch):
    models = served(m=folder)
    hidden_size = models["m"].info.hidden_size
    monkeypatch.setattr(text_encoding, "MAX_ANSWER_NUMBERS", 30 * hidden_size)
    answers = answers_of(
        models,
        work(1, TEXTS, "token_vectors"),
        work(2, TEXTS[:1], "token_vectors"),
        work(3, TEXTS),
    )
    assert answers[1].is_too_large
    assert "30 tokens" in answers[1].message
    assert isinstance(answers[2], Answers)
    assert isinstance(answers[3], Answers)


def test_a_fault_harms_one_request_and_is_printed_without_its_text(folder, capsys):
    models = served(m=folder)
    bad_ids = models["m"].loaded.tokenizer.encode_ids(TEXTS[2])

    def fail(module, args):
        ids = args[0].input_ids.tolist()
        if any(ids[start : start + len(bad_ids)] == bad_ids for start in range(len(ids))):
            raise KeyError(TEXTS[2])

    models["m"].loaded.model.embeddings.register_forward_pre_hook(fail)
    answers = answers_of(
        models,
        work(1, TEXTS[:2]),
        work(2, [TEXTS[2]]),
        work(3, TEXTS[3:5], options=(("no such option", TEXTS[2]),)),
        work(4, TEXTS[3:5]),
    )
    assert isinstance(answers[1], Answers)
    assert answers[2].is_backend and answers[3].is_backend
    assert isinstance(answers[4], Answers)
    printed = capsys.readouterr().err
    assert "KeyError" in printed and "TypeError" in printed
    assert TEXTS[2] not in printed


def test_the_warm_up_reaches_all_lengths(folder, classifier_folder):
    for model in served(a=folder, b=classifier_folder).values():
        model.warm_up(100)


def test_the_warm_up_runs_the_mask_head(tmp_path):
    (model,) = served(m=save_tiny(tmp_path, "masked_lm")).values()
    rows = []
    model.loaded.model.heads["masked_lm"].register_forward_hook(
        lambda module, args, output: rows.append(len(args[0]))
    )
    model.warm_up(160)
    assert max(rows) >= 10  # a mask in each text of the batch


def test_the_warm_up_of_a_model_that_reads_few_tokens_is_short(tmp_path):
    (model,) = served(m=save_tiny(tmp_path, max_position_embeddings=11)).values()
    num_tokens, seconds = model.warm_up(100)
    assert num_tokens == 99 and seconds > 0


def test_the_warm_up_of_a_model_that_reads_a_million_tokens_is_short(tmp_path):
    folder = save_tiny_of(
        tmp_path, "model2vec", heads=(), hidden_size=4, num_attention_heads=1, num_hidden_layers=0,
        intermediate_size=0, type_vocab_size=0, pooling="mean", hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0, max_position_embeddings=1_000_000,
        tokenizer=WordPieceTokenizer(tiny_tokenizer().vocab, model_max_length=1_000_000),
    )  # fmt: skip
    (model,) = served(m=folder).values()
    assert model.info.max_length == 1_000_000
    lengths = []
    model.loaded.model.embeddings.register_forward_pre_hook(
        lambda module, args: lengths.append(max(args[0].lengths))
    )
    model.warm_up(100)
    assert max(lengths) == MAX_WARM_UP_LENGTH


def test_a_pooling_serves_vectors_of_any_model(classifier_folder):
    model = ServedModel.load(
        "m", classifier_folder, device="cpu", precision="fp32", max_length=None,
        pooling="first_token",
    )  # fmt: skip
    assert model.info.kinds == ("vectors", "token_vectors")
    answers = answers_of({"m": model}, work(1, TEXTS[:3]), work(2, TEXTS[:3], "token_vectors"))
    first_tokens = [tokens[0] for tokens in answers[2].predictions]
    vectors = [prediction.vector for prediction in answers[1].predictions]
    np.testing.assert_allclose(vectors, first_tokens, atol=1e-6)


def test_the_engine_says_how_long_a_new_request_waits(folder):
    engine, sent = engine_of(served(m=folder), max_batch_tokens=40)
    engine.accept(work(1, TEXTS * 20))
    engine.encode_some()
    engine.compute_batch()
    speed = engine.speed.seconds_per_token
    assert speed > 0
    assert sent[1:] == [QueueState(1, 40, speed)]  # though many batches are left
    engine.cancel(1)
    assert sent[2:] == [Cancelled(1), QueueState(1, 0, speed)]


def test_texts_that_are_not_encoded_yet_count_in_the_waiting_time(folder):
    engine, sent = engine_of(served(m=folder), max_batch_tokens=40)
    engine.accept(work(1, ["good film"]))
    engine.encode_some()
    engine.accept(work(2, ["good film"] * 3))  # 27 characters
    engine.accept(work(3, ["good film"] * 3000))
    engine.compute_batch()
    num_tokens = 27 // CHARACTERS_PER_TOKEN + 40
    assert sent[-1] == QueueState(3, num_tokens, engine.speed.seconds_per_token)


def test_the_speed_is_known_after_warming_up_and_counts_all_that_a_batch_took(folder):
    engine, _ = engine_of(served(m=folder), max_batch_tokens=8)
    engine.warm_up()
    assert engine.speed.seconds_per_token > 0
    engine.speed = RecentSpeed()
    engine.accept(work(1, ["good film"] * 3))  # 4 tokens each
    time.sleep(0.2)  # as if other programs had the core while the texts were encoded
    engine.encode_some()
    engine.compute_batch()
    speed = engine.speed.seconds_per_token
    assert speed >= 0.2 / 8
    engine.compute_batch()  # nothing waits behind the third text
    assert engine.is_idle and engine.speed.seconds_per_token == speed


def test_the_speed_leaves_out_the_time_in_which_the_engine_had_nothing_to_do(folder):
    engine, _ = engine_of(served(m=folder), max_batch_tokens=4)
    time.sleep(0.05)
    started_at = time.perf_counter()
    engine.accept(work(1, ["good film"] * 2))
    engine.encode_some()
    engine.compute_batch()
    assert 0 < engine.speed.seconds_per_token <= (time.perf_counter() - started_at) / 4


def test_the_engine_says_how_large_each_batch_was(folder):
    engine, sent = engine_of(served(m=folder), max_batch_tokens=12)
    engine.accept(work(1, ["good film"] * 5))  # 4 tokens each with [CLS] and [SEP]
    engine.encode_some()
    while not engine.is_idle:
        engine.compute_batch()
    batches = [message for message in sent if isinstance(message, ComputedBatch)]
    assert batches == [ComputedBatch(3, 12), ComputedBatch(2, 8)]


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries keep no pages")
@pytest.mark.parametrize(("num_batches", "num_trims"), [
    (BATCHES_BETWEEN_CHECKS - 2, 0),
    (BATCHES_BETWEEN_CHECKS - 1, 1),  # encoding these texts counts like one more batch
])  # fmt: skip
def test_an_idle_engine_gives_free_memory_back(folder, trims, num_batches, num_trims):
    before = len(trims)
    texts = ["good film"] * num_batches  # one of 4 tokens fills a batch
    answers_of(served(m=folder), work(1, texts), max_batch_tokens=4)
    assert len(trims) - before == num_trims


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries keep no pages")
def test_free_memory_is_given_back_after_long_texts_that_are_refused(folder, trims):
    before = len(trims)
    answers = answers_of(
        served(m=folder), work(1, ["good " * 3000], may_cut=False), max_batch_tokens=10
    )
    assert isinstance(answers[1], Refusal)
    assert len(trims) - before == 1


def test_a_short_batch_counts_little_in_the_speed():
    speed = RecentSpeed()
    assert speed.seconds_per_token == 0
    speed.add(1000, 1.0)
    for _ in range(5):
        speed.add(1, 0.01)
    assert speed.seconds_per_token == pytest.approx(1.05e-3, abs=1e-5)
    for _ in range(100):
        speed.add(10, 1.0)  # the machine has become slow
    assert speed.seconds_per_token == pytest.approx(0.1)
