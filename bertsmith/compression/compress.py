"""Make a model smaller by dropping layers or tokens, and measure it before and after."""

from dataclasses import replace

from bertsmith.compression.folder import (
    CompressionResult,
    SmallerModel,
    SourceModel,
    check_model_out,
    save_and_compare,
)
from bertsmith.compression.settings import CompressSettings, LayerSettings
from bertsmith.compression.vocabulary import keep_tokens
from bertsmith.data.columns import check_needs_no_data
from bertsmith.errors import CheckpointError, ConfigError, SettingError, option
from bertsmith.evaluation.side_by_side import ComparisonInput, check_can_be_reread
from bertsmith.model.head_names import LINEAR_HEAD_FILE, MEMBERS_FOLDER
from bertsmith.model.hub import find_checkpoint
from bertsmith.model.layer_choice import choose_layers
from bertsmith.model.loading import build
from bertsmith.model.model_folder import read_folder
from bertsmith.model.precision_speeds import slower_note
from bertsmith.model.shrinking import truncate_layers
from bertsmith.system.bounds import check_upper_limits
from bertsmith.system.hardware import select_device
from bertsmith.system.locks import hold_folder
from bertsmith.system.paths import check_outside


def compress(settings: CompressSettings) -> CompressionResult:
    """Write a smaller model, and measure it beside its source.

    Raises:
        ConfigError: no method of compression is chosen, or several are; layers or tokens would be
            dropped that the model needs; an option says how to read data that is not given; or
            `out` may not be replaced.
        InputError: examples or texts cannot be read, or examples not a second time.
        CheckpointError: the folder is incomplete or not a BERT, or does not suit the corpus.
    """
    check_upper_limits(settings)
    method = settings.method
    if settings.data is None:
        check_needs_no_data(settings.columns, limit=settings.limit)
    check_can_be_reread("data", settings.data)
    check_outside(
        settings.out, settings.model, settings.corpus, *(settings.vocabulary.vocabulary or ())
    )
    with hold_folder(settings.out):
        path = find_checkpoint(settings.model)
        check_model_out(settings.out, path, overwrite=settings.overwrite)
        folder = read_folder(path)
        folder.check_encoder()
        if folder.files.has(LINEAR_HEAD_FILE):
            raise CheckpointError(
                f"{path}: its linear head was fitted to the vectors of the whole model. Make the "
                f"model that it began with smaller, and fit a head to the smaller one with "
                "'bertsmith finetune classify --head linear'."
            )
        if (path / MEMBERS_FOLDER).is_dir():
            raise CheckpointError(
                f"{path}: several models, whose probabilities are averaged; one is made smaller at "
                f"a time. Name one of those in {path / MEMBERS_FOLDER}."
            )
        device = select_device(settings.device)
        source = SourceModel(folder, build(folder).to(device), settings.corpus)
        comparison_input = ComparisonInput(
            settings.data, settings.columns, settings.limit,
            device=settings.device, precision=settings.precision,
        )  # fmt: skip
        if isinstance(method, LayerSettings):
            smaller = keep_layers(method, source)
        else:
            smaller = keep_tokens(method, source)
        if settings.precision != "auto" and device.type == "cpu":
            note = slower_note(settings.precision)
            if note is not None:
                smaller = replace(smaller, notes=(*smaller.notes, note))
        return save_and_compare(source, smaller, settings.out, comparison_input)


def keep_layers(settings: LayerSettings, source: SourceModel) -> SmallerModel:
    """Keep some of a model's layers.

    Raises:
        ConfigError: a layer to keep does not exist.
        CheckpointError: the model has no layers, or the corpus cannot score it.
    """
    model = source.model
    if not model.config.num_layers:
        raise CheckpointError(
            f"{source.path}: static vectors have no layers. Keep fewer tokens in place of layers "
            f"({option('vocabulary')})."
        )
    if source.corpus is not None and "masked_lm" not in model.heads:
        raise CheckpointError(
            f"{source.path}: the model has no masked-LM head, so a corpus cannot score it. "
            f"Give {option('data')} if it is fine-tuned or a sentence encoder, or leave out "
            f"{option('corpus')}."
        )
    keep = layers_to_keep(settings, model.config.num_hidden_layers)
    description = (
        f"kept {len(keep)} of {model.config.num_hidden_layers} layers: {', '.join(map(str, keep))}"
    )
    facts = {"method": "layers", "kept_layers": keep}
    return SmallerModel(truncate_layers(model, keep), source.tokenizer, description, facts)


def layers_to_keep(settings: LayerSettings, num_layers: int) -> list[int]:
    """Return the indices of the layers to keep, from 0.

    Raises:
        ConfigError: `layers` and `num_layers` are both given or both missing, or `layers` is not a
            list of numbers.
    """
    if settings.layers is None and settings.num_layers is None:
        raise ConfigError(
            f"Which layers should stay? Give {option('layers')} or {option('num_layers')}."
        )
    if settings.layers is not None and settings.num_layers is not None:
        raise ConfigError(f"Give either {option('layers')} or {option('num_layers')}, not both.")
    if settings.layers is not None and settings.layer_choice != LayerSettings.layer_choice:
        raise ConfigError(
            f"{option('layer_choice', settings.layer_choice)} is read only with "
            f"{option('num_layers')}, and {option('layers')} names the layers. Leave one of them "
            "out."
        )
    if settings.num_layers is not None:
        return choose_layers(num_layers, settings.num_layers, settings.layer_choice)
    try:
        return [int(index) for index in str(settings.layers).split(",")]
    except ValueError:
        raise SettingError(
            "layers",
            settings.layers,
            f"a list of layers with commas between, 0 to {num_layers - 1}, such as "
            f"0,{num_layers - 1}",
        ) from None
