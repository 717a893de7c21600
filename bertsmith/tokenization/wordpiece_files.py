"""Files of WordPiece tokenizers (BERT, DistilBERT, ELECTRA): reading and writing.

`tokenizer.json` is read if it exists, else `vocab.txt` with the files that old and new versions of
transformers put beside it: `tokenizer_config.json`, `special_tokens_map.json`, `added_tokens.json`.
For case, accents and Chinese characters `tokenizer_config.json` has precedence, as in transformers;
`follow_config` warns if the two files differ.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from bertsmith.errors import CheckpointError, warn_once
from bertsmith.system.checksums import recording_checksums
from bertsmith.system.files import atomic_write, write_json
from bertsmith.system.small_files import SmallFiles
from bertsmith.tokenization.added_tokens import AddedToken
from bertsmith.tokenization.tokenizer_class import is_of_class
from bertsmith.tokenization.tokenizer_config import config_settings, folder_settings, follow_config
from bertsmith.tokenization.tokenizer_files import (
    TOKENIZER_CONFIG_FILE,
    TOKENIZER_FILE,
    VOCAB_FILE,
    Json,
    TokenizerSource,
    bert_post_processor,
    check_parts,
    check_range,
    read_added_tokens,
    read_bert_post_processor,
    read_value,
    read_vocab_ids,
    shared_config,
    tokenizer_object,
)

# Keys of tokenizer_config.json that say how text is normalized, with the names that these settings
# have in `WordPieceTokenizer`.
NORMALIZATION = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "tokenize_chinese_chars",
}
# Values of these keys in transformers' classes if they are absent.
NORMALIZATION_DEFAULTS = {
    "do_lower_case": True,
    "strip_accents": None,
    "tokenize_chinese_chars": True,
}
# The type of each part that a tokenizer.json must have.
WORDPIECE_KINDS = {
    "model": "WordPiece",
    "normalizer": "BertNormalizer",
    "pre_tokenizer": "BertPreTokenizer",
    "decoder": "WordPiece",
}
# Part, key and value of the settings whose other values would change ids.
WORDPIECE_FIXED = (
    ("normalizer", "clean_text", True),
    ("model", "continuing_subword_prefix", "##"),
    ("decoder", "prefix", "##"),
)


def read_wordpiece(source: TokenizerSource) -> tuple[list[str], Json]:
    """Read the vocabulary and the `WordPieceTokenizer` settings of a file.

    Args:
        source: the file, with the parsed content of a tokenizer.json (`root`, None for a vocab.txt)
            and of the tokenizer_config.json beside it (`config`, None for a file by itself).

    Raises:
        CheckpointError: the file is damaged, or holds a tokenizer of another kind.
    """
    config = source.config
    if source.root is not None:
        vocab, settings = _read_tokenizer_json(source.path, source.root, config or {})
        if config is not None and source.files.has(VOCAB_FILE):
            _compare_vocab(source.files, vocab, settings["added_tokens"])
        return vocab, settings
    vocab = _read_vocab(source.files, source.name)
    config_path = source.files.path(TOKENIZER_CONFIG_FILE)
    return vocab, folder_settings(config or {}, NORMALIZATION, vocab, config_path)


def _read_vocab(files: SmallFiles, name: str) -> list[str]:
    """Read the lines of a vocab.txt, one piece each.

    Lines end in a line feed. If all of them end in a carriage return and a line feed, the carriage
    returns are dropped.
    """
    content = files.read(name)
    path = files.path(name)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise CheckpointError(
            f"{path}:{line}: byte {error.start:,} is not UTF-8. A vocabulary is UTF-8 text with "
            "one piece per line; get the file again or convert it."
        ) from error
    # Not splitlines(): a vocabulary may well hold U+2028 or U+0085.
    lines = text.removesuffix("\n").split("\n") if text else []
    if len(lines) > 1 and all(line.endswith("\r") for line in lines[:-1]):
        lines = [line.removesuffix("\r") for line in lines]
    return lines


def _compare_vocab(files: SmallFiles, vocab: Sequence[str], added: Sequence[AddedToken]) -> None:
    """Warn if a vocab.txt gives other ids than the tokenizer.json beside it, which is used.

    After the tokens of the tokenizer.json's vocabulary, the vocab.txt may list added tokens.
    """
    try:
        lines = _read_vocab(files, VOCAB_FILE)
    except CheckpointError as error:
        problem = str(error).partition(". ")[0]  # without its advice
    else:
        if lines == vocab:
            return
        pieces = set(vocab)
        expected = [*vocab, *(token.content for token in added if token.content not in pieces)]
        # Right are the whole vocabulary, and as many added tokens as the file lists.
        if lines == expected[: max(len(lines), len(vocab))]:
            return
        pairs = zip(lines, expected, strict=False)
        differing = [id_ for id_, (line, token) in enumerate(pairs) if line != token]
        id_ = differing[0] if differing else min(len(lines), len(expected))
        from_json, from_vocab = (
            repr(tokens[id_]) if id_ < len(tokens) else "nothing" for tokens in (expected, lines)
        )
        problem = (
            f"{files.path(VOCAB_FILE)}: id {id_:,} is {from_vocab}, and {from_json} in "
            f"{TOKENIZER_FILE}"
        )
        if len(differing) > 1:
            problem += f"; {len(differing):,} ids differ"
    warn_once(f"{problem}. {TOKENIZER_FILE} is used; copy both again, or remove the wrong one.")


def _read_tokenizer_json(path: Path, root: Json, config: Json) -> tuple[list[str], Json]:
    """Read vocabulary and settings of a tokenizer.json.

    `config` is the tokenizer_config.json, which has settings that a tokenizer.json cannot hold.
    """
    parts = check_parts(root, WORDPIECE_KINDS, WORDPIECE_FIXED, path)
    model, normalizer, decoder = parts["model"], parts["normalizer"], parts["decoder"]
    vocab = read_vocab_ids(read_value(model, "vocab", dict, path), path)
    max_chars = read_value(model, "max_input_chars_per_word", int, path, default=100)
    check_range(max_chars, lowest=1, key="max_input_chars_per_word", path=path)
    strip_accents = normalizer.get("strip_accents")
    if strip_accents is not None:
        strip_accents = read_value(normalizer, "strip_accents", bool, path)
    settings = config_settings(config, path.with_name(TOKENIZER_CONFIG_FILE)) | {
        "lowercase": read_value(normalizer, "lowercase", bool, path),
        "strip_accents": strip_accents,
        "tokenize_chinese_chars": read_value(normalizer, "handle_chinese_chars", bool, path),
        "unk_token": read_value(model, "unk_token", str, path),
        "max_input_chars_per_word": max_chars,
        "decoder_cleanup": read_value(decoder, "cleanup", bool, path, default=True),
        "added_tokens": read_added_tokens(
            read_value(root, "added_tokens", list, path), vocab, path
        ),
    }
    # None means the value of `lowercase`. If both files mean the same, the config's value is taken,
    # so that `follow_config`, which takes the config's values for the classes of WordPiece alone,
    # does not warn of None beside true or false.
    lowercase = settings["lowercase"]
    given = config.get("strip_accents")
    meant_by_config = lowercase if given is None else given
    meant_by_tokenizer_json = lowercase if strip_accents is None else strip_accents
    if is_of_class(config, "wordpiece") and meant_by_config == meant_by_tokenizer_json:
        settings["strip_accents"] = given
    follow_config(
        settings,
        config,
        kind="wordpiece",
        names=NORMALIZATION,
        defaults=NORMALIZATION_DEFAULTS,
        path=path,
    )
    processor = read_value(root, "post_processor", dict, path)
    return vocab, settings | read_bert_post_processor(processor, path)


def write_wordpiece(
    directory: Path, pieces: Sequence[str], ids: Mapping[str, int], settings: Json
) -> None:
    """Write vocab.txt, tokenizer.json and tokenizer_config.json, each atomically.

    Args:
        directory: created if missing; other files in it stay.
        pieces: the WordPiece vocabulary, by id.
        ids: the id of every token, added ones included.
        settings: as `Tokenizer.settings` gives them.
    """
    own = {key: settings[name] for key, name in NORMALIZATION.items()}
    with recording_checksums(directory, VOCAB_FILE, TOKENIZER_FILE, TOKENIZER_CONFIG_FILE):
        with atomic_write(directory / VOCAB_FILE, "w") as file:
            file.writelines(f"{piece}\n" for piece in pieces)
        write_json(directory / TOKENIZER_FILE, _tokenizer_object(pieces, ids, settings))
        write_json(
            directory / TOKENIZER_CONFIG_FILE, shared_config("BertTokenizer", own, ids, settings)
        )


def _tokenizer_object(pieces: Sequence[str], ids: Mapping[str, int], settings: Json) -> Json:
    """Build the content of tokenizer.json."""
    return tokenizer_object(
        ids,
        settings,
        normalizer={
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": settings["tokenize_chinese_chars"],
            "strip_accents": settings["strip_accents"],
            "lowercase": settings["lowercase"],
        },
        pre_tokenizer={"type": "BertPreTokenizer"},
        post_processor=bert_post_processor(ids, settings),
        decoder={"type": "WordPiece", "prefix": "##", "cleanup": settings["decoder_cleanup"]},
        model={
            "type": "WordPiece",
            "unk_token": settings["unk_token"],
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": settings["max_input_chars_per_word"],
            "vocab": {piece: id_ for id_, piece in enumerate(pieces)},
        },
    )
