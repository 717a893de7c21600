"""Tables of examples: every usual shape is read, every broken one is one clear error."""

import csv
import gzip
import io
import json
import lzma
from collections import Counter
from math import nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertsmith.data.examples import (
    Columns,
    Example,
    ExampleReader,
    read_examples,
    stratified_sample,
)
from bertsmith.data.json_rows import read_objects
from bertsmith.data.labels import label_set
from bertsmith.errors import InputError


def write(directory, name, content):
    path = directory / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def rows(path, **columns):
    return [
        (example.text, example.pair, example.label)
        for example in read_examples(path, Columns(**columns))[0]
    ]


def refusal(path, **columns):
    with pytest.raises(InputError) as caught:
        read_examples(path, Columns(**columns))
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(str(path))
    return message.removeprefix(str(path))


def test_the_usual_column_names_are_found(tmp_path):
    table = write(tmp_path, "a.tsv", "label\tsentence\n1\tgood\n0\tbad\n")
    assert rows(table) == [("good", None, "1"), ("bad", None, "0")]


def test_pairs_are_found_by_their_names(tmp_path):
    table = write(tmp_path, "a.tsv", "index\tsentence1\tsentence2\tlabel\n0\ta b\tc\tyes\n")
    assert rows(table) == [("a b", "c", "yes")]


def test_a_table_without_the_pairs_that_are_wanted(tmp_path):
    table = write(tmp_path, "a.tsv", "text\tmore\tlabel\na\tb\t1\n")
    with pytest.raises(InputError, match=r"no column looks like the second text.* --pair-column"):
        list(ExampleReader(table, pairs=True))
    (example,) = ExampleReader(table, Columns(pair_column="more"), pairs=True)
    assert (example.text, example.pair) == ("a", "b")
    with pytest.raises(InputError, match="lines of text have no pairs"):
        list(ExampleReader(write(tmp_path, "a.txt", "a\n"), labelled=False, pairs=True))


def test_a_second_text_where_one_is_expected_is_refused_unless_asked_for(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("sentence1\tsentence2\tlabel\na\tb\t0\n")
    with pytest.raises(InputError, match=r"two texts in each row, 'sentence1' and 'sentence2'"):
        list(ExampleReader(path, pairs=False))
    (alone,) = ExampleReader(path, Columns(text_column="sentence1"), pairs=False)
    assert alone.content == ("a", None)
    (pair,) = ExampleReader(path, Columns(pair_column="sentence2"), pairs=False)
    assert pair.content == ("a", "b")


@pytest.mark.parametrize(
    ("name", "line", "advice"),
    [
        ("a.csv", "text;label", r"those between semicolons\? In a \.csv file they .* commas\."),
        ("a.csv", "text\tlabel", r"those between tabs\? In a \.csv file they .* commas\."),
        ("a.tsv", "text,label", r"those between commas\? In a \.tsv file they .* tabs\."),
    ],
)
def test_columns_between_other_characters(tmp_path, name, line, advice):
    (tmp_path / name).write_text(f"{line}\nx\n")
    for columns in (Columns(), Columns(text_column="1", label_column="2")):
        with pytest.raises(InputError, match=advice):
            list(ExampleReader(tmp_path / name, columns))


def test_one_column_of_texts_with_commas_is_told_what_else_to_do(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('"Great film, loved it"\n"Bad, awful"\n')
    with pytest.raises(InputError, match="Name it with --text-column") as caught:
        list(ExampleReader(path))
    assert "between" not in str(caught.value)


def test_a_column_of_labels_is_no_text_without_labels_either(tmp_path):
    columns = Columns(label_column="sentence")
    path = tmp_path / "a.csv"
    path.write_text("question,sentence\na,b\n")
    for labelled in (True, False):
        (example,) = ExampleReader(path, columns, labelled=labelled, pairs=False)
        assert example.content == ("a", None)
    rows = [{"question": "q", "sentence": "x"}, {"question": "r", "sentence": "y", "id": 3}]
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    assert [example.label for example in ExampleReader(path, columns)] == ["x", "y"]


def test_columns_by_name_and_by_number(tmp_path):
    table = write(tmp_path, "a.csv", "id,said,verdict\n7,good,pos\n8,bad,neg\n")
    expected = [("good", None, "pos"), ("bad", None, "neg")]
    assert rows(table, text_column="said", label_column="Verdict") == expected
    assert rows(table, text_column="2", label_column="3", header="yes") == expected


def test_a_table_without_a_header(tmp_path):
    table = write(tmp_path, "a.tsv", "gj04\t1\t\tgood\ngj04\t0\t*\tbad\n")
    assert rows(table, text_column="4", label_column="2") == [
        ("good", None, "1"),
        ("bad", None, "0"),
    ]


def test_a_header_overlooked_because_columns_were_numbered(tmp_path):
    table = write(tmp_path, "a.csv", "said,verdict\n" + "good,pos\nbad,neg\n" * 5)
    assert "--header yes" in refusal(table, text_column="1", label_column="2")
    assert len(rows(table, text_column="1", label_column="2", header="no")) == 11
    numbers = "".join(f"text,{number / 8}\n" for number in range(11))
    assert len(rows(write(tmp_path, "b.csv", numbers), text_column="1", label_column="2")) == 11


def test_a_usual_name_among_the_cells_makes_no_header(tmp_path):
    rows_of_text = [("how are you", None, "question"), ("fine", None, "statement")]
    table = write(tmp_path, "a.tsv", "how are you\tquestion\nfine\tstatement\n")
    assert rows(table, text_column="1", label_column="2") == rows_of_text
    assert "no column looks like the label" in refusal(table)
    named = write(tmp_path, "b.tsv", "said\tlabel\nhow are you\tquestion\nfine\tstatement\n")
    assert rows(named, text_column="1") == rows_of_text
    turned = write(tmp_path, "c.csv", "target,good\nlabel,bad\n")
    assert rows(turned, text_column="1", label_column="2") == [
        ("target", None, "good"),
        ("label", None, "bad"),
    ]


def test_a_guessed_name_that_comes_again_is_refused(tmp_path):
    table = write(tmp_path, "a.tsv", "how are you\tquestion\nfine\tstatement\nwhy\tquestion\n")
    with pytest.raises(InputError, match=r"a\.tsv:3: the text 'question' .* --header yes"):
        list(ExampleReader(table, labelled=False))
    sure = ExampleReader(table, Columns(header="yes"), labelled=False)
    assert [example.text for example in sure] == ["statement", "question"]
    bare = ExampleReader(table, Columns(header="no", text_column="1"), labelled=False)
    assert [example.text for example in bare] == ["how are you", "fine", "why"]


def test_quotes_are_plain_in_tsv_and_rfc_4180_in_csv(tmp_path):
    tsv = write(tmp_path, "a.tsv", 'text\tlabel\n"odd\t1\n')
    assert rows(tsv) == [('"odd', None, "1")]
    table = write(tmp_path, "a.csv", 'text,label\r\n"two\r\nlines, ""quoted""",1\r\nnext,2\r\n')
    examples, _ = read_examples(table)
    assert examples[0] == Example('two\r\nlines, "quoted"', None, "1", row=2)
    assert examples[1].row == 4


@given(
    st.lists(
        st.tuples(
            st.text(st.characters(codec="utf-8", exclude_characters="\0")).filter(str.strip),
            st.sampled_from(["a", "b"]),
        ),
        min_size=1,
        max_size=9,
    )
)
def test_any_text_survives_a_csv_file(tmp_path_factory, table):
    buffer = io.StringIO(newline="")
    csv.writer(buffer, quoting=csv.QUOTE_ALL).writerows([("text", "label"), *table])
    path = write(tmp_path_factory.mktemp("csv"), "a.csv", buffer.getvalue())
    assert rows(path, header="yes") == [(text, None, label) for text, label in table]


def test_a_cell_longer_than_the_csv_module_allows_by_default(tmp_path):
    text = "x" * 200_000
    assert rows(write(tmp_path, "a.csv", f"text,label\n{text},1\n")) == [(text, None, "1")]


def test_jsonl_labels_may_be_numbers(tmp_path):
    lines = [{"text": "a", "label": 1}, {"text": "b", "label": True}, {"text": "c", "label": "x"}]
    path = write(tmp_path, "a.jsonl", "\n".join(map(json.dumps, lines)))
    assert rows(path) == [("a", None, "1"), ("b", None, "true"), ("c", None, "x")]


def test_a_list_of_labels_is_never_cut_at_the_separator(tmp_path):
    labels = [["Paris, France"], ["b, c", "d"], [], " x, y "]
    lines = [json.dumps({"text": "a", "label": label}) for label in labels]
    examples, _ = read_examples(write(tmp_path, "a.jsonl", "\n".join(lines)), empty_labels=True)
    assert [label_set(example, ",") for example in examples] == [
        ("Paris, France",),
        ("b, c", "d"),
        (),
        ("x", "y"),
    ]


def test_half_a_surrogate_pair_is_a_replacement_character(tmp_path):
    lines = [r'{"text": "good \ud83d film", "label": ["\uDE00x"]}', r'{"text": "\ud83d\ude00"}']
    path = write(tmp_path, "a.jsonl", "\n".join(lines))
    values = [value for _, value in read_objects(path)]
    assert values == [{"text": "good \ufffd film", "label": ["\ufffdx"]}, {"text": "😀"}]


@pytest.mark.parametrize("suffix, compress", [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_compressed_tables(tmp_path, suffix, compress):
    path = write(tmp_path, f"a.csv{suffix}", compress(b"text,label\ngood,1\n"))
    assert rows(path) == [("good", None, "1")]


def test_a_zstandard_table(tmp_path):
    import zstandard

    path = write(tmp_path, "a.csv.zst", zstandard.compress(b"text,label\ngood,1\n"))
    assert rows(path) == [("good", None, "1")]


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbftext\tlabel\ngood\t1\n",  # byte order mark
        b"text\tlabel\r\ngood\t1\r\n",  # Windows line ends
        b"text\tlabel\ngood\t1",  # no final line end
        b"text\tlabel\n\ngood\t1\n\n",  # blank lines
    ],
)
def test_harmless_oddities(tmp_path, content):
    assert rows(write(tmp_path, "a.tsv", content)) == [("good", None, "1")]
    csv_content = content.replace(b"\t", b",")
    assert rows(write(tmp_path, "a.csv", csv_content)) == [("good", None, "1")]


def test_a_carriage_return_within_a_text(tmp_path):
    assert rows(write(tmp_path, "a.tsv", "text\tlabel\nso\rso\t1\n"))[0][0] == "so\rso"
    assert rows(write(tmp_path, "a.csv", 'text,label\n"so\rso",1\n'))[0][0] == "so\rso"


def test_one_text_per_line_without_labels(tmp_path):
    path = write(tmp_path, "a.txt", "good, isn't it\nbad\n")
    texts = [example.text for example in ExampleReader(path, labelled=False)]
    assert texts == ["good, isn't it", "bad"]


def test_labels_are_not_looked_for_unless_wanted(tmp_path):
    path = write(tmp_path, "a.csv", "text,label\ngood,\n")
    assert [example.label for example in ExampleReader(path, labelled=False)] == [None]


def test_skipped_rows_are_counted(tmp_path):
    table = write(tmp_path, "a.csv", "text,label\ngood,1\nbad,\n ,0\n")
    examples, num_skipped = read_examples(table, Columns(skip_incomplete=True))
    assert [example.row for example in examples] == [2]
    assert num_skipped == 2


def test_objects_without_a_key_are_skipped_on_request_and_counted(tmp_path):
    lines = [
        '{"text": "a", "label": 1}',
        '{"text": "b"}',
        '{"label": 0}',
        '{"text": "c", "label": 0}',
    ]
    path = write(tmp_path, "a.jsonl", "\n".join(lines))
    assert "--skip-incomplete" in refusal(path)
    examples, num_skipped = read_examples(path, Columns(skip_incomplete=True))
    assert ([example.row for example in examples], num_skipped) == ([1, 4], 2)


def test_the_first_objects_may_be_the_incomplete_ones(tmp_path):
    lines = ['{"text": "a"}', '{"id": 7}', '{"text": "c", "label": 0}', '{"text": "d", "label": 1}']
    path = write(tmp_path, "a.jsonl", "\n".join(lines))
    assert "no column looks like the label. Columns found: 'text'." in refusal(path)
    examples, num_skipped = read_examples(path, Columns(skip_incomplete=True))
    assert ([example.row for example in examples], num_skipped) == ([3, 4], 2)
    path.write_text(lines[0])
    assert "no column looks like the label" in refusal(path, skip_incomplete=True)


def test_a_label_that_the_first_line_lacks_is_refused(tmp_path):
    lines = ['{"text": "a", "rating": 5}', '{"text": "b", "label": "pos", "rating": 4}']
    path = write(tmp_path, "a.jsonl", "\n".join(lines))
    found = refusal(path)
    assert ":2: has 'label', which the rows before lack: there, 'rating' was taken" in found
    assert "--label-column" in found
    assert [label for *_, label in rows(path, label_column="rating")] == ["5", "4"]


def test_nan_is_a_label_that_is_missing(tmp_path):
    lines = [{"text": "a", "label": "x"}, {"text": "b", "label": "y"}, {"text": "c", "label": nan}]
    path = write(tmp_path, "a.jsonl", "\n".join(map(json.dumps, lines)))
    assert ":3: 'label' is empty" in refusal(path)
    examples, num_skipped = read_examples(path, Columns(skip_incomplete=True))
    assert ([example.label for example in examples], num_skipped) == (["x", "y"], 1)
    examples, _ = read_examples(path, empty_labels=True)
    assert [example.label for example in examples] == ["x", "y", ""]


@pytest.mark.parametrize("name", ["SICK_train.txt", "SICK.data", "SICK", "sick.txt.gz"])
def test_a_table_by_another_name(tmp_path, name):
    content = b'sentence_A\tsentence_B\tjudgment\nA "man\tA boy\tNEUTRAL\nOne\tTwo\tENTAILMENT\n'
    path = tmp_path / name
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    named = {
        "text_column": "sentence_A",
        "pair_column": "sentence_B",
        "label_column": "judgment",
    }
    with pytest.raises(InputError, match="say which: --format tsv"):
        read_examples(path, Columns(**named))
    examples, _ = read_examples(path, Columns(**named, format="tsv"))
    assert examples == [
        Example('A "man', "A boy", "NEUTRAL", 2),
        Example("One", "Two", "ENTAILMENT", 3),
    ]


@pytest.mark.parametrize(
    "format_, content",
    [("csv", 'text,label\n"a,b",x\n'), ("jsonl", '{"text": "a,b", "label": "x"}')],
)
def test_the_format_goes_before_the_name(tmp_path, format_, content):
    path = write(tmp_path, "a.tsv", content)
    (example,), _ = read_examples(path, Columns(format=format_))
    assert (example.text, example.label) == ("a,b", "x")


def test_a_key_that_stands_twice(tmp_path):
    path = write(tmp_path, "a.jsonl", '{"text": "a", "label": 1, "label": 0}')
    assert ":1: not JSON (the key 'label' stands twice in an object)" in refusal(path)


def test_a_second_text_that_the_first_line_lacks_is_refused(tmp_path):
    path = write(
        tmp_path,
        "a.jsonl",
        '{"text": "a", "label": 1}\n{"text": "b", "text_pair": "c", "label": 0}',
    )
    assert ":2: has a second text ('text_pair')" in refusal(path)
    assert len(rows(path, text_column="text")) == 2


def test_empty_lines_at_the_end_of_a_text_file_are_no_texts(tmp_path):
    path = write(tmp_path, "a.txt", "good\nbad\n\n\r\n\n")
    reader = ExampleReader(path, labelled=False)
    assert [(example.row, example.text) for example in reader] == [(1, "good"), (2, "bad")]
    assert reader.num_skipped == 0
    gap = write(tmp_path, "b.txt", "good\n\n\nbad\n\n")
    with pytest.raises(InputError, match=r"b\.txt:2: 'the line' is empty"):
        list(ExampleReader(gap, labelled=False))
    reader = ExampleReader(gap, Columns(skip_incomplete=True), labelled=False)
    assert [example.row for example in reader] == [1, 4]
    assert reader.num_skipped == 2
    with pytest.raises(InputError, match="no complete rows"):
        list(ExampleReader(write(tmp_path, "c.txt", "\n\n"), labelled=False))
    with pytest.raises(InputError, match=r"d\.txt:1: a carriage return \(CR\) within the line"):
        list(ExampleReader(write(tmp_path, "d.txt", "good\rbad\r"), labelled=False))


def test_limit_reads_no_further(tmp_path):
    table = write(tmp_path, "a.csv", "text,label\ngood,1\nbad,0\nragged\n")
    assert len(read_examples(table, limit=2)[0]) == 2


def test_rows_of_another_width_are_skipped_on_request_and_counted(tmp_path):
    table = write(tmp_path, "a.tsv", "text\tlabel\ngood\t1\nbad\nvery\tbad\t0\ndull\t0\n")
    assert ":3: found 1 columns where row 1 has 2" in refusal(table)
    examples, num_skipped = read_examples(table, Columns(skip_incomplete=True))
    assert ([example.text for example in examples], num_skipped) == (["good", "dull"], 2)
    nothing = write(tmp_path, "b.tsv", "text\tlabel\ngood\n")
    assert "no complete rows" in refusal(nothing, skip_incomplete=True)


@pytest.mark.parametrize(
    "name, content, parts",
    [
        ("a.csv", "text,label\ngood,1\nbad,\n", [":3: 'label' is empty", "--skip-incomplete"]),
        ("a.tsv", "text\tlabel\n \t1\n", [":2: 'text' is empty"]),
        ("a.tsv", "text\tlabel\ngood\t1\textra\n", [":2: found 3 columns", "has 2", "tab"]),
        ("a.csv", "text,label\nwell, good,1\n", [":2: found 3 columns", "double quotes"]),
        ("a.csv", 'text,label\ngood,1\n"never closed,1\n', [":3: not valid CSV"]),
        ("a.csv", 'text,label\n"closed" early,1\n', [":2: not valid CSV"]),
        ("a.csv", "words,label\ngood,1\n", ["no column looks like the text", "'words', 'label'"]),
        ("a.tsv", "text\tpoints\ngood\t1\n", ["looks like the label", "'text', 'points'"]),
        ("a.csv", "text;label\ngood;1\n", ["'text;label'"]),
        (
            "a.csv",
            "text,text,label\na,b,1\n",
            [": several columns are called 'text'", "Give the number"],
        ),
        ("a.tsv", "text\tLabel\tLABEL\na\t1\t0\n", ["called 'label'", "--label-column"]),
        ("a.csv", "text,label\rgood,1\r", [":1: a carriage return (CR) within the line", "LF"]),
        ("a.tsv", "text\tlabel\rgood\t1\r", [":1: a carriage return (CR) within the line", "LF"]),
        ("a.csv", "text,label\ngood,1\nso\rso,1\n", [":3: a carriage return"]),
        ("a.csv", "text,label\n", ["no complete rows"]),
        ("a.jsonl", '{"text": "a", "label": 1}\n["b", 2]\n', [":2: found a list", "object"]),
        ("a.jsonl", '{"text": "a", "label": 1}\n{"text": "b"}\n', [":2: no key 'label'", "'text'"]),
        ("a.jsonl", '{"text": "a", "label": 1}\n{"text": \n', [":2: not JSON", "column"]),
        ("a.jsonl", '{"text": ["a"], "label": 1}\n', [":1: 'text' is a list", "a string"]),
        ("a.jsonl", '{"text": "a", "label": {"x": 1}}\n', [":1: 'label' is an object"]),
        ("a.jsonl", '{"text": "a", "label": null}\n', [":1: 'label' is empty"]),
        ("a.jsonl", '{"text": "a", "label": ' + "7" * 5000 + "}", [":1: not JSON (Exceeds the"]),
        ("a.jsonl", '{"text": ' + "[" * 200_000, [":1: not JSON (lists or objects too deep)"]),
        ("a.jsonl", r'{"\ud83d": 1, "\ud83e": 2}', [":1: not JSON (two keys differ only in half"]),
        ("a.xlsx", "text,label\ngood,1\n", ["'.xlsx'", ".csv, .tsv or .jsonl"]),
        ("a.txt", "good\n", ["no labels", ".csv, .tsv or .jsonl"]),
    ],
)
def test_bad_tables_are_one_clear_error(tmp_path, name, content, parts):
    message = refusal(write(tmp_path, name, content))
    for part in parts:
        assert part in message


def test_a_column_asked_for_that_is_not_there(tmp_path):
    table = write(tmp_path, "a.csv", "text,label\ngood,1\n")
    message = refusal(table, text_column="sentence")
    assert "no column 'sentence'" in message
    assert "'text', 'label'" in message
    assert "no column '777" in refusal(table, text_column="7" * 5000)
    twice = write(tmp_path, "c.csv", "Said,said ,label\ngood,bad,1\n")
    assert "several columns are called 'SAID'" in refusal(twice, text_column="SAID")
    assert rows(twice, text_column="Said") == [("good", None, "1")]
    bare = write(tmp_path, "b.csv", "good,1\n")
    assert "from 1 to 2" in refusal(bare, text_column="1", label_column="3")


def test_files_that_are_missing_empty_or_not_text(tmp_path):
    refusal(tmp_path / "absent.csv")
    refusal(write(tmp_path, "empty.csv", b""))
    refusal(write(tmp_path, "binary.csv", bytes(range(256)) * 8))
    message = refusal(write(tmp_path, "latin.csv", "text,label\ncafé,1\n".encode("latin-1")))
    assert "14" in message  # the byte's offset


def test_stratified_sample_keeps_shares_and_every_label():
    examples = [
        Example("t", label=label, row=i) for i, label in enumerate("a" * 90 + "b" * 9 + "c")
    ]
    sample = stratified_sample(examples, 20, seed=1)
    counts = Counter(example.label for example in sample)
    assert counts["c"] == 1
    assert counts["b"] == 2
    assert counts["a"] == 17
    assert [example.row for example in sample] == sorted(example.row for example in sample)
    assert sample == stratified_sample(examples, 20, seed=1)
    assert sample != stratified_sample(examples, 20, seed=2)
    assert stratified_sample(examples, 500, seed=1) == examples


@pytest.mark.parametrize(
    "name, columns, count",
    [
        ("glue/SST-2/dev.tsv", {}, 872),
        ("glue/CoLA/dev.tsv", {"text_column": "4", "label_column": "2"}, 1_043),
        ("glue/MRPC/dev.tsv", {}, 408),
        ("glue/RTE/dev.tsv", {}, 277),
        ("chnsenticorp/dev.tsv", {}, 1_200),
        ("imdb/test.csv.xz", {}, 25_000),
    ],
)
def test_published_data_sets(data_dir, name, columns, count):
    examples, num_skipped = read_examples(data_dir / name, Columns(**columns))
    assert len(examples) == count
    assert num_skipped == 0
    assert len({example.label for example in examples}) == 2
    assert (examples[0].pair is not None) == (name.split("/")[1] in ("MRPC", "RTE"))
