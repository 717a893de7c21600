"""Tokenizing: paragraphs of Wikipedia to token ids, on one thread, against the tokenizers library.

Each step reads the next part of the text, so that no cache has its words. The library's time ends
when its `Encoding` objects are made, ours when the ids are: those of a part in one array, or a list
for each paragraph. Both must give the same ids, which is checked first.
"""

import itertools
import lzma
from collections.abc import Iterator
from pathlib import Path

from benchmarks.speed.contest import Claim, Contender, Contest, call
from benchmarks.speed.plan import Plan
from benchmarks.speed.protocol import Gate

HERE = "benchmarks.speed.tokenizing"
THREADS = 1
CHECKED_BYTES = 2_000_000
STEP_BYTES = 500_000
TURN_STEPS = 6
"""Steps of a turn. They read 3 MB, so that a full run reads 18 MB of the file's 25."""


def checks(plan: Plan) -> Iterator[tuple[str, dict[str, float]]]:
    """Count paragraphs with other ids."""
    files = input_files(plan)
    yield "tokenizing", call(f"{HERE}:parity", plan, **files)


def contests(plan: Plan) -> Iterator[Contest]:
    """Yield the contest."""
    ours, peer = ("bertsmith", "bertsmith one by one"), "tokenizers"
    yield Contest(
        title="Tokenizing, paragraphs never seen",
        unit="MB/s",
        contenders=[
            *(
                Contender(
                    name, f"{HERE}:bertsmith", {**input_files(plan), "in_bulk": name == ours[0]}
                )
                for name in ours
            ),
            Contender(peer, f"{HERE}:tokenizers", input_files(plan)),
        ],
        claims=[Claim("tokenizing on one thread", ours, (peer,), is_shown=True)],
        notes=[
            "bert-base-uncased; `encode_batch_ids`, one by one `encode_ids`, against "
            "`encode_batch_fast`."
        ],
        steps=TURN_STEPS,
        threads=THREADS,
    )


def input_files(plan: Plan) -> dict[str, Path]:
    """Return the paths of the text and of the tokenizer's folder, by the names of options."""
    return {
        "text": plan.file("enwiki/train-00.txt.xz"),
        "tokenizer": plan.file("vocabs/bert-base-uncased"),
    }


def parts(text: str, size: int) -> Iterator[list[str]]:
    """Yield the paragraphs of a file in parts of about `size` bytes."""
    part, left = [], size
    with lzma.open(text, "rt", encoding="utf-8") as file:
        for line in file:
            if paragraph := line.strip():
                part.append(paragraph)
                left -= len(paragraph.encode())
            if left <= 0:
                yield part
                part, left = [], size


def bertsmith(gate: Gate, *, text: str, tokenizer: str, in_bulk: bool) -> None:
    """Run `encode_batch_ids` part by part, or `encode_ids` by paragraph."""
    from bertsmith.tokenization.auto import load_tokenizer

    ours = load_tokenizer(tokenizer)
    prepared = list(parts(text, STEP_BYTES))
    gate.wait()
    for part in prepared:
        if in_bulk:
            ours.encode_batch_ids(part)
        else:
            for paragraph in part:
                ours.encode_ids(paragraph)
        gate.step(STEP_BYTES / 1e6)


def tokenizers(gate: Gate, *, text: str, tokenizer: str) -> None:
    """Run `encode_batch_fast` part by part."""
    from tokenizers import Tokenizer

    theirs = Tokenizer.from_file(str(Path(tokenizer) / "tokenizer.json"))
    theirs.no_padding()
    theirs.no_truncation()
    prepared = list(parts(text, STEP_BYTES))
    gate.wait()
    for part in prepared:
        theirs.encode_batch_fast(part, add_special_tokens=False)
        gate.step(STEP_BYTES / 1e6)


def parity(text: str, tokenizer: str) -> dict[str, float]:
    """Count paragraphs with other ids."""
    from tokenizers import Tokenizer as Theirs

    from bertsmith.tokenization.auto import load_tokenizer

    ours = load_tokenizer(tokenizer)
    theirs = Theirs.from_file(str(Path(tokenizer) / "tokenizer.json"))
    [part] = itertools.islice(parts(text, CHECKED_BYTES), 1)
    encodings = theirs.encode_batch_fast(part, add_special_tokens=False)
    expected = [encoding.ids for encoding in encodings]
    ids, lengths = ours.encode_batch_ids(part)
    ends = lengths.cumsum()
    bulk = [ids[end - length : end].tolist() for end, length in zip(ends, lengths, strict=True)]
    single = [ours.encode_ids(paragraph) for paragraph in part]
    return {
        "texts": sum(mine != their for mine, their in zip(single, expected, strict=True)),
        "texts in bulk": sum(mine != their for mine, their in zip(bulk, expected, strict=True)),
    }
