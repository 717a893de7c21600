"""Continued pre-training (`--from`): adapt the model of a folder to a corpus.

The model keeps its layers and widths. A report lists the changes: additional tokens of the corpus's
vocabulary, the number of positions, heads that the folder lacks (new) and heads that pre-training
does not use (dropped). Any other difference is refused before anything is written.
"""

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from torch import Tensor

from bertsmith.errors import CheckpointError, ConfigError, option
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
from bertsmith.pretraining.config import PretrainConfig, SourceFacts
from bertsmith.system.files import sha256_file
from bertsmith.tokenization.normalize import Normalizer
from bertsmith.tokenization.tokenizer import Tokenizer
from bertsmith.tokenization.wordpiece import WordPieceTokenizer
from bertsmith.vocabulary.replaced_ids import replaced_ids


@dataclass(frozen=True)
class AdaptationReport:
    """Changes to the folder that a run starts from; saved in `run.json`."""

    folder: str
    weights: Mapping[str, str]
    """SHA-256 of each weight file."""
    num_kept: int
    """Number of weights kept, as Hugging Face counts them."""
    num_words: tuple[int, int]
    """Number of tokens in the vocabulary, before and after."""
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
        # `describe_start` aligns its lines in columns; in one line their spaces are not wanted.
        return "; ".join(" ".join(line.split()) for line in describe_start(asdict(self)))


def describe_start(report: Mapping[str, Any] | None) -> Iterator[str]:
    """Yield lines about an `AdaptationReport` as plain values; without a report, none."""
    if report is None:
        return
    old_vocab_size, vocab_size = report["num_words"]
    old_positions, positions = report["num_positions"]
    kept_parts = [f"{report['num_kept']} weights"]
    if old_vocab_size == vocab_size:
        kept_parts.append(f"vocabulary of {vocab_size:,} tokens")
    if old_positions == positions:
        kept_parts.append(f"{positions} positions")
    yield f"from       {report['folder']}: kept {', '.join(kept_parts)}"
    if old_vocab_size != vocab_size:
        unknown = report["num_unknown"]
        verb = "starts" if unknown == 1 else "start"
        exception = f"; {unknown:,} with unknown characters {verb} as the mean of all tokens"
        yield (
            f"extended   vocabulary from {old_vocab_size:,} to {vocab_size:,} tokens: each new "
            f"token starts as the mean of the tokens that it replaces{exception if unknown else ''}"
        )
    if old_positions < positions:
        method = ", by repeating them" if report.get("repeats_positions", True) else ""
        yield f"longer     positions from {old_positions} to {positions}{method}"
    elif old_positions > positions:
        yield f"shorter    positions from {old_positions} to {positions}"
    for new_part in report["new"]:
        yield f"new        {new_part}"
    if report["dropped"]:
        yield f"dropped    {list_weights(report['dropped'])}"


def adapt(
    config: PretrainConfig, folder: ModelFolder, tokenizer: Tokenizer, counts: Callable[[], Tensor]
) -> tuple[BertModel, Pooling | None, AdaptationReport]:
    """Build the model to continue, with the heads to train, the corpus's vocabulary and positions.

    Args:
        folder: the folder of the model.
        tokenizer: the tokenizer of the corpus.
        counts: returns the number of occurrences of each token, `[vocabulary]`; called only if the
            masked-LM head is new.

    Returns:
        The model, fp32 on the CPU; the folder's pooler, if the model has none; and a report of the
        changes.

    Raises:
        CheckpointError: the folder is incomplete, altered, or holds another kind of model or
            tokenizer.
        ConfigError: the tokenizer is neither the folder's nor an extension of it.
    """
    heads = config.pretraining.heads
    positions = config.model.max_length
    old_tokenizer = folder.tokenizer
    model = build(folder, heads)
    stored = {*folder.heads, *(["pooler"] if folder.has_pooler else [])}
    # A pooler that no head of pre-training reads is put aside, and saved with the model again.
    pooler = stored_pooler(folder) if model.pooler is None else None
    generator = load_generator(folder.path) if config.pretraining.has_generator else None
    check_extends(old_tokenizer, tokenizer, config.source, config.corpus)
    old_positions = model.config.max_length
    # For each new token, the old tokens whose embeddings are averaged for it
    new_tokens = tokenizer.vocab[old_tokenizer.vocab_size :]
    ids_of_new_tokens = list(replaced_ids(old_tokenizer, new_tokens))
    for part in (model, generator):
        if part is not None and ids_of_new_tokens:
            extend_words(part, old_tokenizer.vocab_size, ids_of_new_tokens)
        if part is not None and positions != old_positions:
            set_positions(part, positions)
    load_report = model.load_report  # lists the weights of the folder that the model took, or not
    assert load_report is not None
    dropped = list(load_report.unused)
    if pooler is not None:  # `save_with_pooler` saves it with the model, so it is not dropped
        dropped = [name for name in dropped if "pooler" not in name]
    new_heads = _initialize_new_heads(model, stored, counts)
    report = AdaptationReport(
        folder=config.source,
        weights=config.source_weights,
        num_kept=len(load_report.matched),
        num_words=(old_tokenizer.vocab_size, tokenizer.vocab_size),
        num_unknown=sum(not ids for ids in ids_of_new_tokens),
        num_positions=(old_positions, positions),
        repeats_positions=model.config.has_position_embedding,
        new=new_heads,
        dropped=tuple(dropped),
        reason_to_reset=reason_to_reset(folder.run),
    )
    if generator is not None:
        model = ElectraPair.of(model, generator)
    return model, pooler, report


def _initialize_new_heads(
    model: BertModel, stored: Collection[str], counts: Callable[[], Tensor]
) -> tuple[str, ...]:
    """Initialize a masked-LM head that the folder lacks, and describe all heads that it lacks.

    Other heads that it lacks, and a pooler, were drawn at random when the model was built.

    Args:
        stored: names of the heads that the folder has, and "pooler" if it has one.
    """
    descriptions = []
    if "masked_lm" in model.heads and "masked_lm" not in stored:
        start_masked_lm_head(cast(MaskedLMHead, model.heads["masked_lm"]), counts())
        descriptions.append(
            "masked-LM head, from the word embedding and the corpus's token frequencies"
        )
    if "pooler" not in stored and model.pooler is not None:
        descriptions.append("pooler, at random")
    others = [name for name in model.heads if name not in stored and name != "masked_lm"]
    descriptions += [f"{name.replace('_', '-')} head, at random" for name in others]
    return tuple(descriptions)


def source_facts(
    name: str, folder: ModelFolder, weights: Mapping[str, str] | None = None
) -> SourceFacts:
    """Return facts about the model to continue, read from its folder or a checkpoint of the run.

    Args:
        name: the model's folder or hub name, as the user gave it.
        folder: the model's folder, or the checkpoint if the run is resumed.
        weights: the SHA-256 of each weight file of the model; None to compute them from `folder`,
            which must not be a checkpoint, since its weights have changed.

    Raises:
        CheckpointError: the folder is damaged, or its family cannot be pre-trained.
    """
    folder.check_encoder()
    if "masked_lm" not in folder.family.heads:
        raise CheckpointError(
            f"{folder.path}: static vectors have no layers to pre-train. Leave out "
            f"{option('from')} for a new BERT, which can begin with vectors counted in its corpus "
            f"({option('word_initializer', 'counted')})."
        )
    # Of the two models of an ELECTRA, the generator's config.json names the class for masked LM,
    # the discriminator's another one.
    masked_lm_class = folder.family.architectures[frozenset({"masked_lm"})]
    is_masked_lm = masked_lm_class in (folder.settings.get("architectures") or ())
    objective = "masked_lm" if is_masked_lm else folder.family.objective
    if weights is None:
        weights = weight_sums(folder.path)
    return SourceFacts(name, weights, folder.config, objective)


def stored_pooler(folder: ModelFolder) -> Pooling | None:
    """Build the pooler of a folder with its weights; None if it has none."""
    # Without heads, the model has the pooler of its folder.
    return build(folder, heads=()).pooler if folder.has_pooler else None


def weight_sums(directory: Path) -> dict[str, str]:
    """Compute the SHA-256 of each weight file by name."""
    files = weight_files(directory)
    if has_generator(directory):
        files += weight_files(directory / GENERATOR)
    return {file.relative_to(directory).as_posix(): sha256_file(file) for file in files}


def save_with_pooler(
    model: BertModel, pooler: Pooling | None, tokenizer: Tokenizer, folder: Path
) -> None:
    """Save a model with this pooler, if it has none of its own.

    Raises:
        CheckpointError: the tokenizer has more tokens than the model has embeddings.
        InputError: the disk is full or cannot be written.
    """
    own_pooler = model.pooler
    model.pooler = own_pooler or pooler
    try:
        save_model(model, folder, tokenizer)
    finally:
        model.pooler = own_pooler


def check_extends(old: Tokenizer, new: Tokenizer, source: str, corpus: Path) -> None:
    """Check that a corpus's tokenizer equals or extends the model's.

    Raises:
        ConfigError: the tokenizers differ; the message has the first difference.
    """
    if (difference := first_difference(old, new)) is not None:
        raise ConfigError(
            f"{corpus}: its tokenizer is not that of {source}: {difference}. Build the corpus with "
            f"{option('tokenizer', source)}, or with what 'bertsmith tokenizer extend "
            f"{option('from', source)}' writes."
        )


def first_difference(old: Tokenizer, new: Tokenizer) -> str | None:
    """Describe the first difference between two tokenizers; None if there is none.

    Tokens that `new` has after all tokens of `old` are no difference, unless they are added tokens
    (which are searched for in the text): those must be the same.
    """
    if type(old) is not type(new):
        return "it is of another kind"
    for id_, (old_token, new_token) in enumerate(zip(old.vocab, new.vocab, strict=False)):
        if old_token != new_token:
            return f"id {id_:,} is {new_token!r} instead of {old_token!r}"
    if new.vocab_size < old.vocab_size:
        return f"it has {new.vocab_size:,} tokens, fewer than {old.vocab_size:,}"
    # Even with equal tokens, words may be split otherwise, such as by other merges of BPE.
    if (difference := new.other_cuts(old)) is not None:
        return difference
    old_settings, new_settings = deciding_settings(old), deciding_settings(new)
    for name, value in old_settings.items():
        if new_settings[name] != value:
            return f"{name} is {new_settings[name]!r} instead of {value!r}"
    return None


def deciding_settings(tokenizer: Tokenizer) -> dict[str, Any]:
    """Return the settings that affect token ids, in a form that can be compared."""
    # What decides by default is put in place of None, long tables are hashed, and what affects only
    # lengths, decoding and offsets is left out.
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
