"""The files of a sentence encoder's folder for pooling, normalization and length.

A sentence encoder is a model of sentence-transformers, which turns a text into one vector. All of
these files are optional. They are written in the first format of sentence-transformers, which every
version reads. The parameter `files` of the functions reads the JSON files of a folder.
"""

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal, get_args

from bertsmith.errors import CheckpointError, ConfigError, option, warn_once
from bertsmith.system.checksums import recording_checksums
from bertsmith.system.files import write_json
from bertsmith.system.json_text import shown_json
from bertsmith.system.nested_folder import (
    MODULE_TYPE,
    MODULES_FILE,
    STATIC_MODULE,
    inner_folder,
    module_name,
)
from bertsmith.system.small_files import SmallFiles
from bertsmith.tokenization.tokenizer import Tokenizer
from bertsmith.tokenization.tokenizer_files import MIN_MAX_LENGTH

Pooling = Literal["mean", "first_token", "pooler"]
"""Ways to make one vector of a text: the mean of the tokens' vectors, that of [CLS], or the output
of the pooler."""

Similarity = Literal["cosine", "dot", "euclidean", "manhattan"]
"""Comparison of vectors. Euclidean and manhattan are distances, negated so that larger numbers mean
more similar vectors."""

POOLINGS: dict[str, Pooling] = {"mean_tokens": "mean", "cls_token": "first_token"}
"""Supported poolings by their names in the folder."""

NEWER_NAMES = {"mean": "mean_tokens", "cls": "cls_token"}
"""The older names of poolings, which are the keys of `POOLINGS`, by those of newer files."""

LENGTH_FAMILIES = ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta")
"""Families of models after which sentence-transformers named files of `LENGTH_FILES`."""
LENGTH_FILES = tuple(f"sentence_{family}_config.json" for family in LENGTH_FAMILIES)
"""Files that may hold the maximum length; the first one with any setting applies. Early versions of
sentence-transformers named the file after the family of the model; bertsmith writes the first
name."""

TAKE_POOLING = "'embed', 'finetune embed', SentenceEncoder"
"""The commands and the class that have an option for the pooling, in words for messages."""

SETTINGS_FILE = "config_sentence_transformers.json"
"""File with the comparison of vectors, and with settings that bertsmith refuses."""

MAX_PARENTS = 3
"""Number of parent folders that are searched for a modules.json that names the model's folder."""

MODULES = {"Transformer": "", "Pooling": "1_Pooling", "Normalize": "2_Normalize"}
"""The modules that turn a text into a vector, in their order, and the folder with the settings of
each; "" is the sentence encoder's folder itself."""


@dataclass(frozen=True)
class SentenceFolder:
    """Settings of a folder for vectors of texts; None for settings that the folder lacks."""

    pooling: Pooling | None = None
    normalize: bool = False
    """Whether vectors are scaled to length 1."""
    max_length: int | None = None
    """Maximum length of a text in tokens."""
    similarity: Similarity = "cosine"

    @classmethod
    def read(cls, files: SmallFiles, *, pooling: Pooling | None = None) -> "SentenceFolder":
        """Read modules.json, its Pooling's config.json and one of `LENGTH_FILES`.

        modules.json lists the modules that compute the vector, one after the other. Missing files
        count as empty, except the Pooling that a modules.json must name. `pooling` replaces the
        folder's pooling, which may then be unsupported or missing.

        Raises:
            CheckpointError: a file is damaged, names something unsupported, or names no pooling.
        """
        paths = _read_modules(files)  # the folder of each module, by the module's name
        if STATIC_MODULE in paths:  # this module does the same as Transformer and mean Pooling
            del paths[STATIC_MODULE]
            paths = {name: MODULES[name] for name in ("Transformer", "Pooling")} | paths
            pooling = pooling or "mean"
        if unknown := paths.keys() - {*MODULES, ""}:  # "" is a module without a type
            raise CheckpointError(
                f"{files.path(MODULES_FILE)}: asks for {', '.join(sorted(unknown))} after the "
                "encoder; bertsmith has Pooling and Normalize. Choose another model."
            )
        right_order = [module for module in MODULES if module in paths]
        if [module for module in paths if module in MODULES] != right_order:
            raise CheckpointError(
                f"{files.path(MODULES_FILE)}: asks for {', '.join(paths)}, one after the other; "
                f"bertsmith computes {', '.join(right_order)}. Choose another model."
            )
        check_settings(files)
        if pooling is None:
            check_pooling(files, paths)
        return cls(
            pooling=pooling or read_pooling(files, _pooling_file(paths)),
            normalize="Normalize" in paths,
            max_length=read_length(files),
            similarity=read_similarity(files),
        )

    def write(self, directory: Path, hidden_size: int) -> None:
        """Write the files of sentence-transformers into the folder of a model.

        Raises:
            ConfigError: sentence-transformers has no such pooling.
        """
        module_names = ["Transformer", "Pooling", *(["Normalize"] if self.normalize else [])]
        modules = [{"path": MODULES[name], "type": MODULE_TYPE + name} for name in module_names]
        length = {"max_seq_length": self.max_length, "do_lower_case": False}
        self._write(directory, hidden_size, modules, {LENGTH_FILES[0]: length})

    def write_pooling(self, directory: Path, hidden_size: int) -> None:
        """Write the pooling into a folder whose model is in a subfolder; other modules stay.

        Raises:
            CheckpointError: modules.json is damaged.
            ConfigError: sentence-transformers has no such pooling.
        """
        model, *others = read_settings(SmallFiles(directory), MODULES_FILE, absent=[])
        others = [module for module in others if module_name(module) != "Pooling"]
        pooling = {"path": MODULES["Pooling"], "type": f"{MODULE_TYPE}Pooling"}
        self._write(directory, hidden_size, [model, pooling, *others], {})

    def _write(
        self,
        directory: Path,
        hidden_size: int,
        modules: Sequence[Mapping[str, Any]],
        files: Mapping[str, Any],
    ) -> None:
        """Write the settings of the pooling, modules.json and other files.

        Args:
            modules: entries of modules.json, which get the keys `idx` and `name` here.
            files: contents of the other files, by their names.
        """
        if self.pooling not in POOLINGS.values():
            allowed = ", ".join(POOLINGS.values())
            raise ConfigError(
                f"{option('pooling')}: found '{self.pooling}'; allowed in a sentence encoder's "
                f"folder are {allowed}. Choose one with {option('pooling')}."
            )
        modes = {
            f"pooling_mode_{name}": pooling == self.pooling for name, pooling in POOLINGS.items()
        }
        contents: dict[str, Any] = {
            f"{MODULES['Pooling']}/config.json": {"word_embedding_dimension": hidden_size, **modes},
            **files,
            MODULES_FILE: [
                {**module, "idx": index, "name": str(index)} for index, module in enumerate(modules)
            ],
        }
        with recording_checksums(directory, *contents):
            for name, content in contents.items():
                write_json(directory / name, content)


def warn_of_outer_pooling(
    files: SmallFiles, inner: SentenceFolder, pooling: Pooling | None
) -> None:
    """Warn if a folder lies inside a sentence encoder's folder with another pooling.

    `inner` are the settings of the inner folder. A `pooling` that the user chose needs no warning.
    """
    directory = files.directory.resolve()
    # If the outer folder was named (`files.outer`), or this one is a sentence encoder's itself, its
    # pooling is used already.
    if files.outer is not None or files.has(MODULES_FILE) or pooling is not None:
        return
    try:
        parents = islice(directory.parents, MAX_PARENTS)
        outer = next((folder for folder in parents if inner_folder(folder) == directory), None)
        if outer is None:
            return
        encoder = SentenceFolder.read(SmallFiles(directory, outer=outer))
    except CheckpointError:  # the outer folder is damaged or not supported, and was not asked for
        return
    inner_pooling = inner.pooling or "mean"
    outer_pooling = encoder.pooling or "mean"
    if (inner_pooling, inner.normalize) != (outer_pooling, encoder.normalize):
        scaling = " and scales vectors to length 1" if encoder.normalize else ""
        warn_once(
            f"{files.directory}: vectors are pooled by {inner_pooling} here, but {outer}, whose "
            f"model this is, pools by {outer_pooling}{scaling}. Name {outer} for its vectors."
        )


def sentence_files(files: SmallFiles) -> tuple[str, ...]:
    """Name the files that a sentence encoder's folder may have besides model and tokenizer."""
    pooling_file = _pooling_file(_read_modules(files))
    return (MODULES_FILE, SETTINGS_FILE, *LENGTH_FILES, pooling_file)


def _read_modules(files: SmallFiles) -> dict[str, Any]:
    """Read the modules of modules.json, in their order: the path of each module, by its name.

    Raises:
        CheckpointError: the file is damaged, or names a module twice.
    """
    modules = read_settings(files, MODULES_FILE, absent=[])
    if not all(isinstance(module, dict) for module in modules):
        raise CheckpointError(
            f"{files.path(MODULES_FILE)}: found {shown_json(modules)}; allowed is a "
            "list of objects, one for each module. Copy the file again."
        )
    names = [module_name(module) for module in modules]
    for name in names:
        if (count := names.count(name)) > 1:
            raise CheckpointError(
                f"{files.path(MODULES_FILE)}: asks for {name} {count} times; bertsmith has each "
                "module once. Choose another model."
            )
    return {name: module.get("path") for name, module in zip(names, modules, strict=True)}


def _pooling_file(paths: Mapping[str, Any]) -> str:
    """Return the file of the pooling's settings, by the `paths` of the modules."""
    return str(Path(str(paths.get("Pooling") or MODULES["Pooling"]), "config.json"))


def check_pooling(files: SmallFiles, paths: Mapping[str, Any]) -> None:
    """Check that a folder with a modules.json, whose modules have these `paths`, has a pooling.

    The settings of the pooling are in a subfolder. Without this check, a copy of the folder that
    lacks its subfolders would give other vectors than the model.

    Raises:
        CheckpointError: modules.json lists no Pooling, or the file with its settings is missing.
    """
    if not files.has(MODULES_FILE):
        return
    if "Pooling" not in paths:
        raise CheckpointError(
            f"{files.path(MODULES_FILE)}: lists no Pooling, which makes one vector of the "
            f"vectors of the tokens. Choose one with {option('pooling')} ({TAKE_POOLING})."
        )
    file = _pooling_file(paths)
    if not files.has(file):
        raise CheckpointError(
            f"{files.path(file)}: is missing; modules.json names it, and it says how the vectors "
            f"of the tokens become one. Copy it too, or choose one with {option('pooling')} "
            f"({TAKE_POOLING})."
        )


def check_settings(files: SmallFiles) -> None:
    """Check that a folder asks for neither a default prompt nor shortened vectors.

    Raises:
        CheckpointError: the folder asks for one of them, which bertsmith does not support.
    """
    settings = read_settings(files, SETTINGS_FILE, absent={})
    check_prompt(files, settings)
    num_dimensions = settings.get("truncate_dim")
    if num_dimensions is not None:
        raise CheckpointError(
            f"{files.path(SETTINGS_FILE)}: truncate_dim is {shown_json(num_dimensions)}, "
            "which keeps the first numbers of each vector; bertsmith gives whole vectors. Write "
            "null, and shorten them yourself."
        )


def read_similarity(files: SmallFiles) -> Similarity:
    """Read the comparison of vectors that the folder names; cosine if it names none.

    Raises:
        CheckpointError: the folder names an unsupported comparison.
    """
    stored = read_settings(files, SETTINGS_FILE, absent={}).get("similarity_fn_name")
    if stored is None:
        return "cosine"
    for similarity in get_args(Similarity):
        if stored == similarity:
            return similarity
    raise CheckpointError(
        f"{files.path(SETTINGS_FILE)}: similarity_fn_name is {shown_json(stored)}; bertsmith "
        f"compares vectors by {', '.join(get_args(Similarity))}. Write one of these, and compare "
        "the vectors yourself."
    )


def check_prompt(files: SmallFiles, settings: Mapping[str, Any]) -> None:
    """Check that a folder has no default prompt, which would be put before every text.

    Raises:
        CheckpointError: the folder has one; the message shows it.
    """
    name = settings.get("default_prompt_name")
    prompts = settings.get("prompts")
    prompt = prompts.get(name) if isinstance(prompts, dict) and isinstance(name, str) else None
    if prompt:
        raise CheckpointError(
            f"{files.path(SETTINGS_FILE)}: default_prompt_name is {shown_json(name)}, which "
            f"puts {shown_json(prompt)} before each text; "
            "bertsmith puts nothing there. Write null, and put it before your texts yourself."
        )


def check_case(files: SmallFiles, tokenizer: Tokenizer) -> None:
    """Check that the tokenizer of a folder with do_lower_case lowers the case.

    Raises:
        CheckpointError: the tokenizer keeps the case.
    """
    file = find_length_file(files)
    if read_settings(files, file, absent={}).get("do_lower_case") is not True:
        return
    letters = " ".join(string.ascii_lowercase)
    if tokenizer.encode_ids(letters) != tokenizer.encode_ids(letters.upper()):
        raise CheckpointError(
            f"{files.path(file)}: do_lower_case is true, but the folder's tokenizer keeps upper "
            "case, and bertsmith goes by the tokenizer. Write false, and lower the case of your "
            "texts yourself."
        )


def find_length_file(files: SmallFiles) -> str:
    """Return the first of `LENGTH_FILES` that has settings; by default the first name."""
    names = (name for name in LENGTH_FILES if read_settings(files, name, absent={}))
    return next(names, LENGTH_FILES[0])


def read_length(files: SmallFiles) -> int | None:
    """Read the maximum length in tokens; None if the folder names none.

    Raises:
        CheckpointError: the length is no number of tokens, or the file is damaged.
    """
    file = find_length_file(files)
    length = read_settings(files, file, absent={}).get("max_seq_length")
    if length is None or (type(length) is int and length >= MIN_MAX_LENGTH):
        return length
    raise CheckpointError(
        f"{files.path(file)}: max_seq_length is {shown_json(length)}; allowed is a whole "
        f"number, {MIN_MAX_LENGTH} or more. Correct it, or take the line out."
    )


def read_pooling(files: SmallFiles, file: str) -> Pooling | None:
    """Read the pooling that a file names; None if it names none.

    Raises:
        CheckpointError: the file names several poolings, or an unsupported one.
    """
    settings = read_settings(files, file, absent={})
    names = [
        name.removeprefix("pooling_mode_")
        for name, value in settings.items()
        if name.startswith("pooling_mode_") and value
    ]
    newer_setting = settings.get("pooling_mode")  # the key of newer files
    if newer_setting is not None:
        newer_names = newer_setting if isinstance(newer_setting, list) else [newer_setting]
        names = [NEWER_NAMES.get(str(name), str(name)) for name in newer_names]
    if not names:
        return None
    if len(names) > 1 or names[0] not in POOLINGS:
        raise CheckpointError(
            f"{files.path(file)}: asks for pooling by {' and '.join(names)}; allowed is "
            f"{' or '.join(POOLINGS)}. Choose one with {option('pooling')}, or in this file."
        )
    return POOLINGS[names[0]]


def read_settings(files: SmallFiles, name: str, absent: Any) -> Any:
    """Read a JSON file, or return `absent` if it is missing.

    The value of the file must have the type of `absent`, which is `{}` or `[]`.

    Raises:
        CheckpointError: the file is damaged, or its value has another type.
    """
    try:
        return files.read_json(name, type(absent))
    except FileNotFoundError:
        return absent
