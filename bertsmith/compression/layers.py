"""Remove layers of a model."""

from dataclasses import dataclass

from bertsmith.compression.folder import (
    Compressed,
    CompressSettings,
    Smaller,
    alone_in_out,
    finish,
    open_source,
)
from bertsmith.errors import CheckpointError, ConfigError
from bertsmith.model.keep_layers import LayerChoice, choose_layers, truncate_layers


@dataclass(frozen=True)
class LayerSettings(CompressSettings):
    """Settings of layer removal: which layers stay."""

    keep: str | None = None
    """Layers to keep, counted from 0, such as 0,2,5."""
    num_layers: int | None = None
    """Number of layers to keep, instead of --keep."""
    choice: LayerChoice = "spread"
    """Choice of layers, with --num-layers: at equal distances from the first to the last (spread;
    of twelve, the six that DistilBERT took), the first, or the last."""


@alone_in_out
def compress_layers(settings: LayerSettings) -> Compressed:
    """Keep some of a model's layers.

    Raises:
        ConfigError: layers that the model has not, or an occupied `out`.
        CheckpointError: the folder is incomplete or not a BERT, or a corpus cannot score it.
    """
    source, model, tokenizer = open_source(settings)
    if settings.corpus is not None and "masked_lm" not in model.heads:
        raise CheckpointError(
            f"{source.path}: the model has no masked-LM head, so a corpus cannot score it. Give "
            "--data if it is fine-tuned or a sentence encoder, or leave out --corpus."
        )
    keep = layers_to_keep(settings, model.config.num_hidden_layers)
    named = ", ".join(map(str, keep))
    done = f"kept {len(keep)} of {model.config.num_hidden_layers} layers: {named}"
    facts = {"method": "layers", "kept_layers": keep}
    smaller = Smaller(truncate_layers(model, keep), tokenizer, done, facts)
    return finish(settings, source, smaller)


def layers_to_keep(settings: LayerSettings, num_layers: int) -> list[int]:
    """Return the layers that the settings name or choose."""
    if (settings.keep is None) == (settings.num_layers is None):
        raise ConfigError("Give --keep or --num-layers; exactly one of them.")
    if settings.num_layers is not None:
        return choose_layers(num_layers, settings.num_layers, settings.choice)
    assert settings.keep is not None
    try:
        return [int(number) for number in settings.keep.split(",")]
    except ValueError:
        raise ConfigError(
            f"--keep: found '{settings.keep}'; allowed are numbers of layers with commas between, "
            f"0 to {num_layers - 1}, such as 0,{num_layers - 1}."
        ) from None
