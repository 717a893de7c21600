"""Pairs, triples and scored pairs are told apart by their columns, and read alike."""

import json

import pytest

from bertsmith.data.sentence_pairs import (
    RelatedColumns,
    RelatedTexts,
    kind_of,
    read_related,
    score_range,
)
from bertsmith.errors import InputError


def write(directory, name, content):
    (directory / name).write_text(content, encoding="utf-8", newline="")
    return directory / name


def read(path, kind=None, **columns):
    return read_related(path, RelatedColumns(**columns), kind)[0]


def test_pairs(tmp_path):
    table = write(tmp_path, "a.csv", "question,answer\nwhy?,because\nwho?,me\n")
    assert read(table) == [
        RelatedTexts("why?", "because", row=2),
        RelatedTexts("who?", "me", row=3),
    ]


def test_triples_with_any_number_of_negatives(tmp_path):
    table = write(
        tmp_path,
        "a.tsv",
        "anchor\tpositive\tnegative_1\tnegative_2\na\tb\tc\td\ne\tf\tg\t\nh\ti\t\t\n",
    )
    assert [row.negatives for row in read(table)] == [("c", "d"), ("g",), ()]
    lines = [
        {"query": "a", "pos": "b", "neg": ["c", "d"]},
        {"query": "e", "pos": "f", "neg": []},
        {"query": "g", "pos": "h"},
    ]
    listed = write(tmp_path, "a.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    assert [row.negatives for row in read(listed)] == [("c", "d"), (), ()]


def write_lines(directory, *objects):
    return write(directory, "a.jsonl", "".join(json.dumps(value) + "\n" for value in objects))


def test_negatives_that_the_first_line_lacks_are_read(tmp_path):
    pair = {"query": "a", "pos": "b"}
    table = write_lines(
        tmp_path, pair, {**pair, "neg1": "c"}, {**pair, "neg1": "d", "neg2": "e"}, pair
    )
    assert [row.negatives for row in read(table)] == [(), ("c",), ("d", "e"), ()]
    listed = write_lines(tmp_path, pair, {**pair, "note": 1}, {**pair, "negatives": ["c", "d"]})
    assert [row.negatives for row in read(listed)] == [(), (), ("c", "d")]


def test_a_score_that_the_first_line_lacks_is_refused(tmp_path):
    pair = {"query": "a", "pos": "b"}
    table = write_lines(tmp_path, pair, {**pair, "score": 0.5})
    with pytest.raises(InputError, match=r"a\.jsonl:2: has a score \('score'\).*lack"):
        read(table)
    assert len(read(table, "pairs")) == 2


def test_an_empty_negative_beside_a_full_one(tmp_path):
    table = write(tmp_path, "a.csv", "anchor,positive,negative1,negative2\na,b,,d\ne,f, ,\n")
    assert [row.negatives for row in read(table)] == [("d",), ()]


def test_scored_pairs_and_the_same_as_pairs(tmp_path):
    table = write(tmp_path, "a.tsv", "sentence1\tsentence2\tscore\na\tb\t2.5\nc\td\t-1e1\n")
    rows = read(table)
    assert [row.score for row in rows] == [2.5, -10.0]
    assert kind_of(rows) == "scored"
    rows = read(table, "pairs")
    assert [row.score for row in rows] == [None, None]
    assert kind_of(rows) == "pairs"


def test_columns_by_number(tmp_path):
    table = write(tmp_path, "a.tsv", "a\tb\tc\td\n")
    asked = {"text_column": "4", "pair_column": "1"}
    assert read(table, **asked) == [RelatedTexts("d", "a", row=1)]
    assert read(table, **asked, negative_columns="2,3") == [
        RelatedTexts("d", "a", ("b", "c"), row=1)
    ]


@pytest.mark.parametrize("score", ["high", "nan", "inf", "1,5"])
def test_a_score_that_is_no_number(tmp_path, score):
    table = write(tmp_path, "a.tsv", f"sentence1\tsentence2\tscore\na\tb\t{score}\n")
    with pytest.raises(InputError, match=rf"a\.tsv:2: the score is '{score}'.*--loss contrastive"):
        read(table)


def test_what_is_missing(tmp_path):
    table = write(tmp_path, "a.tsv", "sentence1\tsentence2\tscore\na\tb\t\na\tb\t1\n")
    with pytest.raises(InputError, match=r"a\.tsv:2: 'score' is empty"):
        read(table)
    kept, num_skipped = read_related(table, RelatedColumns(skip_incomplete=True))
    assert (len(kept), num_skipped) == (1, 1)
    pairs = write(tmp_path, "b.tsv", "sentence1\tsentence2\na\tb\n")
    with pytest.raises(InputError, match=r"no column looks like the score.*--label-column"):
        read(pairs, "scored")
    single = write(tmp_path, "c.csv", "text\na\n")
    with pytest.raises(InputError, match=r"no column looks like the pair.*--pair-column"):
        read(single)


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([0.2, 0.9], (0, 1)),
        ([-0.5, 1.0], (0, 1)),
        ([0.0, 5.0, 3.2], (0, 5)),
        ([1.0, 5.0], (1, 5)),
    ],
)
def test_ranges_of_scores(scores, expected):
    assert score_range(scores) == expected


def test_equal_scores_teach_nothing():
    with pytest.raises(InputError, match="found 1 in every row"):
        score_range([1.0, 1.0])


def test_sts_b(data_dir):
    for name, count in (("train", 5749), ("dev", 1500)):
        rows, num_skipped = read_related(data_dir / "glue" / "STS-B" / f"{name}.tsv")
        assert (len(rows), num_skipped) == (count, 0)
        assert score_range([row.score for row in rows]) == (0, 5)


def test_a_table_by_another_name(tmp_path):
    path = write(tmp_path, "SICK.txt", "sentence1\tsentence2\tscore\na\tb\t4.5\n")
    with pytest.raises(InputError, match="say which: --format tsv"):
        read_related(path)
    (row,), _ = read_related(path, RelatedColumns(format="tsv"))
    assert row == RelatedTexts("a", "b", (), 4.5, 2)


def test_the_column_of_scores_is_named_as_other_labels_are(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text,positive,closeness\ngood,fine,4\ngood,bad,1\n")
    rows, _ = read_related(path, RelatedColumns(label_column="closeness"))
    assert [row.score for row in rows] == [4.0, 1.0]
