"""Write bertsmith/tokenization/unicode_tables.py: the classes of characters in `tokenizers`.

Run `python tools/generate_unicode_tables.py` after the pinned `tokenizers` has changed. Every code
point is put through the library's own normalizers, so the tables hold what it does, whatever
mixture of Unicode versions it was built with.
"""

import struct
import textwrap
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import tokenizers
from tokenizers import AddedToken, Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import NFD, NFKD, BertNormalizer, Precompiled, StripAccents
from tokenizers.pre_tokenizers import BertPreTokenizer, ByteLevel

TARGET = Path(__file__).parents[1] / "bertsmith" / "tokenization" / "unicode_tables.py"
SURROGATES = range(0xD800, 0xE000)
CHARACTERS = [chr(code) for code in range(0x110000) if code not in SURROGATES]
HIGHEST_CLASS = "\u0345"  # the only mark of combining class 240: every other mark moves before it

HEADER = '''"""Tables of characters as ranges of code points, such as white space and punctuation.

Written by tools/generate_unicode_tables.py from tokenizers {version}; do not edit. The tables do
not come from `unicodedata`, for two reasons: the tokenizers library mixes several Unicode versions;
and Python's version changes with each release, but a corpus must not change with the interpreter. A
table is ranges "first-last" of hexadecimal code points, both ends included.
"""
'''


def changed(normalize: Callable[[str], str]) -> dict[str, str]:
    """Map the characters that `normalize` changes to their results."""
    return {char: new for char in CHARACTERS if (new := normalize(char)) != char}


def bert_step(**enabled: bool) -> Callable[[str], str]:
    """Build one step of the BERT normalizer, the others switched off."""
    steps = dict.fromkeys(
        ("clean_text", "handle_chinese_chars", "strip_accents", "lowercase"), False
    )
    return BertNormalizer(**steps | enabled).normalize_str


def cut_around(char: str) -> int:
    """Count the pieces of "a{char}a": 1 for a letter, 2 for a space, 3 for punctuation."""
    return len(BertPreTokenizer().pre_tokenize_str(f"a{char}a"))


def is_word_character(char: str, probe: Tokenizer) -> bool:
    """Return whether a single-word token right after `char` is refused."""
    return probe.token_to_id("[Q]") not in probe.encode(f"{char}[Q]").ids


def single_word_probe() -> Tokenizer:
    """Build a tokenizer with one added token, [Q], that is found only as a whole word."""
    probe = Tokenizer(WordPiece({"[UNK]": 0, "[Q]": 1}, unk_token="[UNK]"))
    probe.add_tokens([AddedToken("[Q]", single_word=True, normalized=False)])
    return probe


def ranges(characters: Iterable[str]) -> Iterator[tuple[int, int]]:
    """Yield the first and last code point of each run of neighbouring characters."""
    first = last = -2
    for code in sorted(map(ord, characters)):
        if code != last + 1:
            if last >= 0:
                yield first, last
            first = code
        last = code
    yield first, last


def write_ranges(characters: Iterable[str]) -> str:
    """Write characters as ranges: "41-5a 61"."""
    return " ".join(f"{a:x}-{b:x}" if a != b else f"{a:x}" for a, b in ranges(characters))


def shift_runs(pairs: dict[str, str]) -> list[list[int]]:
    """Group one-to-one maps into runs [first, last, stride, shift].

    Every `stride`-th code point from `first` to `last` is mapped to the one that is `shift` higher.
    """
    runs: list[list[int]] = []
    for upper, lower in sorted(pairs.items()):
        code, shift = ord(upper), ord(lower) - ord(upper)
        if runs and runs[-1][3] == shift:
            first, last, stride, _ = runs[-1]
            step = code - last
            if step == stride or (first == last and step in (1, 2)):
                runs[-1][1:3] = [code, step]
                continue
        runs.append([code, code, 1, shift])
    return runs


def write_shifts(pairs: dict[str, str]) -> str:
    return " ".join(
        f"{first:x}-{last:x}/{stride}{shift:+x}" for first, last, stride, shift in shift_runs(pairs)
    )


def write_table(name: str, comment: str, table: str) -> str:
    wrapped = textwrap.fill(table, 99, break_on_hyphens=False, break_long_words=False)
    return f'\n# {comment}\n{name} = """\n{wrapped}\n"""\n'


def continues(start: str, pre_tokenizer: ByteLevel) -> Iterator[str]:
    """Yield the characters that GPT-2's pattern leaves in one piece with `start`."""
    return (c for c in CHARACTERS if len(pre_tokenizer.pre_tokenize_str(start + c)) == 1)


def replacing(key: str) -> Callable[[str], str]:
    """Build a SentencePiece normalizer with one rule: `key` becomes "B".

    The rule is a trie in the format of darts-clone, an array of 32-bit units, followed by the
    replacement. Bits 0 to 7 of a unit hold its label, a byte of the key. The bits from 10 on hold
    the xor of its own index and the base of its children; the child of byte b has the index
    base ^ b. Bit 8 marks a unit at which a key ends: its child 0 has bit 31 and, in the other bits,
    the offset of the replacement, which is 0 here.
    """
    units = [0] * 256 * (len(key.encode()) + 2)  # each level of the trie has its own 256 units
    state = 0
    for number, byte in enumerate(key.encode(), start=1):
        base = 256 * number
        units[state] |= (state ^ base) << 10
        state = base ^ byte
        units[state] = byte
    base = 256 * (len(key.encode()) + 1)
    units[state] |= (state ^ base) << 10 | 1 << 8
    units[base] = 1 << 31
    trie = struct.pack(f"<{len(units)}I", *units)
    return Precompiled(struct.pack("<I", len(trie)) + trie + b"B\0").normalize_str


def clusters() -> Iterator[tuple[str, str, str]]:
    """Yield name, comment and content of the tables of grapheme clusters.

    `Precompiled` replaces whole clusters only, so its replacements show which characters join.
    """
    replace = replacing("A")
    yield (
        "JOINING",
        "Characters that belong to the grapheme cluster of the character before.",
        write_ranges(char for char in CHARACTERS if replace(f"A{char}") == "B"),
    )
    replace_marked = replacing("A\u0301")
    yield (
        "PREPENDED",
        "Characters that belong to the grapheme cluster of the character after.",
        write_ranges(c for c in CHARACTERS if "B" not in replace_marked(f"{c}A\u0301")),
    )
    replace_mark = replacing("\u0301")
    yield (
        "APART",
        "Characters to which no other character joins.",
        write_ranges(c for c in CHARACTERS if replace_mark(f"{c}\u0301\u0301") == f"{c}B"),
    )


def tables() -> Iterator[tuple[str, str, str]]:
    """Yield name, comment and content of each table."""
    cleaned = changed(bert_step(clean_text=True))
    decomposed = changed(NFD().normalize_str)
    stripped = changed(bert_step(strip_accents=True))
    lowered = changed(bert_step(lowercase=True))
    cuts = {char: n for char in CHARACTERS if (n := cut_around(char)) > 1}
    probe = single_word_probe()
    reordered = (
        char
        for char in CHARACTERS
        if char == HIGHEST_CLASS
        or (
            char not in decomposed
            and NFD().normalize_str(f"a{HIGHEST_CLASS}{char}") != f"a{HIGHEST_CLASS}{char}"
        )
    )

    yield (
        "REMOVED",
        "Characters that cleaning removes: controls, formats, private use, U+0000 and U+FFFD.",
        write_ranges(char for char, new in cleaned.items() if not new),
    )
    yield (
        "WHITESPACE",
        "White space. Cleaning removes some of it, and turns the rest into plain spaces.",
        write_ranges(char for char, n in cuts.items() if n == 2),
    )
    yield (
        "PUNCTUATION",
        "Punctuation: each character is a word of its own.",
        write_ranges(char for char, n in cuts.items() if n == 3),
    )
    yield (
        "CHINESE",
        "Chinese characters: with `tokenize_chinese_chars`, each is a word of its own.",
        write_ranges(changed(bert_step(handle_chinese_chars=True))),
    )
    yield (
        "NONSPACING",
        "Marks that stripping accents removes.",
        write_ranges(char for char, new in stripped.items() if not new and char not in decomposed),
    )
    yield (
        "DECOMPOSED",
        "Characters that canonical decomposition changes. `unicodedata` gives the results, since\n"
        "# Unicode promises never to change the decomposition of a character that exists.",
        write_ranges(decomposed),
    )
    yield (
        "REORDERED",
        "Marks of a combining class above 0. `unicodedata` gives the class, which "
        "never changes either.",
        write_ranges(reordered),
    )
    yield (
        "LOWERCASE",
        'Upper case to lower case: "first-last/stride+shift", where the shift is hexadecimal, too.',
        write_shifts({upper: lower for upper, lower in lowered.items() if len(lower) == 1}),
    )
    yield (
        "WORD",
        "Word characters: a single-word added token may not touch them.",
        write_ranges(char for char in CHARACTERS if is_word_character(char, probe)),
    )
    byte_level = ByteLevel(add_prefix_space=False)
    yield "LETTER", "Letters, in GPT-2's pattern.", write_ranges(continues("a", byte_level))
    yield "NUMBER", "Numbers, in GPT-2's pattern.", write_ranges(continues("1", byte_level))
    yield (
        "COMPATIBLE",
        "Characters that compatibility decomposition changes; `unicodedata` gives the results.",
        write_ranges(changed(NFKD().normalize_str)),
    )
    strip = StripAccents().normalize_str
    yield (
        "MARK",
        "Marks that SentencePiece models have removed.",
        write_ranges(char for char in CHARACTERS if strip(f"a{char}") == "a"),
    )
    yield from clusters()


def main() -> None:
    """Write the module; tell of anything that the tables cannot hold."""
    longer = {u: low for u, low in changed(bert_step(lowercase=True)).items() if len(low) > 1}
    if longer != {"\u0130": "i\u0307"}:
        raise SystemExit(f"normalize.py knows one letter with two lower-case ones, found {longer}")
    parts = [HEADER.format(version=tokenizers.__version__)]
    parts += [write_table(*table) for table in tables()]
    TARGET.write_text("".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
