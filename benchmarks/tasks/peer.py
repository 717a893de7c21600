"""transformers' Trainer on the same examples: its own tokenizing, models, collators and loop.

Examples are read by bertsmith's readers, which takes less time than its tokenizing. Everything else
is as transformers' own examples have it: dynamic padding, bf16, labels on first pieces, windows of
passages with offsets, the best of 20 starts and 20 ends.
"""

import os
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.common import published_model
from benchmarks.speed.trainer_peer import IGNORE_INDEX, build_trainer
from benchmarks.tasks.cases import (
    BATCH_SIZE,
    DOCUMENT_STRIDE,
    MAX_ANSWER_LENGTH,
    WEIGHT_DECAY,
    Case,
    our_settings,
)
from bertsmith.tasks.catalog import task_named

NUM_CANDIDATES = 20

Row = dict[str, Any]
Score = Callable[[Any], float]


def prepare(case: Case, data: Path, folder: Path, seed: int) -> Callable[[], tuple[float, int]]:
    """Import everything; the function that comes back trains and gives score and steps."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    import torch
    from transformers import AutoTokenizer, set_seed

    torch.set_float32_matmul_precision("medium")
    prepare_task = PEERS[case.task]
    settings = our_settings(case, data, published_model(), folder / "unused", seed)

    def run() -> tuple[float, int]:
        dataset = task_named(case.task).read(settings)
        set_seed(seed)
        tokenizer = AutoTokenizer.from_pretrained(published_model())
        tokenizer.model_max_length = case.max_length
        model, train, held_out, collate, score = prepare_task(case, dataset, tokenizer)
        trainer = build_trainer(
            model,
            train,
            collate,
            folder / "trainer",
            learning_rate=case.learning_rate,
            per_device_train_batch_size=BATCH_SIZE,
            per_device_eval_batch_size=64,
            num_train_epochs=case.epochs,
            weight_decay=WEIGHT_DECAY,
            bf16=True,
            seed=seed,
        )
        trainer.train()
        trainer.save_model(str(folder / "out"))
        return score(trainer.predict(held_out).predictions), trainer.state.global_step

    return run


def sequences(case: Case, dataset: Any, tokenizer: Any) -> tuple[Any, ...]:
    """Prepare classes or numbers of texts and pairs."""
    from scipy.stats import pearsonr
    from sklearn.metrics import accuracy_score, matthews_corrcoef
    from transformers import AutoModelForSequenceClassification, DataCollatorWithPadding

    names = list(dataset.task.labels)

    def label(example: Any) -> int | float:
        return names.index(example.label) if names else float(example.label)

    def rows(examples: Sequence[Any]) -> list[Row]:
        pairs = [example.pair for example in examples]
        encoded = tokenizer(
            [example.text for example in examples],
            None if pairs[0] is None else pairs,
            truncation=True,
            max_length=case.max_length,
        )
        return [
            {**{name: encoded[name][i] for name in encoded}, "labels": label(example)}
            for i, example in enumerate(examples)
        ]

    gold = [label(example) for example in dataset.held_out]

    def score(logits: NDArray[np.float32]) -> float:
        if not names:
            return float(pearsonr(logits[:, 0], gold).statistic)
        measure = accuracy_score if case.metric == "accuracy" else matthews_corrcoef
        return float(measure(gold, logits.argmax(-1)))

    model = AutoModelForSequenceClassification.from_pretrained(
        published_model(),
        num_labels=len(names) or 1,
        problem_type="single_label_classification" if names else "regression",
    )
    return (
        model,
        rows(dataset.train),
        rows(dataset.held_out),
        DataCollatorWithPadding(tokenizer),
        score,
    )


def tags(case: Case, dataset: Any, tokenizer: Any) -> tuple[Any, ...]:
    """Prepare word labels, each on its word's first piece."""
    from seqeval.metrics import f1_score
    from sklearn.metrics import accuracy_score
    from transformers import AutoModelForTokenClassification, DataCollatorForTokenClassification

    from bertsmith.data.label_schemes import convert_labels

    names = list(dataset.task.labels)
    numbers = {name: number for number, name in enumerate(names)}
    held_out = [
        convert_labels(sentence.labels, sentence.scheme, dataset.task.scheme)
        for sentence in dataset.held_out
    ]
    train = [list(sentence.labels) for sentence in dataset.train]

    def rows(sentences: Sequence[Any], labels: Sequence[Sequence[str]]) -> list[Row]:
        encoded = tokenizer(
            [list(sentence.words) for sentence in sentences],
            is_split_into_words=True,
            truncation=True,
            max_length=case.max_length,
        )
        return [
            {
                **{name: encoded[name][i] for name in encoded},
                # A label that training lacks stands for any: scores are taken from the names.
                "labels": first_pieces(encoded.word_ids(i), [numbers.get(x, 0) for x in wanted]),
            }
            for i, wanted in enumerate(labels)
        ]

    held_out_rows = rows(dataset.held_out, held_out)

    def score(logits: NDArray[np.float32]) -> float:
        predicted = [
            [names[number] for number in sentence[: len(row["labels"])][is_first(row)]]
            for sentence, row in zip(logits.argmax(-1), held_out_rows, strict=True)
        ]
        # Words beyond the longest row have no prediction; they count as wrong.
        filled = [
            [*mine, *["O"] * (len(right) - len(mine))]
            for mine, right in zip(predicted, held_out, strict=True)
        ]
        if case.metric == "accuracy":
            return float(accuracy_score([*chain(*held_out)], [*chain(*filled)]))
        return float(f1_score(held_out, filled))

    model = AutoModelForTokenClassification.from_pretrained(
        published_model(), num_labels=len(names)
    )
    collate = DataCollatorForTokenClassification(tokenizer)
    return model, rows(dataset.train, train), held_out_rows, collate, score


def is_first(row: Row) -> NDArray[np.bool_]:
    """Return a mask of the places with a label."""
    return np.array(row["labels"]) != IGNORE_INDEX


def first_pieces(word_ids: Sequence[int | None], labels: Sequence[int]) -> list[int]:
    """Put each word's label on its first piece, IGNORE_INDEX elsewhere."""
    before: int | None = None
    row_labels = []
    for word in word_ids:
        row_labels.append(IGNORE_INDEX if word is None or word == before else labels[word])
        before = word
    return row_labels


def answers(case: Case, dataset: Any, tokenizer: Any) -> tuple[Any, ...]:
    """Prepare answer spans in passages that are read in windows."""
    from transformers import AutoModelForQuestionAnswering, DataCollatorWithPadding

    from bertsmith.metrics.answers import answer_scores

    def windows(questions: Sequence[Any]) -> Any:
        return tokenizer(
            [question.question.strip() for question in questions],
            [question.context for question in questions],
            truncation="only_second",
            max_length=case.max_length,
            stride=DOCUMENT_STRIDE,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
        )

    def rows(encoded: Any) -> list[Row]:
        names = tokenizer.model_input_names
        return [
            {name: encoded[name][i] for name in names} for i in range(len(encoded["input_ids"]))
        ]

    encoded = windows(dataset.train)
    owners = encoded["overflow_to_sample_mapping"]
    train = [
        {**row, **positions(encoded, i, dataset.train[owners[i]].answers[0])}
        for i, row in enumerate(rows(encoded))
    ]
    measured = windows(dataset.held_out)

    def score(logits: tuple[NDArray[np.float32], NDArray[np.float32]]) -> float:
        best: dict[int, tuple[float, str]] = {}
        for i, owner in enumerate(measured["overflow_to_sample_mapping"]):
            span = best_span(measured, i, logits[0][i], logits[1][i])
            if span is not None and (owner not in best or span[0] > best[owner][0]):
                best[owner] = (span[0], dataset.held_out[owner].context[span[1] : span[2]])
        f1 = [
            answer_scores(best[i][1] if i in best else "", [a.text for a in question.answers])[1]
            for i, question in enumerate(dataset.held_out)
        ]
        return float(np.mean(f1))

    model = AutoModelForQuestionAnswering.from_pretrained(published_model())
    return model, train, rows(measured), DataCollatorWithPadding(tokenizer), score


def positions(encoded: Any, window: int, answer: Any) -> Row:
    """Return an answer's first and last token, or [CLS] for both if the window lacks it."""
    end = answer.start + len(answer.text)
    offsets, parts = encoded["offset_mapping"][window], encoded.sequence_ids(window)
    inside = [i for i, part in enumerate(parts) if part == 1]
    if not inside or offsets[inside[0]][0] > answer.start or offsets[inside[-1]][1] < end:
        return {"start_positions": 0, "end_positions": 0}
    first = max(i for i in inside if offsets[i][0] <= answer.start)
    last = min(i for i in inside if offsets[i][1] >= end)
    return {"start_positions": first, "end_positions": last}


def best_span(
    encoded: Any, window: int, starts: NDArray[np.float32], ends: NDArray[np.float32]
) -> tuple[float, int, int] | None:
    """Score and characters of a window's best span in the passage."""
    offsets, parts = encoded["offset_mapping"][window], encoded.sequence_ids(window)
    best = None
    for start in np.argsort(-starts[: len(parts)])[:NUM_CANDIDATES].tolist():
        for end in np.argsort(-ends[: len(parts)])[:NUM_CANDIDATES].tolist():
            if parts[start] != 1 or parts[end] != 1 or not 0 <= end - start < MAX_ANSWER_LENGTH:
                continue
            score = float(starts[start] + ends[end])
            if best is None or score > best[0]:
                best = (score, offsets[start][0], offsets[end][1])
    return best


def choices(case: Case, dataset: Any, tokenizer: Any) -> tuple[Any, ...]:
    """Prepare multiple choice between endings."""
    from sklearn.metrics import accuracy_score
    from transformers import AutoModelForMultipleChoice, DataCollatorForMultipleChoice

    def row(example: Any) -> Row:
        encoded = tokenizer(
            [example.text] * len(example.choices),
            list(example.choices),
            truncation=True,
            max_length=case.max_length,
        )
        return {**{name: encoded[name] for name in encoded}, "labels": example.label}

    gold = [example.label for example in dataset.held_out]

    def score(logits: NDArray[np.float32]) -> float:
        return float(accuracy_score(gold, logits.argmax(-1)))

    model = AutoModelForMultipleChoice.from_pretrained(published_model())
    collate = DataCollatorForMultipleChoice(tokenizer)
    train, held_out = (
        [row(example) for example in part] for part in (dataset.train, dataset.held_out)
    )
    return model, train, held_out, collate, score


PEERS = {
    "classify": sequences,
    "regress": sequences,
    "tag": tags,
    "answer": answers,
    "choose": choices,
}
