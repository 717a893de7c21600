"""Results of the demo's steps as plain values for `demo.json` and the report."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from bertsmith.data.manifest import Manifest
from bertsmith.demo.baselines import Score
from bertsmith.demo.corpus import Documentation
from bertsmith.demo.question import DemoQuestion
from bertsmith.metrics.spread import spread
from bertsmith.model.bert import BertModel
from bertsmith.pretraining.job import PretrainJob
from bertsmith.tokenization.tokenizer import Tokenizer
from bertsmith.vocabulary.train import TokenizerReport

PRETRAINED, UNTRAINED = "pretrained", "untrained"
SEGMENTED = ("The tokenizer reads documentation.", "An unsymmetrical eigendecomposition.")


def of_documentation(documentation: Documentation) -> dict[str, Any]:
    return {
        "num_modules": len(documentation.documents),
        "num_chars": documentation.num_chars,
        "chars_by_library": documentation.chars_by_library(),
        "skipped": dict(documentation.skipped.most_common()),
    }


def of_vocabulary(tokenizer: Tokenizer, report: TokenizerReport) -> dict[str, Any]:
    stats = report.stats.get("bertsmith")  # little text may be held out in no document
    return {
        "size": tokenizer.vocab_size,
        "num_words": report.num_words,
        "fertility": stats and stats.fertility,
        "unknown_rate": stats and stats.unknown_rate,
        "vocabulary_use": stats and stats.vocabulary_use,
        "examples": [
            {"text": text, "pieces": tokenizer.encode(text).tokens[1:-1]} for text in SEGMENTED
        ],
    }


def of_corpus(manifest: Manifest) -> dict[str, Any]:
    train, held_out = manifest.splits["train"], manifest.splits["held_out"]
    return {
        "num_documents": train.documents,
        "num_sentences": train.sentences,
        "num_tokens": train.tokens,
        "num_held_out_tokens": held_out.tokens,
    }


def of_model(model: BertModel, job: PretrainJob) -> dict[str, Any]:
    return {
        "preset": job.model.preset,
        "num_layers": model.config.num_hidden_layers,
        "hidden_size": model.config.hidden_size,
        "num_parameters": sum(parameter.numel() for parameter in model.parameters()),
        "max_length": job.pretraining.max_length,
        "masking_rate": job.pretraining.masking_rate,
    }


def of_question(question: DemoQuestion) -> dict[str, Any]:
    counts, num_train = question.label_counts(), len(question.draws[0])
    labels = sorted(counts, key=str)
    return {
        "labels": labels,
        "num_train": num_train,
        "num_train_each": num_train // len(labels),
        "num_dev": len(question.dev),
        "num_test": len(question.test),
        "num_draws": len(question.draws),
        "test_counts": {label: counts[label] for label in labels},
    }


def of_comparison(scores: Mapping[str, Sequence[Score]]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "accuracy": spread([score.accuracy for score in group]),
            "macro_f1": spread([score.macro_f1 for score in group]),
        }
        for name, group in scores.items()
    ]
    best = max(row["accuracy"]["mean"] for row in rows)
    return [{**row, "is_best": row["accuracy"]["mean"] == best} for row in rows]


def peak_memory_bytes() -> int | None:
    """Return the peak memory of this process; None where the system does not tell."""
    if sys.platform == "win32":
        return None
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
