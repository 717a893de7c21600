"""Labels that nearly follow a scheme are refused, those that merely resemble one are plain."""

import pytest
from refusals import refuses

from bertsmith.data.columns import TagColumns
from bertsmith.data.label_schemes import detect_scheme, scheme_of_predictions
from bertsmith.data.tagged_files import TaggedReader
from bertsmith.errors import InputError


@pytest.mark.parametrize(("labels", "near", "written"), [
    (["O", "B_PER", "I_PER"], "B_PER", "B-PER"),
    (["O", "b-per", "i-per"], "b-per", "B-per"),
    (["O", "PER-B", "PER-I"], "PER-B", "B-PER"),
    (["B:PER", "O"], "B:PER", "B-PER"),
    (["B.PER", "I.PER", "O"], "B.PER", "B-PER"),
    (["BPER", "IPER", "O"], "BPER", "B-PER"),
    (["B/PER", "I/PER"], "B/PER", "B-PER"),
    (["B PER", "I PER", "O"], "B PER", "B-PER"),
    (["B–PER", "I–PER", "O"], "B–PER", "B-PER"),
    (["B- PER", "I- PER", "O"], "B- PER", "B-PER"),
    (["B-PER ", "O"], "B-PER ", "B-PER"),
    (["B-PER", "o"], "o", "O"),
    (["B_PER", "S_PER", "E_PER", "O"], "B_PER", "B-PER"),
    (["O", "B-PER", "I_PER"], "I_PER", "I-PER"),
    (["b", "i", "o"], "b", "B"),
    (["b", "e", "s"], "b", "B"),
    (["b", "i", "l", "u", "o"], "b", "B"),
    (["b", "l", "u"], "b", "B"),
    (["Ｂ-PER", "Ｉ-PER", "Ｏ"], "Ｂ-PER", "B-PER"),
    (["Ｂ－ＰＥＲ", "Ｉ－ＰＥＲ"], "Ｂ－ＰＥＲ", "B-PER"),
    (["B-PER", "Ｏ"], "Ｏ", "O"),
    *((["B" + mark + "PER", "I" + mark + "PER", "O"], "B" + mark + "PER", "B-PER")
      for mark in "−‐‑‒﹣－"),
    (["B(PER)", "I(PER)", "O"], "B(PER)", "B-PER"),
    (["B[PER]", "O"], "B[PER]", "B-PER"),
    (["PER(B)", "PER(I)", "O"], "PER(B)", "B-PER"),
    (["BEGIN-PER", "INSIDE-PER", "O"], "BEGIN-PER", "B-PER"),
    (["PER_begin", "PER_in", "PER_end", "O"], "PER_begin", "B-PER"),
    (["UNIT-LOC", "BEGIN-PER", "IN-PER", "LAST-PER", "O"], "UNIT-LOC", "S-LOC"),
    (["Begin", "Inside", "Outside"], "Begin", "B"),
    (["[CLS]", "B_PER", "I_PER", "O", "[SEP]"], "B_PER", "B-PER"),
    (["［CLS］", "B_PER", "I_PER", "O", "[SEP] "], "B_PER", "B-PER"),
])  # fmt: skip
def test_labels_that_nearly_follow_a_scheme(labels, near, written):
    with refuses(InputError, f"'{near}' (found 1×)", f"'{written}'", "--scheme plain"):
        detect_scheme([labels])


@pytest.mark.parametrize(("labels", "strange"), [
    (["[CLS]", "B-PER", "I-PER", "O", "[SEP]"], "[CLS]"),
    (["B-PER", "I-PER", "X", "PAD", "O"], "X"),
    (["［CLS］", "B-PER", "O", "[SEP] "], "［CLS］"),
    (["[CLS]", "B-PER", "O", "[SEP]", "[PAD]"], "[CLS]"),
    (["B-PER", "E-PER", "person", "place", "thing"], "person"),
    (["B-PER", "L-PER", "S_LOC", "O"], "S_LOC"),
])  # fmt: skip
def test_labels_of_a_scheme_beside_strange_ones(labels, strange):
    with refuses(InputError, f"'{strange}' (found 1×)", "'B-PER'", "--scheme plain"):
        detect_scheme([labels])


@pytest.mark.parametrize("labels", [
    ["NOUN", "VERB", "O"], ["Hepatitis-B", "Influenza", "O"], ["Vitamin-B", "Vitamin-E"],
    ["NN", "IN", "UH", "SYM", "LS"], ["nsubj", "obl:lmod", "I"], ["B_1", "B_2"],
    ["grade:A", "grade:B"],
    ["Hepatitis (A)", "Hepatitis (B)", "Influenza", "O"], ["BEGIN_TIME", "END_TIME", "O"],
    ["IN_STOCK", "O"], ["in", "out"], ["single", "married", "other"], ["start", "end"],
    ["NOUN", "X", "PAD"], ["S-BAR", "NP", "VP"], ["Vitamin (B)", "Vitamin (E)"],
    ["S.BAR", "S.INV"], ["1", "0", "3"], ["DET", "_"], ["IN", "BIN", "MD"],
    ["LEVEL_B", "O"],
])  # fmt: skip
def test_labels_that_resemble_a_scheme_by_chance_are_plain(labels):
    assert detect_scheme([labels]) == "plain"


def test_plain_is_plain_where_it_is_asked_for(tmp_path):
    path = tmp_path / "a.conll"
    path.write_text("Anna B_PER\nLi I_PER\nwon O\n")
    with refuses(InputError, str(path), "--scheme plain"):
        list(TaggedReader(path))
    (sentence,) = TaggedReader(path, TagColumns(scheme="plain"))
    assert sentence.labels == ("B_PER", "I_PER", "O")


def test_predictions_beside_gold_labels():
    with refuses(InputError, "'B_PER'"):
        scheme_of_predictions([["B_PER", "O"]], "IOB2")
    assert scheme_of_predictions([["B_PER", "O"]], "plain") == "plain"
