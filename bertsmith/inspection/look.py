"""The function `look`: the inside of a model while it reads a text, for a notebook or a page."""

from collections.abc import Iterable, Mapping
from numbers import Integral
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

from bertsmith.data.columns import Columns, check_needs_no_data
from bertsmith.data.tables import check_has_columns
from bertsmith.errors import ConfigError, SettingError, option
from bertsmith.errors.model_kinds import ModelKindError
from bertsmith.inspection.look_result import Look
from bertsmith.inspection.system_look import INPUT_BUILDERS, look_at_system, read_by_system
from bertsmith.inspection.text_look import CorpusRequest, load_for_look, look_at_text
from bertsmith.system.bounds import check_choice
from bertsmith.system.torch_modes import usual_modes
from bertsmith.tasks.auto import FolderPath

LANGUAGES = ("en", "zh")
DEFAULT_TEXTS = 200
"""Number of texts that are read from `data`, unless the user gives another."""


class LookOptions(TypedDict, total=False):
    """Further arguments of `look`."""

    columns: Any
    num_texts: int | None
    max_length: int | None
    device: str


@usual_modes()  # on the CPU by default and with gradients, whatever modes of torch the caller has
def look(
    model: FolderPath,
    text: str,
    *,
    pair: str | Iterable[str] | None = None,
    data: str | Path | None = None,
    checkpoints: bool = False,
    without: str | Iterable[str] | None = None,
    words: bool = False,
    language: Literal["en", "zh"] = "en",
    **options: Unpack[LookOptions],
) -> Look:
    """Look inside a model while it reads a text: attention, saliency, predictions of each layer.

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
            of texts read from it (200); `max_length`, the number of tokens that are shown (128, or
            fewer if the model is large); `device`.

    Raises:
        InputError: a text is empty, or the task reads fewer or more of them; or `data` cannot be
            read, or has no text.
        ConfigError: there is no such head or language, or a length that the model does not read.
        TypeError: there is no such option.
        CheckpointError: the folder cannot be loaded, or its checkpoints are of another model.
    """
    check_choice("language", language, LANGUAGES)
    _check_options(options)
    pairs = _as_tuple("pair", pair, "a text, or a list of texts")
    heads = _as_tuple("without", without, "a head such as '2.1', or a list of heads")
    length, device = options.get("max_length"), options.get("device", "auto")
    columns, num_texts = options.get("columns"), options.get("num_texts")
    if data is None:
        check_needs_no_data(columns, num_texts=num_texts)
    else:
        check_has_columns(columns, Path(data))
    try:
        predictor = load_for_look(model, device, length)
    except ModelKindError as error:  # the folder holds no encoder, but perhaps a GPT or T5
        model_type = error.kind.model_type
        # `INPUT_BUILDERS` maps the model type of each such system to a function that loads it.
        if model_type not in INPUT_BUILDERS:
            raise error.of_command("look") from None
        if data is not None:
            raise ConfigError(
                f"{option('data')}: only encoders such as BERT have it, and the model_type of this "
                f"model is '{model_type}'. Leave it out."
            ) from None
        # `model` may also be a name on the hub, which `read_by_system` resolves, too.
        system_input = read_by_system(
            Path(model), model_type, text, pairs, max_length=length, device=device
        )
        return look_at_system(
            Path(model),
            model_type,
            system_input,
            checkpoints=checkpoints,
            without=heads,
            words=words,
            language=language,
        )
    corpus = None
    if data is not None:
        num_read = DEFAULT_TEXTS if num_texts is None else num_texts
        corpus = CorpusRequest(Path(data), columns or Columns(), num_read)
    return look_at_text(
        model,
        predictor,
        text,
        pairs,
        corpus=corpus,
        checkpoints=checkpoints,
        without=heads,
        words=words,
        language=language,
    )


def _as_tuple(name: str, value: object, allowed: str) -> tuple[Any, ...]:
    """Return one string or several as a tuple, which is empty for None.

    Raises:
        SettingError: the value is neither a string, nor several of them, nor None.
    """
    if value is None:
        return ()
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, Iterable) or isinstance(value, bytes):
        raise SettingError(name, value, allowed)
    return tuple(value)


def _check_options(options: Mapping[str, object]) -> None:
    """Check the names of options, and that numbers are whole.

    Raises:
        TypeError: there is no such option.
        SettingError: a number is not whole.
    """
    for name, value in options.items():
        if name not in LookOptions.__annotations__:
            raise TypeError(f"look() got an unexpected keyword argument {name!r}")
        is_whole = isinstance(value, Integral) and not isinstance(value, bool)
        if name in ("num_texts", "max_length") and not (is_whole or value is None):
            raise SettingError(name, value, "a whole number")
