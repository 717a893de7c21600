"""Statistics of a model's attention heads over the texts of a file, and a map of their vectors."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import torch
from torch import Tensor

from bertsmith.data.batches import Batch
from bertsmith.data.columns import changed_options
from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.data.encoded_texts import EncodedTexts
from bertsmith.data.examples import LIST_SEPARATOR, ExampleReader
from bertsmith.data.label_values import label_name
from bertsmith.data.length_groups import group_by_length
from bertsmith.errors import ConfigError, InputError, SettingError, option
from bertsmith.inspection.head_statistics import HeadStatistics, StatisticsSum
from bertsmith.inspection.layer_recorder import LayerRecorder, ReceiveWeights
from bertsmith.inspection.vector_map import VectorMap, project
from bertsmith.model.bert import BertModel
from bertsmith.model.layers import mean_over_sequences
from bertsmith.system.progress import progress_bar
from bertsmith.tasks.inference import pack_texts
from bertsmith.tasks.linear_classification import LinearClassify
from bertsmith.tasks.predictor import Predictor
from bertsmith.tasks.sentence_embedding import Embed
from bertsmith.tasks.task import Task
from bertsmith.tasks.text_vectors import TextVectors
from bertsmith.tasks.texts import LabelTask
from bertsmith.tasks.token_classification import Tag

TOKENS_PER_BATCH = 2048
"""Number of tokens whose attention weights are computed together."""
SHOWN_CHARACTERS = 200
"""Characters of each text that the page shows beside its point."""


@dataclass(frozen=True, eq=False)
class CorpusView:
    """Statistics over the texts of a file, and the map of their vectors.

    `labels` has a label for each text: that of the file if its column was named, otherwise the one
    that the model predicts. It is empty if no column was named, and the model does not predict one
    label for each text. `texts` are shortened.
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

    Args:
        columns: names of the file's columns. If it names the column of labels, these are shown.

    Raises:
        ConfigError: a column is named, and the model's task reads other columns.
        InputError: the file cannot be read, or has no text.
    """
    definition = predictor.definition
    columns = _task_columns(definition, columns)
    has_label_column = getattr(columns, "label_column", None) is not None
    has_labels = has_label_column and not isinstance(definition, Tag)  # whose labels are of words
    examples = _read_examples(predictor, path, columns, num_texts, labelled=has_labels)
    rows = _encode(predictor, examples, max_length)
    model, tokenizer = predictor.model, predictor.tokenizer
    config = model.config
    statistics = StatisticsSum(config.num_layers, config.num_attention_heads)
    loaded = predictor.loaded
    # The map shows the vectors that the folder of an encoder stands for, or means over the tokens.
    pooling = TextVectors.restore(loaded).pooling if loaded.folder.is_encoder else "mean"
    vectors = np.empty((len(rows), config.hidden_size), np.float32)
    label_head = None if has_labels else _label_head(predictor)
    predicted = np.zeros(len(rows), dtype=np.int64)  # the index of each text's label
    if isinstance(definition, LinearClassify) and not has_labels:
        predicted = definition.compute_outputs(model, EncodedExamples.of_texts(rows)).argmax(-1)
    with progress_bar("looking at the texts", len(rows)) as advance, torch.no_grad():
        for group in group_by_length(rows.lengths, TOKENS_PER_BATCH):
            batch = pack_texts(rows, group).to(model.device)
            statistics.add_lengths(batch.lengths)
            receive = _add_weights_to(statistics, batch, tokenizer.sep_id)
            hidden = model.encode(batch, LayerRecorder(receive))
            row_numbers = [group[index] for index in batch.order]  # a batch puts long texts first
            vectors[row_numbers] = _pool(model, hidden, batch, pooling).float().cpu().numpy()
            if label_head is not None:
                logits = model.heads[label_head](model.pool(hidden, batch))
                predicted[row_numbers] = logits.argmax(-1).cpu().numpy()
            advance(len(group))
    labels: tuple[str, ...] = ()
    if has_labels:
        labels = tuple(map(_show_label, examples))
    elif label_head is not None or isinstance(definition, LinearClassify):
        names = [label_name(label) for label in predictor.labels]
        labels = tuple(names[number] for number in predicted)
    texts = tuple(_shorten(example) for example in examples)
    return CorpusView(
        path.name,
        statistics.result(),
        project(vectors),
        texts,
        labels,
        are_labels_predicted=not has_labels,
    )


def _add_weights_to(statistics: StatisticsSum, batch: Batch, sep_id: int) -> ReceiveWeights:
    """Return a function that adds the attention weights of a batch to the statistics."""
    lengths = batch.lengths
    separators = torch.split(batch.input_ids == sep_id, list(lengths))

    def receive(layer: int, blocks: Sequence[Tensor]) -> None:
        sequences = (weights for block in blocks for weights in block)
        for weights, length, is_separator in zip(sequences, lengths, separators, strict=True):
            without_padding = weights[:, :length, :length].float()
            statistics.add_weights(layer, without_padding, is_separator)

    return receive


def _pool(model: BertModel, hidden: Tensor, batch: Batch, pooling: str) -> Tensor:
    """Return a vector for each text, [sequences, hidden], by a pooling of `TextVectors`."""
    if pooling == "mean":
        return mean_over_sequences(hidden.float(), batch)
    if pooling == "first_token":
        return hidden.index_select(0, batch.first_tokens)
    return model.pool(hidden, batch)  # "pooler"


def _label_head(predictor: Predictor[Any]) -> str | None:
    """Return the name of the head that predicts one label for a text, if the model has it."""
    is_classifier = isinstance(predictor.definition, LabelTask)
    heads = predictor.model.heads
    return "classify" if is_classifier and "classify" in heads else None


def _task_columns(definition: Any, columns: Any) -> Any:
    """Return the options for reading a file as those of the model's task.

    `look` has the general `Columns`. Of these, a task with a class of its own takes the options
    that this class has, too.

    Raises:
        ConfigError: another option is set, or the task reads no files of this format.
    """
    if not _has_own_files(definition) or isinstance(columns, definition.columns):
        return columns
    taken = get_type_hints(definition.columns)
    if isinstance(definition, Tag):
        del taken["label_column"]  # the labels of words are not shown
    types = get_type_hints(type(columns))
    changed = changed_options(columns)
    for name in changed:
        if name == "format" and name in taken:
            if columns.format not in get_args(taken[name]):
                raise SettingError(name, columns.format, get_args(taken[name]))
        elif taken.get(name) != types[name]:
            raise ConfigError(
                f"{option(name)}: the files of this model's task are read without it. Leave it out."
            )
    return definition.columns(**{name: getattr(columns, name) for name in changed})


def _has_own_files(definition: Any) -> bool:
    """Return whether a model reads files in the form of its task; others read files of texts."""
    # A sentence encoder reads any texts here: examples of its training have several texts each.
    return isinstance(definition, Task) and not isinstance(definition, Embed)


def _read_examples(
    predictor: Predictor[Any], path: Path, columns: Any, num_texts: int, *, labelled: bool
) -> list[Any]:
    """Read the first examples of a file: as the model's task reads them, or as plain texts."""
    definition = predictor.definition
    if _has_own_files(definition):
        return list(definition.reader(path, columns, labelled=labelled).first(num_texts))
    # pairs=None: a row may have a second text.
    return ExampleReader(path, columns, labelled=labelled, pairs=None).read(num_texts)


def _encode(predictor: Predictor[Any], examples: Sequence[Any], max_length: int) -> EncodedTexts:
    """Encode the first row of each example; for a prompt, the row of its first choice.

    Raises:
        InputError: there is no example.
    """
    if not examples:
        raise InputError("data: no text in it. Give a file with a text in each line.")
    definition, tokenizer = predictor.definition, predictor.tokenizer
    has_own_files = _has_own_files(definition)
    encode = definition.encode if has_own_files else TextVectors.restore(predictor.loaded).encode
    encoded = encode(tokenizer, examples, max_length, labelled=False)
    first_rows = encoded.starts[:-1].tolist()  # example `i` has the rows starts[i] to starts[i + 1]
    rows = encoded.rows
    return EncodedTexts.of(
        (rows.ids[row], rows.type_ids[row], rows.num_cut[row]) for row in first_rows
    )


def _show_label(example: Any) -> str:
    """Return the label of an example; several labels, read as one text, with commas between."""
    parts = str(example.label).split(LIST_SEPARATOR)
    return ", ".join(part for part in parts if part)


def _shorten(example: Any) -> str:
    """Return all texts of an example as one, with white space collapsed and the end cut off."""
    content = example.content
    texts: list[str] = []
    for part in (content,) if isinstance(content, str) else content:
        if isinstance(part, tuple):  # such as the words of a sentence, or the choices of a prompt
            texts.extend(map(str, part))
        elif part is not None:
            texts.append(str(part))
    text = " ".join(" ".join(texts).split())
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 1]}…"
