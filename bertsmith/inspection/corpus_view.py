"""A look at the texts of a file: statistics of all heads, and a map of the texts' vectors."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bertsmith.data.batches import group_by_length
from bertsmith.data.encoded_texts import EncodedTexts
from bertsmith.data.examples import ExampleReader
from bertsmith.data.label_values import label_name
from bertsmith.errors import InputError
from bertsmith.inspection.head_statistics import HeadStatistics, StatisticsSum
from bertsmith.inspection.layer_recorder import LayerRecorder
from bertsmith.inspection.vector_map import VectorMap, project
from bertsmith.model.layers import mean_over_sequences
from bertsmith.system.progress import progress_bar
from bertsmith.tasks.inference import pack_texts
from bertsmith.tasks.predictor import Predictor
from bertsmith.tasks.sentence_embedding import Embed
from bertsmith.tasks.task import Task
from bertsmith.tasks.text_vectors import TextVectors
from bertsmith.tasks.texts import LabelTask

TOKENS_PER_PASS = 2048
SHOWN_CHARACTERS = 200
"""Characters of each text that the page shows beside its point."""


@dataclass(frozen=True, eq=False)
class CorpusView:
    """Statistics over the texts of a file, and the map of their vectors.

    `labels` has a label for each text: that of the file if the column was named, otherwise the one
    that a classifier predicts. It is empty if there is neither. `texts` are shortened.
    """

    source: str
    statistics: HeadStatistics
    map: VectorMap
    texts: tuple[str, ...]
    labels: tuple[str, ...]
    are_labels_predicted: bool


def view_corpus(
    predictor: Predictor[Any], path: Path, columns: Any, num_texts: int, max_length: int
) -> CorpusView:
    """Compute attention and vectors of the first texts of a file, each cut to `max_length`.

    Raises:
        InputError: the file cannot be read, or has no text.
    """
    has_labels = getattr(columns, "label_column", None) is not None
    examples = _read_examples(predictor, path, columns, num_texts, labelled=has_labels)
    rows = _encode(predictor, examples, max_length)
    model, tokenizer = predictor.model, predictor.tokenizer
    config = model.config
    total = StatisticsSum(config.num_hidden_layers, config.num_attention_heads)
    loaded = predictor.loaded
    pooling = TextVectors.restore(loaded).pooling if loaded.folder.is_encoder else "mean"
    vectors = np.empty((len(rows), config.hidden_size), np.float32)
    label_head = None if has_labels else _label_head(predictor)
    predicted = np.zeros(len(rows), dtype=np.int64)
    with progress_bar("looking at the texts", len(rows)) as advance, torch.no_grad():
        for group in group_by_length(rows.lengths, TOKENS_PER_PASS):
            batch = pack_texts(rows, group).to(model.device)
            total.add_lengths(batch.lengths)
            separators = torch.split(batch.input_ids == tokenizer.sep_id, list(batch.lengths))

            def add(
                layer: int,
                blocks: Sequence[Tensor],
                lengths: Sequence[int] = batch.lengths,
                separators: Sequence[Tensor] = separators,
            ) -> None:
                weights = (each for block in blocks for each in block)
                for each, length, is_separator in zip(weights, lengths, separators, strict=True):
                    total.add_weights(layer, each[:, :length, :length].float(), is_separator)

            hidden = model.encode(batch, LayerRecorder(add))
            if pooling == "mean":
                pooled = mean_over_sequences(hidden.float(), batch)
            elif pooling == "first_token":
                pooled = hidden.index_select(0, batch.first_tokens)
            else:
                pooled = model.pool(hidden, batch)
            chosen = [group[index] for index in batch.order]
            vectors[chosen] = pooled.float().cpu().numpy()
            if label_head is not None:
                logits = model.heads[label_head](model.pool(hidden, batch))
                predicted[chosen] = logits.argmax(-1).cpu().numpy()
            advance(len(group))
    names = [label_name(label) for label in predictor.labels]
    labels = tuple(names[number] for number in predicted) if label_head is not None else ()
    if has_labels:
        labels = tuple(str(example.label) for example in examples)
    texts = tuple(_shorten(example) for example in examples)
    return CorpusView(path.name, total.result(), project(vectors), texts, labels, not has_labels)


def _label_head(predictor: Predictor[Any]) -> str | None:
    is_classifier = isinstance(predictor.definition, LabelTask)
    heads = predictor.model.heads
    return "classify" if is_classifier and "classify" in heads else None


def _read_examples(
    predictor: Predictor[Any], path: Path, columns: Any, num_texts: int, *, labelled: bool
) -> list[Any]:
    definition = predictor.definition
    if isinstance(definition, Task) and not isinstance(definition, Embed):
        is_own = isinstance(columns, definition.columns)
        reader = definition.reader(path, columns if is_own else None, labelled=labelled and is_own)
        return list(reader.first(num_texts))
    return ExampleReader(path, columns, labelled=labelled, pairs=None).read(num_texts)


def _encode(predictor: Predictor[Any], examples: Sequence[Any], max_length: int) -> EncodedTexts:
    """Encode the first row of each example; for a prompt, the row of its first choice.

    Raises:
        InputError: there is no example.
    """
    if not examples:
        raise InputError("data: no text in it. Give a file with a text in each line.")
    definition, tokenizer = predictor.definition, predictor.tokenizer
    is_task = isinstance(definition, Task) and not isinstance(definition, Embed)
    encode = definition.encode if is_task else TextVectors.restore(predictor.loaded).encode
    encoded = encode(tokenizer, examples, max_length, labelled=False)
    firsts = encoded.starts[:-1].tolist()
    rows = encoded.rows
    return EncodedTexts.of((rows.ids[row], rows.type_ids[row], rows.num_cut[row]) for row in firsts)


def _shorten(example: Any) -> str:
    content = example.content
    parts = (content,) if isinstance(content, str) else content
    text = " ".join(" ".join(map(str, part if isinstance(part, tuple) else (part,)))
                    for part in parts if part is not None)  # fmt: skip
    text = " ".join(text.split())
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 1]}…"
