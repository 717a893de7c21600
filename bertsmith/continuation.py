"""A model folder and a corpus → a model that goes on from the folder's weights, made to fit.

The shape is the folder's. What may differ is told in a report: a vocabulary that the corpus's has
more pieces than, positions, heads that the folder has not (new) or has and pre-training has not
(dropped). Whatever else differs is refused before anything is written.
"""

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from torch import Tensor

from bertsmith.errors import ConfigError
from bertsmith.files import sha256_file
from bertsmith.model.bert import BertConfig, BertModel, Pooler
from bertsmith.model.electra_pair import GENERATOR, ElectraPair, load_generator
from bertsmith.model.growth import extend_words, set_positions, start_masked_lm_head
from bertsmith.model.heads import MaskedLMHead
from bertsmith.model.huggingface import (
    build_config,
    family_of,
    find_checkpoint,
    listed,
    load_model,
    read_config,
)
from bertsmith.model.weights import weight_files
from bertsmith.tasks.pretraining_settings import ObjectiveName
from bertsmith.text.extension import ids_before
from bertsmith.text.normalize import Normalizer
from bertsmith.text.tokenizer import Tokenizer
from bertsmith.text.wordpiece import WordPieceTokenizer


@dataclass(frozen=True)
class StartReport:
    """What became of the folder that a run goes on from; saved in `run.json`."""

    folder: str
    weights: Mapping[str, str]
    """SHA-256 of each file of weights."""
    num_kept: int
    """Weights that were taken over, by Hugging Face's count."""
    num_words: tuple[int, int]
    """Pieces of the vocabulary, before and after."""
    num_unknown: int
    """New pieces of characters that the old vocabulary has not; they begin as the mean word."""
    num_positions: tuple[int, int]
    """Tokens that the model can read, before and after."""
    new: tuple[str, ...]
    """Heads that the folder lacks, and how each begins."""
    dropped: tuple[str, ...]
    """Weights that pre-training has no use for, by their names in the folder."""

    def __str__(self) -> str:
        """In a line, for the beginning of a run."""
        return "; ".join(" ".join(line.split()) for line in describe_start(asdict(self)))


def describe_start(report: Mapping[str, Any] | None) -> Iterator[str]:
    """The lines of a `StartReport`, as plain values, or of none."""
    if report is None:
        return
    words, positions = report["num_words"], report["num_positions"]
    kept = [f"{report['num_kept']} weights"]
    if words[0] == words[1]:
        kept.append(f"vocabulary of {words[0]:,} pieces")
    if positions[0] == positions[1]:
        kept.append(f"{positions[0]} positions")
    yield f"from       {report['folder']}: kept {', '.join(kept)}"
    if words[0] != words[1]:
        unknown = report["num_unknown"]
        others = f"; {unknown:,} of unknown characters as the mean of all" if unknown else ""
        yield (
            f"extended   vocabulary from {words[0]:,} to {words[1]:,} pieces, each new one as the "
            f"mean of its old pieces{others}"
        )
    if positions[0] < positions[1]:
        yield f"longer     positions from {positions[0]} to {positions[1]}, by repeating them"
    elif positions[0] > positions[1]:
        yield f"shorter    positions from {positions[0]} to {positions[1]}"
    for each in report["new"]:
        yield f"new        {each}"
    if report["dropped"]:
        yield f"dropped    {listed(report['dropped'])}"


@dataclass(frozen=True)
class Source:
    """A folder to go on from, as it was read."""

    name: str
    directory: Path
    model: BertModel
    """It has the heads that will be trained; `fit` changes it."""
    tokenizer: Tokenizer
    stored: frozenset[str]
    """Which heads the folder has, and whether it has a `pooler`."""
    pooler: Pooler | None
    """The folder's, where the model that is trained has none."""
    generator: BertModel | None = None
    """The folder's, if replaced tokens are to be told; `fit` changes it."""

    @classmethod
    def open(cls, name: Path, heads: Sequence[str]) -> "Source":
        """Read a folder, or a model of the hub; heads and pooler that it lacks are random.

        Raises:
            CheckpointError: it is incomplete, altered, or holds another kind of model or tokenizer.
        """
        directory = find_checkpoint(name)
        tokenizer = Tokenizer.load(directory)
        model, pooler = load_model(directory, heads=heads), stored_pooler(directory)
        stored = {*load_model(directory).heads, *(["pooler"] if pooler is not None else [])}
        kept = pooler if model.pooler is None else None
        generator = load_generator(directory) if "replaced_token" in heads else None
        return cls(str(name), directory, model, tokenizer, frozenset(stored), kept, generator)

    @property
    def weights(self) -> dict[str, str]:
        """SHA-256 of each file of weights, by its name."""
        files = weight_files(self.directory)
        if self.generator is not None:
            files += weight_files(self.directory / GENERATOR)
        return {file.relative_to(self.directory).as_posix(): sha256_file(file) for file in files}

    @property
    def trained(self) -> BertModel:
        """The model that is trained: with its generator, if there is one."""
        return self.model if self.generator is None else ElectraPair.of(self.model, self.generator)

    def fit(
        self, tokenizer: Tokenizer, corpus: Path, counts: Callable[[], Tensor], positions: int
    ) -> StartReport:
        """Make the model read `corpus`, whose tokenizer this is, and `positions` tokens at once.

        Args:
            counts: gives how often each word of the corpus occurs; asked for a new head only.

        Raises:
            ConfigError: the tokenizer is neither the folder's nor an extension of it.
        """
        old, before = self.tokenizer, self.model.config.max_length
        check_extends(old, tokenizer, self.name, corpus)
        added = tokenizer.vocab[old.vocab_size :]
        pieces = list(ids_before(old, added))
        for model in [self.model, *([] if self.generator is None else [self.generator])]:
            if pieces:
                extend_words(model, old.vocab_size, pieces)
            if positions != before:
                set_positions(model, positions)
        report = self.model.load_report
        assert report is not None
        return StartReport(
            folder=self.name,
            weights=self.weights,
            num_kept=len(report.matched),
            num_words=(old.vocab_size, tokenizer.vocab_size),
            num_unknown=sum(not ids for ids in pieces),
            num_positions=(before, positions),
            new=tuple(self._new_heads(counts)),
            dropped=tuple(n for n in report.unused if "pooler" not in n or self.pooler is None),
        )

    def _new_heads(self, counts: Callable[[], Tensor]) -> Iterator[str]:
        """Start the masked-LM head if the folder has none, and name all that is new."""
        if "masked_lm" in self.model.heads and "masked_lm" not in self.stored:
            start_masked_lm_head(cast(MaskedLMHead, self.model.heads["masked_lm"]), counts())
            yield "masked-LM head, from the word embedding and the corpus's word frequencies"
        if "pooler" not in self.stored and self.model.pooler is not None:
            yield "pooler, at random"
        for name in self.model.heads:
            if name not in self.stored and name != "masked_lm":
                yield f"{name.replace('_', '-')} head, at random"


def stored_config(name: Path) -> BertConfig:
    """The config of a folder, or of a model of the hub.

    Raises:
        CheckpointError: there is none, or it is of no family that we have.
    """
    directory = find_checkpoint(name)
    return build_config(directory, read_config(directory))


def stored_objective(name: Path) -> ObjectiveName:
    """What the model of a folder has learnt of tokens, or its family when it was new."""
    settings = read_config(find_checkpoint(name))
    family = family_of(settings)
    guesses = family.architectures[frozenset({"masked_lm"})]
    return "masked_lm" if guesses in (settings.get("architectures") or ()) else family.objective


def stored_pooler(directory: Path) -> Pooler | None:
    """The pooler of a folder, if it has one."""
    return load_model(directory, heads=()).pooler


@contextlib.contextmanager
def with_pooler(model: BertModel, pooler: Pooler | None) -> Iterator[None]:
    """In the block, a model without a pooler has this one."""
    before = model.pooler
    model.pooler = before or pooler
    try:
        yield
    finally:
        model.pooler = before


def check_extends(old: Tokenizer, new: Tokenizer, source: str, corpus: Path) -> None:
    """See that a corpus's tokenizer is the model's, perhaps with more pieces behind its own.

    Raises:
        ConfigError: says the first thing that differs.
    """
    if (difference := first_difference(old, new)) is not None:
        raise ConfigError(
            f"{corpus}: its tokenizer is not that of {source}: {difference}. Build the corpus with "
            f"--tokenizer {source}, or with what 'bertsmith tokenizer extend --from {source}' "
            "writes."
        )


def first_difference(old: Tokenizer, new: Tokenizer) -> str | None:
    """How `new` differs from `old` other than by further pieces; None where it does not."""
    if type(old) is not type(new):
        return "it is of another kind"
    for id_, (theirs, ours) in enumerate(zip(old.vocab, new.vocab, strict=False)):
        if theirs != ours:
            return f"id {id_:,} is {ours!r}, and {theirs!r} there"
    if new.vocab_size < old.vocab_size:
        return f"it has {new.vocab_size:,} pieces, and {old.vocab_size:,} there"
    if (difference := new.other_cuts(old)) is not None:
        return difference
    mine, others = deciding_settings(old), deciding_settings(new)
    for name, value in mine.items():
        if others[name] != value:
            return f"{name} is {others[name]!r}, and {value!r} there"
    return None


def deciding_settings(tokenizer: Tokenizer) -> dict[str, Any]:
    """The settings that decide ids, comparable."""
    settings = tokenizer.settings()
    for name in ("model_max_length", "decoder_cleanup", "trim_offsets"):
        settings.pop(name, None)
    if charsmap := settings.get("charsmap"):
        settings["charsmap"] = hashlib.sha256(charsmap).hexdigest()
    if isinstance(tokenizer, WordPieceTokenizer):
        rules = Normalizer(tokenizer.lowercase, tokenizer.strip_accents)
        settings["strip_accents"] = rules.strips_accents
    settings["added_tokens"] = sorted(token.content for token in tokenizer.added_tokens)
    return settings
