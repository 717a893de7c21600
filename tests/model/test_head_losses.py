"""Losses by labels equal those of transformers' models; test_readme.py runs them in its Trainer."""

import pytest
import torch
import transformers
from refusals import refuses
from tiny_models import save_tiny_of

from bertsmith.errors import ConfigError, InputError
from bertsmith.model.families import FAMILIES
from bertsmith.model.loading import load_model
from bertsmith.model.saving import save_model

GENERATOR = torch.Generator().manual_seed(3)


def draw(high, *shape):
    return torch.randint(0, high, shape, generator=GENERATOR)


TOKEN_LABELS = {"masked_lm": 101, "tag": 5}
TEXT_LABELS = {
    "classify": draw(5, 7),
    "next_sentence": draw(2, 7),
    "regress": torch.randn(7, generator=GENERATOR),
    "multi_label": draw(2, 7, 5).float(),
}


def labels_for(head, mask):
    """Labels of a head, at real tokens alone."""
    if head in TEXT_LABELS:
        return {"labels": TEXT_LABELS[head]}
    labels = draw(TOKEN_LABELS[head], *mask.shape)
    return {"labels": labels.masked_fill((mask == 0) | (labels % 3 == 0), -100)}


def both(model, tmp_path):
    """The model, and transformers' own of its folder."""
    save_model(model, tmp_path)
    family = FAMILIES[model.config.model_type]
    theirs = getattr(transformers, family.architecture(tuple(model.heads)))
    return model, theirs.from_pretrained(tmp_path).eval()


def check_same(model, theirs, inputs):
    found, expected = model(**inputs), theirs(**inputs)
    torch.testing.assert_close(found.loss, expected.loss, rtol=0, atol=1e-5)
    assert len(found[:]) == len(expected[:]) and torch.equal(found[0], found.loss)
    found.loss.backward()
    expected.loss.backward()
    word = theirs.get_input_embeddings().weight.grad
    torch.testing.assert_close(model.embeddings.word.weight.grad, word, rtol=0, atol=1e-5)
    return found, expected


@pytest.mark.parametrize("head", [*TOKEN_LABELS, *TEXT_LABELS])
def test_the_loss_of_each_head_is_that_of_transformers(head, small_model, padded_inputs, tmp_path):
    model, theirs = both(small_model(head, num_labels=5), tmp_path)
    if head in TEXT_LABELS:  # transformers reads the first column, even where it is padding
        padded_inputs["attention_mask"][:, 0] = 1
    inputs = padded_inputs | labels_for(head, padded_inputs["attention_mask"])
    check_same(model, theirs, inputs)


def test_answers_and_choices(small_model, padded_inputs, tmp_path):
    model, theirs = both(small_model("answer"), tmp_path / "answer")
    rows = {"input_ids": draw(101, 7, 23)}
    places = {"start_positions": draw(23, 7), "end_positions": draw(25, 7)}
    found, expected = check_same(model, theirs, rows | places)
    torch.testing.assert_close(found[2], expected.end_logits)
    padded = {name: value[5:6] for name, value in padded_inputs.items()}
    place = {"start_positions": torch.tensor([14]), "end_positions": torch.tensor([12])}
    with refuses(InputError, "start_positions, row 0: found 14", "23"):
        model(**padded, **place)
    with refuses(InputError, "start_positions is a list", "[1]", "torch.tensor()"):
        model(**padded, start_positions=[14], end_positions=[12])

    model, theirs = both(small_model("choose"), tmp_path / "choose")
    padded_inputs["attention_mask"][:, 0] = 1
    rows = {k: v[:6].view(2, 3, 23) for k, v in padded_inputs.items()}
    found, expected = check_same(model, theirs, rows | {"labels": torch.tensor([2, 0])})
    torch.testing.assert_close(found.logits, expected.logits, rtol=0, atol=1e-5)
    columns = torch.arange(23)[None]  # one row for all choices
    assert torch.equal(model(**rows, position_ids=columns).logits, found.logits)
    with refuses(InputError, "attention_mask is a list", "torch.tensor()"):
        model(input_ids=rows["input_ids"], attention_mask=[[1]])


def test_replaced_tokens(padded_inputs, tmp_path):
    sizes = {"vocab_size": 101, "type_vocab_size": 3}
    folder = save_tiny_of(tmp_path / "electra", "electra", ["replaced_token"], **sizes)
    model, theirs = both(load_model(folder), tmp_path)
    check_same(model, theirs, padded_inputs | {"labels": draw(2, 7, 23)})
    with refuses(InputError, "labels", "[23, 7]", "'replaced_token'", "[7, 23]"):
        model(**padded_inputs, labels=draw(2, 23, 7))


@pytest.mark.parametrize(("heads", "labels", "error", "parts"), [
    (("classify",), torch.zeros(7, 2), InputError, ["[7, 2]", "'classify'", "[7]"]),
    (("classify",), torch.full((7,), 5), InputError, [", row 0: found 5", "0 to 4", "-100"]),
    (("tag",), torch.full((7, 23), -1), InputError, [", row 0, column 0: found -1", "0 to 4"]),
    (("classify",), [1] * 7, InputError, [" a list", "torch.tensor()"]),
    ((), torch.zeros(7), ConfigError, ['heads=["classify"]']),
    (("answer",), torch.zeros(7), ConfigError, ["'answer'", "start_positions and end_positions"]),
])  # fmt: skip
def test_other_labels_are_refused(heads, labels, error, parts, small_model, padded_inputs):
    with refuses(error, "labels", *parts):
        small_model(*heads, num_labels=5)(**padded_inputs, labels=labels)
