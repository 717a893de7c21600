"""Looks inside a BERT, or another encoder, while it reads a text as its task does."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bertsmith.errors import CheckpointError, ConfigError, SettingError, option
from bertsmith.inspection.corpus_view import CorpusView, view_corpus
from bertsmith.inspection.decisions import TextDecisions, decide, head_name
from bertsmith.inspection.explanations import explain
from bertsmith.inspection.head_statistics import HeadStatistics, StatisticsSum
from bertsmith.inspection.heads_by_name import parse_heads
from bertsmith.inspection.look_result import Look, shown_path
from bertsmith.inspection.page import LookPage, page_data
from bertsmith.inspection.page_limits import count_page_tokens
from bertsmith.inspection.run_steps import RunStep, look_at_steps
from bertsmith.inspection.saliency import Attribution
from bertsmith.inspection.shown_lens import show_lens
from bertsmith.inspection.shown_text import ShownText, read_text
from bertsmith.model.head_names import MEMBERS_FOLDER
from bertsmith.system.bounds import check_largest
from bertsmith.tasks.auto import FolderPath, load_with_gradients
from bertsmith.tasks.averaged_classification import AveragedTask
from bertsmith.tasks.linear_classification import LinearTask
from bertsmith.tasks.predictor import Predictor


@dataclass(frozen=True)
class CorpusRequest:
    """A file of texts, its columns, and the number of texts to read, from the first.

    Raises:
        SettingError: the number is out of range.
    """

    path: Path
    columns: Any
    num_texts: int

    def __post_init__(self) -> None:
        if self.num_texts < 1:
            raise SettingError("num_texts", self.num_texts, "1 or more")
        check_largest("num_texts", self.num_texts)


class TextLook(Look):
    """The inside of a BERT, or of another encoder, while it reads a text.

    A decision is a part of the prediction, such as a label, an entity or a word for [MASK].
    `attentions` has an array for each layer, fp32 [heads, tokens, tokens]: the weight that each
    token (row) gives to each token (column). `attributions` has one entry for each decision, None
    where none was computed. `lens` is the prediction of each layer, as `show_lens` returns it.
    """

    def __init__(self, page: LookPage) -> None:
        self.page = page
        shown = page.decided.shown
        super().__init__(page_data(page), [piece.token for piece in shown.pieces], shown.num_all)

    @property
    def attentions(self) -> list[NDArray[np.float32]]:
        return [weights.numpy() for weights in self.page.decided.layers.attentions]

    @property
    def decided(self) -> TextDecisions:
        """The decisions of the model."""
        return self.page.decided

    @property
    def attributions(self) -> Sequence[Attribution | None]:
        return self.page.attributions

    @property
    def lens(self) -> dict[str, Any] | None:
        return self.page.lens

    @property
    def statistics(self) -> HeadStatistics:
        """Statistics of all heads, over the file if one was given, else over the text."""
        return self.page.statistics


def load_for_look(model: FolderPath, device: str, max_length: int | None) -> Predictor[Any]:
    """Load a model that computes gradients of its inputs, but not of its weights.

    Raises:
        CheckpointError: the folder cannot be loaded, or holds several models.
        ConfigError: there is no such device, or a length that the model does not read.
    """
    predictor = load_with_gradients(model, device=device, max_length=max_length)
    if not predictor.model.config.num_layers:
        raise CheckpointError(
            f"{predictor.loaded.folder.path}: it holds a vector for each token and no layers, so "
            "that there is no attention to look at. Give a folder of a BERT or another encoder."
        )
    _check_is_one_model(predictor)
    predictor.model.requires_grad_(False)
    return predictor


def look_at_text(
    path: FolderPath,
    predictor: Predictor[Any],
    text: str,
    pair: Sequence[str],
    *,
    corpus: CorpusRequest | None,
    checkpoints: bool,
    without: Sequence[str],
    words: bool,
    language: str,
) -> TextLook:
    """Look at a text as the model's task reads it.

    Args:
        path: the model as the user named it, a folder or a name on the Hugging Face hub.
        pair: the second text, the passage of a question, or the choices of a prompt.
        corpus: a file of texts, for statistics of the heads and a map of the texts' vectors.
        checkpoints: whether to look at the checkpoints of the folder's run as well.
        without: names of attention heads such as "2.1"; the prediction without them is shown, too.
        words: whether the page first shows words instead of tokens.
        language: the language of the page, "en" or "zh".

    Raises:
        InputError: a text is empty, the task reads fewer or more texts, or the file has no text.
        ConfigError: there is no such head.
        CheckpointError: the checkpoints are of another model.
    """
    config = predictor.model.config
    heads = parse_heads(without, config.num_layers, config.num_attention_heads)
    loaded_length = predictor.loaded.max_length
    total_heads = config.num_layers * config.num_attention_heads
    # As many tokens as the user asked for, else as many as fit on a page, but never more than the
    # model reads.
    limit = min(loaded_length, predictor.loaded.requested_length or count_page_tokens(total_heads))
    rows = read_text(predictor, text, pair, limit)  # one; of a multiple choice, one per choice
    decided = decide(predictor, rows)
    if heads:
        _check_can_change(predictor, decided)
    steps: Sequence[RunStep] = ()
    num_steps = 0
    if checkpoints:
        steps, num_steps = look_at_steps(predictor, rows, decided)
    view: CorpusView | None = None
    if corpus is not None:
        view = view_corpus(predictor, corpus.path, corpus.columns, corpus.num_texts, limit)
    shown = decided.shown
    page = LookPage(
        folder=shown_path(path),
        config=config,
        decided=decided,
        # Labels are put into the order of `decided`, so that the page can compare both.
        without=decide(predictor, rows, without=heads, reference=decided) if heads else None,
        without_heads=tuple(sorted(heads)),
        attributions=explain(predictor, decided),
        lens=show_lens(predictor, decided),
        predictor=predictor,
        statistics=view.statistics if view else _statistics(predictor, shown, decided),
        corpus=view,
        steps=steps,
        num_steps=num_steps,
        are_words_shown=words,
        language=language,
    )
    return TextLook(page)


def _check_is_one_model(predictor: Predictor[Any]) -> None:
    """Refuse a folder of several models that are averaged: there is no single model to look into.

    Raises:
        CheckpointError: the folder holds several models.
    """
    definition, path = predictor.definition, predictor.loaded.folder.path
    if isinstance(definition, AveragedTask):
        one = path / MEMBERS_FOLDER / definition.folder_names[0]
        raise CheckpointError(
            f"{path}: it holds {len(definition.folder_names) + 1} models, whose probabilities are "
            f"averaged. Look at one of them: {one}."
        )


def _check_can_change(predictor: Predictor[Any], decided: TextDecisions) -> None:
    """Check that there is a decision that could change without an attention head.

    Raises:
        ConfigError: there is no such decision.
    """
    if isinstance(predictor.definition, LinearTask):
        raise ConfigError(
            f"{option('without')}: the prediction of a linear head is not computed without a head "
            "of its encoder. Leave it out, or look at a model fine-tuned as a whole."
        )
    if head_name(predictor) is None:  # the model is an encoder without a head for a task
        raise ConfigError(
            f"{option('without')}: this model has no prediction that could change without a head. "
            "Leave it out."
        )
    if decided.kind == "masks" and not decided.decisions:
        raise ConfigError(
            f"{option('without')}: a pre-trained model predicts words only at "
            f"{predictor.tokenizer.mask_token}, which is not in this text. Write it in place of a "
            "word, or leave out the heads."
        )


def _statistics(
    predictor: Predictor[Any], shown: ShownText, decided: TextDecisions
) -> HeadStatistics:
    """Compute the statistics of all heads over the shown text alone."""
    config = predictor.model.config
    total = StatisticsSum(config.num_layers, config.num_attention_heads)
    total.add_lengths([len(shown.ids)])
    is_separator = torch.from_numpy(shown.ids == predictor.tokenizer.sep_id)
    for layer, weights in enumerate(decided.layers.attentions):
        total.add_weights(layer, weights, is_separator)
    return total.result()
