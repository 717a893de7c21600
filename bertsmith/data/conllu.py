"""Parse CoNLL-U: the ten columns of Universal Dependencies.

The parts of a multi-word token (`8 do`, `9 n't` of `8-9 don't`) are the words, since they have the
labels. An empty node (`8.1`) is not part of the text and is left out. Multi-word tokens and empty
nodes are counted. A block (`LineBlock`) has the lines of one sentence.
"""

import re
from collections.abc import Sequence

from bertsmith.data.columns import TagColumns
from bertsmith.data.conll import LineBlock
from bertsmith.data.tables import column_index
from bertsmith.data.tagged import Remark, TaggedSentence
from bertsmith.errors import InputError, option
from bertsmith.tokenization.words import Offsets

CONLLU_FIELDS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
CONLLU_ID = re.compile(r"(\d{1,9})(?:([-.])(\d{1,9}))?")
"""Number of a word (`8`) or an empty node (`8.1`), or the range of a multi-word token (`8-9`)."""
MAY_BE_EMPTY = {"feats", "deps", "misc"}
"""Columns where `_` means that there is nothing to say; elsewhere it is a missing label."""


class ConlluParser:
    """Parser of CoNLL-U blocks that also restores the untokenized text.

    Args:
        source_name: the file's name in messages.
        columns: names or numbers of CoNLL-U's columns for word and label; form and upos if None.
        labelled: whether labels are read.
    """

    def __init__(self, source_name: str, columns: TagColumns, labelled: bool) -> None:
        self.source_name = source_name
        self.labelled = labelled
        self._word_index = self._find_column("word", columns.word_column or "form")
        self._label_index = self._find_column("label", columns.label_column or "upos")

    def parse(self, block: LineBlock) -> TaggedSentence | None:
        """Parse a block; None if it has no words.

        Raises:
            InputError: a row that is not CoNLL-U, or a word without a label.
        """
        lines = [(row, line) for row, line in block.rows if not line.startswith("#")]
        rows = [(row, self._split_row(row, line)) for row, line in lines]
        words = [(row, cells) for row, cells in rows if cells[0].isdecimal()]
        if not words:
            return None
        labels = [self._check_label(row, cells) for row, cells in words] if self.labelled else []
        forms = tuple(cells[self._word_index] for _, cells in words)
        text_and_offsets: tuple[str, tuple[Offsets, ...]] | None = locate_forms(
            [cells for _, cells in rows]
        )
        if self._word_index != CONLLU_FIELDS.index("form"):
            text_and_offsets = None  # lemmas are not in the text
        remark_of_mark: dict[str, Remark] = {"-": "multiword_tokens", ".": "empty_nodes"}
        ids = (CONLLU_ID.fullmatch(cells[0]) for _, cells in rows)
        remarks = tuple(remark_of_mark[id_[2]] for id_ in ids if id_ is not None and id_[2])
        template = "" if self.labelled else self._make_template(block)
        return TaggedSentence(
            forms, tuple(labels), row=words[0][0], text_and_offsets=text_and_offsets,
            remarks=remarks, template=template,
        )  # fmt: skip

    def _make_template(self, block: LineBlock) -> str:
        """Return the lines of a block, with a NUL in place of the label of each word.

        The predicted labels are written in place of the NULs later. A NUL of the file itself
        becomes a space.
        """
        lines = []
        for _, line in block.rows:
            cells = line.replace("\0", " ").split("\t")
            if cells[0].isdecimal():
                cells[self._label_index] = "\0"
            lines.append("\t".join(cells) + "\n")
        return "".join(lines)

    def _split_row(self, row: int, line: str) -> list[str]:
        """Split a row into its ten cells.

        Raises:
            InputError: the row has other columns, an empty one, or a wrong number.
        """
        cells = line.split("\t")
        if len(cells) != len(CONLLU_FIELDS):
            raise InputError(
                f"{self.source_name}:{row}: columns between tabs: found {len(cells)}, where "
                f"CoNLL-U has {len(CONLLU_FIELDS)}. Fix the row, or pass "
                f"{option('format', 'conll')} for other columns."
            )
        number = CONLLU_ID.fullmatch(cells[0])
        if number is None:
            raise InputError(
                f"{self.source_name}:{row}: the first column is '{cells[0]}'; CoNLL-U has the "
                "word's number there (8), a range (8-9) or an empty node (8.1). Fix the row."
            )
        if number[2] == "-" and int(number[3]) < int(number[1]):
            raise InputError(
                f"{self.source_name}:{row}: the range '{cells[0]}' ends before it begins; CoNLL-U "
                f"has the numbers of its first and last word there ({number[3]}-{number[1]}). Fix "
                f"the row, or pass {option('skip_incomplete', True)} (skipped sentences are "
                "counted)."
            )
        if not cells[1]:
            raise InputError(f"{self.source_name}:{row}: the word is empty. Fix the row.")
        empty = [name for name, cell in zip(CONLLU_FIELDS, cells, strict=True) if not cell.strip()]
        if empty:
            raise InputError(
                f"{self.source_name}:{row}: '{empty[0]}' of the word '{cells[1]}' is empty; where "
                "there is nothing to say, CoNLL-U has '_'. Fix the row, or pass "
                f"{option('skip_incomplete', True)} (skipped sentences are counted)."
            )
        return cells

    def _check_label(self, row: int, cells: Sequence[str]) -> str:
        """Return the label of a row's word; refuse an empty one."""
        label = cells[self._label_index]
        name = CONLLU_FIELDS[self._label_index]
        if not label or (label == "_" and name not in MAY_BE_EMPTY):
            raise InputError(
                f"{self.source_name}:{row}: '{name}' of the word '{cells[1]}' is empty. Fix the "
                f"row, or pass {option('skip_incomplete', True)} (skipped sentences are counted)."
            )
        return label

    def _find_column(self, role: str, chosen: str) -> int:
        """Return the index of the column that the user chose for words or labels."""
        if chosen.lower() in CONLLU_FIELDS:
            return CONLLU_FIELDS.index(chosen.lower())
        index = column_index(chosen, len(CONLLU_FIELDS))
        if index is None:
            raise InputError(
                f"{self.source_name}: CoNLL-U has no column '{chosen}' for the {role}. Its "
                f"columns: {', '.join(CONLLU_FIELDS)}. Give {option(f'{role}_column')} one of "
                "them, or its number."
            )
        return index


def locate_forms(rows: Sequence[Sequence[str]]) -> tuple[str, tuple[Offsets, ...]]:
    """Rebuild a sentence's text from CoNLL-U rows, and locate its words.

    A space follows each word, unless the last column of the word has `SpaceAfter=No`. The parts of
    a multi-word token are the words with the numbers of its range. They have their own offsets if
    they spell the token (`do` + `n't`), else all of them have the token's offsets (French `de` +
    `le` in `du`).
    """
    text = ""
    offsets: list[Offsets] = []
    parts: list[str] = []  # of the multi-word token that was read last
    token_offsets = (0, 0)
    part_numbers = range(0)  # the numbers of this token's parts
    for cells in rows:
        # "8" gives ("8", None, None), "8-9" ("8", "-", "9"), and "8.1" ("8", ".", "1").
        first, mark, last = CONLLU_ID.fullmatch(cells[0]).groups()  # type: ignore[union-attr]
        if mark == ".":
            continue
        if mark is None and int(first) in part_numbers:
            parts.append(cells[1])
            continue
        offsets += _part_offsets(parts, text, token_offsets)
        parts = []
        start = len(text)
        text += cells[1]
        token_offsets = (start, len(text))
        part_numbers = range(int(first), int(last) + 1) if mark == "-" else range(0)
        if not part_numbers:
            offsets.append(token_offsets)
        if "SpaceAfter=No" not in cells[9].split("|"):
            text += " "
    offsets += _part_offsets(parts, text, token_offsets)
    return text.removesuffix(" "), tuple(offsets)


def _part_offsets(parts: Sequence[str], text: str, token: Offsets) -> list[Offsets]:
    """Return the offsets of the parts of a multi-word token, whose own offsets are `token`."""
    start, end = token
    spelling = "".join(parts)
    # Some letters, such as İ, are longer in lower case, so the lengths are compared as well.
    if len(spelling) != end - start or spelling.lower() != text[start:end].lower():
        return [token] * len(parts)
    offsets: list[Offsets] = []
    for part in parts:
        offsets.append((start, start + len(part)))
        start += len(part)
    return offsets
