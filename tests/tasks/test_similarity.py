"""Sentence vectors: what meets in a loss, how they are scored, and who else opens the folder."""

import csv
import json
import weakref
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from close_figures import close
from tiny_models import BAD, GOOD, OTHER, loss_of, save_tiny, tiny_model, tiny_tokenizer

from bertsmith.commands.predict import typed_examples
from bertsmith.data.sentence_pairs import RelatedColumns, RelatedTexts
from bertsmith.data.text_files import STANDARD_INPUT
from bertsmith.errors import CheckpointError, ConfigError, InputError
from bertsmith.evaluation.errors_file import write_misses
from bertsmith.evaluation.evaluate import evaluate
from bertsmith.finetuning.run import finetune
from bertsmith.finetuning.series import finetune_repeatedly
from bertsmith.metrics.retrieval import RetrievalReport
from bertsmith.reports.evaluation import scores_of
from bertsmith.system.small_files import SmallFiles
from bertsmith.tasks.auto import load
from bertsmith.tasks.contrast import contrastive_loss
from bertsmith.tasks.example_objective import (
    FineTuning,
    HeldOutExamples,
    collate,
    training_examples,
)
from bertsmith.tasks.predictor import Predictor
from bertsmith.tasks.sentence_embedding import (
    Embed,
    EmbedSettings,
    RetrievalAccumulator,
    Vectors,
)
from bertsmith.tasks.sentence_folder import SentenceFolder
from bertsmith.tasks.text_vectors import TextVectors

TEXTS = ["a good film", "the story was very dull and the film awful .", "lovely", "bad films"]


def load_encoder(folder, **options):
    return Predictor.load(folder, Embed, device="cpu", precision="fp32", **options)


def sentence(rng, words):
    text = list(rng.choice(OTHER[:7], rng.integers(1, 5)))
    text.insert(rng.integers(len(text) + 1), rng.choice(words))
    return " ".join(text)


def write_scored(path, count, seed=0):
    """Pairs whose score is 5 where both are good or both bad, else 0."""
    rng = np.random.default_rng(seed)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["sentence1", "sentence2", "score"])
        for _ in range(count):
            kinds = rng.integers(2, size=2)
            texts = [sentence(rng, [BAD, GOOD][kind]) for kind in kinds]
            writer.writerow([*texts, 5.0 if kinds[0] == kinds[1] else 0.0])
    return path


def write_pairs(path, count, seed=0):
    """Pairs of texts with two words in common, that no other text has together."""
    rng = np.random.default_rng(seed)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["anchor", "positive"])
        for _ in range(count):
            words = rng.choice([*GOOD, *BAD, *OTHER[:7]], 4, replace=False)
            writer.writerow([" ".join(words), " ".join(words[::-1])])
    return path


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("embed")
    save_tiny(folder / "model", "masked_lm")
    write_scored(folder / "scored.csv", 60)
    write_scored(folder / "scored-eval.csv", 29, seed=1)
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


def objective(task, examples, **settings):
    encoded = task.encode(tiny_tokenizer(), examples, 37, labelled=True)
    data = training_examples(task, encoded, Path("a.csv"), examples)
    return FineTuning(task, data, HeldOutExamples(encoded, Path("a.csv"), examples), **settings)


def pairs(count, seed=0):
    rng = np.random.default_rng(seed)
    return [
        RelatedTexts(f"{sentence(rng, GOOD)} {n % 3 * '.'}", sentence(rng, BAD), row=n + 1)
        for n in range(count)
    ]


def test_groups_do_not_depend_on_the_number_of_processes():
    task = Embed(group_size=5)
    one, two, many = (
        objective(task, pairs(23), batch_size=13, num_parts=number) for number in (1, 2, 9)
    )
    assert [each.num_parts for each in (one, two, many)] == [1, 2, 3]
    for step in (1, 2, 3):
        batches = [each.micro_batches(step) for each in (one, two, many)]
        ids = [[batch.input_ids.tolist() for batch in found] for found in batches]
        assert ids[0] == ids[1] == ids[2]
    assert [int(batch.targets["num_examples"]) for batch in one.micro_batches(1)] == [5, 5, 3]


def test_the_loss_is_that_of_the_vectors_by_hand():
    task = Embed(temperature=0.1)
    examples = [
        RelatedTexts("a good film", "the story", ("bad", "dull")),
        RelatedTexts("fine", "lovely film"),
        RelatedTexts("awful", "very bad", ("good",)),
    ]
    model = tiny_model()
    encoded = task.encode(tiny_tokenizer(), examples, 37, labelled=True)
    vectors = [torch.from_numpy(p.vectors) for p in task.predict(model, encoded, examples)]
    anchors = torch.stack([each[0] for each in vectors])
    candidates = torch.cat([each[1:] for each in vectors])
    right = torch.tensor([0, 3, 4])
    none = torch.zeros(3, len(candidates), dtype=torch.bool)
    expected, correct = contrastive_loss(anchors, candidates, right, none, 10.0)
    with torch.inference_mode():
        term = loss_of(task, model, collate(encoded, range(3)))
    torch.testing.assert_close(term.sum, expected, atol=1e-4, rtol=1e-5)
    assert (term.correct, term.count) == (correct, 3)


def test_what_is_right_too_is_no_negative():
    """Doubled rows: without the mask a text's own would count against it."""
    task, model = Embed(), tiny_model()
    once = [RelatedTexts("a good film", "fine"), RelatedTexts("bad", "dull")]
    twice = [
        *once,
        RelatedTexts("a good film", "lovely"),  # another right text of the first
        RelatedTexts("lovely story", "fine"),  # the same right text again
        RelatedTexts("fine film", "a good film"),  # the first text itself
    ]

    def loss_of_first(examples):
        encoded = task.encode(tiny_tokenizer(), examples, 37, labelled=True)
        vectors = [torch.from_numpy(p.vectors) for p in task.predict(model, encoded, examples)]
        batch = collate(encoded, range(len(examples)))
        rows = torch.stack(
            [vectors[int(o)][int(p)] for o, p in zip(batch.targets["example"],
                                                     batch.targets["place"], strict=True)]
        )  # fmt: skip
        seen = {}
        original = contrastive_loss

        def keep(anchors, candidates, right, is_excluded, scale):
            seen["counted"] = (~is_excluded).sum(1).tolist()
            return original(anchors, candidates, right, is_excluded, scale)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("bertsmith.tasks.sentence_embedding.contrastive_loss", keep)
            task._contrast(rows, batch)
        return seen["counted"]

    assert loss_of_first(once) == [2, 2]
    # Its own and "dull"; not "fine" again, not "lovely", not itself.
    assert loss_of_first(twice)[0] == 2
    assert loss_of_first(twice)[1] == 5
    # Its own, "dull" and "bad"; not "lovely" as another's negative either.
    assert loss_of_first([*twice, RelatedTexts("poor", "bad", ("lovely",))])[0] == 3


def test_pooling_that_is_asked_for_replaces_one_that_we_have_not(place, tmp_path):
    start = save_tiny(tmp_path / "start")
    SentenceFolder("mean").write(start, 24)
    (start / "1_Pooling" / "config.json").write_text('{"pooling_mode_max_tokens": true}')
    settings = replace(settings_for(place, tmp_path / "out", "pairs"), model=start)
    with pytest.raises(CheckpointError, match="asks for pooling by max_tokens"):
        Embed.read(settings)
    assert Embed.read(replace(settings, pooling="first_token")).task.pooling == "first_token"


def test_a_length_that_is_asked_for_replaces_the_folders(tmp_path):
    folder = save_tiny(tmp_path)
    SentenceFolder("mean", max_length=8).write(folder, 24)
    long = "a good film and a lovely story and a fine film"
    short, longer = (load_encoder(folder, max_length=length) for length in (None, 30))
    examples = [RelatedTexts(long, "fine")]
    assert short.predict(examples)[0].is_truncated
    assert not longer.predict(examples)[0].is_truncated
    np.testing.assert_array_equal(
        longer.predict(examples)[0].vectors, longer.encode([long, "fine"])
    )
    assert longer.exact().definition.folder.max_length == 30


@pytest.mark.parametrize("kind, figure", [("scored", "spearman"), ("pairs", "mrr")])
def test_it_learns_and_sentence_transformers_opens_the_folder(place, tmp_path, kind, figure):
    import sentence_transformers

    settings = settings_for(place, tmp_path / "out", kind)
    before = evaluate(load_encoder(place / "model"),
                      settings.eval).to_json()  # fmt: skip
    result = finetune(Embed, settings)
    after = result.evaluation.to_json()
    assert after[figure] > before[figure] + 0.05
    theirs = sentence_transformers.SentenceTransformer(str(settings.out), device="cpu")
    ours = load(settings.out, device="cpu", precision="fp32")
    np.testing.assert_allclose(ours.encode(TEXTS), theirs.encode(TEXTS), atol=1e-5)
    plain = Predictor.load(settings.out, TextVectors, device="cpu", precision="fp32")
    np.testing.assert_array_equal(ours.encode(TEXTS), plain.encode(TEXTS))
    assert evaluate(ours, settings.eval).to_json() == close(after)
    assert ours(TEXTS[0], TEXTS[0]).cosine == pytest.approx(1)


@pytest.mark.parametrize("pooling", ["mean", "first_token"])
@pytest.mark.parametrize("normalize", [False, True])
def test_the_folder_says_how_vectors_are_made(place, tmp_path, pooling, normalize):
    import sentence_transformers

    start = save_tiny(tmp_path / "start")
    SentenceFolder(pooling, normalize, 19).write(start, 24)
    settings = settings_for(place, tmp_path / "out", "pairs", model=start, steps=2)
    finetune(Embed, settings)
    assert SentenceFolder.read(SmallFiles(settings.out)) == SentenceFolder(pooling, normalize, 19)
    theirs = sentence_transformers.SentenceTransformer(str(settings.out), device="cpu")
    assert theirs.max_seq_length == 19
    texts = [*TEXTS, "good " * 30]
    ours = load(settings.out, device="cpu", precision="fp32").encode(texts)
    np.testing.assert_allclose(ours, theirs.encode(texts), atol=1e-5)


def test_a_folder_that_sentence_transformers_wrote_anew_is_read_as_it_is_now(place, tmp_path):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import modules

    settings = settings_for(place, tmp_path / "out", "scored", steps=2)
    finetune(Embed, settings)
    parts = [modules.Transformer(str(settings.out)), modules.Pooling(24, "cls")]
    SentenceTransformer(modules=parts, device="cpu").save(str(tmp_path / "cls"))
    theirs = SentenceTransformer(str(tmp_path / "cls"), device="cpu").encode(TEXTS[:2])
    cosine = theirs[0] @ theirs[1] / np.linalg.norm(theirs[0]) / np.linalg.norm(theirs[1])
    ours = load(tmp_path / "cls", device="cpu", precision="fp32")
    assert ours(*TEXTS[:2]).cosine == pytest.approx(float(cosine), abs=1e-5)


def test_pairs_may_be_scored_by_scored_pairs(place, tmp_path):
    settings = settings_for(
        place, tmp_path / "out", "pairs", eval=place / "scored-eval.csv", steps=2
    )
    evaluation = finetune(Embed, settings).evaluation
    assert evaluation.num_pairs == 29
    assert -1 <= evaluation.spearman <= 1


def test_an_encoder_that_training_makes_worse_stays_as_it_was(place, tmp_path):
    settings = settings_for(place, tmp_path / "out", "pairs", steps=2, learning_rate=5.0)
    result = finetune(Embed, settings)
    assert result.best_step == 0
    assert "no step made it better" in str(result)
    before = load_encoder(place / "model")
    after = load(settings.out, device="cpu", precision="fp32")
    np.testing.assert_array_equal(before.encode(TEXTS), after.encode(TEXTS))


def test_scores_are_not_read_where_only_pairs_are_wanted(place, tmp_path):
    settings = settings_for(place, tmp_path / "out", "scored", loss="contrastive")
    dataset = Embed.read(settings)
    assert {row.score for row in (*dataset.train, *dataset.held_out)} == {None}
    dataset = Embed.read(replace(settings, metric="pearson"))
    assert {row.score for row in dataset.train} == {None}
    assert {row.score for row in dataset.held_out} == {0.0, 5.0}
    dataset = Embed.read(replace(settings, loss="auto", metric="mrr"))
    assert {row.score for row in dataset.train} == {0.0, 5.0}
    assert {row.score for row in dataset.held_out} == {None}


def test_settings_that_do_not_fit(place, tmp_path):
    settings = settings_for(place, tmp_path / "out", "pairs", metric="spearman")
    with pytest.raises(InputError, match=r"pairs-eval\.csv: no column looks like the score"):
        Embed.read(settings)
    with pytest.raises(InputError, match=r"no column looks like the score"):
        Embed.read(replace(settings, metric="score", loss="cosine"))
    with pytest.raises(ConfigError, match="--group-size and --batch-size"):
        replace(settings, group_size=1)
    with pytest.raises(ConfigError, match="--temperature: found 0"):
        replace(settings, temperature=0)


def test_scores_are_taken_to_cosines(place):
    settings = settings_for(place, place / "none", "scored", loss="cosine")
    dataset = Embed.read(settings)
    assert dataset.task.score_range == (0, 5)
    encoded = dataset.task.encode(tiny_tokenizer(), dataset.train, 37, labelled=True)
    assert set(encoded.example_targets["cosines"].tolist()) == {0.0, 1.0}


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


def test_typed_texts():
    assert typed_examples(Embed(), ["a", "b"]) == [RelatedTexts("a", "b", row=1)]
    for texts in (["a"], ["a", "b", "c"], ["a", " "]):
        with pytest.raises(InputError, match=r"a text and its pair|text 2 is empty"):
            typed_examples(Embed(), texts)


def test_a_sample_is_drawn_by_the_seed(place):
    def rows(**changes):
        settings = settings_for(place, place / "none", "pairs", sample=7, **changes)
        return Embed.read(settings).train

    assert len(rows()) == 7
    assert rows() == rows() != rows(seed=1)
    with pytest.raises(ConfigError, match="--sample: found 0"):
        settings_for(place, place / "none", "pairs", sample=0)


def test_the_scores_are_of_the_kind_that_weights_were_chosen_by(place, tmp_path):
    rows = (place / "pairs-eval.csv").read_text().splitlines()
    labelled = tmp_path / "labelled.csv"
    lines = [f"{row},{'label' if not n else 'entailment'}" for n, row in enumerate(rows)]
    labelled.write_text("\n".join([*lines, "only one,,entailment"]) + "\n")
    settings = settings_for(
        place, tmp_path / "out", "pairs", train=labelled, eval=labelled, loss="contrastive",
        steps=2, columns=RelatedColumns(skip_incomplete=True),
    )  # fmt: skip
    result = finetune(Embed, settings)
    assert result.evaluation.mrr == pytest.approx(result.best_score)
    assert (result.evaluation.num_queries, result.evaluation.num_skipped) == (23, 1)
    settings = settings_for(
        place, tmp_path / "scored", "scored", loss="contrastive", metric="mrr", steps=2
    )
    result = finetune(Embed, settings)
    assert result.evaluation.mrr == pytest.approx(result.best_score)


def test_errors_are_measured_in_the_range_of_the_file_where_training_had_no_scores(place, tmp_path):
    scored = place / "scored-eval.csv"
    settings = settings_for(place, tmp_path / "pairs", "pairs", steps=2, eval=scored)
    finetune(Embed, settings)
    finetune(Embed, replace(settings, out=tmp_path / "scored", train=place / "scored.csv"))
    tenths = tmp_path / "tenths.csv"
    tenths.write_text(scored.read_text().replace(",5.0", ",0.5").replace(",0.0", ",0.05"))
    for folder, data, golds in (
        (place / "model", scored, {"0.0000", "1.0000"}),
        (tmp_path / "pairs", scored, {"0.0000", "1.0000"}),
        (tmp_path / "pairs", tenths, {"0.0500", "0.5000"}),  # cosines already
        (tmp_path / "scored", tenths, {"0.0100", "0.1000"}),  # of 5, as it learnt
    ):
        encoder = load_encoder(folder)
        errors = tmp_path / "errors.jsonl"
        with write_misses(errors) as misses:
            evaluate(encoder, data, callbacks=[misses])
        rows = [json.loads(line) for line in errors.read_text().splitlines()]
        assert {row["gold"] for row in rows} == golds
        for row in rows:
            distance = abs(float(row["gold"]) - float(row["predicted"]))
            assert row["score"] == pytest.approx(1 - distance, abs=2e-4)


def test_luck_is_measured_for_every_score_of_retrieval(place, tmp_path):
    settings = settings_for(place, tmp_path / "out", "pairs", steps=1, seeds=2)
    repeats = finetune_repeatedly(Embed, settings)
    assert set(repeats.figures) == {"mrr", "recall_at_1", "recall_at_5", "recall_at_10"}
    found = [result["evaluation"]["recall_at_5"] for result in repeats.results]
    assert repeats.figures["recall_at_5"].mean == pytest.approx(sum(found) / 2)
    report = RetrievalReport({1: 0.25, 10: 0.5}, 0.375, 4, 5, 0, 0)
    assert scores_of(report) == [("recall at 1", 0.25), ("recall at 10", 0.5), ("mrr", 0.375)]


def test_retrieval_holds_no_more_than_the_vectors_of_different_texts():
    accumulator = RetrievalAccumulator()
    portion = np.ones((1009, 2, 31), dtype=np.float32)
    is_alive = weakref.ref(portion)
    examples = [RelatedTexts("q", "x", row=row) for row in range(1009)]
    accumulator.add(examples, [Vectors(vectors, False) for vectors in portion])
    del portion
    assert is_alive() is None
    assert (len(accumulator.query_vectors), len(accumulator.document_vectors)) == (1, 1)
    assert accumulator.result().mrr == 1


def test_lines_of_text_are_for_another_command(place, tmp_path):
    texts = tmp_path / "texts.txt"
    texts.write_text("a good film\n")
    for path, name in ((texts, r"texts\.txt"), (STANDARD_INPUT, "standard input")):
        with pytest.raises(InputError, match=rf"{name}: .* use 'bertsmith embed'"):
            list(Embed.reader(path, None, labelled=False))
