"""Checks of the tokenizer class that a folder names: can bertsmith cut text as this class does?

The files of a tokenizer, such as vocab.txt, do not say how text is cut: BertJapaneseTokenizer and
BertTokenizer both have a vocab.txt. So a class is refused if it is not in `CLASSES` for the kind of
the file (WordPiece, byte-level BPE or unigram). `load_tokenizer` calls these checks.
"""

from collections.abc import Mapping
from typing import Literal

from bertsmith.errors import CheckpointError
from bertsmith.system.json_text import shown_json
from bertsmith.system.small_files import SmallFiles
from bertsmith.tokenization.tokenizer_files import (
    PLAIN_CLASS,
    TOKENIZER_CONFIG_FILE,
    TOKENIZER_FILE,
    Json,
)

Kind = Literal["wordpiece", "byte-bpe", "unigram"]

MODEL_CONFIG_FILE = "config.json"
"""The model's settings, where older folders name the class."""

CLASSES: Mapping[Kind, frozenset[str]] = {
    "wordpiece": frozenset(
        f"{name}Tokenizer"
        for name in (
            "Bert", "DistilBert", "Electra", "ConvBert", "DPRContextEncoder",
            "DPRQuestionEncoder", "LayoutLM", "Lxmert", "MobileBert", "SqueezeBert",
        )
    ),
    "byte-bpe": frozenset(f"{name}Tokenizer" for name in ("Roberta", "Bart", "Longformer")),
    "unigram": frozenset({"AlbertTokenizer"}),
}  # fmt: skip
"""Classes of transformers that cut text as each kind does, without the ending "Fast"."""

PLAIN_CLASSES = (PLAIN_CLASS, "TokenizersBackend")
"""Classes of transformers that cut text by tokenizer.json alone."""

ANY_KIND = frozenset(
    {"PreTrainedTokenizer", *(name.removesuffix("Fast") for name in PLAIN_CLASSES)}
)
"""Classes that tokenizers of every kind may have, without the ending "Fast"."""

ALL_CLASSES = ANY_KIND.union(*CLASSES.values())

CHOOSE_ANOTHER = (
    "Choose a model whose tokenizer is that of BERT (BertTokenizer), RoBERTa (RobertaTokenizer) or "
    "ALBERT (AlbertTokenizer)."
)


def add_model_class(files: SmallFiles, config: Json) -> Json:
    """Add the tokenizer class and model type of config.json if tokenizer_config.json has no class.

    Args:
        config: the content of tokenizer_config.json.

    Raises:
        CheckpointError: one of the files names a program in the folder as the tokenizer.
    """
    if config.get("tokenizer_class") is None and files.has(MODEL_CONFIG_FILE):
        model_config = files.read_json(MODEL_CONFIG_FILE)
        entries = {key: model_config.get(key) for key in ("tokenizer_class", "model_type")}
        config = {**config, **entries}
        _check_program(files, MODEL_CONFIG_FILE, model_config)
    _check_program(files, TOKENIZER_CONFIG_FILE, config)
    return config


def _check_program(files: SmallFiles, name: str, settings: Json) -> None:
    """Raise CheckpointError if `auto_map` names a program in the folder as the tokenizer."""
    programs = settings.get("auto_map")
    if isinstance(programs, dict):
        programs = programs.get("AutoTokenizer")
    if programs:
        raise CheckpointError(
            f"{files.path(name)}: auto_map says that the tokenizer is a program of its own "
            f"({shown_json(programs)}), which bertsmith does not run. {CHOOSE_ANOTHER}"
        )


def check_class(files: SmallFiles, config: Json) -> None:
    """Check that the class that a folder names is supported.

    Raises:
        CheckpointError: the class is not supported.
    """
    if _class_name(config) not in ALL_CLASSES:
        raise _refusal(files, config, "which cuts text in another way than bertsmith")


def check_kind(files: SmallFiles, config: Json, kind: Kind, file: str) -> None:
    """Check that the class that a folder names is of the same kind as its `file`.

    Raises:
        CheckpointError: the class is of another kind.
    """
    if _class_name(config) not in ANY_KIND | CLASSES[kind]:
        raise _refusal(files, config, f"and {file} is a {kind} tokenizer")


def is_of_class(config: Json, kind: Kind) -> bool:
    """Return whether transformers opens a folder by one of the `CLASSES` of this kind.

    transformers takes the class that the folder names, or else the class of the model's type.
    """
    if config.get("tokenizer_class") is not None:
        return _class_name(config) in CLASSES[kind]
    model_types = {name.removesuffix("Tokenizer").lower() for name in CLASSES[kind]}
    return str(config.get("model_type")) in model_types


def _class_name(config: Json) -> str:
    """Return the name of the class without the ending "Fast"."""
    name = config.get("tokenizer_class")
    return "PreTrainedTokenizer" if name is None else str(name).removesuffix("Fast")


def _refusal(files: SmallFiles, config: Json, reason: str) -> CheckpointError:
    """Build the error about a class; it names the file that names the class."""
    # As in `add_model_class`, an entry that is null counts as absent.
    is_in_tokenizer_config = files.has(TOKENIZER_CONFIG_FILE) and (
        files.read_json(TOKENIZER_CONFIG_FILE).get("tokenizer_class") is not None
    )
    path = files.path(TOKENIZER_CONFIG_FILE if is_in_tokenizer_config else MODEL_CONFIG_FILE)
    remedy = CHOOSE_ANOTHER
    if files.has(TOKENIZER_FILE):
        otherwise = CHOOSE_ANOTHER[0].lower() + CHOOSE_ANOTHER[1:]
        remedy = (
            f"If {TOKENIZER_FILE} alone decides, write PreTrainedTokenizerFast. Else {otherwise}"
        )
    name = shown_json(config["tokenizer_class"])
    return CheckpointError(f"{path}: tokenizer_class is {name}, {reason}. {remedy}")
