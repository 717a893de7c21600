"""Tiny models, a tokenizer of a few words, and labelled reviews, for tests of several rooms."""

import csv
import json
from dataclasses import asdict, fields, replace
from pathlib import Path

import numpy as np
import torch

from bertsmith.data.examples import Example
from bertsmith.finetuning.task_model import build_for_task
from bertsmith.model.bert import BertModel
from bertsmith.model.config import BertConfig
from bertsmith.model.families import build_heads, family_named
from bertsmith.model.model_folder import read_folder
from bertsmith.model.saving import save_model
from bertsmith.tokenization.wordpiece import WordPieceTokenizer

SPECIAL_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
GOOD = ["good", "fine", "lovely"]
BAD = ["bad", "dull", "awful"]
OTHER = ["a", "the", "film", "story", "was", "very", "and", "##s", "."]
NUM_POSITIONS = 37


def tiny_tokenizer():
    return WordPieceTokenizer(
        [*SPECIAL_TOKENS, *GOOD, *BAD, *OTHER], model_max_length=NUM_POSITIONS
    )


def tiny_config(**changes):
    settings = {
        "vocab_size": tiny_tokenizer().vocab_size, "hidden_size": 24, "num_hidden_layers": 2,
        "num_attention_heads": 3, "intermediate_size": 44, "max_position_embeddings": NUM_POSITIONS,
        # Far wider than BERT's, so that logits differ clearly between texts.
        "initializer_range": 0.2,
    }  # fmt: skip
    return BertConfig(**{**settings, **changes})


def tiny_model(*heads, num_labels=None, seed=0, **changes):
    """Make a model with random weights, in evaluation mode."""
    config = tiny_config(**changes)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return BertModel(config, build_heads(config, heads, num_labels)).eval()


def save_tiny_of(
    directory: Path,
    family: str,
    heads=("masked_lm",),
    tokenizer=None,
    num_labels=None,
    labels=(),
    **changes,
):
    """Write a folder with a tiny model of a family, with random weights; return the folder."""
    config_type = family_named(family).config
    settings = asdict(tiny_config())
    if tokenizer is not None:
        settings["vocab_size"] = tokenizer.vocab_size
        settings |= config_type.special_token_ids(
            tokenizer.pad_id, tokenizer.cls_id, tokenizer.sep_id
        )
    names = {field.name for field in fields(config_type)}
    if family in ("distilbert", "modernbert"):
        names -= {"type_vocab_size", "classifier_dropout"}
    settings |= changes
    config = config_type(**{name: value for name, value in settings.items() if name in names})
    positions = config.max_position_embeddings + config.first_position
    config = replace(config, max_position_embeddings=positions)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = BertModel(config, build_heads(config, heads, num_labels or len(labels) or None))
    save_model(model, directory, tokenizer or tiny_tokenizer(), id2label=dict(enumerate(labels)))
    return directory


def save_tiny(directory: Path, *heads, labels=(), **changes):
    """Write a folder with a tiny model of random weights; return the folder."""
    model = tiny_model(*heads, num_labels=len(labels) or None, **changes)
    save_model(model, directory, tiny_tokenizer(), id2label=dict(enumerate(labels)))
    return directory


def make_sentence_encoder(directory: Path):
    """Add the files by which a folder is one of sentence-transformers, whose vectors are means."""
    pooling = {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}
    (directory / "modules.json").write_text(json.dumps([pooling]))
    (directory / "1_Pooling").mkdir()
    settings = {"pooling_mode_mean_tokens": True}
    (directory / "1_Pooling" / "config.json").write_text(json.dumps(settings))


def reviews(count, seed=0):
    """Make texts with the label `pos` or `neg`, which one word in the text decides."""
    rng = np.random.default_rng(seed)
    examples = []
    for row in range(2, count + 2):
        label, words = [("neg", BAD), ("pos", GOOD)][rng.integers(2)]
        text = list(rng.choice(OTHER[:7], rng.integers(2, 12)))
        text.insert(rng.integers(len(text) + 1), rng.choice(words))
        examples.append(Example(" ".join(text), None, label, row))
    return examples


def write_csv(path: Path, *rows):
    """Write rows, the header first, as a csv file; return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


def write_reviews(path: Path, count, seed=0):
    """Write `reviews` as a csv file; return its path."""
    rows = ((example.text, example.label) for example in reviews(count, seed))
    return write_csv(path, ("text", "label"), *rows)


def load_for_task(settings, dataset):
    """Build the model that a fine-tuning begins with; return it and its tokenizer."""
    folder = read_folder(settings.model)
    return build_for_task(folder, settings, dataset), folder.tokenizer


def loss_of(task, model, batch):
    """Compute the loss of a task for one batch."""
    return task.compute_loss(task.outputs(model, batch), batch)


def assert_same_weights(model, expected):
    assert model.state_dict().keys() == expected.state_dict().keys()
    for name, value in expected.state_dict().items():
        assert torch.equal(model.state_dict()[name], value), name
