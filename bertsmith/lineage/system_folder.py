"""Loading and saving of the models beside BERT (GPT, T5 …): the code that their folders share.

Each kind of model has a `FolderMap`, which describes how config.json and the names of weights in
its folder correspond to our model. Where transformers has the model, it opens the same folder.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from bertsmith.errors import CheckpointError, ConfigError
from bertsmith.errors.model_kinds import SYSTEM_KINDS, ModelKindError
from bertsmith.model.config_file import CONFIG_FILE, model_kind, no_model_error
from bertsmith.model.families import FAMILIES, WITHOUT_LAYERS
from bertsmith.model.hub import find_checkpoint
from bertsmith.model.load_report import list_weights
from bertsmith.model.meta_init import on_meta_device
from bertsmith.model.trainable import TrainableModel
from bertsmith.model.weight_formats.safetensors_file import write_safetensors
from bertsmith.model.weights import read_weights
from bertsmith.system.checksums import compare_checksums, recording_checksums
from bertsmith.system.files import write_json
from bertsmith.system.run_state import check_finished
from bertsmith.system.small_files import SmallFiles
from bertsmith.tokenization.tokenizer import Tokenizer

ModelT = TypeVar("ModelT", bound=TrainableModel)


@dataclass(frozen=True)
class FolderMap(Generic[ModelT]):
    """A description of the folder of one kind of model.

    A *field* is one of the model's config; a *key* is one of config.json. A field has its own name
    there, as configs here use the names of transformers.
    """

    noun: str
    """Name of the system in messages, such as "a GPT"."""
    architecture: str
    """Name of the class that opens the folder, of transformers or, where it has none, of ours."""
    config: type
    """The dataclass of the model's config."""
    build: Callable[[Any], ModelT]
    """Builds a new model from its config."""
    fixed: Mapping[str, Any]
    """Maps a key that changes the computation to the only value that we support."""
    names_in_folder: Callable[[str], tuple[str, ...]]
    """Returns the names in the folder for the name of one of our weights. If there are several, our
    weight is the concatenation of these weights along the first axis."""
    clean_weights: Callable[[Path, dict[str, Tensor]], dict[str, Tensor]]
    """Gets the path of a folder and its weights. Removes copies of weights, and gives the others
    the names that `save_system` writes."""
    is_transposed: Callable[[str], bool] = lambda name: False
    """Returns whether the folder stores the matrix of this name as [inputs, outputs]."""
    factor: Callable[[str, Any], float] = lambda name, config: 1.0
    """Returns the factor by which the folder's weight of this name is multiplied to give ours: a
    power of two, so that nothing is rounded."""
    extra_entries: Mapping[str, Any] | None = None
    """Maps a key that is no field to its value, for every config.json that is written."""
    convert_entries: Callable[[Mapping[str, Any], Collection[str]], Mapping[str, Any]] = (
        lambda settings, names: settings
    )
    """Converts the entries of config.json to the fields of `config`; the second argument has the
    names of the weights."""
    absent: Mapping[str, Any] = field(default_factory=dict)
    """Maps a key to the value that transformers assumes where config.json lacks the key, if that is
    not our default."""
    other_names: Mapping[str, str] = field(default_factory=dict)
    """Maps a field to another key by which transformers reads it, too, where config.json lacks the
    field's own name (its `attribute_map`)."""
    advice: str = ""
    """Advice for an error about weights that the model does not have: which folder to load."""


def load_system(folder_map: FolderMap[ModelT], path: str | Path) -> ModelT:
    """Load a folder, or a model of the Hugging Face hub: in fp32, on the CPU, in evaluation mode.

    Raises:
        CheckpointError: there is no such folder, or it is incomplete, damaged, or of another model.
    """
    directory = find_checkpoint(path)
    files = SmallFiles(directory)
    check_finished(files)  # refuses the folder of a run that has not reached its end
    compare_checksums(files)  # warns of small files that have changed since they were written
    settings = _read_settings(files)
    file = files.path(CONFIG_FILE)
    _check_kind(folder_map, file, settings)
    stored = folder_map.clean_weights(directory, dict(read_weights(directory)))
    by_other_names = {
        name: settings[other]
        for name, other in folder_map.other_names.items()
        if settings.get(name) is None and settings.get(other) is not None
    }
    entries = folder_map.convert_entries(
        {**folder_map.absent, **settings, **by_other_names}, stored.keys()
    )
    config = _build_config(folder_map, file, entries)
    with on_meta_device():  # weights without memory, until those of the folder are assigned
        model = folder_map.build(config)
    state = _convert_weights(folder_map, directory, stored, model)
    model.load_state_dict(state, assign=True)
    return model.eval()


def _convert_weights(
    folder_map: FolderMap[ModelT], directory: Path, stored: Mapping[str, Tensor], model: ModelT
) -> dict[str, Tensor]:
    """Convert the weights of a folder to the state of `model`, in fp32.

    Args:
        stored: the weights by their names in the folder.

    Raises:
        CheckpointError: a weight is missing, has another shape, or has no place in the model.
    """
    empty_state = model.state_dict()
    expected = {name for ours in empty_state for name in folder_map.names_in_folder(ours)}
    missing = sorted(expected - stored.keys())
    if missing:
        raise CheckpointError(
            f"{directory}: the weights {list_weights(missing)} are missing. Copy the folder again."
        )
    others = sorted(stored.keys() - expected)
    if others:
        raise CheckpointError(
            f"{directory}: {folder_map.noun} has no place for the weights {list_weights(others)}. "
            f"{folder_map.advice}"
        )
    state = {}
    for our_name, empty in empty_state.items():
        names = folder_map.names_in_folder(our_name)
        part_shape = (empty.shape[0] // len(names), *empty.shape[1:])
        parts = []
        for name in names:
            part = _transpose(folder_map, name, stored[name])
            if part.shape != part_shape:
                raise CheckpointError(
                    f"{directory}: {name} has the shape {list(stored[name].shape)}, which does not "
                    "fit config.json. Copy both again from one model."
                )
            parts.append(part.float() * folder_map.factor(name, model.config))
        state[our_name] = torch.cat(parts).contiguous()
    return state


def save_system(
    folder_map: FolderMap[ModelT],
    model: ModelT,
    directory: Path,
    tokenizer: Tokenizer | None,
    entries: Mapping[str, Any] | None = None,
) -> None:
    """Write the folder of a model; weights are in fp32.

    Each file is replaced whole or not at all.

    Args:
        tokenizer: written beside the model; None leaves it out.
        entries: further entries of config.json.

    Raises:
        CheckpointError: the tokenizer has more tokens than the model has embeddings.
    """
    config: Any = model.config
    if tokenizer is not None and tokenizer.vocab_size > config.vocab_size:
        raise CheckpointError(
            f"{directory}: the tokenizer has {tokenizer.vocab_size:,} tokens, the embedding "
            f"{config.vocab_size:,}. Save the tokenizer that the model was trained with."
        )
    tensors = {}
    for name, tensor in model.state_dict().items():
        names = folder_map.names_in_folder(name)
        for stored_name, part in zip(names, tensor.float().chunk(len(names)), strict=True):
            tensors[stored_name] = _transpose(
                folder_map, stored_name, part / folder_map.factor(stored_name, config)
            )
    write_safetensors(directory / "model.safetensors", tensors)
    with recording_checksums(directory, CONFIG_FILE):
        settings = {
            "architectures": [folder_map.architecture],
            "dtype": "float32",
            "torch_dtype": "float32",
            **folder_map.fixed,
            **asdict(config),
            **(folder_map.extra_entries or {}),
            **(entries or {}),
        }
        write_json(directory / CONFIG_FILE, settings)
    if tokenizer is not None:
        tokenizer.save(directory)


def read_model_type(directory: Path) -> str:
    """Return the `model_type` of a folder; empty if its config.json names none.

    Raises:
        CheckpointError: there is no config.json, or it is damaged.
    """
    return str(_read_settings(SmallFiles(directory)).get("model_type", ""))


def _read_settings(files: SmallFiles) -> Mapping[str, Any]:
    try:
        settings: Mapping[str, Any] = files.read_json(CONFIG_FILE)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise no_model_error(files.directory) from error
    return settings


def remove_copy(
    directory: Path, tensors: dict[str, Tensor], copy: str, original: str, problem: str
) -> None:
    """Remove the copy of the word embedding from `tensors`; it must be equal to the original.

    Args:
        copy: the name of the copy.
        original: the name of the word embedding.

    Raises:
        CheckpointError: the two differ; the message ends with `problem`.
    """
    stored = tensors.pop(copy, None)
    if stored is not None and original in tensors and not torch.equal(stored, tensors[original]):
        raise CheckpointError(f"{directory}: {copy} differs from the word embedding. {problem}")


def _check_kind(folder_map: FolderMap[Any], file: Path, settings: Mapping[str, Any]) -> None:
    """Refuse a config.json of another kind of model than the map describes.

    Raises:
        CheckpointError: an entry differs; a `ModelKindError` if it is of another kind.
    """
    stored = settings.get("model_type")
    # Of a kind that bertsmith reads elsewhere, the error names the commands that take it.
    if isinstance(stored, str) and stored in {*FAMILIES, *WITHOUT_LAYERS, *SYSTEM_KINDS}:
        kind = model_kind(settings)
        if kind.model_type != folder_map.fixed["model_type"]:
            raise ModelKindError(file, kind)
    for key, allowed in folder_map.fixed.items():
        value = settings.get(key, folder_map.absent.get(key, allowed))
        if value != allowed:
            raise CheckpointError(
                f"{file}: {key} is {value!r}. bertsmith reads {folder_map.noun} whose "
                f"{key} is {allowed!r}. Choose such a model."
            )


def _build_config(folder_map: FolderMap[Any], file: Path, entries: Mapping[str, Any]) -> Any:
    """Build the model's config from the entries of config.json that it has a field for.

    Raises:
        CheckpointError: an entry is missing or out of range.
    """
    config_fields = fields(folder_map.config)
    for config_field in config_fields:
        name = config_field.name
        if config_field.default is MISSING and name not in entries:
            raise CheckpointError(f"{file}: {name} is missing. Copy the folder again.")
    names = [config_field.name for config_field in config_fields]
    try:
        return folder_map.config(**{name: entries[name] for name in names if name in entries})
    except (ConfigError, TypeError) as error:
        raise CheckpointError(f"{file}: {error}") from error


def _transpose(folder_map: FolderMap[Any], name: str, tensor: Tensor) -> Tensor:
    """Transpose a matrix that the folder stores as [inputs, outputs], on loading and on saving."""
    return tensor.T if folder_map.is_transposed(name) else tensor
