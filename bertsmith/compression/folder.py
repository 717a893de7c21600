"""Save a compressed model as a folder, and compare it with its source.

The source is only read. The new folder is a normal one, appears whole or not at all, and records in
`compression.json` each step that made it, with metrics from before and after.
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import tyro
from torch import Tensor

from bertsmith._version import __version__
from bertsmith.compression.held_out import corpus_objective, held_out_figures
from bertsmith.config import to_jsonable
from bertsmith.errors import ConfigError
from bertsmith.evaluation.side_by_side import Comparison, Measure, Trial, compare
from bertsmith.model.bert import BertModel
from bertsmith.model.electra_pair import GENERATOR
from bertsmith.model.hub import find_checkpoint
from bertsmith.model.loading import build
from bertsmith.model.model_folder import ModelFolder, read_folder
from bertsmith.model.saving import save_model
from bertsmith.system.bounds import check_all_largest
from bertsmith.system.compute import InferenceCompute
from bertsmith.system.files import atomic_dir, hold_folder, write_json
from bertsmith.system.sums import summed
from bertsmith.tasks.sentence_folder import read_settings
from bertsmith.tokenization.tokenizer import Tokenizer
from bertsmith.training.run_folder import MODEL_FILES

RECORD_FILE = "compression.json"
SENTENCE_FILES = (
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "1_Pooling/config.json",
)
"""Files of a sentence encoder besides model and tokenizer; they stay valid."""


@dataclass(frozen=True)
class CompressSettings(InferenceCompute):
    """Settings of every way of making a model smaller."""

    model: tyro.conf.Positional[Path]
    """Folder of the model to make smaller; nothing in it is changed."""
    out: Path
    """Folder to write the smaller model to."""
    overwrite: bool = False
    """Replace an earlier model in --out."""
    data: Path | None = None
    """Labelled examples to score a fine-tuned model by, before and after: as --data of `bertsmith
    evaluate`."""
    limit: int | None = None
    """Number of rows of --data to take, from the first."""
    corpus: Path | None = None
    """Corpus for evaluating a pre-trained model, before and after, on its held-out rows: a folder
    of `bertsmith corpus build` with the model's tokenizer."""

    columns: tyro.conf.Suppress[Any] = None
    """Columns of the files."""

    @property
    def trial(self) -> Trial:
        """Data and settings by which the models are measured."""
        return Trial(
            self.data,
            self.columns,
            self.limit,
            device=self.device,
            precision=self.precision,
        )


@dataclass(frozen=True)
class Compressed:
    """Result of a compression."""

    out: Path
    done: str
    """Description for a reader."""
    facts: Mapping[str, Any]
    """Description for programs: the layers, heads or number of tokens."""
    comparison: Comparison
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "out": str(self.out),
            **to_jsonable(self.facts),
            "notes": list(self.notes),
            **self.comparison.to_json(),
        }

    def __str__(self) -> str:
        return "\n".join([self.done, *self.notes, f"model in {self.out}", "", str(self.comparison)])


@dataclass(frozen=True)
class Smaller:
    """Compressed model that is not saved yet, with texts to measure it on."""

    model: BertModel
    tokenizer: Tokenizer
    done: str
    facts: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    texts: Sequence[str] = ()
    kept_ids: Tensor | None = None
    """Old ids of the tokens that were kept; None for all."""


SettingsT = TypeVar("SettingsT", bound=CompressSettings)


def alone_in_out(compress: Callable[[SettingsT], Compressed]) -> Callable[[SettingsT], Compressed]:
    """Lock `settings.out` against other processes while `compress` runs."""

    @wraps(compress)
    def compress_alone(settings: SettingsT) -> Compressed:
        with hold_folder(settings.out):
            return compress(settings)

    return compress_alone


def open_source(settings: CompressSettings) -> tuple[ModelFolder, BertModel, Tokenizer]:
    """Open the source folder and load its model and tokenizer, after checking `out`."""
    check_all_largest(settings, "--")
    path = find_checkpoint(settings.model)
    check_out(settings.out, path, overwrite=settings.overwrite)
    source = read_folder(path)
    return source, build(source), source.tokenizer


def check_out(out: Path, source: Path, *, overwrite: bool) -> None:
    """Refuse an output folder whose content would be lost.

    Raises:
        ConfigError: a file, the source itself, a folder with anything but a model in it, or a model
            that may not be replaced.
    """
    if out.exists() and not out.is_dir():
        raise ConfigError(f"{out}: a file, not a folder. Choose another --out.")
    if source.resolve().is_relative_to(out.resolve()):
        raise ConfigError(f"{out}: holds the model {source}. Choose another --out.")
    if not out.exists() or not any(out.iterdir()):
        return
    known = {Path(name).parts[0] for name in (*MODEL_FILES, *SENTENCE_FILES, RECORD_FILE)}
    others = sorted({path.name for path in out.iterdir()} - known)
    if others:
        raise ConfigError(
            f"{out}: holds more than a model ({', '.join(others[:3])}). Choose another --out."
        )
    if not overwrite:
        raise ConfigError(
            f"{out}: holds a model. Pass --overwrite to replace it, or choose another --out."
        )


def finish(settings: CompressSettings, source: ModelFolder, smaller: Smaller) -> Compressed:
    """Save the smaller model, measure it beside its source, and record both."""
    report, notes = smaller.model.load_report, smaller.notes
    if report is not None and report.unused:
        notes = (*notes, f"left out, having no place in the model: {', '.join(report.unused[:3])}")
    if (source.path / GENERATOR).is_dir():
        notes = (
            *notes,
            f"left out: {GENERATOR}/, so the folder serves fine-tuning, and 'pretrain --from' "
            "cannot go on with it",
        )
    with atomic_dir(settings.out) as folder:
        save_model(smaller.model, folder, smaller.tokenizer)
        copy_sentence_files(source.path, folder)
        measure = measure_of(settings, source, smaller)
        trial = replace(settings.trial, texts=smaller.texts, measure=measure)
        comparison = compare(source, read_folder(folder), trial)
        record = {
            "version": __version__,
            "source": str(settings.model),
            **to_jsonable(smaller.facts),
            **comparison.to_json(),
        }
        write_json(folder / RECORD_FILE, [*read_settings(source.files, RECORD_FILE, []), record])
    return Compressed(settings.out, smaller.done, smaller.facts, comparison, notes)


def measure_of(settings: CompressSettings, source: ModelFolder, smaller: Smaller) -> Measure | None:
    """Build the measure of a pre-trained model, given a corpus and no --data."""
    if settings.data or settings.corpus is None or "masked_lm" not in smaller.model.heads:
        return None
    objective = corpus_objective(settings.corpus, smaller.model, source.tokenizer)
    return held_out_figures(objective, smaller.kept_ids, source.tokenizer.unk_id)


def copy_sentence_files(source: Path, folder: Path) -> None:
    """Copy the files that make a folder a sentence encoder, if it is one."""
    with summed(folder, *SENTENCE_FILES):
        for name in SENTENCE_FILES:
            if (source / name).is_file():
                (folder / name).parent.mkdir(exist_ok=True)
                shutil.copyfile(source / name, folder / name)
