"""Sentence vectors: what meets in a loss, how they are scored, and who else opens the folder."""

import json
import weakref
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from close_figures import close
from refusals import refuses
from samples import write_likeness
from tiny_models import BAD, GOOD, OTHER, save_tiny, tiny_model, tiny_tokenizer, write_csv

from bertsmith.data.columns import RelatedColumns
from bertsmith.data.sentence_pairs import RelatedTexts
from bertsmith.errors import CheckpointError, ConfigError, InputError
from bertsmith.evaluation.evaluate import evaluate
from bertsmith.finetuning.run import finetune
from bertsmith.model.model_folder import read_folder
from bertsmith.system.small_files import SmallFiles
from bertsmith.tasks.auto import load
from bertsmith.tasks.example_objective import (
    FineTuning,
    HeldOutExamples,
    collate,
    training_examples,
)
from bertsmith.tasks.predictor import Predictor
from bertsmith.tasks.related_vectors import RelatedVectors
from bertsmith.tasks.sentence_embedding import Embed, RetrievalAccumulator
from bertsmith.tasks.sentence_folder import SentenceFolder
from bertsmith.tasks.settings.embed import EmbedSettings
from bertsmith.tasks.text_vectors import TextVectors
from bertsmith.tasks.vector_prediction import Vectors

TEXTS = ["a good film", "the story was very dull and the film awful .", "lovely", "bad films"]


def load_encoder(folder, **options):
    return Predictor.load(folder, Embed, device="cpu", precision="fp32", **options)


def write_pairs(path, count, seed=0):
    """Pairs of texts with two words in common, that no other text has together."""
    rng, known = np.random.default_rng(seed), [*GOOD, *BAD, *OTHER[:7]]
    rows = [rng.choice(known, 4, replace=False) for _ in range(count)]
    pairs = [(" ".join(words), " ".join(words[::-1])) for words in rows]
    return write_csv(path, ("anchor", "positive"), *pairs)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("embed")
    save_tiny(folder / "model", "masked_lm")
    write_likeness(folder / "scored.csv", 60)
    write_likeness(folder / "scored-eval.csv", 29, seed=1)
    write_pairs(folder / "pairs.csv", 60)
    write_pairs(folder / "pairs-eval.csv", 23, seed=1)
    return folder


def settings_for(place, out, kind, **changes):
    usual = {
        "model": place / "model", "train": place / f"{kind}.csv",
        "eval": place / f"{kind}-eval.csv", "out": out, "device": "cpu", "precision": "fp32",
        "steps": 30, "learning_rate": 5e-3, "dropout": 0.0, "batch_size": 20,
    }  # fmt: skip
    return EmbedSettings(**{**usual, **changes})


def test_no_cosine_is_above_1_or_below_minus_1():
    """Rounded in fp64, that of a vector with itself may be 1.0000000000000002."""
    vectors = np.random.default_rng(0).normal(size=(100, 24)).astype(np.float32)
    for sign in (1, -1):
        cosines = [Vectors(np.stack([each, sign * each]), False).cosine for each in vectors]
        np.testing.assert_allclose(cosines, sign, rtol=1e-12)
        assert max(map(abs, cosines)) == 1.0


def test_groups_do_not_depend_on_the_number_of_processes():
    rng, words = np.random.default_rng(0), [*GOOD, *BAD, *OTHER[:7]]
    texts = [" ".join(rng.choice(words, 2 + number % 5)) for number in range(46)]
    examples = [RelatedTexts(*texts[n : n + 2], row=n) for n in range(0, 46, 2)]
    encoded = Embed(group_size=5).encode(tiny_tokenizer(), examples, 37, labelled=True)
    data = training_examples(Embed(group_size=5), encoded, Path("a.csv"), examples)
    held_out = HeldOutExamples(encoded, Path("a.csv"), examples)
    one, two, many = (
        FineTuning(Embed(group_size=5), data, held_out, batch_size=13, num_shares=number)
        for number in (1, 2, 9)
    )
    assert [each.num_shares for each in (one, two, many)] == [1, 2, 3]
    for step in (1, 2, 3):
        batches = [each.micro_batches(step) for each in (one, two, many)]
        ids = [[batch.input_ids.tolist() for batch in found] for found in batches]
        assert ids[0] == ids[1] == ids[2]
    assert [int(batch.targets["num_examples"]) for batch in one.micro_batches(1)] == [5, 5, 3]


def test_what_is_right_too_is_no_negative():
    """Doubled rows: without the mask a text's own would count against it."""

    def count(examples):
        encoded = Embed().encode(tiny_tokenizer(), examples, 37, labelled=True)
        batch = collate(encoded, range(len(examples)))
        vectors = Embed().outputs(tiny_model(), batch)
        group = RelatedVectors.of_batch(vectors, batch, (0.0, 1.0), 0.05)
        return group.cosines_with_candidates.isfinite().sum(1).tolist()

    once = [RelatedTexts("a good film", "fine"), RelatedTexts("bad", "dull")]
    twice = [
        *once,
        RelatedTexts("a good film", "lovely"),  # another right text of the first
        RelatedTexts("lovely story", "fine"),  # the same right text again
        RelatedTexts("fine film", "a good film"),  # the first text itself
    ]
    assert count(once) == [2, 2]
    # Its own and "dull"; not "fine" again, not "lovely", not itself.
    assert count(twice)[:2] == [2, 5]
    # Its own, "dull" and "bad"; not "lovely" as another's negative either.
    assert count([*twice, RelatedTexts("poor", "bad", ("lovely",))])[0] == 3


def test_retrieval_knows_equal_texts():
    accumulator = RetrievalAccumulator()
    a, b, c = np.eye(3, dtype=np.float32)
    examples = [RelatedTexts("q", "x", ("z",)), RelatedTexts("q", "y"), RelatedTexts("r", "x")]
    predictions = [Vectors(np.stack(v), False) for v in ([a, a, c], [a, b], [b, a])]
    accumulator.add(examples, predictions)
    report = accumulator.result(2)
    assert (report.num_queries, report.num_documents, report.num_skipped) == (2, 3, 2)
    # q finds x at once and z, which stands before y; r finds y before x.
    assert report.recall[1] == pytest.approx((0.5 + 0) / 2)
    assert report.mrr == pytest.approx((1 + 0.5) / 2)
    assert json.loads(json.dumps(report.to_json())) == report.to_json()
    accumulator = RetrievalAccumulator()  # a text that is another's partner is no wrong hit
    both_ways = [RelatedTexts("q", "x"), RelatedTexts("x", "q")]
    accumulator.add(both_ways, [Vectors(np.stack(v), False) for v in ([a, a + b], [a + b, a])])
    assert accumulator.result().recall[1] == 1


def test_retrieval_holds_no_more_than_the_vectors_of_different_texts():
    accumulator = RetrievalAccumulator()
    examples = [RelatedTexts("q", "x", row=row) for row in range(1009)]
    vectors = np.ones((1009, 2, 31), dtype=np.float32)
    is_alive = weakref.ref(vectors)
    accumulator.add(examples, [Vectors(each, False) for each in vectors])
    del vectors
    assert is_alive() is None
    assert (len(accumulator.query_vectors), len(accumulator.document_vectors)) == (1, 1)


@pytest.mark.parametrize(
    "kind, loss, figure, pooling, normalize",
    [
        ("scored", "auto", "spearman", "mean", False),
        ("scored", "cosent", "spearman", "mean", False),
        ("scored", "angle", "spearman", "mean", False),
        ("pairs", "auto", "mrr", "first_token", True),
    ],
)
def test_it_learns_and_sentence_transformers_opens_the_folder(
    place, tmp_path, kind, loss, figure, pooling, normalize
):
    import sentence_transformers

    start = save_tiny(tmp_path / "start")
    SentenceFolder(pooling, normalize, 19).write(start, 24)
    before = evaluate(load_encoder(start), place / f"{kind}-eval.csv").to_json()
    settings = settings_for(place, tmp_path / "out", kind, model=start, loss=loss)
    after = finetune(Embed, settings).evaluation.to_json()
    assert after[figure] > before[figure] + 0.05
    assert SentenceFolder.read(SmallFiles(settings.out)) == SentenceFolder(pooling, normalize, 19)
    theirs = sentence_transformers.SentenceTransformer(str(settings.out), device="cpu")
    assert theirs.max_seq_length == 19
    texts = [*TEXTS, "good " * 30]
    ours = load(settings.out, device="cpu", precision="fp32")
    np.testing.assert_allclose(ours.encode(texts), theirs.encode(texts), atol=1e-5)
    plain = Predictor.load(settings.out, TextVectors, device="cpu", precision="fp32")
    np.testing.assert_array_equal(ours.encode(texts), plain.encode(texts))
    assert evaluate(ours, settings.eval).to_json() == close(after)
    theirs.save(str(tmp_path / "anew"))
    again = load(tmp_path / "anew", device="cpu", precision="fp32")
    assert again(*TEXTS[:2]).cosine == pytest.approx(ours(*TEXTS[:2]).cosine, abs=1e-5)


def test_what_is_asked_for_replaces_what_the_folder_says(place, tmp_path):
    folder = save_tiny(tmp_path / "start")
    SentenceFolder("mean", max_length=8).write(folder, 24)
    examples = [RelatedTexts("a good film and a lovely story and a fine film", "fine")]
    assert load_encoder(folder).predict(examples)[0].is_truncated
    with refuses(InputError, "-:"):
        evaluate(load_encoder(folder), Path("-"), RelatedColumns(format="csv"), callbacks=[print])
    longer = load_encoder(folder, max_length=30)
    assert not longer.predict(examples)[0].is_truncated
    assert longer.to("cpu").loaded.max_length == 30
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_max_tokens": true}')
    settings = settings_for(place, tmp_path / "out", "pairs", model=folder)
    with refuses(CheckpointError, "1_Pooling/config.json:", "max_tokens", "--pooling"):
        Embed().with_model(read_folder(folder), settings, [])
    asked = replace(settings, pooling="first_token")
    assert Embed().with_model(read_folder(folder), asked, []).pooling == "first_token"


@pytest.mark.parametrize("changes, train, held_out", [
    ({"loss": "contrastive"}, {None}, {None}),
    ({"loss": "contrastive", "metric": "pearson"}, {None}, {1.0, 5.0}),
    ({"metric": "mrr"}, {1.0, 5.0}, {None}), ({"loss": "cosine"}, {1.0, 5.0}, {1.0, 5.0}),
    ({"loss": "cosent"}, {1.0, 5.0}, {1.0, 5.0}),
])  # fmt: skip
def test_scores_are_read_only_where_they_are_wanted(place, tmp_path, changes, train, held_out):
    dataset = Embed.read(settings_for(place, tmp_path / "out", "scored", **changes))
    assert {row.score for row in dataset.train} == train
    assert {row.score for row in dataset.held_out} == held_out
    if changes.get("loss") in ("cosine", "cosent"):
        encoded = dataset.task.encode(tiny_tokenizer(), dataset.train, 37, labelled=True)
        assert set(encoded.example_targets["cosines"].tolist()) == {0.0, 1.0}


def test_pairs_to_learn_from_may_be_scored_by_pairs_with_scores(place, tmp_path):
    settings = settings_for(place, tmp_path, "pairs", eval=place / "scored-eval.csv")
    assert {row.score for row in Embed.read(settings).held_out} == {1.0, 5.0}


@pytest.mark.parametrize("changes, error, parts", [
    ({"metric": "spearman"}, InputError, ["pairs-eval.csv:", "--label-column"]),
    ({"group_size": 1}, ConfigError, ["--group-size", "--batch-size", "2 or more"]),
    ({"temperature": 0}, ConfigError, ["--temperature:", "found 0"]),
    ({"sample": 0}, ConfigError, ["--sample:", "found 0"]),
])  # fmt: skip
def test_settings_that_do_not_fit(place, tmp_path, changes, error, parts):
    with refuses(error, *parts):
        Embed.read(settings_for(place, tmp_path / "out", "pairs", **changes))
