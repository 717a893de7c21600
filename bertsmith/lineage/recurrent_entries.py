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
"""Maps a field of `BertConfig` to its key in config.json; None if the field is not stored."""


def own_architectures(name: str) -> dict[frozenset[str], str]:
    """Map each set of heads to the name of a class, which config.json has as "architectures".

    A head is what a task adds to an encoder, such as "classify"; the empty set is the encoder
    alone. `name` is the first part of these names, such as "Elmo".
    """
    return {
        frozenset(): f"{name}Model",
        **{frozenset({head}): f"{name}ModelFor_{head}" for head in TASK_HEADS},
        **{frozenset({head}): f"{name}ForSequenceClassification" for head in CLASS_HEADS},
    }
