"""Make a model smaller by layers or tokens, and measure what it costs."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import tyro

from bertsmith.compression.folder import (
    Compressed,
    CompressionResult,
    SourceModel,
    check_model_out,
    save_beside,
)
from bertsmith.compression.vocabulary import VocabularySettings
from bertsmith.errors import CheckpointError, ConfigError, SettingError, option
from bertsmith.evaluation.side_by_side import ComparisonInput
from bertsmith.model.hub import find_checkpoint
from bertsmith.model.int8 import slower_note
from bertsmith.model.loading import build
from bertsmith.model.model_folder import read_folder
from bertsmith.model.shrinking import LayerChoice, choose_layers, truncate_layers
from bertsmith.system.bounds import check_all_largest
from bertsmith.system.compute import Advanced, InferenceCompute
from bertsmith.system.files import hold_folder
from bertsmith.system.hardware import select_device
from bertsmith.system.paths import check_outside


@dataclass(frozen=True)
class LayerSettings:
    """Fewer layers: with half of them a model is about twice as fast, and less accurate. Train it
    further."""

    layers: str | None = None
    """Layers to keep, counted from 0, such as 0,2,5."""
    num_layers: int | None = None
    """Number of layers to keep, instead of --layers."""
    layer_choice: Advanced[LayerChoice] = "spread"
    """Choice of layers, with --num-layers: at equal distances from the first to the last (spread;
    of twelve, the six that DistilBERT took), the first, or the last."""

    def shrink(self, source: SourceModel) -> CompressionResult:
        """Keep some of a model's layers.

        Raises:
            ConfigError: layers that the model has not.
            CheckpointError: a corpus cannot score the model.
        """
        model = source.model
        if source.corpus is not None and "masked_lm" not in model.heads:
            raise CheckpointError(
                f"{source.path}: the model has no masked-LM head, so a corpus cannot score it. "
                f"Give {option('data')} if it is fine-tuned or a sentence encoder, or leave out "
                f"{option('corpus')}."
            )
        keep = self.chosen(model.config.num_hidden_layers)
        done = (
            f"kept {len(keep)} of {model.config.num_hidden_layers} layers: "
            f"{', '.join(map(str, keep))}"
        )
        facts = {"method": "layers", "kept_layers": keep}
        return CompressionResult(truncate_layers(model, keep), source.tokenizer, done, facts)

    def chosen(self, num_layers: int) -> list[int]:
        if (self.layers is None) == (self.num_layers is None):
            raise ConfigError(
                f"Give either {option('layers')} or {option('num_layers')}, not both."
                if self.layers
                else f"Which layers should stay? Give {option('layers')} or {option('num_layers')}."
            )
        if self.num_layers is not None:
            return choose_layers(num_layers, self.num_layers, self.layer_choice)
        try:
            return [int(number) for number in str(self.layers).split(",")]
        except ValueError:
            raise SettingError(
                "layers",
                self.layers,
                f"a list of layers with commas between, 0 to {num_layers - 1}, such as "
                f"0,{num_layers - 1}",
            ) from None


@dataclass(frozen=True)
class CompressSettings(InferenceCompute):
    """Which model to make smaller, in which way, and by what both are measured."""

    model: tyro.conf.Positional[Path]
    """Folder of the model to make smaller; nothing in it is changed."""
    out: Path
    """Folder to write the smaller model to."""
    layers: LayerSettings = field(default_factory=LayerSettings)
    vocabulary: VocabularySettings = field(default_factory=VocabularySettings)
    data: Path | None = None
    """Labelled examples on which a fine-tuned model is scored before and after, as with `bertsmith
    evaluate --data`."""
    limit: int | None = None
    """Number of rows of --data to score, from the first; all by default."""
    corpus: Path | None = None
    """Corpus of a pre-trained model: a folder of `bertsmith corpus build` with the model's
    tokenizer. Its held-out rows score both models; its training rows tell which tokens are
    used."""
    overwrite: bool = False
    """Replace an earlier model in --out."""

    columns: tyro.conf.Suppress[Any] = None
    """Columns of the files."""

    @property
    def way(self) -> Any:
        """The one way that flags were given for.

        Raises:
            ConfigError: none or several.
        """
        ways = [self.layers, self.vocabulary]
        chosen = [way for way in ways if way != type(way)()]
        if len(chosen) != 1:
            raise ConfigError(
                f"Choose one way to make the model smaller: {option('num_layers')} (or "
                f"{option('layers')}), or {option('vocabulary')}. To combine them, compress the "
                "result again."
            )
        return chosen[0]


def compress(settings: CompressSettings) -> Compressed:
    """Write a smaller model, and measure it beside its source.

    Raises:
        ConfigError: not one way, what the model cannot do without, or an occupied `out`.
        InputError: examples or texts cannot be read.
        CheckpointError: the folder is incomplete or not a BERT, or does not suit the corpus.
    """
    check_all_largest(settings)
    way = settings.way
    check_outside(settings.out, settings.model, settings.corpus)
    with hold_folder(settings.out):
        path = find_checkpoint(settings.model)
        check_model_out(settings.out, path, overwrite=settings.overwrite)
        folder = read_folder(path)
        device = select_device(settings.device)
        source = SourceModel(folder, build(folder).to(device), settings.corpus)
        trial = ComparisonInput(
            settings.data, settings.columns, settings.limit,
            device=settings.device, precision=settings.precision,
        )  # fmt: skip
        smaller = way.shrink(source)
        if settings.precision != "auto" and device.type == "cpu":
            note = slower_note(settings.precision)
            smaller = replace(smaller, notes=(*smaller.notes, *filter(None, [note])))
        return save_beside(source, smaller, settings.out, trial)
