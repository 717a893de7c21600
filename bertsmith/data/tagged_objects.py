"""Parse JSON objects that hold labelled words, or a text with entities.

Start and end of an entity count characters. An entity covers every word that it touches.
If it begins or ends within a word, it is counted among the `misaligned_entities`. If two entities
touch the same word, the object is refused, because a word has one label.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from bertsmith.data.columns import TagColumns
from bertsmith.data.examples import LABEL_COLUMNS
from bertsmith.data.json_rows import CutText, as_json, describe_cut_label, json_type, list_names
from bertsmith.data.label_schemes import Span, write_labels
from bertsmith.data.tagged import Remark, TaggedSentence
from bertsmith.data.tagged_checks import FOR_TEXTS, shorten_cell
from bertsmith.data.text_files import ExampleSource, locate_row
from bertsmith.errors import InputError, option
from bertsmith.tokenization.words import Offsets, find_words

WORD_KEYS = ("words", "tokens")
LABEL_KEYS = ("labels", "tags", "ner_tags", "pos_tags", "upos")
TEXT_KEYS = ("text", "sentence")

BRACKETS = dict(zip(("-LRB-", "-RRB-", "-LSB-", "-RSB-", "-LCB-", "-RCB-"), "()[]{}", strict=True))
"""Brackets by their names in the Penn Treebank, such as `-LRB-` for `(`, a left round bracket."""
ESCAPES = re.compile(r"-[LR][RSC]B-|\\[/*]")
"""Pattern of such a bracket, or of a slash or asterisk behind a backslash, as in that treebank."""
QUOTES = {"``": ('"', "“", "„", "«"), "''": ('"', "”", "“", "»"), "`": ("'", "‘"), "'": ("’",)}


class ObjectParser:
    """Parser of JSON objects to sentences.

    Args:
        source: the file or rows, for messages.
        columns: the keys of words and labels, if they are not the usual ones, and the rule by which
            texts are split into words.
        labelled: whether labels are read.
    """

    def __init__(self, source: ExampleSource, columns: TagColumns, labelled: bool) -> None:
        self.source = source
        self.columns = columns
        self.labelled = labelled

    def parse(self, item: tuple[int, Mapping[str, Any]]) -> TaggedSentence:
        """Parse an item, the number of a row and its object, to a sentence.

        Raises:
            InputError: a key is missing, a value is of another type, or words and labels or
                entities do not match.
        """
        row, record = item
        words_key = _first_key(record, self.columns.word_column, WORD_KEYS)
        text_key = _first_key(record, None, TEXT_KEYS)
        is_chosen = self.columns.word_column is not None
        if words_key and record[words_key] is None and text_key and not is_chosen:
            words_key = None  # a row of text in a file whose other rows have words
        if words_key is not None:  # labelled words, perhaps with the text that they are from
            words = self._check_strings(row, words_key, record[words_key])
            labels = self._read_labels(row, record, len(words)) if self.labelled else ()
            text = record.get(text_key) if text_key else None
            if not isinstance(text, str):
                return TaggedSentence(words, labels, row)
            text_and_offsets = align_words(text, words)
            remarks: tuple[Remark, ...] = () if text_and_offsets else ("unlocated_texts",)
            return TaggedSentence(words, labels, row, text_and_offsets, remarks=remarks)
        if self.columns.word_column or not text_key or not isinstance(record[text_key], str):
            keys = self.columns.word_column or '", "'.join((*WORD_KEYS, *TEXT_KEYS))
            raise self._refusal(
                row,
                f'no key "{keys}" with a sentence. Keys found: {list_names(record)}',
                'Each row holds {"words": [...], "labels": [...]}, or {"text": "...", '
                '"entities": [{"start": 0, "end": 4, "label": "..."}]}',
            )
        # a text, perhaps with entities
        text = record[text_key]
        offsets = find_words(text, self.columns.split or "words")
        words = tuple(text[start:end] for start, end in offsets)
        sentence = TaggedSentence(words, (), row, (text, tuple(offsets)))
        return self._with_entities(sentence, record) if self.labelled else sentence

    def _read_labels(self, row: int, record: Mapping[str, Any], num_words: int) -> tuple[str, ...]:
        """Return the label of each word.

        Raises:
            InputError: there is no list of labels, or not one label for each word.
        """
        key = _first_key(record, self.columns.label_column, LABEL_KEYS)
        if key is None:
            keys = self.columns.label_column or '", "'.join(LABEL_KEYS)
            raise self._refusal(
                row,
                f'no key "{keys}" with labels. Keys found: {list_names(record)}',
                f"Name the key of the labels with {option('label_column')}",
            )
        labels = self._check_strings(row, key, record[key])
        if len(labels) != num_words:
            raise self._refusal(
                row,
                f"the number of words is {num_words}, of labels {len(labels)}",
                "Give one label per word",
            )
        return labels

    def _check_strings(self, row: int, key: str, value: Any) -> tuple[str, ...]:
        """Return the words or labels under `key` as strings; labels may be numbers."""
        if not isinstance(value, list):
            raise self._refusal(
                row, f"'{key}' is {json_type(value)}; a list is expected", "Fix the row"
            )
        is_label = key not in (*WORD_KEYS, self.columns.word_column)
        for index, entry in enumerate(value):
            if is_label:
                self._check_label(row, entry)
            is_number = isinstance(entry, int | float) and not isinstance(entry, bool)
            if not ((isinstance(entry, str) and entry) or (is_label and is_number)):
                actual = "empty" if entry == "" else json_type(entry)
                raise self._refusal(
                    row, f"entry {index} of '{key}' is {actual}; a string is expected", "Fix it"
                )
        return tuple(map(str, value))

    def _check_label(self, row: int, label: Any) -> None:
        """Refuse a label that has half of a surrogate pair, as of an emoji that was cut in two."""
        if isinstance(label, CutText):
            raise InputError(
                f"{locate_row(self.source, row)}: {describe_cut_label(label.original)}"
            )

    def _with_entities(self, sentence: TaggedSentence, record: Mapping[str, Any]) -> TaggedSentence:
        """Return a sentence with the labels of its entities, in the scheme IOB2.

        Raises:
            InputError: the entities are no list, or one does not fit the text or the one before it.
        """
        row = sentence.row
        text = sentence.text
        offsets = sentence.offsets
        key = self.columns.label_column or "entities"
        entities = record.get(key)
        if not isinstance(entities, list):
            actual = "missing" if entities is None else json_type(entities)
            has_label = any(isinstance(record.get(name), str | int) for name in LABEL_COLUMNS)
            raise self._refusal(
                row,
                f"'{key}' is {actual}",
                'A list of {"start": 0, "end": 4, "label": "..."} is expected'
                + (f". {FOR_TEXTS.removesuffix('.')}" if has_label else ""),
            )
        spans: list[Span] = []
        remarks: list[Remark] = []
        starts = [start for start, _ in offsets]
        ends = [end for _, end in offsets]
        end_before = 0
        for start, end, label in sorted(self._parse_entity(row, text, entry) for entry in entities):
            # The words that end behind the entity's start and begin before its end.
            touched = range(bisect_right(ends, start), bisect_left(starts, end))
            if not touched:
                raise self._refusal(
                    row,
                    f"the entity {start} to {end} ('{label}') holds no word",
                    "Fix its start and end",
                )
            if spans and touched[0] < spans[-1].end:
                word_start, word_end = offsets[touched[0]]
                word = text[word_start:word_end]
                entity = f"the entity {start} to {end} ('{label}')"
                overlaps = start < end_before
                raise self._refusal(row, *self._describe_clash(entity, word, overlaps=overlaps))
            spans.append(Span(label, touched[0], touched[-1] + 1))
            end_before = end
            words_start, words_end = offsets[touched[0]][0], offsets[touched[-1]][1]
            is_exact = text[start:end].strip() == text[words_start:words_end]
            if not is_exact:
                remarks.append("misaligned_entities")
        labels = write_labels(spans, len(offsets), "IOB2")
        return replace(sentence, labels=tuple(labels), remarks=tuple(remarks))

    def _describe_clash(self, entity: str, word: str, *, overlaps: bool) -> tuple[str, str]:
        """Return problem and advice for an entity in a word that the entity before it covers."""
        advice = "keep one of the two"
        if overlaps:
            return f"{entity} overlaps the one before", f"A word has one label: {advice}"
        if self.columns.split != "characters":
            advice = f"pass {option('split', 'characters')}, or {advice}"
        fault = f"{entity} and the one before are in one word, '{shorten_cell(word)}'"
        return fault, f"A word has one label: {advice}"

    def _parse_entity(self, row: int, text: str, entry: Any) -> tuple[int, int, str]:
        """Return start, end and label of an entity, which is an object or a list of the three."""
        match entry:
            case {"start": int() as start, "end": int() as end, "label": str() as label}:
                pass
            case [int() as start, int() as end, str() as label]:
                pass
            case _:
                raise self._refusal(
                    row,
                    f"an entity is {str(entry)[:60]}",
                    '{"start": 0, "end": 4, "label": "..."} is expected',
                )
        self._check_label(row, label)
        if not (0 <= start < end <= len(text)) or not label:
            raise self._refusal(
                row,
                f"the entity {start} to {end} ('{label}') is not a part of the text, which has "
                f"{len(text)} characters, or has no label",
                "Count from 0, with the end one past the last character, and name the label",
            )
        return start, end, label

    def _refusal(self, row: int, problem: str, advice: str) -> InputError:
        """Build the error for a row that cannot be parsed."""
        return InputError(f"{locate_row(self.source, row)}: {problem}. {advice}.")


def parse_line(row: int, line: str, columns: TagColumns) -> TaggedSentence:
    """Parse a line of running text to a sentence without labels."""
    text = line.rstrip("\r\n")
    offsets = find_words(text, columns.split or "words")
    return TaggedSentence(
        tuple(text[start:end] for start, end in offsets), (), row, (text, tuple(offsets))
    )


def align_words(text: str, words: Iterable[str]) -> tuple[str, tuple[Offsets, ...]] | None:
    """Find words in a text, in order: return the text, and start and end of each word.

    The result is None if a word is missing. Words may have the escapes of treebanks (see
    `spellings`).

    >>> align_words('say "(no)"', ["say", "``", "-LRB-", "no", "-RRB-", "''"])[1]
    ((0, 3), (4, 5), (5, 6), (6, 8), (8, 9), (9, 10))
    """
    offsets: list[Offsets] = []
    end_before = 0
    for word in words:
        matches = [(text.find(form, end_before), len(form)) for form in spellings(word)]
        matches = [(start, size) for start, size in matches if start >= 0]
        if not matches:
            return None
        # The first match, and of two that begin together the longer one.
        start, size = min(matches, key=lambda match: (match[0], -match[1]))
        end_before = start + size
        offsets.append((start, end_before))
    return text, tuple(offsets)


def spellings(word: str) -> tuple[str, ...]:
    """Return a word as it is, and the forms that it may have in the text if it is an escape.

    The escapes are those of the Penn Treebank: brackets (`-LRB-`), slashes and asterisks (`\\/`),
    and quotation marks, which are words of their own.
    """
    if word in QUOTES:
        return (word, *QUOTES[word])
    plain = ESCAPES.sub(lambda match: BRACKETS.get(match[0]) or match[0][1], word)
    return (word,) if plain == word else (word, plain)


def word_labels(row: Mapping[str, Any], label_column: str | None) -> list[Any]:
    """Return the labels of a row's words with the types that they have; empty if it has none."""
    values = {str(key): value for key, value in row.items()}
    key = _first_key(values, label_column, LABEL_KEYS)
    labels = as_json(values[key]) if key else []
    return labels if isinstance(labels, list) else []


def _first_key(record: Mapping[str, Any], chosen: str | None, usual: Sequence[str]) -> str | None:
    """Return the chosen key, or else the first of the usual ones, that an object has."""
    keys = (chosen,) if chosen else usual
    return next((key for key in keys if key in record), None)
