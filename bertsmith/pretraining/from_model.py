"""Continued pre-training: a model folder adapted to a corpus.

The shape is the folder's. A report lists what differs: additional tokens of the corpus's
vocabulary, positions, heads that the folder lacks (new) or that pre-training lacks (dropped). Any
other difference is refused before anything is written.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from torch import Tensor

from bertsmith.errors import ConfigError
from bertsmith.model.bert import BertModel
from bertsmith.model.electra_pair import GENERATOR, ElectraPair, has_generator, load_generator
from bertsmith.model.heads import MaskedLMHead
from bertsmith.model.layers import Pooling
from bertsmith.model.load_report import list_weights
from bertsmith.model.loading import build
from bertsmith.model.model_folder import ModelFolder
from bertsmith.model.reinitialize import extend_words, set_positions, start_masked_lm_head
from bertsmith.model.saving import save_model
from bertsmith.model.weights import weight_files
from bertsmith.pretraining.cls_attention import reason_to_reset
from bertsmith.pretraining.config import SourceFacts
from bertsmith.pretraining.settings import ObjectiveName
from bertsmith.system.files import sha256_file
from bertsmith.system.paths import shell_path
from bertsmith.tokenization.normalize import Normalizer
from bertsmith.tokenization.tokenizer import Tokenizer
from bertsmith.tokenization.wordpiece import WordPieceTokenizer
from bertsmith.vocabulary.extension import ids_before


@dataclass(frozen=True)
class AdaptationReport:
    """Changes to the folder that a run starts from; saved in `run.json`."""

    folder: str
    weights: Mapping[str, str]
    """SHA-256 of each weight file."""
    num_kept: int
    """Number of weights kept, as Hugging Face counts them."""
    num_words: tuple[int, int]
    """Vocabulary size, before and after."""
    num_unknown: int
    """Number of new tokens with unknown characters; they start as the mean embedding."""
    num_positions: tuple[int, int]
    """Maximum length in tokens, before and after."""
    repeats_positions: bool
    """Whether the model has position embeddings, which are repeated."""
    new: tuple[str, ...]
    """Heads that the folder lacks, and their initialization."""
    dropped: tuple[str, ...]
    """Weights that pre-training does not use, by their names in the folder."""
    reason_to_reset: str
    """Reason to reset the attention of [CLS] in the folder, empty if none; see cls_attention.py."""

    def __str__(self) -> str:
        return "; ".join(" ".join(line.split()) for line in describe_start(asdict(self)))


def describe_start(report: Mapping[str, Any] | None) -> Iterator[str]:
    """Yield lines on a `AdaptationReport`, given as plain values; none for None."""
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
        how = ", by repeating them" if report.get("repeats_positions", True) else ""
        yield f"longer     positions from {positions[0]} to {positions[1]}{how}"
    elif positions[0] > positions[1]:
        yield f"shorter    positions from {positions[0]} to {positions[1]}"
    for each in report["new"]:
        yield f"new        {each}"
    if report["dropped"]:
        yield f"dropped    {list_weights(report['dropped'])}"


@dataclass(frozen=True)
class InitialModel:
    """A loaded model folder to continue from."""

    name: str
    directory: Path
    model: BertModel
    """The model with the heads to train; `fit` changes it."""
    tokenizer: Tokenizer
    stored: frozenset[str]
    """Names of the heads that the folder has, and `pooler` if it has one."""
    pooler: Pooling | None
    """The folder's pooler, where the trained model has none."""
    reason_to_reset: str
    """Reason to reset the attention of [CLS]; see cls_attention.py."""
    generator: BertModel | None = None
    """The folder's generator, for replaced token detection; `fit` changes it."""

    @classmethod
    def of(cls, name: str, folder: ModelFolder, heads: Sequence[str]) -> "InitialModel":
        """Build the model of a folder, which the user calls `name`; missing heads are random.

        Raises:
            CheckpointError: it is incomplete, altered, or holds another kind of model or tokenizer.
        """
        tokenizer, model = folder.tokenizer, build(folder, heads)
        stored = {*folder.heads, *(["pooler"] if folder.has_pooler else [])}
        kept = stored_pooler(folder) if model.pooler is None else None
        generator = load_generator(folder.path) if "replaced_token" in heads else None
        reason = reason_to_reset(folder.run)
        return cls(name, folder.path, model, tokenizer, frozenset(stored), kept, reason, generator)

    @property
    def trained(self) -> BertModel:
        """The model to train, with its generator if it has one."""
        return self.model if self.generator is None else ElectraPair.of(self.model, self.generator)

    def fit(
        self, tokenizer: Tokenizer, corpus: Path, counts: Callable[[], Tensor], positions: int
    ) -> AdaptationReport:
        """Extend the model to the corpus's vocabulary and to `positions` tokens.

        Args:
            tokenizer: the tokenizer of `corpus`.
            counts: returns the frequency of each token; called for a new head only.

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
        return AdaptationReport(
            folder=self.name,
            weights=weight_sums(self.directory, with_generator=self.generator is not None),
            num_kept=len(report.matched),
            num_words=(old.vocab_size, tokenizer.vocab_size),
            num_unknown=sum(not ids for ids in pieces),
            num_positions=(before, positions),
            repeats_positions=self.model.config.has_position_embedding,
            new=tuple(self._new_heads(counts)),
            dropped=tuple(n for n in report.unused if "pooler" not in n or self.pooler is None),
            reason_to_reset=self.reason_to_reset,
        )

    def _new_heads(self, counts: Callable[[], Tensor]) -> Iterator[str]:
        """Initialize a missing masked-LM head, and describe all new parts."""
        if "masked_lm" in self.model.heads and "masked_lm" not in self.stored:
            start_masked_lm_head(cast(MaskedLMHead, self.model.heads["masked_lm"]), counts())
            yield "masked-LM head, from the word embedding and the corpus's word frequencies"
        if "pooler" not in self.stored and self.model.pooler is not None:
            yield "pooler, at random"
        for name in self.model.heads:
            if name not in self.stored and name != "masked_lm":
                yield f"{name.replace('_', '-')} head, at random"


def source_facts(
    name: str, folder: ModelFolder, weights: Mapping[str, str] | None = None
) -> SourceFacts:
    """Return what a run takes from the model `name`, by its folder or a checkpoint of the run.

    `weights` are the checksums of the model's files where `folder` is a checkpoint.
    """
    guesses = folder.family.architectures[frozenset({"masked_lm"})]
    is_masked_lm = guesses in (folder.settings.get("architectures") or ())
    objective: ObjectiveName = "masked_lm" if is_masked_lm else folder.family.objective
    if weights is None:
        weights = weight_sums(folder.path, with_generator=has_generator(folder.path))
    return SourceFacts(name, weights, folder.config, objective)


def stored_pooler(folder: ModelFolder) -> Pooling | None:
    return build(folder, ()).pooler if folder.has_pooler else None


def weight_sums(directory: Path, *, with_generator: bool) -> dict[str, str]:
    """Compute the SHA-256 of each weight file by name."""
    files = weight_files(directory)
    if with_generator:
        files += weight_files(directory / GENERATOR)
    return {file.relative_to(directory).as_posix(): sha256_file(file) for file in files}


def save_with_pooler(
    model: BertModel, pooler: Pooling | None, tokenizer: Tokenizer, folder: Path
) -> None:
    """Save a model with this pooler, if it has none of its own."""
    before = model.pooler
    model.pooler = before or pooler
    try:
        save_model(model, folder, tokenizer)
    finally:
        model.pooler = before


def check_extends(old: Tokenizer, new: Tokenizer, source: str, corpus: Path) -> None:
    """Check that a corpus's tokenizer equals or extends the model's.

    Raises:
        ConfigError: names the first difference.
    """
    if (difference := first_difference(old, new)) is not None:
        folder = shell_path(source)
        raise ConfigError(
            f"{corpus}: its tokenizer is not that of {source}: {difference}. Build the corpus with "
            f"--tokenizer {folder}, or with what 'bertsmith tokenizer extend --from {folder}' "
            "writes."
        )


def first_difference(old: Tokenizer, new: Tokenizer) -> str | None:
    """Describe a difference of `new` other than additional tokens, if any."""
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
    """Return the settings that affect token ids, comparable."""
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
