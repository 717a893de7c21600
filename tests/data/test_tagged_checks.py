"""Tables of texts are no labelled words, and real sentences of all kinds are."""

import pytest
from refusals import refuses

from bertsmith.data.columns import TagColumns
from bertsmith.data.tagged_files import TaggedReader
from bertsmith.errors import InputError, as_flags

TEXTS = ["a gripping story of love", "dull and far too long", "not bad at all , really", "lovely"]
CHINESE = "选择珠江花园的原因就是方便有电动扶梯直接到达海边周围餐馆食廊商场"
SENTENCE = "the cat saw a dog and the dog saw the cat in the old house by the sea ."
STORY = [*SENTENCE.split()] * 20


def write(directory, rows, name="a.tsv"):
    path = directory / name
    path.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    return path


def labelled(words):
    return [f"{word}\t{number % 2}" for number, word in enumerate(words)]


def objects(words):
    return [{"words": words, "labels": [number % 2 for number in range(len(words))]}]


@pytest.mark.parametrize("name", ["a.tsv", "a.conll", "a.txt"])
@pytest.mark.parametrize("rows", [
    labelled(TEXTS),
    labelled(["good film", "bad film"] * 10),
    [f"{number % 2}\t{text}" for number, text in enumerate(TEXTS)],
    [f"c{number}\t{text}\t{text}\t1" for number, text in enumerate(TEXTS)],
    labelled(f"{number}{CHINESE}" for number in range(6)),
    [f"{number % 2}\t{number}{CHINESE}" for number in range(6)],
    labelled(f"{number}ฉันไปเที่ยวที่กรุงเทพมหานครเมื่อวานนี้" for number in range(6)),
    [*labelled(TEXTS), "", *labelled(TEXTS)],
    labelled(f"name{number}" for number in range(120)),
    labelled(["房间太小。", "不错，可以住", "早餐很好！", "好"]),
    labelled(["房间比较小而且很旧", "服务态度非常好下次再来", "早餐很好"] * 2),
    [f"{number % 2}\t房间太小。第{number}次" for number in range(6)],
    labelled(f"ดีมากครับแนะนำเลย{number}" for number in range(20)),
    labelled([f"name{number}" for number in range(20)]),
    labelled([f"good film{number}" for number in range(6)] + ["dull", "fine", "superb"] * 6),
    [f"name{number}\ttopic{number % 9}" for number in range(60)],
])  # fmt: skip
def test_a_table_of_texts_is_refused(tmp_path, rows, name):
    path = write(tmp_path, rows, name)
    with refuses(InputError, f"{path}:1", "table", "finetune classify", rows[0].split("\t")[0][:9]):
        list(TaggedReader(path))


@pytest.mark.parametrize("rows", [labelled(TEXTS), [f"1\t{text}" for text in TEXTS]])
def test_a_table_of_texts_is_not_predicted_either(tmp_path, rows):
    path = write(tmp_path, rows)
    with refuses(InputError, f"{path}:1", "finetune classify"):
        list(TaggedReader(path, labelled=False))


@pytest.mark.parametrize("words", [TEXTS, ["good film", "bad film", "so so"] * 3])
def test_texts_in_the_place_of_words_of_objects_are_refused(words):
    with refuses(InputError, "row 1", "finetune classify", words[0]):
        list(TaggedReader(objects(words)))


@pytest.mark.parametrize("header", [
    "sentence\tlabel", "text,label", "word label", "label\ttext_a", "Text;Class",
    "id\tword\tpos\ttag",
    '"text","label"', "tweet|sentiment", "index\tsentence1\tsentence2\tlabel",
])  # fmt: skip
@pytest.mark.parametrize("has_labels", [True, False])
def test_a_first_row_that_names_the_columns_is_refused(tmp_path, header, has_labels):
    border = next(char for char in "\t,;| " if char in header)
    row = border.join(["Anna"] + ["x"] * (header.count(border) - 1) + ["B-PER"])
    path = write(tmp_path, [header, row, row.replace("Anna", "Li"), ""], "a.conll")
    with refuses(InputError, f"{path}:1", "name the columns"):
        list(TaggedReader(path, labelled=has_labels))


def test_a_header_is_refused_where_bad_sentences_are_skipped(tmp_path):
    path = write(tmp_path, ["word\tlabel", "Anna\tB-PER", "", "won\tO"])
    with refuses(InputError, f"{path}:1", "Remove this row"):
        list(TaggedReader(path, TagColumns(skip_incomplete=True)))


def test_a_word_that_could_be_a_heading_is_a_word_where_its_label_comes_again(tmp_path):
    path = write(tmp_path, ["Text\tlabel", "of\tO", "song\tlabel"])
    assert [sentence.words[0] for sentence in TaggedReader(path)] == ["Text"]


@pytest.mark.parametrize("rows", [labelled(STORY * 3), [f"{word} O" for word in STORY * 3]])
def test_a_long_file_without_an_empty_line_is_refused(tmp_path, rows):
    path = write(tmp_path, rows)
    with refuses(InputError, f"{path}:1", "no empty line", "1,140 rows", "'the'"):
        list(TaggedReader(path))
    path = write(tmp_path, [*rows[:500], "", *rows[500:]])
    assert [len(sentence.words) for sentence in TaggedReader(path)] == [500, 640]


@pytest.mark.parametrize("count", [20, 60])
def test_labels_that_hardly_recur_are_refused(tmp_path, count):
    rows = [f"{word}\tid{number}" for number, word in enumerate(STORY[:count])]
    with refuses(InputError, f"{count} different labels", "--label-column"):
        list(TaggedReader(write(tmp_path, rows)))
    assert list(TaggedReader(write(tmp_path, rows[: count // 2] * 3)))


def test_swapped_columns_are_refused(tmp_path):
    path = write(tmp_path, ["B-PER\tAnna", "O\twon", "", "O\tit"])
    with refuses(InputError, f"{path}:1", "--word-column", "--label-column", "'B-PER' (Anna)"):
        list(TaggedReader(path))
    columns = TagColumns(word_column="2", label_column="1")
    assert [sentence.labels for sentence in TaggedReader(path, columns)] == [("B-PER", "O"), ("O",)]


GERMEVAL = [
    "#\thttp://de.wikipedia.org/wiki/Peter [2009-10-17]",
    "1\tPeter\tB-PER\tO", "2\tlacht\tO\tO", "",
    "#\thttp://de.wikipedia.org/wiki/Bonn [2009-10-17]",
    "1\tIn\tO\tO", "2\tBonn\tB-LOC\tO", "3\tauch\tO\tO",
]  # fmt: skip
CONLL_X = [
    f"{number}\t{word}\t_\tN\tN\t_\t0\tROOT\t_\t_" for number, word in enumerate("abcde", start=1)
]


@pytest.mark.parametrize(("rows", "words"), [
    pytest.param(GERMEVAL, ["Peter", "lacht", "In", "Bonn", "auch"], id="GermEval"),
    pytest.param(CONLL_X, [*"abcde"], id="CoNLL-X, one sentence"),
    pytest.param(["0 a X", "1 b Y", "", "0 c X"], [*"abc"], id="from 0, in spaces"),
    pytest.param(
        ["1-2\tam\t_", "1\tan\tX", "2\tdem\tY", "2.1\te\tX", "", "1\tb\tY"],
        ["am", "an", "dem", "e", "b"], id="multi-word token",
    ),
])  # fmt: skip
@pytest.mark.parametrize("has_labels", [True, False])
def test_a_first_column_that_numbers_the_words_is_refused(tmp_path, rows, words, has_labels):
    path = write(tmp_path, rows, "a.conll")
    row = 1 + rows[0].startswith("#")
    shown = " ".join(rows[row - 1].split())
    with refuses(
        InputError, f"{path}:{row}", "numbers the words", "--word-column 2", shown
    ) as caught:
        list(TaggedReader(path, labelled=has_labels))
    num_columns = len(shown.split())
    asks_label = has_labels and num_columns > 3
    assert ("--label-column" in as_flags(caught.value.message)) == asks_label
    read = TaggedReader(path, TagColumns(word_column="2"), labelled=has_labels)
    assert [word for sentence in read for word in sentence.words] == words


def test_a_column_of_numbers_that_was_chosen_is_read(tmp_path):
    path = write(tmp_path, GERMEVAL, "a.conll")
    read = TaggedReader(path, TagColumns(word_column="1"))
    assert [sentence.words for sentence in read] == [("1", "2"), ("1", "2", "3")]


@pytest.mark.parametrize("rows", [
    pytest.param(["1\tNUM", "2\tNOUN", "3\tNUM", "", "1\tNUM", "2\tNUM"], id="two columns"),
    pytest.param(["1 CD O", "2 CD X", "3 CD O"], id="three numbers"),
    pytest.param(["1 CD O", "", "1 CD X"], id="sentences of a word"),
    pytest.param(["1 CD O", "2 CD X", "", "a NN X", "2 CD O"], id="another sentence"),
    pytest.param(["1 CD O", "2 CD X", "4 CD X", "8 CD X", "", "1 CD X"], id="no counter"),
])  # fmt: skip
def test_words_that_are_numbers_are_read(tmp_path, rows):
    words = [row.split()[0] for row in rows if row]
    read = TaggedReader(write(tmp_path, rows, "a.conll"))
    assert [word for sentence in read for word in sentence.words] == words


@pytest.mark.parametrize(("rows", "num_words"), [
    pytest.param(labelled(STORY[:30]), 30, id="one sentence"),
    pytest.param(labelled(STORY), 380, id="one long sentence"),
    pytest.param(labelled("他去年十月在北京的一家饭店里见到了他的老朋友们"), 23, id="Chinese"),
    pytest.param(
        labelled("我国的经济建设取得了举世瞩目成就，人民生活水平不断提高。"), 28,
        id="different characters and signs",
    ),
    pytest.param([*labelled("适应形势需要探索办学新路苏州切实加强基层党校建设"), ""], 24,
        id="different characters and an empty line",
    ),
    pytest.param(
        [f"{char}\t{'BMES'[number % 4]}" for number, char in enumerate("abcdefghijklmnopqrstuv")],
        22, id="letters of a scheme",
    ),
    pytest.param([f"Name{number}\tB-PER" for number in range(40)], 40, id="a list of names"),
    pytest.param([f"Name{number}\t{'O' if number % 3 else 'PER'}" for number in range(40)], 40,
        id="a list of names and O",
    ),
    pytest.param(
        ["中华人民共和国外交部\tB-ORG", "全国人民代表大会\tB-ORG", "委员会\tI-ORG", "委员长\tO"], 4,
        id="names of ministries",
    ),
    pytest.param(["New York Stock Exchange\tB-ORG", "opened\tO"], 2, id="a name"),
    pytest.param(
        ["Việt Nam\tN", "phát triển\tV", "kinh tế\tN", "nhanh\tA", ".\tP", ""] * 9, 45,
        id="Vietnamese",
    ),
    pytest.param(labelled(["1\xa0000\xa0000\xa0000", "a\u202fb\u202fc"] * 20), 40, id="no-break"),
    pytest.param(
        [f"{word}\tB-Job Title" for word in ("Head", "of", "Sales", "in", "Europe")], 5,
        id="a type of two words",
    ),
    pytest.param(
        [f"{w}\tCase=Nom|Number=Plur|Kind={w}" for w in "abcd"], 4, id="long features"
    ),
    pytest.param(["Text\tNOUN", "label\tNOUN", "word\tNOUN"], 3, id="names of columns as words"),
    pytest.param(
        ["-DOCSTART- O", "", "# a comment", "text O", "", "label O"], 2, id="comments and documents"
    ),
])  # fmt: skip
def test_real_sentences_are_read(tmp_path, rows, num_words):
    for has_labels in (True, False):
        read = TaggedReader(write(tmp_path, rows, "a.conll"), labelled=has_labels)
        assert sum(len(sentence.words) for sentence in read) == num_words


def test_labels_of_two_words_are_read():
    rows = [{"words": list("abcdef"), "labels": ["proper noun", "common noun"] * 3}]
    assert len(list(TaggedReader(rows))) == 1
