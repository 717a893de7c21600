"""Look inside a model while it reads a text; a notebook shows the result, or a page."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from bertsmith.data.columns import Columns
from bertsmith.errors import CheckpointError, ConfigError, SettingError, option
from bertsmith.inspection.corpus_view import CorpusView, view_corpus
from bertsmith.inspection.decisions import Decided, decide, head_of
from bertsmith.inspection.explanations import explain
from bertsmith.inspection.head_outputs import pack_copies
from bertsmith.inspection.head_statistics import HeadStatistics, StatisticsSum
from bertsmith.inspection.layer_recorder import Head
from bertsmith.inspection.lens import compute_lens
from bertsmith.inspection.page import LookPage, render_look, write_look
from bertsmith.inspection.page_limits import most_tokens
from bertsmith.inspection.run_steps import RunStep, look_at_steps
from bertsmith.inspection.saliency import Attribution
from bertsmith.inspection.shown_text import ShownText, read_text
from bertsmith.model.head_names import MEMBERS_FOLDER
from bertsmith.system.bounds import check_choice, check_largest
from bertsmith.system.torch_modes import usual_modes
from bertsmith.tasks.auto import FolderPath, load_with_gradients
from bertsmith.tasks.averaged_classification import AveragedTask
from bertsmith.tasks.predictor import Predictor

LANGUAGES = ("en", "zh")
DEFAULT_TEXTS = 200
NOTEBOOK_HEIGHT = 900
"""Height of the page in a notebook, in pixels."""


class LookOptions(TypedDict, total=False):
    """Further arguments of `look`."""

    columns: Any
    num_texts: int
    max_length: int | None
    device: str


@dataclass(frozen=True, eq=False, repr=False)
class Look:
    """The inside of a model while it reads a text.

    `attentions` has an array for each layer, fp32 [heads, tokens, tokens]: the weight that each
    token (row) gives to each token (column). `attributions` has one entry for each decision, None
    where none was computed. `lens` has the head's logits at each layer, embeddings first, fp32
    [positions, outputs]; it is empty without a head.
    """

    page: LookPage

    def __repr__(self) -> str:
        config = self.page.config
        size = f"{config.num_hidden_layers} layers of {config.num_attention_heads} heads"
        return f"<Look at {len(self.tokens)} tokens in {size}; save it as a page>"

    @property
    def tokens(self) -> list[str]:
        """The tokens of the text that is shown."""
        return [piece.token for piece in self.page.decided.shown.pieces]

    @property
    def attentions(self) -> list[NDArray[np.float32]]:
        return [weights.numpy() for weights in self.page.decided.layers.attentions]

    @property
    def decided(self) -> Decided:
        """The decisions of the model."""
        return self.page.decided

    @property
    def attributions(self) -> Sequence[Attribution | None]:
        return self.page.attributions

    @property
    def lens(self) -> Sequence[NDArray[np.float32]]:
        return self.page.lens

    @property
    def statistics(self) -> HeadStatistics:
        """Statistics of all heads, over the file if one was given, else over the text."""
        return self.page.statistics

    def save(self, path: str | Path) -> Path:
        """Write the page, a single file that needs no network.

        Raises:
            InputError: it cannot be written.
        """
        write_look(Path(path), self.page)
        return Path(path)

    def _repr_html_(self) -> str:
        content = escape(render_look(self.page), quote=True)
        style = f"width: 100%; height: {NOTEBOOK_HEIGHT}px; border: 0"
        return f'<iframe title="bertsmith look" style="{style}" srcdoc="{content}"></iframe>'


@usual_modes()
def look(
    model: FolderPath,
    text: str,
    *,
    pair: str | Sequence[str] = (),
    data: str | Path | None = None,
    checkpoints: bool = False,
    without: str | Iterable[str] = (),
    words: bool = False,
    language: Literal["en", "zh"] = "en",
    **options: Unpack[LookOptions],
) -> Look:
    """Look inside a model while it reads a text: attention, saliency, and each layer's guess.

    In a notebook the result shows itself; `save` writes it as a page.

    >>> look("runs/reviews", "a gripping story").save("page.html")  # doctest: +SKIP

    Args:
        model: a model folder, or "org/name" on the Hugging Face hub.
        pair: the second text, the passage of a question, or the choices of a prompt.
        data: a file of texts, for statistics of the heads and a map of the texts' vectors.
        checkpoints: whether to look at the checkpoints of the folder's run as well.
        without: heads such as "2.1", layer 2, head 1, counted from 1; the page compares the
            prediction with that of the model without them.
        words: whether the page first shows words instead of tokens.
        language: the language of the page.
        options: `columns`, an instance of the task's columns for `data`; `num_texts`, the number
            of texts read from it (200); `max_length`, the number of tokens that are shown (128, of
            large models fewer); `device`.

    Raises:
        InputError: a text is empty, or the task reads fewer or more of them; or `data` cannot be
            read, or has no text.
        ConfigError: there is no such head or language, or a length that the model does not read.
        CheckpointError: the folder cannot be loaded, or its checkpoints are of another model.
    """
    check_choice("language", language, LANGUAGES)
    asked_length = options.get("max_length")
    predictor = load_with_gradients(
        model, device=options.get("device", "auto"), max_length=asked_length
    )
    _check_is_one_model(predictor)
    predictor.model.requires_grad_(False)
    config = predictor.model.config
    heads = parse_heads(without, config.num_hidden_layers, config.num_attention_heads)
    loaded_length = predictor.loaded.max_length
    limit = min(loaded_length, asked_length or most_tokens(config))
    pairs = (pair,) if isinstance(pair, str) else tuple(pair)
    rows = read_text(predictor, text, pairs, limit)
    decided = decide(predictor, rows)
    if heads and not (decided.decisions and head_of(predictor)):
        raise ConfigError(
            f"{option('without')}: this model decides nothing about this text that could change "
            f"without a head. Leave it out; a pre-trained model predicts at "
            f"{predictor.tokenizer.mask_token}."
        )
    steps: Sequence[RunStep] = ()
    num_steps = 0
    if checkpoints:
        steps, num_steps = look_at_steps(predictor, rows, decided)
    view: CorpusView | None = None
    if data is not None:
        columns = options.get("columns") or Columns()
        num_texts = options.get("num_texts", DEFAULT_TEXTS)
        if num_texts < 1:
            raise SettingError("num_texts", num_texts, "1 or more")
        check_largest("num_texts", num_texts)
        view = view_corpus(predictor, Path(data), columns, num_texts, limit)
    shown = decided.shown
    page = LookPage(
        folder=_name(predictor.loaded.folder.path),
        config=config,
        decided=decided,
        without=decide(predictor, rows, heads, decided) if heads else None,
        without_heads=tuple(sorted(heads)),
        attributions=explain(predictor, decided),
        lens=_lens(predictor, decided),
        predictor=predictor,
        statistics=view.statistics if view else _statistics(predictor, shown, decided),
        corpus=view,
        steps=steps,
        num_steps=num_steps,
        are_words_shown=words,
        language=language,
    )
    return Look(page)


def _check_is_one_model(predictor: Predictor[Any]) -> None:
    """Refuse a folder of several models: no head or word of one explains what they say together.

    Raises:
        CheckpointError: it is such a folder.
    """
    definition, path = predictor.definition, predictor.loaded.folder.path
    if isinstance(definition, AveragedTask):
        one = path / MEMBERS_FOLDER / definition.names[0]
        raise CheckpointError(
            f"{path}: it holds {len(definition.others) + 1} models, whose probabilities are "
            f"averaged. Look at one of them: {one}."
        )


def _name(folder: Path) -> str:
    """Return a folder as it was named, but without the folders above it if it was named in full."""
    return folder.name if folder.is_absolute() else str(folder)


def parse_heads(without: str | Iterable[str], num_layers: int, num_heads: int) -> set[Head]:
    """Read heads such as "2.1", layer 2, head 1, to pairs of numbers from 0.

    Raises:
        SettingError: there is no such layer or head.
    """
    names = (without,) if isinstance(without, str) else tuple(without)
    allowed = (
        f"LAYER.HEAD with layers 1 to {num_layers} and heads 1 to {num_heads}, such as "
        f"{num_layers}.1"
    )
    heads = set()
    for name in names:
        layer, dot, head = str(name).partition(".")
        is_pair = bool(dot) and all(part.isascii() and part.isdecimal() for part in (layer, head))
        if not (is_pair and 1 <= int(layer) <= num_layers and 1 <= int(head) <= num_heads):
            raise SettingError("without", name, allowed)
        heads.add((int(layer) - 1, int(head) - 1))
    return heads


def _lens(predictor: Predictor[Any], decided: Decided) -> list[NDArray[np.float32]]:
    head = head_of(predictor)
    if head is None:
        return []
    shown, model = decided.shown, predictor.model
    batch = pack_copies(model, shown.ids, shown.type_ids)
    positions = range(len(shown.ids))
    lens = compute_lens(model, head, decided.layers, batch, positions)
    return [np.asarray(logits.numpy(), dtype=np.float32) for logits in lens]


def _statistics(predictor: Predictor[Any], shown: ShownText, decided: Decided) -> HeadStatistics:
    config = predictor.model.config
    total = StatisticsSum(config.num_hidden_layers, config.num_attention_heads)
    total.add_lengths([len(shown.ids)])
    batch = pack_copies(predictor.model, shown.ids, shown.type_ids)
    is_separator = (batch.input_ids == predictor.tokenizer.sep_id).cpu()
    for layer, weights in enumerate(decided.layers.attentions):
        total.add_weights(layer, weights, is_separator)
    return total.result()
