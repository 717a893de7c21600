"""Files of labelled words: every usual form is read, every broken one is one clear error."""

import gzip
import itertools
import json
import re
from collections import Counter

import pytest
from refusals import refuses

from bertsmith.data import conll
from bertsmith.data.columns import TagColumns
from bertsmith.data.conll import LineBlock
from bertsmith.data.conllu import ConlluParser, locate_forms
from bertsmith.data.label_schemes import detect_scheme
from bertsmith.data.tagged_files import (
    FORMAT_NAMES,
    TaggedReader,
    check_has_word_column,
    find_format,
)
from bertsmith.data.text_files import STANDARD_INPUT
from bertsmith.errors import ConfigError, InputError, as_flags
from bertsmith.tasks.tagged_text import conll_block, conllu_block

NEWS = """-DOCSTART- -X- O O

EU NNP I-NP I-ORG
rejects VBZ I-VP O

Peter NNP I-NP I-PER
"""
EXPECTED = [(("EU", "rejects"), ("I-ORG", "O")), (("Peter",), ("I-PER",))]


def write(directory, content, name="a.txt"):
    path = directory / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def read(source, **columns):
    return list(TaggedReader(source, TagColumns(**columns)))


def pairs(source, **columns):
    return [(s.words, s.labels) for s in read(source, **columns)]


def words(sentences):
    return [" ".join(sentence.words) for sentence in sentences]


def remarks(sentences):
    return Counter(remark for sentence in sentences for remark in sentence.remarks)


def check_refusal(source, line, *parts, **columns):
    place = "row 1 of the rows given" if isinstance(source, list) else str(source)
    with refuses(InputError, *parts) as caught:
        read(source, **columns)
    assert str(caught.value).startswith(place + line) and "\n" not in str(caught.value)


def unlabelled(path, **columns):
    reader = TaggedReader(path, TagColumns(**columns), labelled=False)
    return list(reader), find_format(path, reader.columns, labelled=False)


@pytest.mark.parametrize("content", [
    NEWS.rstrip("\n"), "\ufeff" + NEWS.replace("\n", "\r\n"), "\n\n" + NEWS + "\n \t\n",
    NEWS.replace(" ", "\t"), NEWS.replace(" ", "   "), NEWS.replace("I-ORG", "I-ORG  "),
    "# a comment\n# sent_id = 1\n" + NEWS.replace("\n\nPeter", "\n\n# id 8 dev=x\nPeter"),
])  # fmt: skip
def test_columns_however_they_are_written(tmp_path, content):
    assert pairs(write(tmp_path, content)) == EXPECTED


def test_words_may_be_strange(tmp_path):
    strange = ["\u3000", "\u200b", "#", "\xa0", "\x1c", "-", "\ufeff", "\u2028", '"']
    for border in "\t ":
        rows = "".join(f"{word}{border}O\n" for word in ("a", *strange))
        assert pairs(write(tmp_path, rows))[0][0] == ("a", *strange)
    assert pairs(write(tmp_path, "New York\tB-LOC\nis\tO\n"))[0][0] == ("New York", "is")


@pytest.mark.parametrize("content, expected, comments", [
    ("a O\n# O\n\n# I-PER\nb O\n\n# O\n\n# what O x\nc O\n", ["a #", "# b", "#", "c"], 1),
    # A word # at the head of a sentence shows by a label of spans or by tabs, not by others.
    ("a x DT\n# x #\n\n# x #\nb x DT\n\n#x x #\n\n# of\nc x DT\n", ["a #", "b", "#x", "c"], 2),
    ("a\tx\tDT\n\n#\tx\t#\nb\tx\tDT\n\n# of\nc\tx\tDT\n", ["a", "# b", "c"], 1),
    # Comments after the last sentence are counted with it.
    ("# of a\na O\n\n# the\n# end\n\n#\n", ["a"], 4),
])  # fmt: skip
def test_comments_and_words_that_begin_with_a_hash(tmp_path, content, expected, comments):
    sentences = read(write(tmp_path, content, "a.conll"))
    assert words(sentences) == expected
    assert remarks(sentences)["comments"] == comments


def test_broken_sentences_are_skipped_on_request_and_counted_as_they_are_met(tmp_path):
    path = write(tmp_path, "# of a\na x O\n\nb\n\nc x O\n\nd\n\n# of e\ne x O\n\nf\n")
    for limit, expected, num_skipped in ((1, "a", 0), (2, "ac", 1), (4, "ace", 3)):
        reader = TaggedReader(path, TagColumns(skip_incomplete=True))
        assert words(itertools.islice(reader, limit)) == list(expected)
        assert reader.num_skipped == num_skipped
    path = write(tmp_path, "a B\nb\n\nc x O\nd e\n")
    check_refusal(path, ": ", "(2)", "--skip-incomplete", skip_incomplete=True)


TREE = (
    "# text = Don't go (du).",
    "1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_",
    "1\tDo\tdo\tAUX\tVB\tF=1\t0\troot\t_\t_",
    "2\tn't\tnot\tPART\tRB\t_\t1\tx\t_\t_",
    "3\tgo\tgo\tVERB\tVB\t_\t1\tx\t_\t_",
    "3.1\tgone\tgo\tVERB\tVB\t_\t_\t_\t_\t_",
    "4\t(\t(\tPUNCT\t-LRB-\t_\t1\tx\t_\tSpaceAfter=No",
    "5-6\tdu\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No",
    "5\tde\tde\tADP\tIN\t_\t1\tx\t_\t_",
    "6\tle\tle\tDET\tDT\t_\t1\tx\t_\t_",
    "7\t)\t)\tPUNCT\t-RRB-\t_\t1\tx\t_\tFoo=1|SpaceAfter=No",
    "8\t.\t.\tPUNCT\t.\t_\t1\tx\t_\tSpaceAfter=No",
)


def tree(*rows):
    return "\n".join([*rows, "", ""])


def test_conllu_has_its_words_labels_and_text(tmp_path):
    path = write(tmp_path, tree(*TREE))
    (sentence,) = read(path)
    assert sentence.words == ("Do", "n't", "go", "(", "de", "le", ")", ".")
    assert sentence.labels == ("AUX", "PART", "VERB", "PUNCT", "ADP", "DET", "PUNCT", "PUNCT")
    assert sentence.text == "Don't go (du)."
    found = " ".join(sentence.text[start:end] for start, end in sentence.offsets)
    assert found == "Do n't go ( du du ) ."
    assert remarks([sentence]) == {"multiword_tokens": 2, "empty_nodes": 1}
    assert pairs(path, label_column="XPOS")[0][1][:2] == ("VB", "RB")
    assert pairs(path, word_column="lemma", label_column="6")[0][0][:2] == ("do", "not")
    check_refusal(path, ": ", "'pos'", "id, form", "--label-column", label_column="pos")


@pytest.mark.parametrize("rows, text, found", [
    ([("8-9", "don't"), ("8", "do"), ("10", "go")], "don't go", ["don't", "go"]),
    ([("1-2", "du"), ("1", "de"), ("3-4", "don't"), ("3", "do"), ("4", "n't")], "du don't",
     ["du", "do", "n't"]),
    # In lower case İ is two characters, i and a dot above, and so equal to the first part.
    ([("1-2", "İa"), ("1", "i\u0307"), ("2", "a"), ("3", "go")], "İa go", ["İa", "İa", "go"]),
])  # fmt: skip
def test_multiword_tokens_that_lack_a_part_or_change_in_length(rows, text, found):
    located, offsets = locate_forms([[number, form, *["_"] * 8] for number, form in rows])
    assert (located, [located[start:end] for start, end in offsets]) == (text, found)


def test_objects_of_words():
    row = {"words": ["EU", "acts"], "labels": ["B-ORG", "O"]}
    first, second, third = read([row, {"text": "EU  acts", **row}, {"words": [], "labels": []}])
    assert (first.words, first.labels, first.text) == (("EU", "acts"), ("B-ORG", "O"), "EU acts")
    assert (second.text, second.offsets) == ("EU  acts", ((0, 2), (4, 8)))
    assert third.words == third.labels == ()
    rows = [{"tokens": ["EU"], "ner_tags": [3], "x": ["B"]}]
    assert pairs(rows) == [(("EU",), ("3",))]
    assert pairs(rows, label_column="x") == [(("EU",), ("B",))]


@pytest.mark.parametrize("text, escaped", [
    ('He said "(no)".', "He said `` -LRB- no -RRB- '' ."),
    ("He said “[no]” .", "He said `` -LSB- no -RSB- '' ."),
    ("`` a '' {b}", "`` a '' -LCB- b -RCB-"), ("1/2 or 2\\/3 *", r"1\/2 or 2\/3 \*"),
])  # fmt: skip
def test_words_that_treebanks_escape_are_found_in_their_text(text, escaped):
    tokens = escaped.split()
    (sentence,) = read([{"text": text, "words": tokens, "labels": ["O"] * len(tokens)}])
    assert (sentence.text, sentence.words, sentence.remarks) == (text, tuple(tokens), ())
    assert "".join(text[start:end] for start, end in sentence.offsets) == text.replace(" ", "")


def test_objects_of_texts_with_entities():
    rows = [
        {"text": "Im EU-Rat: 中国😀.", "entities": [[11, 13, "LOC"], [3, 5, "ORG"]]},
        {"text": "none here", "entities": []},
        {"text": "EUs", "entities": [{"start": 0, "end": 2, "label": "ORG", "id": 7}]},
    ]
    sentences = read(rows)
    assert sentences[0].words == ("Im", "EU-Rat", ":", "中", "国", "😀", ".")
    assert sentences[0].labels == ("O", "B-ORG", "O", "B-LOC", "I-LOC", "O", "O")
    assert [s.labels for s in sentences[1:]] == [("O", "O"), ("B-ORG",)]
    assert remarks(sentences) == {"misaligned_entities": 2}
    sentences = read(rows, split="characters")
    assert sentences[0].words[2:6] == ("E", "U", "-", "R")
    assert remarks(sentences) == {}


@pytest.mark.parametrize("content, format_, expected", [
    (NEWS, "conll", ["EU rejects", "Peter"]),
    ("EU\nrejects\n\nPeter\n", "conll", ["EU rejects", "Peter"]),
    (tree(*TREE), "conllu", ["Do n't go ( de le ) ."]),
    (json.dumps({"text": "EU's"}), "jsonl", ["EU 's"]),
    ("EU rejects it.\n\nPeter, no\n", "text", ["EU rejects it .", "", "Peter , no"]),
    ("good\n\nbad\n\nworse\n", "text", ["good", "", "bad", "", "worse"]),
    ("ok\nthanks a lot\n\nbye\n", "text", ["ok", "thanks a lot", "", "bye"]),
    ("他来了，我很高兴。\n\n走吧。\n", "text", ["他 来 了 ， 我 很 高 兴 。", "", "走 吧 。"]),
])  # fmt: skip
def test_the_format_of_words_without_labels_is_found_by_looking(
    tmp_path, content, format_, expected
):
    path = write(tmp_path, content)
    sentences, found = unlabelled(path)
    assert (found, words(sentences)) == (format_, expected)
    assert unlabelled(path, format="text")[1] == "text"
    note = TaggedReader(path, labelled=False).describe_guessed_format()
    assert note and note.startswith(f"Reading {path} as {FORMAT_NAMES[format_]}, ")
    assert "--format changes this" in as_flags(note)


def test_conll_2003_is_read_in_full(data_dir):
    sentences = read(data_dir / "conll2003" / "eng.testb")
    # The figures of the shared task: Tjong Kim Sang and De Meulder (2003), table 1.
    assert (len(sentences), sum(len(s.words) for s in sentences)) == (3453, 46435)
    assert detect_scheme(sentence.labels for sentence in sentences) == "IOB1"


def test_universal_dependencies_have_their_text_again(data_dir):
    file = data_dir / "ud_english_ewt" / "dev.conllu"
    sentences = read(file)
    texts = re.findall(r"^# text = (.*)$", file.read_text("utf-8"), re.MULTILINE)
    assert [sentence.text for sentence in sentences] == texts
    for sentence in sentences:
        assert sentence.words == tuple(sentence.text[a:b] for a, b in sentence.offsets)
    assert sum(len(sentence.words) for sentence in sentences) == 25147
    assert remarks(sentences) == {"multiword_tokens": 359, "empty_nodes": 4}


LINED = """
-DOCSTART- -X- O O

# id = 1
EU NNP I-NP I-ORG
rejects VBZ I-VP O


Peter NNP I-NP I-PER

# between

came VBD I-VP O
"""


def test_predictions_stand_in_the_lines_of_their_words(tmp_path):
    sentences = unlabelled(write(tmp_path, LINED, "gold.conll"))[0]
    blocks = [conll_block(s.words, ["O"] * len(s.words), s.before) for s in sentences]
    found = "".join(blocks).split("\n")
    for number, line in enumerate(LINED.split("\n")):
        is_row = line and not line.startswith("#")
        assert found[number] == (f"{line.split()[0]}\tO" if is_row else line)


def test_conllu_keeps_its_lines_around_predicted_labels(tmp_path):
    (sentence,) = unlabelled(write(tmp_path, tree(*TREE)), label_column="xpos")[0]
    right = ["VB", "RB", "VB", "-LRB-", "IN", "DT", "-RRB-", "."]
    assert conllu_block(sentence, right) == tree(*TREE)
    changed = conllu_block(sentence, ["UH", *right[1:]])
    assert changed == tree(*TREE).replace("AUX\tVB", "AUX\tUH")


def test_a_nul_in_conllu_takes_no_predicted_label():
    """The start of a file must not have one; this is how a sentence after it is read."""
    lines = [*enumerate(["# text = a\0b", *tree(*TREE).rstrip("\n").split("\n")], start=1)]
    lines[-1] = (lines[-1][0], lines[-1][1] + "\0")
    sentence = ConlluParser("a.conllu", TagColumns(), False).parse(LineBlock(lines, []))
    block = conllu_block(sentence, ["X"] * len(sentence.words))
    assert block.startswith("# text = a b\n") and "\0" not in block
    labels = [line.split("\t")[3] for line in block.split("\n") if re.match(r"\d+\t", line)]
    assert labels == ["X"] * len(sentence.words)


OBJECTS = [
    ({"words": ["a"], "labels": []}, "words is 1", "labels 0"),
    ({"words": ["a"]}, '"labels", "tags", "ner_tags", "pos_tags", "upos"', "--label-column"),
    ({"words": "a", "labels": []}, "'words'", "a string", "a list"),
    ({"words": ["a", 3], "labels": []}, "entry 1 of 'words'", "a number", "a string"),
    ({"text": "a b"}, "'entities'", '{"start": 0, "end": 4, "label": "..."}'),
    ({"text": "a b", "entities": [[0, 9, "X"]]}, "0 to 9 ('X')", "3 characters"),
    ({"text": "ab cd", "entities": [[0, 4, "X"], [3, 5, "Y"]]}, "3 to 5 ('Y')"),
]
BROKEN = [
    ("a x O\nb O\n", ":2: ", "found 2", "row 1 has 3", "--skip-incomplete"),
    ("Li\tB-NP B-PER\nis\tO\n", ":1: ", "'B-NP B-PER'", "tabs and spaces"),
    ("a\tO\n\tO\n", ":2: ", "--skip-incomplete"), ("a O\n" * 1001, ":1001: ", "1,000 rows"),
    ("a B-X\nb I-X\nc B-Y\nd Z\n", ": ", "'Z' (found 1×)", "'B-X'", "--scheme plain"),
    ("-DOCSTART- O\n\n# a O\n", ": "), ("", ": "),
    (b"a O\nb\xff O\n", ": ", "byte 5", "0xff", "UTF-8"),
]  # fmt: skip
TREES = [
    ("1\ta\tb", "found 3", "10", "--format conll"),
    (TREE[3].replace("PART", "_"), "'upos'", "'n't'", "--skip-incomplete"),
    (TREE[3].replace("2\tn't", "x\tn't"), "'x'", "(8)", "(8-9)", "(8.1)"),
    (TREE[3].replace("\tnot", "\t"), "'lemma'", "'n't'", "'_'", "--skip-incomplete"),
    (TREE[3].removesuffix("_"), "'misc'", "'n't'", "'_'", "--skip-incomplete"),
    (TREE[3].replace("PART", " "), "'upos'", "'n't'", "'_'", "--skip-incomplete"),
    (TREE[1].removesuffix("_"), "'misc'", "'Don't'"),
]


@pytest.mark.parametrize("source, columns, parts", [
    *(([value], {}, [": ", *parts]) for value, *parts in OBJECTS),
    *((("a.conll", content), {}, parts) for content, *parts in BROKEN),
    *((("a.conllu", tree(row)), {}, [":1: ", *parts]) for row, *parts in TREES),
    (("a.conll", NEWS), {"label_column": "5"}, [":3: ", "'5'", "--label-column", "1 to 4"]),
    (("a.conll", NEWS), {"format": "text"}, [": "]), (("none", None), {}, [": "]),
    (("a.tsv", "Word\tpos\na\tO\n"), {}, [":1: ", "'Word' and 'pos'"]),
])  # fmt: skip
def test_what_is_refused_with_its_place(tmp_path, monkeypatch, source, columns, parts):
    monkeypatch.setattr(conll, "MAX_SENTENCE_ROWS", 1000)
    if isinstance(source, tuple):
        name, content = source
        source = tmp_path / name if content is None else write(tmp_path, content, name)
    check_refusal(source, *parts, **columns)
    if isinstance(source, list):
        rows = [*source, {"words": ["a"], "labels": ["O"]}]
        reader = TaggedReader(rows, TagColumns(skip_incomplete=True))
        assert (len(list(reader)), reader.num_skipped) == (1, 1)


@pytest.mark.parametrize("name, content", [("a.conll", NEWS), ("a.conllu", tree(*TREE))])
def test_an_error_names_the_argument_in_python_and_the_flag_of_a_command(tmp_path, name, content):
    with pytest.raises(InputError) as caught:
        read(write(tmp_path, content, name), label_column="99")
    assert "give label_column " in str(caught.value).lower()
    assert "give --label-column " in as_flags(caught.value.message).lower()


def test_columns_are_chosen_by_number_in_files_of_any_name(tmp_path):
    for name, compress in (("eng.train.gz", gzip.compress), ("train.bio", bytes)):
        path = write(tmp_path, compress(NEWS.encode()), name)
        assert pairs(path) == EXPECTED
        assert pairs(path, word_column="2", label_column="3")[1] == (("NNP",), ("I-NP",))
        assert [(s.row, s.scheme) for s in read(path)] == [(3, "IOB1"), (6, "IOB1")]
        assert {s.scheme for s in read(path, scheme="IOB2")} == {"IOB2"}
        assert read(path, label_column="2")[0].scheme == "plain"
    path = write(tmp_path, "Li I-PER\nis O\n\nYu B-PER\nXi I-PER\n")
    sentences = read(path, repair=True, scheme="IOB2")
    assert [s.labels[0] for s in sentences] == ["B-PER", "B-PER"]
    assert [s.remarks for s in sentences] == [("repaired",), ()]


@pytest.mark.parametrize("text", ["นายสมชายไปกรุงเทพ", "Anna-Berlin"])
def test_two_names_in_one_word_are_read_by_characters(text):
    spans = [(0, 4, "PER"), (len(text) - 5, len(text), "LOC")]
    rows = [{"text": text, "entities": [list(span) for span in spans]}]
    check_refusal(rows, ": ", "--split characters", f"'{text}'")
    labels = read(rows, split="characters")[0].labels
    assert labels[:4] == ("B-PER", *["I-PER"] * 3) and labels[-5:] == ("B-LOC", *["I-LOC"] * 4)


def test_overlapping_entities_are_refused_however_text_is_cut():
    rows = [{"text": "Anna", "entities": [[0, 3, "PER"], [2, 4, "LOC"]]}]
    check_refusal(rows, ": ", "overlaps the one before", split="characters")


def test_a_word_column_is_refused_for_running_text(tmp_path):
    """The numbers of the words would be read as words."""
    text = write(tmp_path, "1 Anna\n2 sings\n")
    words = write(tmp_path, "1 Anna\n2 sings\n\n1 Ben\n2 listens\n", "words.txt")
    columns = TagColumns(word_column="2")
    for source in (text, STANDARD_INPUT):
        with refuses(ConfigError, "--word-column 2: ", "running text", "--format conll"):
            check_has_word_column(columns, source)
        check_has_word_column(TagColumns(word_column="2", format="conll"), source)
        check_has_word_column(TagColumns(repair=True), source)
    check_has_word_column(columns, words)
    check_has_word_column(columns, [{"words": ["Anna"]}])
