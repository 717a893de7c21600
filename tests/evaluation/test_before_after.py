"""Two folders side by side: what is counted and scored is right, what is timed takes turns."""

import json

import pytest
from tiny_models import reviews, save_tiny, write_reviews

from bertsmith.errors import CheckpointError, InputError
from bertsmith.evaluation.evaluate import evaluate
from bertsmith.evaluation.side_by_side import (
    Comparison,
    Figures,
    Trial,
    alternate,
    compare,
    first_of,
    parameters_of,
    random_texts,
)
from bertsmith.model.loading import load_model
from bertsmith.model.model_folder import read_folder
from bertsmith.tasks.auto import load_predictor
from bertsmith.tokenization.auto import load_tokenizer

QUICK = {"device": "cpu", "precision": "fp32", "seconds": 0.0}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A classifier, and a smaller one."""
    place = tmp_path_factory.mktemp("models")
    labels = ("neg", "pos")
    save_tiny(place / "large", "classify", labels=labels)
    save_tiny(place / "small", "classify", labels=labels, num_hidden_layers=1)
    return place / "large", place / "small"


def test_parameters_bytes_and_scores(folders, tmp_path):
    data = write_reviews(tmp_path / "a.csv", 41)
    found = compare(*map(read_folder, folders), Trial(data, limit=37, **QUICK))
    for folder, figures in zip(folders, (found.before, found.after), strict=True):
        model = load_model(folder)
        parts = dict(figures.parameters)
        assert parts["total"] == sum(value.numel() for value in model.parameters())
        assert parts["total"] == parts["embeddings"] + parts["encoder"] + parts["pooler_and_heads"]
        assert parts["embeddings"] == sum(v.numel() for v in model.embeddings.parameters())
        assert parts["encoder"] == sum(v.numel() for v in model.layers.parameters())
        assert figures.weight_bytes == (folder / "model.safetensors").stat().st_size
        assert figures.texts_per_second > 0
        predictor = load_predictor(folder, device="cpu", precision="fp32")
        expected = evaluate(predictor, data, limit=37)
        assert figures.scores["accuracy"] == expected.accuracy
        assert figures.scores["macro_f1"] == expected.macro_f1
    assert found.before.parameters["encoder"] == 2 * found.after.parameters["encoder"]
    assert (found.num_timed, found.precision) == (37, "fp32")
    assert json.loads(json.dumps(found.to_json()))["after"]["scores"] == found.after.scores


def test_without_data_texts_are_timed_and_nothing_is_scored(folders):
    texts = [example.text for example in reviews(7)]
    found = compare(*map(read_folder, folders), Trial(texts=texts, **QUICK))
    assert (found.num_timed, found.before.scores, found.num_rounds) == (7, {}, 5)
    assert compare(*map(read_folder, folders), Trial(**QUICK)).num_timed > 7


def test_rows_that_lack_something_are_counted(folders, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text,label\ngood,pos\n,neg\nbad,neg\n")
    columns = load_predictor(folders[0]).definition.columns(skip_incomplete=True)
    found = compare(*map(read_folder, folders), Trial(path, columns, **QUICK))
    assert found.num_skipped == 1 and "1 rows that lacked something were skipped" in str(found)


def test_folders_without_a_task_have_no_score(tmp_path, folders):
    save_tiny(tmp_path / "bare")
    data = write_reviews(tmp_path / "a.csv", 3)
    with pytest.raises(CheckpointError, match="no classification head"):
        compare(*[read_folder(tmp_path / "bare")] * 2, Trial(data, **QUICK))
    with pytest.raises(InputError, match="no such file"):
        compare(*map(read_folder, folders), Trial(tmp_path / "none.csv", **QUICK))


def test_runs_take_turns_after_a_first_call_each():
    calls = []
    seconds, rounds = alternate([lambda: calls.append("a"), lambda: calls.append("b")], 0.0)
    assert rounds == 5 and len(seconds) == 2 and min(seconds) > 0
    assert "".join(calls) == "ab" * 6


def test_what_is_timed_is_bounded():
    assert first_of(["x" * 9_000] * 5, len) == ["x" * 9_000]
    assert first_of(["x" * 90_000], len) == ["x" * 90_000]
    assert len(first_of(("x" * 1_000 for _ in range(99)), len)) == 16
    assert first_of([], len) == []


def test_random_texts_are_the_same_each_time_and_hold_no_special_tokens(folders):
    tokenizer = load_tokenizer(folders[0])
    texts = random_texts(tokenizer)
    assert texts == random_texts(tokenizer) and len(texts) == 128
    assert not any("[" in text for text in texts)
    assert len(set(texts)) > 100


def test_the_table():
    def figures(total, speed, score):
        parts = {"total": total, "embeddings": 1_000, "encoder": total - 1_000,
                 "pooler_and_heads": 0}  # fmt: skip
        return Figures(parts, 4 * total, speed, {"accuracy": score})

    shown = str(Comparison(figures(1_234_567, 100, 0.875), figures(617_283, 250, 0.75), "bf16",
                           num_timed=128, num_rounds=9))  # fmt: skip
    rows = [line.split() for line in shown.splitlines()]
    assert rows[0] == ["before", "after", "change"]
    assert ["parameters", "1,234,567", "617,283", "-50.0%"] in rows
    assert ["embeddings", "1,000", "1,000", "+0.0%"] in rows
    assert ["pooler", "and", "heads", "0", "0"] in rows
    assert ["weights", "4.9", "MB", "2.5", "MB", "-50.0%"] in rows
    assert ["texts", "per", "second", "100.0", "250.0", "+150.0%"] in rows
    assert ["accuracy", "0.8750", "0.7500", "-0.1250"] in rows
    assert shown.splitlines()[-1] == (
        "speed: 128 texts, each model 9 times in turn, the median; bf16"
    )
    assert len({len(line) for line in shown.splitlines()[:4]}) == 1


def test_parameters_of_a_model_with_pretraining_heads(tmp_path):
    model = load_model(save_tiny(tmp_path, "masked_lm", "next_sentence"))
    found = parameters_of(model)
    rest = [*model.heads.parameters(), *model.pooler.parameters()]
    assert found["pooler_and_heads"] == sum(value.numel() for value in rest)
