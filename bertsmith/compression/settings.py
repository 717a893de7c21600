"""Settings for making a model smaller, and the data on which both models are measured.

Fields are options of `bertsmith compress`, and their docstrings its help; only --help-all shows
those whose type is `Advanced`.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro

from bertsmith.data.reading import Errors
from bertsmith.errors import ConfigError, SettingError, option
from bertsmith.model.layer_choice import LayerChoice
from bertsmith.system.bounds import check_upper_limits
from bertsmith.system.compute import Advanced, InferenceCompute


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


@dataclass(frozen=True)
class VocabularySettings:
    """Fewer tokens: tokenizer and model lose those that your texts do not use. If all tokens of a
    text are kept, its result stays the same, bit for bit; a word with a dropped token is split into
    smaller tokens."""

    vocabulary: Annotated[tuple[str, ...] | None, tyro.conf.arg(metavar="TEXTS")] = None
    """Texts whose tokens to keep: .txt, .jsonl, .csv, .tsv or .parquet, also as .gz, .xz or .zst;
    folders and patterns are searched. Without texts, the tokens of --corpus are kept."""
    min_count: Advanced[int] = 1
    """Minimum count of a token that is kept."""
    keep_characters: Advanced[bool] = True
    """Single characters: kept even if they do not occur, so that new words of the same alphabet are
    not unknown. --no-keep-characters drops those that do not occur, which saves much in Chinese."""
    texts_column: Advanced[str] = "text"
    """Text column of .jsonl, .csv, .tsv and .parquet files of --vocabulary."""
    errors: Advanced[Errors] = "strict"
    """Lines or rows of --vocabulary that cannot be read: stop at the first (strict), or skip and
    count them (skip)."""

    def __post_init__(self) -> None:
        check_upper_limits(self)
        if self.min_count < 1:
            raise SettingError("min_count", self.min_count, "1 or more")


@dataclass(frozen=True)
class CompressSettings(InferenceCompute):
    """Settings of `compress`: the model, a method, and data to measure both models on."""

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
    """Use only the first N rows of --data. All by default."""
    corpus: Path | None = None
    """Corpus of a pre-trained model: a folder of `bertsmith corpus build` with the model's
    tokenizer. Its held-out rows score both models; its training rows tell which tokens are
    used."""
    overwrite: bool = False
    """Replace an earlier model in --out."""

    # `parse_for_folder` (commands/task_flags.py) adds the flags of these options once the model's
    # folder is read, since they differ by task.
    columns: tyro.conf.Suppress[Any] = None
    """Columns of the files."""

    @property
    def method(self) -> Any:
        """The settings of the chosen method: the group in which a value is not the default.

        Raises:
            ConfigError: no method is chosen, or both are.
        """
        # `--vocabulary` alone, for the tokens of a corpus, is (), which is not the default, None.
        methods = [self.layers, self.vocabulary]
        chosen = [method for method in methods if method != type(method)()]
        if len(chosen) != 1:
            raise ConfigError(
                f"Choose one method to make the model smaller: {option('num_layers')} (or "
                f"{option('layers')}), or {option('vocabulary')}. To combine them, compress the "
                "result again."
            )
        return chosen[0]
