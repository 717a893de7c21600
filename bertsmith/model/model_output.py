"""The outputs of a model's `forward`, by the names of transformers."""

from dataclasses import dataclass, fields
from typing import Any

from torch import Tensor


@dataclass(frozen=True, eq=False, repr=False)
class ModelOutput(dict[str, Any]):
    """Outputs of `BertModel.forward`, padded as its input was; None where absent.

    Shapes: `last_hidden_state` and each of `hidden_states` (embeddings first, then every layer)
    [batch, length, hidden]; each of `attentions` [batch, heads, length, length]; `pooler_output`
    [batch, hidden]; `logits` [batch, length, vocabulary] from a masked-LM head, [batch, labels]
    from a head that reads the pooler, [batch, length, outputs] from one that reads every token,
    [batch, length] from "replaced_token", [batch, choices] from "choose" of inputs [batch, choices,
    length]; `next_sentence_logits` and `sentence_order_logits` [batch, 2]; `start_logits` and
    `end_logits` [batch, length], the two columns of the logits of "answer"; `loss` a scalar.

    As a dict, and by number or slice, it holds the outputs that transformers' models return,
    without those that are None. A model with heads has `loss`, its logits, `hidden_states` and
    `attentions`.
    """

    last_hidden_state: Tensor = None  # type: ignore[assignment]
    pooler_output: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None
    logits: Tensor | None = None
    next_sentence_logits: Tensor | None = None
    sentence_order_logits: Tensor | None = None
    start_logits: Tensor | None = None
    end_logits: Tensor | None = None
    loss: Tensor | None = None

    def __post_init__(self) -> None:
        items: Any = self.last_hidden_state
        # accelerate rebuilds an output from a dict of its items, DataParallel from pairs of them.
        if items is not None and not isinstance(items, Tensor):
            values = dict(items)
            for field in fields(self):
                object.__setattr__(self, field.name, values.get(field.name))
        logits = ("logits",) if self.start_logits is None else ("start_logits", "end_logits")
        names = (*logits, "next_sentence_logits", "sentence_order_logits")
        if all(getattr(self, name) is None for name in names):
            names = ("last_hidden_state", "pooler_output")
        for name in ("loss", *names, "hidden_states", "attentions"):
            value = getattr(self, name)
            if value is not None:
                self[name] = value

    def to_tuple(self) -> tuple[Any, ...]:
        """Return the items of the dict, in the order of transformers' outputs."""
        return tuple(self.values())

    def __getitem__(self, key: int | slice | str) -> Any:
        """Return an output by its number, or by its name, also if it is no item of the dict.

        Raises:
            KeyError: there is no output of that name.
        """
        if not isinstance(key, str):
            return self.to_tuple()[key]
        if key not in self.__dataclass_fields__:
            raise KeyError(key)
        return getattr(self, key)
