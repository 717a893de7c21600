"""Saving of models as folders that transformers opens, and copying of such folders.

`recording_checksums` writes the checksum of a small file, such as config.json, into SHA256SUMS.
"""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from bertsmith.errors import CheckpointError, ConfigError
from bertsmith.model.bert import BertModel
from bertsmith.model.config_file import CONFIG_FILE, TASK_SETTINGS, build_config_json, read_config
from bertsmith.model.families import family_named
from bertsmith.model.head_names import LINEAR_HEAD_FILE, MEMBERS_FOLDER
from bertsmith.model.hub import CARD_FILE, COMPANION, is_own_card
from bertsmith.model.weight_formats.safetensors_file import write_safetensors
from bertsmith.model.weight_names import hugging_face_names
from bertsmith.system.checksums import SUMMED_FILES, SUMS_FILE, has_checksum, recording_checksums
from bertsmith.system.files import atomic_dir, write_json
from bertsmith.system.paths import is_within
from bertsmith.system.small_files import SmallFiles
from bertsmith.tokenization.tokenizer import Tokenizer

NOT_COPIED = shutil.ignore_patterns("checkpoints", "runs", "earlier-run", "events.out.*", ".*")
"""Function for `shutil.copytree` that leaves out a run's files that are not part of its model."""
OWN_NAMES = {Path(name).parts[0] for name in SUMMED_FILES} | {
    SUMS_FILE, "model.safetensors", "pytorch_model.bin", LINEAR_HEAD_FILE, COMPANION, "run.json",
    "journal.jsonl", "curves.svg", "repeats.json", "compression.json", "checkpoints", "earlier-run",
    MEMBERS_FOLDER,
}  # fmt: skip
"""Names of files and folders that may be in a model's folder, beside TensorBoard's files and the
card of bertsmith; `COMPANION` is the folder of an ELECTRA's generator. A folder with other names is
not replaced, and so keeps what could not be made again: `runs`, with the models of a series, and
hidden files."""


def save_model(
    model: BertModel,
    directory: str | Path,
    tokenizer: Tokenizer | None = None,
    *,
    id2label: Mapping[int, str] | None = None,
) -> None:
    """Write a folder that transformers opens: config.json, model.safetensors, the tokenizer.

    Weights are stored in fp32. Each file is replaced whole or not at all. `id2label` names the
    classes and defaults to `model.id2label`. Each of the model's `companions` is saved in a
    subfolder of its name.

    Raises:
        CheckpointError: the tokenizer has more tokens than the model has embeddings.
        ConfigError: no class of transformers has the model's heads, two labels have one name, or
            `id2label` has a number that no label has.
    """
    directory = Path(directory)
    if tokenizer is not None and tokenizer.vocab_size > model.config.vocab_size:
        raise CheckpointError(
            f"{directory}: the tokenizer has {tokenizer.vocab_size:,} tokens, the embedding "
            f"{model.config.vocab_size:,}. Save the tokenizer that the model was trained with."
        )
    names = {int(number): str(name) for number, name in (id2label or model.id2label).items()}
    settings = build_config_json(model, names)
    own_folder = family_named(model.config.model_type).own_folder
    if own_folder is not None:  # as T5 classifiers have, which write all files of the folder
        own_folder.save(model, directory, tokenizer, settings)
        return
    write_safetensors(directory / "model.safetensors", to_stored_tensors(model))
    with recording_checksums(directory, CONFIG_FILE):
        write_json(directory / CONFIG_FILE, settings)
    if tokenizer is not None:
        tokenizer.save(directory)
        if model.config.type_vocab_size < 2:
            _leave_out_token_types(directory)
    for name, companion in model.companions.items():
        save_model(companion, directory / name, tokenizer)


def _leave_out_token_types(directory: Path) -> None:
    """Let the tokenizer of transformers return no `token_type_ids`.

    In transformers, models without segments refuse them, and models with one segment, such as a
    RoBERTa with WordPiece, fail at the second text of a pair.
    """
    file = "tokenizer_config.json"
    settings = SmallFiles(directory).read_json(file)
    with recording_checksums(directory, file):
        names = {"model_input_names": ["input_ids", "attention_mask"]}
        write_json(directory / file, settings | names)


def copy_folder(source: Path, out: Path, *, overwrite: bool = False) -> Path:
    """Copy a model's folder, without the checkpoints and earlier runs in it; return `out`.

    Raises:
        ConfigError: `out` is a file, lies inside `source`, or exists and is not empty. With
            `overwrite`, a folder that is not empty is refused only if it holds files that are not a
            model's, or if `source` lies inside it.
        CheckpointError: the folder `source` does not exist.
        InputError: a file cannot be copied, or `out` cannot be written.
    """
    if not source.is_dir():
        raise CheckpointError(f"{source}: the model's folder is not there any more. Load another.")
    if os.path.realpath(out) == os.path.realpath(source):  # `resolve` raises for a link to itself
        return out
    if out.exists() and not out.is_dir():
        raise ConfigError(f"{out}: a file, not a folder. Choose another path.")
    if is_within(out, source):
        raise ConfigError(f"{out}: inside {source}, the folder of the model. Choose one outside.")
    is_empty_folder = out.is_dir() and not any(out.iterdir())
    if out.exists() and not is_empty_folder:
        if not (out / CONFIG_FILE).is_file():
            raise ConfigError(f"{out}: holds files, but no model. Choose another folder.")
        if not overwrite:
            raise ConfigError(
                f"{out}: holds a model. Choose another folder, or replace it with overwrite=True."
            )
        model_names = OWN_NAMES | ({CARD_FILE} if is_own_card(out) else set())
        names = {path.name for path in out.iterdir() if not path.match("events.out.*")}
        others = sorted(names - model_names)
        if others or is_within(source, out):
            raise ConfigError(
                f"{out}: holds more than a model ({', '.join(others[:3]) or source}). Choose "
                "another folder."
            )
    with atomic_dir(out) as folder:
        shutil.copytree(source, folder, ignore=NOT_COPIED, dirs_exist_ok=True)
    return out


def to_stored_tensors(model: BertModel) -> dict[str, Tensor]:
    """Return the weights by Hugging Face's names, in fp32.

    In a model without heads the names have no prefix such as "bert.", as in transformers.
    """
    tensors: dict[str, Tensor] = {}
    family = family_named(model.config.model_type)
    companion_prefixes = tuple(f"{name}." for name in model.companions)
    for name, value in model.state_dict().items():
        if name.startswith(companion_prefixes):
            continue
        stored_names = hugging_face_names(name, model.config)
        parts = value.float().chunk(len(stored_names))
        for stored_name, part in zip(stored_names, parts, strict=True):
            tensors[stored_name] = family.transpose(stored_name, part)
    if not model.heads:
        return {name.removeprefix(family.prefix): tensor for name, tensor in tensors.items()}
    return tensors


def write_task_settings(directory: Path, settings: Mapping[str, Any]) -> None:
    """Write a task's settings into the config.json of a finished folder.

    Raises:
        CheckpointError: config.json is missing or damaged.
    """
    files = SmallFiles(directory)
    config = read_config(files)
    # A config.json without a checksum is written again, so that it gets one.
    is_written = config.get(TASK_SETTINGS) == settings and has_checksum(files, CONFIG_FILE)
    if not is_written:
        with recording_checksums(directory, CONFIG_FILE):
            write_json(directory / CONFIG_FILE, config | {TASK_SETTINGS: dict(settings)})
