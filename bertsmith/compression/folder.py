"""Save a compressed model as a folder, and compare it with its source.

The source is only read. The new folder is an ordinary model folder, which appears whole or not at
all. Its `compression.json` records each step that made the model, with metrics from before and
after.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from bertsmith._version import __version__
from bertsmith.compression.held_out import corpus_objective, measure_held_out
from bertsmith.config import to_jsonable
from bertsmith.errors import ConfigError, option
from bertsmith.evaluation.side_by_side import (
    ComparisonInput,
    Measure,
    ModelComparison,
    compare_side_by_side,
)
from bertsmith.model.bert import BertModel
from bertsmith.model.config_file import CONFIG_FILE
from bertsmith.model.electra_pair import GENERATOR
from bertsmith.model.hub import CARD_FILE, is_own_card
from bertsmith.model.model_folder import ModelFolder, read_folder
from bertsmith.model.saving import save_model
from bertsmith.system.checksums import recording_checksums
from bertsmith.system.files import atomic_dir, check_is_replaceable, write_json
from bertsmith.system.nested_folder import MODULES_FILE, module_name
from bertsmith.system.paths import is_within
from bertsmith.system.small_files import SmallFiles
from bertsmith.tasks.cross_encoder import MODEL_KEY, OLD_KEY
from bertsmith.tasks.sentence_folder import read_settings, sentence_files
from bertsmith.tokenization.tokenizer import Tokenizer
from bertsmith.training.model_card import write_card
from bertsmith.training.run_folder import MODEL_FILES

RECORD_FILE = "compression.json"
"""File of a smaller model with a list of the compressions that made it, the first one first."""


@dataclass(frozen=True)
class SourceModel:
    """Model to make smaller, as it was read.

    `corpus` is the folder of a corpus to score it on, if there is one.
    """

    folder: ModelFolder
    model: BertModel
    corpus: Path | None = None

    @property
    def path(self) -> Path:
        return self.folder.path

    @property
    def tokenizer(self) -> Tokenizer:
        return self.folder.tokenizer


@dataclass(frozen=True)
class CompressionResult:
    """Result of a compression, whose model is saved in `out`."""

    out: Path
    description: str
    """The parts that were kept, in words."""
    facts: Mapping[str, Any]
    """The parts that were kept, as JSON values: the layers, or the number of tokens."""
    comparison: ModelComparison
    """Size, speed and scores of both models, side by side."""
    notes: tuple[str, ...] = ()
    """Remarks for the user, such as what was left out."""

    def to_json(self) -> dict[str, Any]:
        return {
            "out": str(self.out),
            **to_jsonable(self.facts),
            "notes": list(self.notes),
            **self.comparison.to_json(),
        }

    def __str__(self) -> str:
        return "\n".join(
            [self.description, *self.notes, f"model in {self.out}", "", str(self.comparison)]
        )


@dataclass(frozen=True)
class SmallerModel:
    """Smaller model that is not saved yet.

    `description`, `facts` and `notes` become those of the `CompressionResult`.
    """

    model: BertModel
    tokenizer: Tokenizer
    description: str
    facts: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    texts: Sequence[str] = ()
    """Texts on which the vectors of both models are compared."""
    kept_ids: Tensor | None = None
    """Old ids of the tokens that were kept; None for all."""


def check_model_out(out: Path, source: Path, *, overwrite: bool) -> None:
    """Refuse an output folder whose content would be lost; the folder must exist.

    Raises:
        ConfigError: the folder holds the source, or other files than those of a model, or a model
            and `overwrite` is false; or `check_is_replaceable` refuses it.
    """
    if is_within(source, out):
        raise ConfigError(f"{out}: holds the model {source}. Choose another {option('out')}.")
    check_is_replaceable(out)
    if not any(out.iterdir()):
        return
    names = (*MODEL_FILES, *sentence_files(SmallFiles(out)), RECORD_FILE)
    model_names = {Path(name).parts[0] for name in names}
    model_names |= {CARD_FILE} if is_own_card(out) else set()
    others = sorted({path.name for path in out.iterdir()} - model_names)
    if others:
        raise ConfigError(
            f"{out}: holds more than a model ({', '.join(others[:3])}). Choose another "
            f"{option('out')}."
        )
    if not overwrite:
        raise ConfigError(
            f"{out}: holds a model. Pass {option('overwrite', True)} to replace it, or choose "
            f"another {option('out')}."
        )


def save_and_compare(
    source: SourceModel, smaller: SmallerModel, out: Path, comparison_input: ComparisonInput
) -> CompressionResult:
    """Save the smaller model, compare it with its source, and record both.

    `comparison_input` says on which data both are compared; with a corpus in its place, they are
    scored on held-out rows of the corpus.
    """
    report = smaller.model.load_report
    notes = smaller.notes
    if report is not None and report.unused:
        notes = (
            *notes,
            f"left out, since no part of the model uses it: {', '.join(report.unused[:3])}",
        )
    if (source.path / GENERATOR).is_dir():
        notes = (
            *notes,
            f"left out: {GENERATOR}/, so the folder can be fine-tuned, but not continued by "
            f"'bertsmith pretrain {option('from')}'",
        )
    measure = None if comparison_input.data else _measure_on_corpus(source, smaller)
    with atomic_dir(out) as folder:
        save_model(smaller.model.cpu(), folder, smaller.tokenizer)
        _copy_sentence_files(source.folder.files, folder)
        _copy_cross_encoder_entries(source.folder.settings, folder)
        comparison = compare_side_by_side(
            source.folder,
            read_folder(folder),
            replace(comparison_input, texts=smaller.texts, measure=measure),
        )
        record = {
            "version": __version__,
            "source": str(source.path),
            **to_jsonable(smaller.facts),
            **comparison.to_json(),
        }
        records = [*read_settings(source.folder.files, RECORD_FILE, absent=[]), record]
        write_json(folder / RECORD_FILE, records)
        config = to_jsonable(smaller.model.config)
        # The card is written from the entries that run.json has after a training run.
        write_card(
            folder, {"config": {"model": config}, "compression": records}, out.resolve().name
        )
    return CompressionResult(out, smaller.description, smaller.facts, comparison, notes)


def _measure_on_corpus(source: SourceModel, smaller: SmallerModel) -> Measure | None:
    """Build the function that scores a model on the corpus; None if there is nothing to score."""
    if source.corpus is None or "masked_lm" not in smaller.model.heads:
        return None
    objective = corpus_objective(source.corpus, smaller.model, source.tokenizer)
    return measure_held_out(objective, smaller.kept_ids, source.tokenizer.unk_id)


def _copy_sentence_files(source: SmallFiles, folder: Path) -> None:
    """Copy the files that make the source a sentence encoder, if it is one.

    If the source is in a subfolder of the sentence encoder, these files are in the folder around
    it.
    """
    names = sentence_files(source)
    with recording_checksums(folder, *names):
        for name in names:
            # A path in modules.json may lead out of the folder.
            if source.path(name).is_file() and is_within(folder / name, folder):
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source.path(name), folder / name)
        if source.outer is not None:
            _move_model_to_root(folder)


def _copy_cross_encoder_entries(settings: Mapping[str, Any], folder: Path) -> None:
    """Copy the entries of config.json that only sentence-transformers writes, for a CrossEncoder.

    They say that the model reads pairs, and which function is applied to its output. `settings` is
    the source's config.json.
    """
    entries = {key: settings[key] for key in (MODEL_KEY, OLD_KEY) if key in settings}
    if entries:
        config = SmallFiles(folder).read_json(CONFIG_FILE)
        with recording_checksums(folder, CONFIG_FILE):
            write_json(folder / CONFIG_FILE, config | entries)


def _move_model_to_root(folder: Path) -> None:
    """Change modules.json to say that the model is in the folder itself, not in one below it."""
    modules = SmallFiles(folder).read_json(MODULES_FILE, content_type=list)
    for module in modules:
        if module_name(module) == "Transformer":
            module["path"] = ""
    write_json(folder / MODULES_FILE, modules)
