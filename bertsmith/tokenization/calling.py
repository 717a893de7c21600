"""Tokenizer calls with the arguments of transformers: texts in, padded ids out.

torch is imported only if a caller asks for its tensors.
"""

import difflib
import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np

from bertsmith.errors import ConfigError, InputError
from bertsmith.system.bounds import LARGEST, check_choice

Padding = bool | Literal["longest", "max_length", "do_not_pad"]
Truncation = bool | Literal["longest_first", "do_not_truncate"] | None
TensorType = Literal["pt", "np"] | None
Texts = str | Sequence[str] | Sequence[tuple[str, str]]

PADDING_VALUES = {
    "attention_mask": 0,
    "token_type_ids": 0,
    "special_tokens_mask": 1,
    "offset_mapping": (0, 0),
}
"""Value of each entry at padding; that of `input_ids` is the padding token."""

ALTERNATIVES = {
    "add_special_tokens": "tokenizer.encode_ids(text) gives ids without special tokens.",
    "is_split_into_words": "tokenizer.encode_word_ids(words) gives the ids of words and how many "
    "each has; tokenizer.build_row([ids]) puts special tokens around them.",
}
"""Advice by each argument of transformers that is not supported: the call to make instead."""


class BatchEncoding(dict[str, Any]):
    """Inputs of a model by name, also as attributes: `model(**encoding)`."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(
                f"encoding: there is no {name!r}. There are: {', '.join(self)}."
            ) from None

    def to(self, device: Any) -> Self:
        """Return the encoding with its tensors on `device`; other values stay as they are."""
        moved = {
            name: value.to(device) if hasattr(value, "to") else value
            for name, value in self.items()
        }
        return type(self)(moved)


@dataclass(frozen=True, slots=True)
class Encoding:
    """The tokens of a text or a pair with special tokens; each list has one entry per token."""

    ids: list[int]
    type_ids: list[int]
    """0 in the first text and its special tokens, 1 in the second; RoBERTa has 0 everywhere."""
    tokens: list[str]
    offsets: list[tuple[int, int]]
    """First character and one past the last, in the token's own text; (0, 0) for [CLS], [SEP]."""
    special_tokens_mask: list[int]
    """1 for [CLS] and [SEP] that were put around the text."""
    sequence_ids: list[int | None]
    """0 or 1 for the text a token comes from, None for [CLS] and [SEP]."""
    num_truncated: int
    """Tokens cut away to fit `max_length`."""


class CallableTokenizer(ABC):
    """The part of a tokenizer that programs written for transformers use."""

    is_fast: ClassVar[bool] = True
    """Whether the tokenizer gives offsets; transformers' data collators ask for this."""
    pair_type_id: int
    vocab_size: int
    model_max_length: int
    special_ids: frozenset[int]
    pad_id: int
    mask_id: int

    @abstractmethod
    def encode(self, text: str, pair: str | None = None, max_length: int | None = None) -> Encoding:
        """Encode a text or a pair with special tokens around it, cut to `max_length`."""

    @abstractmethod
    def token_to_id(self, token: str) -> int | None:
        """Return the id of a vocabulary entry, None where there is none."""

    @abstractmethod
    def save(self, directory: str) -> None:
        """Write the files of the tokenizer."""

    def __call__(
        self,
        text: Texts,
        text_pair: str | Sequence[str] | None = None,
        *,
        padding: Padding = False,
        truncation: Truncation = None,
        max_length: int | None = None,
        pad_to_multiple_of: int | None = None,
        return_tensors: TensorType = None,
        return_token_type_ids: bool | None = None,
        return_attention_mask: bool = True,
        return_offsets_mapping: bool = False,
        return_special_tokens_mask: bool = False,
        **others: Any,
    ) -> BatchEncoding:
        """Encode a text, a pair, or a list of either, as transformers' fast tokenizers do.

        One text gives flat lists, unless tensors are asked for. Pairs are two lists of texts, or
        one list of tuples.

        Args:
            padding: True or "longest" pads to the longest, "max_length" to `max_length`.
            truncation: True or "longest_first" cuts to `max_length`. If `truncation` is not given,
                `max_length` alone cuts too, unless `padding` is given.
            max_length: number of tokens, special ones included; by default `model_max_length`
                if truncation or padding needs a length.
            pad_to_multiple_of: the padded length is rounded up to a multiple of this number.
            return_tensors: "pt" for torch, "np" for numpy; None for lists.
            return_token_type_ids: by default True, or False for kinds with 0 everywhere (RoBERTa).
            others: further arguments of transformers, which are refused by name.

        Raises:
            InputError: a text is not a string, or the numbers of texts and pairs differ.
            ConfigError: an unknown argument or choice, a number below 1, or `max_length` has no
                room for special tokens.
        """
        for name in others:
            raise ConfigError(_unknown_argument(name))
        if max_length is not None and max_length < 1:
            raise ConfigError(f"max_length is {max_length}; allowed is 1 or more.")
        if max_length is not None and padding is False and truncation is None:
            truncation = True
        limit = (max_length or self.model_max_length) if _is_cut(truncation) else None
        is_one = isinstance(text, str)
        encodings = [self.encode(*row, limit) for row in _pairs(text, text_pair)]
        columns: dict[str, list[Any]] = {"input_ids": [each.ids for each in encodings]}
        has_types = (
            self.pair_type_id > 0 if return_token_type_ids is None else return_token_type_ids
        )
        if has_types:
            columns["token_type_ids"] = [each.type_ids for each in encodings]
        if return_attention_mask:
            columns["attention_mask"] = [[1] * len(each.ids) for each in encodings]
        if return_special_tokens_mask:
            columns["special_tokens_mask"] = [each.special_tokens_mask for each in encodings]
        if return_offsets_mapping:
            columns["offset_mapping"] = [each.offsets for each in encodings]
        if is_one and return_tensors is None:
            columns = {name: rows[0] for name, rows in columns.items()}
        return self.pad(
            columns,
            padding,
            max_length,
            pad_to_multiple_of,
            return_attention_mask=return_attention_mask,
            return_tensors=return_tensors,
        )

    def pad(
        self,
        encoded_inputs: Mapping[str, Any] | Iterable[Mapping[str, Any]],
        padding: Padding = True,
        max_length: int | None = None,
        pad_to_multiple_of: int | None = None,
        *,
        return_attention_mask: bool = True,
        return_tensors: TensorType = None,
        verbose: bool = True,
    ) -> BatchEncoding:
        """Pad encodings, one or several, to one length; transformers' data collators call this.

        As tensors, the tokenizer's own entries are int64 `[rows, length]`, or `[length]` of one
        encoding. Other entries, such as labels, are not padded. Floating-point numbers become
        tensors of torch's default type, as in transformers. `verbose` is accepted since
        transformers passes it, and changes nothing.

        Raises:
            InputError: there are no "input_ids", or a row lacks an entry of the first row; or for a
                tensor, rows of unequal length, or values that are no numbers.
            ConfigError: an unknown choice, or `pad_to_multiple_of` is below 1.
        """
        if not isinstance(encoded_inputs, Mapping):
            encoded_inputs = _join_rows(list(encoded_inputs))
        if "input_ids" not in encoded_inputs:
            raise InputError(
                f"pad: found {', '.join(encoded_inputs) or 'nothing'}, but no input_ids. Pass what "
                "the tokenizer returned."
            )
        columns = {name: _to_lists(values) for name, values in encoded_inputs.items()}
        # An empty list is no encoding at all: it gets no padding, as in transformers.
        is_one = bool(columns["input_ids"]) and not isinstance(columns["input_ids"][0], list)
        if is_one:
            columns = {name: [values] for name, values in columns.items()}
        lengths = [len(row) for row in columns["input_ids"]]
        if return_attention_mask:
            columns.setdefault("attention_mask", [[1] * length for length in lengths])
        width = self._padded_length(padding, lengths, max_length, pad_to_multiple_of)
        for name, padding_value in ({"input_ids": self.pad_id} | PADDING_VALUES).items():
            if name in columns:
                columns[name] = [
                    row + [padding_value] * (width - len(row)) for row in columns[name]
                ]
        if is_one:
            columns = {name: values[0] for name, values in columns.items()}
        return BatchEncoding(_as_tensors(columns, return_tensors))

    def _padded_length(
        self, padding: Padding, lengths: Sequence[int], max_length: int | None, multiple: int | None
    ) -> int:
        """Return the length that rows are padded to; 0 if the rows are not padded."""
        choice = "longest" if padding is True else padding or "do_not_pad"
        check_choice("padding", choice, ("longest", "max_length", "do_not_pad"))
        if multiple is not None and multiple < 1:
            raise ConfigError(f"pad_to_multiple_of is {multiple}; allowed is 1 or more.")
        if choice == "do_not_pad":
            return 0
        width = max(lengths, default=0)
        if choice == "max_length":
            width = max_length or self.model_max_length
            if width > LARGEST["max_length"]:  # transformers writes 1e30 where there is no limit
                raise ConfigError(
                    "padding: found 'max_length', but this tokenizer has no limit. Pass max_length."
                )
        return width if multiple is None else math.ceil(width / multiple) * multiple

    @property
    def padding_side(self) -> str:
        """The end of a row at which padding is added: always "right"; setting "left" is refused."""
        return "right"

    @padding_side.setter
    def padding_side(self, side: str) -> None:
        check_choice("padding_side", side, ("right",))

    @property
    def truncation_side(self) -> str:
        """The end of a text that is cut off: always "right"; setting "left" is refused."""
        return "right"

    @truncation_side.setter
    def truncation_side(self, side: str) -> None:
        check_choice("truncation_side", side, ("right",))

    @property
    def lowers_case(self) -> bool:
        """Whether texts are read in lower case, as uncased models do."""
        return False

    def tokenize(self, text: str) -> list[str]:
        """Split a text into its tokens, without special tokens around them."""
        encoding = self.encode(text)
        around = encoding.special_tokens_mask
        return [token for token, mask in zip(encoding.tokens, around, strict=True) if not mask]

    def __len__(self) -> int:
        return self.vocab_size

    @property
    def pad_token_id(self) -> int:
        return self.pad_id

    @property
    def mask_token_id(self) -> int:
        return self.mask_id

    def convert_tokens_to_ids(self, tokens: str | Sequence[str]) -> Any:
        """Return the id of a token, or a list of ids; None where the vocabulary has none."""
        if isinstance(tokens, str):
            return self.token_to_id(tokens)
        return [self.token_to_id(token) for token in tokens]

    def get_special_tokens_mask(
        self, token_ids: Sequence[int], already_has_special_tokens: bool = True
    ) -> list[int]:
        """Return 1 for each id of a special token, and 0 for others.

        Raises:
            ConfigError: `already_has_special_tokens` is False.
        """
        if not already_has_special_tokens:
            raise ConfigError(
                "already_has_special_tokens: found False; allowed is True. Encode the text with "
                "return_special_tokens_mask=True."
            )
        return [int(id_ in self.special_ids) for id_ in token_ids]

    def save_pretrained(self, save_directory: str, **_: Any) -> None:
        """Save as `save` does; transformers' Trainer calls this."""
        self.save(save_directory)


def _unknown_argument(name: str) -> str:
    """Return the error message for an argument that calls do not take."""
    parameters = inspect.signature(CallableTokenizer.__call__).parameters
    accepted = [each for each in parameters if each not in ("self", "others")]
    near = difflib.get_close_matches(name, accepted, n=1, cutoff=0.8)
    advice = f"Did you mean '{near[0]}'?" if near else f"There are: {', '.join(accepted)}."
    return f"tokenizer: there is no argument '{name}'. {ALTERNATIVES.get(name, advice)}"


def _is_cut(truncation: Truncation) -> bool:
    """Return whether long texts are cut.

    Raises:
        ConfigError: `truncation` is no known choice.
    """
    choice = "longest_first" if truncation is True else truncation or "do_not_truncate"
    check_choice("truncation", choice, ("longest_first", "do_not_truncate"))
    return choice == "longest_first"


def _pairs(text: Any, text_pair: Any) -> list[tuple[Any, Any]]:
    """Return text and pair of each row; None where there is no pair.

    Raises:
        InputError: `text` is neither a text nor a list, or the numbers of texts and pairs differ.
    """
    # One text or pair; then a list of texts and pairs; then two lists
    if isinstance(text, str):
        return [(text, text_pair)]
    if not isinstance(text, list | tuple):
        raise InputError(
            f"text: found {type(text).__name__}. Give a string, a list of strings, or a list of "
            "(text, pair)."
        )
    if text_pair is None:
        rows = [row if isinstance(row, list | tuple) else (row, None) for row in text]
        for number, row in enumerate(rows):
            if len(row) != 2:
                raise InputError(f"text, row {number}: found {len(row)} texts. Give (text, pair).")
        return [(first, second) for first, second in rows]
    if isinstance(text_pair, str) or len(text_pair) != len(text):
        num_pairs = "one string" if isinstance(text_pair, str) else f"{len(text_pair)} texts"
        raise InputError(f"text_pair: found {num_pairs} for {len(text)} texts. Give one for each.")
    return list(zip(text, text_pair, strict=True))


def _join_rows(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Turn a list of encodings into one mapping from each entry's name to its values by row.

    Raises:
        InputError: a row lacks an entry that the first row has.
    """
    names = list(rows[0]) if rows else []
    for number, row in enumerate(rows):
        if lacking := [name for name in names if name not in row]:
            raise InputError(
                f"pad, row {number}: it has no {lacking[0]}, and the first row has one. Give all "
                "rows the same entries."
            )
    return {name: [row[name] for row in rows] for name in names}


def _to_lists(values: Any) -> Any:
    """Turn an array or tensor, or a list of these, into lists of numbers."""
    if hasattr(values, "tolist"):
        return values.tolist()
    if isinstance(values, list | tuple) and values and hasattr(values[0], "tolist"):
        return [value.tolist() for value in values]
    return values


def _as_tensors(columns: Mapping[str, Any], tensor_type: TensorType) -> Mapping[str, Any]:
    """Turn lists of numbers into tensors or arrays; None leaves them lists.

    Raises:
        InputError: rows have unequal lengths, or values are no numbers.
        ConfigError: `tensor_type` is no known choice.
    """
    if tensor_type is None:
        return columns
    check_choice("return_tensors", tensor_type, ("pt", "np"))
    own_names = {"input_ids", *PADDING_VALUES}
    try:
        arrays = {
            # For an empty list numpy would choose floating-point numbers.
            name: np.asarray(values, dtype=np.int64 if name in own_names else None)
            for name, values in columns.items()
        }
    except ValueError:
        raise InputError(
            "return_tensors: found rows of unequal length. Pass padding=True, and truncation=True "
            "for long texts."
        ) from None
    if tensor_type == "np":
        return arrays
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf":
            raise InputError(
                f"return_tensors: the values of {name!r} are no numbers, so they cannot become a "
                "tensor of torch. Leave them out."
            )
    import torch  # this room works without torch

    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    # Python's numbers are float64, and models compute in fp32.
    return {
        name: tensor.to(torch.get_default_dtype()) if tensor.is_floating_point() else tensor
        for name, tensor in tensors.items()
    }
