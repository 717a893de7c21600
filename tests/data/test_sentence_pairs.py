"""Pairs, triples and scored pairs are told apart by their columns, and read alike."""

import pytest
from refusals import refuses

from bertsmith.data.columns import RelatedColumns
from bertsmith.data.sentence_pairs import RelatedReader, RelatedTexts, kind_of, score_range
from bertsmith.errors import InputError

PAIR = {"query": "a", "pos": "b"}
SCORED = {"sentence1": "a", "sentence2": "b", "score": 2.5}


def read(source, kind=None, **columns):
    return list(RelatedReader(source, RelatedColumns(**columns), kind))


def write(directory, content, name="a.csv"):
    (directory / name).write_text(content, encoding="utf-8", newline="")
    return directory / name


def test_pairs_and_triples_of_a_table(tmp_path):
    table = write(tmp_path, "question,answer\nwhy?,because\n")
    assert read(table) == [RelatedTexts("why?", "because", row=2)]
    head = "anchor,positive,negative_1,negative_2\n"
    table = write(tmp_path, head + "a,b,c,d\ne,f,g,\nh,i,,\nj,k,,l\n")
    assert [row.negatives for row in read(table)] == [("c", "d"), ("g",), (), ("l",)]
    table = write(tmp_path, "a\tb\tc\td\n", "a.tsv")
    rows = [PAIR, {**PAIR, "neg": ["c", "d"]}, {**PAIR, "neg": []}]
    assert [row.negatives for row in read(rows)] == [(), ("c", "d"), ()]
    asked = {"text_column": "4", "pair_column": "1"}
    assert read(table, **asked) == [RelatedTexts("d", "a", row=1)]
    assert read(table, **asked, negative_columns="2,3")[0].negatives == ("b", "c")


def test_scored_pairs_and_the_same_as_pairs():
    rows = read([SCORED, SCORED | {"score": "-1e1"}])
    assert ([row.score for row in rows], kind_of(rows)) == ([2.5, -10.0], "scored")
    rows = read([SCORED], "pairs")
    assert ([row.score for row in rows], kind_of(rows)) == ([None], "pairs")
    rows = read([{"text": "good", "positive": "fine", "near": 4}], label_column="near")
    assert rows == [RelatedTexts("good", "fine", (), 4.0, 1)]


@pytest.mark.parametrize("rows, kind, parts", [
    ([SCORED | {"score": "high"}], None, ["row 1 of", "'high'", "--loss contrastive"]),
    ([SCORED | {"score": ""}], None, ["row 1 of", "'score'", "--skip-incomplete"]),
    ([PAIR], "scored", ["'query', 'pos'", "--label-column"]),
    ([PAIR, {**PAIR, "score": 0.5}], None, ["row 2 of", "'score'"]),
])  # fmt: skip
def test_what_is_refused(rows, kind, parts):
    with refuses(InputError, "the rows given:", *parts):
        read(rows, kind)
    with refuses(InputError, "scores", "found 1 in", "--label-column", "--loss contrastive"):
        score_range([1.0, 1.0])
