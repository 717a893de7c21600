"""Entries of config.json, and names of classes, that the classifiers of LSTM, GRU and ELMo share.

transformers has no such models, so the names of the classes are ours.
"""

from collections.abc import Mapping

from bertsmith.model.head_names import CLASS_HEADS, TASK_HEADS

RECURRENT_KEYS: Mapping[str, str | None] = {
    "num_hidden_layers": "num_layers",
    "hidden_dropout_prob": "dropout",
    "num_attention_heads": None,
    "intermediate_size": None,
    "hidden_act": None,
    "attention_probs_dropout_prob": None,
    "max_position_embeddings": None,
    "type_vocab_size": None,
    "initializer_range": None,
    "layer_norm_eps": None,
    "classifier_dropout": None,
}
"""Fields of `BertConfig` with another name in config.json; None: not stored there."""


def own_architectures(name: str) -> dict[frozenset[str], str]:
    """Return the name of the class for each set of heads; `name` is that of the model."""
    return {
        frozenset(): f"{name}Model",
        **{frozenset({head}): f"{name}ModelFor_{head}" for head in TASK_HEADS},
        **{frozenset({head}): f"{name}ForSequenceClassification" for head in CLASS_HEADS},
    }
