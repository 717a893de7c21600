"""Statistics and a map over the texts of a file."""

import json

import numpy as np
import pytest
from refusals import refuses
from samples import SAMPLES
from tiny_models import reviews, save_tiny, write_csv, write_reviews

from bertsmith.data.columns import Columns, TagColumns
from bertsmith.errors import ConfigError, InputError
from bertsmith.inspection.head_statistics import StatisticsSum
from bertsmith.inspection.look import look
from bertsmith.inspection.page import page_data
from bertsmith.inspection.vector_map import project
from bertsmith.tasks.auto import load

LABELS = {
    "classify": ["neg", "pos"], "tag": ["O", "B-PER"], "answer": [], "choose": [], "regress": [],
    "masked_lm": [], "": [],
}  # fmt: skip
FILES = {
    "classify": "classify", "masked_lm": "classify", "": "classify", "tag": "tag",
    "answer": "answer", "choose": "choose", "regress": "regress",
}  # fmt: skip
TEXTS = {
    "answer": ("the good ?", "a good film"), "choose": ("the film was", ("good", "bad")),
}  # fmt: skip


def look_at(folder, head, path, **options):
    text, pair = TEXTS.get(head, ("a good [MASK]", ()))
    return look(folder, text, pair=pair, data=path, device="cpu", **options)


@pytest.mark.parametrize("head", FILES)
def test_every_task_reads_its_file(head, tmp_path):
    folder = save_tiny(tmp_path / "model", *[head][: bool(head)], labels=LABELS[head])
    sample = SAMPLES[FILES[head]]
    path = sample.write(tmp_path / sample.file, 23, 0)
    result = look_at(folder, head, path, num_texts=17)
    view = result.page.corpus
    assert view is not None
    assert view.statistics.num_texts == len(view.texts) == len(view.map.points) == 17
    assert view.source == sample.file
    assert all(view.texts)
    assert result.statistics is view.statistics


def test_statistics_are_the_means_of_those_of_each_text(tmp_path):
    folder = save_tiny(tmp_path / "model", "classify", labels=["neg", "pos"])
    path = write_reviews(tmp_path / "a.csv", 13)
    result = look_at(folder, "classify", path)
    total = StatisticsSum(2, 3)
    for example in reviews(13):
        alone = look(folder, example.text, device="cpu")
        total.add_lengths([len(alone.tokens)])
        is_separator = np.array(alone.tokens) == "[SEP]"
        for layer, weights in enumerate(alone.page.decided.layers.attentions):
            total.add_weights(layer, weights, is_separator)
    np.testing.assert_allclose(result.statistics.means, total.result().means, atol=1e-5)


def test_the_map_is_that_of_the_vectors_of_embed(tmp_path):
    folder = save_tiny(tmp_path / "model", "classify", labels=["neg", "pos"])
    path = write_reviews(tmp_path / "a.csv", 19)
    texts = [example.text for example in reviews(19)]
    view = look_at(folder, "classify", path).page.corpus
    predictor = load(folder, device="cpu", precision="fp32")
    expected = project(predictor.encode(texts))
    np.testing.assert_allclose(view.map.points, expected.points, atol=1e-4)
    assert view.labels == tuple(each.label for each in predictor(texts))
    assert view.texts == tuple(texts)


@pytest.mark.parametrize("head", ["classify", "masked_lm", ""])
def test_labels_of_a_named_column_are_on_the_map(head, tmp_path):
    folder = save_tiny(tmp_path / "model", *[head][: bool(head)], labels=LABELS[head])
    rows = [["good", f"label {number % 23}"] for number in range(50)]
    path = write_csv(tmp_path / "a.csv", ["text", "kind"], *rows)
    result = look_at(folder, head, path, columns=Columns(label_column="kind"))
    assert result.page.corpus.labels == tuple(label for _, label in rows)
    data = page_data(result.page)["map"]
    assert not data["arePredicted"]
    assert len(data["names"]) == 21
    shown = [data["names"][number] for number in data["labels"]]
    assert {label for (_, label), name in zip(rows, shown, strict=True) if name != label} == {
        label for (_, label) in rows if label not in data["names"]
    }


def test_several_labels_of_a_text_are_one_label_on_the_map(tmp_path):
    folder = save_tiny(tmp_path / "model", "multi_label", labels=["a", "b"])
    rows = (["good", 1, 1], ["dull", 0, 1], ["awful", 0, 0])
    path = write_csv(tmp_path / "a.csv", ["text", "a", "b"], *rows)
    result = look_at(folder, "multi_label", path, columns=Columns(label_column="2-3"))
    assert result.page.corpus.labels == ("a, b", "b", "")


@pytest.mark.parametrize(("head", "columns"), [
    ("tag", Columns(label_column="label")), ("answer", Columns(label_column="label")),
    ("choose", Columns(pair_column="2")),
])  # fmt: skip
def test_columns_that_the_task_does_not_read_are_refused(head, columns, tmp_path):
    folder = save_tiny(tmp_path / "model", head, labels=LABELS[head])
    sample = SAMPLES[FILES[head]]
    path = sample.write(tmp_path / sample.file, 5, 0)
    with refuses(ConfigError, "--", "Leave it out"):
        look_at(folder, head, path, columns=columns)


def test_a_format_that_the_task_does_not_read_is_refused(tmp_path):
    folder = save_tiny(tmp_path / "model", "tag", labels=LABELS["tag"])
    path = SAMPLES["tag"].write(tmp_path / "a.conll", 5, 0)
    with refuses(ConfigError, "--format: found 'csv'", "conll, conllu, jsonl"):
        look_at(folder, "tag", path, columns=Columns(format="csv"))


def test_a_format_that_the_task_reads_is_taken_whatever_the_name_says(tmp_path):
    folder = save_tiny(tmp_path / "model", "tag", labels=LABELS["tag"])
    path = tmp_path / "a.dat"
    path.write_text('{"words": ["a", "film"]}\n{"words": null, "text": "a good film"}\n')
    view = look_at(folder, "tag", path, columns=Columns(format="jsonl")).page.corpus
    assert view.texts == ("a film", "a good film")


def test_columns_that_the_task_also_has_are_taken(tmp_path):
    rows = (["the film", "good", "bad", 1], ["the film", "good", "", 0], ["a story", "a", "b", 0])
    path = write_csv(tmp_path / "a.csv", ["start", "choice1", "choice2", "right"], *rows)
    columns = Columns(text_column="start", label_column="right", skip_incomplete=True)
    folder = save_tiny(tmp_path / "choose", "choose")
    view = look_at(folder, "choose", path, columns=columns).page.corpus
    assert (view.texts, view.labels) == (("the film good bad", "a story a b"), ("1", "0"))
    folder = save_tiny(tmp_path / "tag", "tag", labels=LABELS["tag"])
    path = SAMPLES["tag"].write(tmp_path / "a.conll", 5, 0)
    view = look_at(folder, "tag", path, columns=Columns(skip_incomplete=True)).page.corpus
    assert len(view.texts) == 5


def test_labels_of_words_are_not_those_of_texts(tmp_path):
    folder = save_tiny(tmp_path / "model", "tag", labels=LABELS["tag"])
    path = SAMPLES["tag"].write(tmp_path / "a.conll", 5, 0)
    view = look_at(folder, "tag", path, columns=TagColumns(label_column="2")).page.corpus
    assert len(view.texts) == 5
    assert view.labels == ()


def test_long_texts_of_the_file_are_cut(tmp_path):
    folder = save_tiny(tmp_path / "model", "masked_lm")
    path = write_csv(tmp_path / "a.csv", ["text"], ["film " * 5000], ["good"])
    result = look_at(folder, "masked_lm", path)
    assert result.statistics.num_tokens == 37 + 3
    data = page_data(result.page)["map"]
    assert len(data["texts"][0]) == 200
    assert data["labels"] == data["names"] == []


def test_texts_of_one_direction_are_on_a_map(tmp_path):
    folder = save_tiny(tmp_path / "model", "masked_lm")
    path = write_csv(tmp_path / "a.csv", ["text"], ["good"], ["good"])
    assert not look_at(folder, "masked_lm", path).page.corpus.map.points.any()
    json.dumps(page_data(look_at(folder, "masked_lm", path, num_texts=1).page), allow_nan=False)


@pytest.mark.parametrize("head", ["classify", "masked_lm", "tag"])
def test_a_file_without_texts_is_refused(head, tmp_path):
    folder = save_tiny(tmp_path / "model", head, labels=LABELS[head])
    path = tmp_path / ("a.conll" if head == "tag" else "a.txt")
    path.write_text("\n\n")
    with refuses(InputError, path.name):
        look_at(folder, head, path)


@pytest.mark.parametrize("count", [0, -1, 10_001])
def test_a_number_of_texts_out_of_range_is_refused(count, refused, tmp_path):
    folder = save_tiny(tmp_path / "model", "masked_lm")
    path = write_reviews(tmp_path / "a.csv", 3)
    page = tmp_path / "page.html"
    line = refused("look", folder, "a [MASK]", "--data", path, "--num-texts", count, "--out", page)
    assert "--num-texts" in line


def test_options_of_the_command_line(bertsmith, refused, tmp_path):
    folder = save_tiny(tmp_path / "model", "classify", labels=["neg", "pos"])
    path = write_csv(tmp_path / "a.csv", ["words", "label"], ["a good film", 1], ["dull", 0])
    page = tmp_path / "page.html"
    options = ("--text-column", "words", "--words", "--language", "zh", "--device", "cpu")
    heads = ("--without", "1.2", "2.1")
    bertsmith("look", folder, "a film", "--data", path, *options, *heads, "--out", page)
    data = json.loads(page.read_text(encoding="utf-8").split('id="data">')[1].split("</script>")[0])
    assert data["without"]["heads"] == ["1.2", "2.1"]
    assert (data["language"], data["words"], data["statistics"]["numTexts"]) == ("zh", True, 2)
    line = refused("look", folder, "a film", "--out", tmp_path / "page.txt")
    assert "--out" in line
    line = refused("look", folder, "a film", "--data", tmp_path / "absent.csv", "--out", page)
    assert "absent.csv" in line
    (tmp_path / "a.txt").write_text("1\ta good film\n")
    line = refused(
        "look", folder, "a film", "--data", tmp_path / "a.txt", "--text-column", 2, "--out", page
    )
    assert "--text-column: " in line and "a.txt is read as txt" in line
    line = refused("look", tmp_path / "absent", "a film", "--out", page, worded=False)
    assert "absent" in line
