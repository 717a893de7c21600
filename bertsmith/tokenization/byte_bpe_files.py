"""Files of byte-level BPE tokenizers (RoBERTa, ModernBERT): reading and writing.

`tokenizer.json` is read if it exists, else `vocab.json` with `merges.txt`. A setting that would
change token ids and is not supported is rejected by name, as in `tokenizer_files`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bertsmith.errors import CheckpointError
from bertsmith.system.checksums import recording_checksums
from bertsmith.system.files import atomic_write, write_json
from bertsmith.system.small_files import SmallFiles
from bertsmith.tokenization.tokenizer_config import config_settings, folder_settings, follow_config
from bertsmith.tokenization.tokenizer_files import (
    PLAIN_CLASS,
    TOKENIZER_CONFIG_FILE,
    TOKENIZER_FILE,
    Json,
    TokenizerSource,
    bert_post_processor,
    check_parts,
    read_added_tokens,
    read_bert_post_processor,
    read_value,
    read_vocab_ids,
    shared_config,
    tokenizer_object,
)

VOCAB_JSON = "vocab.json"
MERGES_FILE = "merges.txt"
VERSION_LINE = "#version"
MAX_UNMERGED = 16
"""An intact file may have this many tokens that no merge makes, and 1 % of the vocabulary more."""
# The type of each part that a tokenizer.json must have.
BYTE_BPE_KINDS = {"model": "BPE", "pre_tokenizer": "ByteLevel", "decoder": "ByteLevel"}
# Part, key and value of the settings whose other values would change ids.
BYTE_BPE_FIXED = (
    ("model", "dropout", None),
    ("model", "continuing_subword_prefix", ""),
    ("model", "end_of_word_suffix", ""),
    ("model", "byte_fallback", False),
    ("model", "ignore_merges", False),
    ("pre_tokenizer", "use_regex", True),
)

NFC = {"type": "NFC"}
SPACES = {"add_prefix_space": False, "trim_offsets": True}
"""Settings that decide how spaces are treated, with the defaults of transformers' classes."""

Merges = list[tuple[str, str]]


def read_byte_bpe(source: TokenizerSource) -> tuple[list[str], Merges, Json]:
    """Read the vocabulary, the merges and the `ByteBpeTokenizer` settings of a file.

    Args:
        source: the file, with the parsed content of a tokenizer.json (`root`, None for a
            vocab.json) and of the tokenizer_config.json beside it (`config`).

    Raises:
        CheckpointError: the file is damaged, or holds a tokenizer of another kind.
    """
    config = source.config or {}
    files = source.files
    if source.root is not None:
        return _read_tokenizer_json(source.path, source.root, config)
    for name, other in ((VOCAB_JSON, MERGES_FILE), (MERGES_FILE, VOCAB_JSON)):
        if not files.has(name):
            raise CheckpointError(
                f"{files.path(name)}: missing, and {other} is of no use without it. Copy it "
                "as well."
            )
    vocab = read_vocab_ids(files.read_json(VOCAB_JSON), source.path)
    merges = _read_merges(files)
    _check_complete(vocab, merges, files.path(MERGES_FILE))
    names = {name: name for name in SPACES}  # keys of the file, and our names of the settings
    return vocab, merges, folder_settings(config, names, vocab, files.path(TOKENIZER_CONFIG_FILE))


def _read_merges(files: SmallFiles) -> Merges:
    """Read a merges.txt: two pieces with a space between them in each line."""
    path = files.path(MERGES_FILE)
    try:
        lines = files.read(MERGES_FILE).decode("utf-8-sig").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise CheckpointError(
            f"{path}: byte {error.start:,} is not UTF-8. Get the file again."
        ) from error
    numbered = [
        (number, line.removesuffix("\r"))
        for number, line in enumerate(lines, start=1)
        if line and not line.startswith(VERSION_LINE)
    ]
    return [_read_merge(line, f"{path}:{number}") for number, line in numbered]


def _check_complete(vocab: Sequence[str], merges: Merges, path: Path) -> None:
    """Reject a truncated file: if a merge is missing, no text has the token that it makes.

    In intact files, too, there are tokens that no merge makes: the special tokens, and RoBERTa's
    fillers ("madeupword").
    """
    merged = {left + right for left, right in merges}
    unmerged = [piece for piece in vocab if len(piece) > 1 and piece not in merged]
    if len(unmerged) > MAX_UNMERGED + len(vocab) // 100:
        raise CheckpointError(
            f"{path}: cut off, or of another vocabulary: none of its {len(merges):,} merges makes "
            f"{unmerged[-1]!r} and {len(unmerged) - 1:,} more of the {len(vocab):,} pieces of "
            f"{VOCAB_JSON}. Get both files again."
        )


def _read_merge(merge: Any, location: str) -> tuple[str, str]:
    """Read the two pieces of a merge, from a line or from a pair in JSON.

    Args:
        location: file and line of the merge, for messages.
    """
    match merge.split(" ") if isinstance(merge, str) else merge:
        case [str(left), str(right)] if left and right:
            return left, right
    raise CheckpointError(
        f"{location}: found {str(merge)[:60]!r}, where two pieces with a space between "
        "them are due. Get the file again."
    )


def _read_tokenizer_json(path: Path, root: Json, config: Json) -> tuple[list[str], Merges, Json]:
    """Read the vocabulary, the merges and the settings from `root`, the content of the file."""
    composes = root.get("normalizer") == NFC
    # The check allows no normalizer; NFC is ModernBERT's and is taken out before.
    parts = check_parts(
        root | {"normalizer": None} if composes else root, BYTE_BPE_KINDS, BYTE_BPE_FIXED, path
    )
    model = parts["model"]
    vocab = read_vocab_ids(read_value(model, "vocab", dict, path), path)
    merges = [
        _read_merge(merge, f"{path}: merge {number:,}")
        for number, merge in enumerate(read_value(model, "merges", list, path), start=1)
    ]
    added = read_value(root, "added_tokens", list, path, default=[])
    settings = config_settings(config, path.with_name(TOKENIZER_CONFIG_FILE)) | {
        "add_prefix_space": read_value(
            parts["pre_tokenizer"], "add_prefix_space", bool, path, default=True
        ),
        "added_tokens": read_added_tokens(added, vocab, path),
        "composes": composes,
    }
    settings |= _read_post_processor(root.get("post_processor"), path)
    # ModernBERT's post-processor does not trim offsets, and no setting changes that.
    is_roberta = "num_separators" not in settings
    names = {name: name for name in SPACES if is_roberta or name != "trim_offsets"}
    follow_config(settings, config, kind="byte-bpe", names=names, defaults=SPACES, path=path)
    return vocab, merges, settings


def _read_post_processor(processor: Any, path: Path) -> Json:
    """Read how special tokens are put around texts, by RoBERTa's post-processor or ModernBERT's.

    Raises:
        CheckpointError: the file has another post-processor, or none.
    """
    match processor:
        case {
            "type": "TemplateProcessing",
            "pair": [*_, {"SpecialToken": {"type_id": int(type_id)}}],
        }:
            names = read_bert_post_processor(processor, path, type_id)
            return {**names, "trim_offsets": False, "num_separators": 1, "pair_type_id": type_id}
        case {
            "type": "RobertaProcessing",
            "sep": [str(sep_token), _],
            "cls": [str(cls_token), _],
            "trim_offsets": bool(trim_offsets),
        }:
            return {
                "cls_token": cls_token,
                "sep_token": sep_token,
                "trim_offsets": trim_offsets,
            }
    kind = processor.get("type") if isinstance(processor, dict) else None
    raise CheckpointError(
        f"{path}: its post_processor ({kind or 'absent'}) does not build <s> A </s></s> B </s> or "
        "[CLS] A [SEP] B [SEP]. Choose a RoBERTa or ModernBERT checkpoint."
    )


def write_byte_bpe(
    directory: Path,
    pieces: Sequence[str],
    merges: Sequence[tuple[str, str]],
    ids: Mapping[str, int],
    settings: Json,
) -> None:
    """Write vocab.json, merges.txt, tokenizer.json and tokenizer_config.json, each atomically.

    Args:
        directory: created if missing; other files in it stay.
        pieces: the vocabulary of BPE, by id.
        ids: the id of every token, added ones included.
        settings: the result of `ByteBpeTokenizer.settings`.
    """
    vocab = {piece: id_ for id_, piece in enumerate(pieces)}
    lines = [f"{left} {right}" for left, right in merges]
    own = {name: settings[name] for name in SPACES}
    with recording_checksums(
        directory, VOCAB_JSON, MERGES_FILE, TOKENIZER_FILE, TOKENIZER_CONFIG_FILE
    ):
        write_json(directory / VOCAB_JSON, vocab)
        with atomic_write(directory / MERGES_FILE, "w") as file:
            file.writelines(f"{line}\n" for line in (f"{VERSION_LINE}: 0.2", *lines))
        write_json(directory / TOKENIZER_FILE, _tokenizer_object(vocab, lines, ids, settings))
        # RobertaTokenizer always puts two separators between texts.
        name = "RobertaTokenizer" if settings["num_separators"] > 1 else PLAIN_CLASS
        write_json(directory / TOKENIZER_CONFIG_FILE, shared_config(name, own, ids, settings))


def _tokenizer_object(
    vocab: Mapping[str, int], merges: Sequence[str], ids: Mapping[str, int], settings: Json
) -> Json:
    """Build the content of tokenizer.json: RoBERTa's with two separators, else ModernBERT's."""
    spaces = {name: settings[name] for name in SPACES}
    cls_token, sep_token = settings["cls_token"], settings["sep_token"]
    processor = bert_post_processor(ids, settings, settings["pair_type_id"])
    if settings["num_separators"] > 1:
        processor = {
            "type": "RobertaProcessing",
            "sep": [sep_token, ids[sep_token]],
            "cls": [cls_token, ids[cls_token]],
            **spaces,
        }
    return tokenizer_object(
        ids,
        settings,
        normalizer=NFC if settings["composes"] else None,
        pre_tokenizer={"type": "ByteLevel", **spaces, "use_regex": True},
        post_processor=processor,
        decoder={"type": "ByteLevel", **spaces, "use_regex": True},
        model={
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": "",
            "end_of_word_suffix": "",
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": vocab,
            "merges": merges,
        },
    )
