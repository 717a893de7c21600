"""Importance is the mean absolute gradient by a head's mask, as Michel et al. 2019 define it."""

import numpy as np
import pytest
import torch
from samples import prepare
from tiny_models import NUM_POSITIONS, load_for_task, tiny_tokenizer

from bertsmith.compression.head_importance import head_importance, least_important
from bertsmith.model.config import BertConfig
from bertsmith.model.shrinking import prune_heads
from bertsmith.tasks.example_objective import FineTuning, HeldOutExamples, training_examples


def by_masks(model, objective):
    """The same by its definition: a mask before each output projection, one example at a time."""
    config = model.config
    masks = [torch.ones(len(config.heads_of(i)), requires_grad=True) for i in range(2)]
    hooks = [
        layer.attention.output.register_forward_pre_hook(
            lambda module, given, mask=mask: given[0] * mask.repeat_interleave(config.head_size)
        )
        for layer, mask in zip(model.layers, masks, strict=True)
    ]
    totals = [torch.zeros(len(mask)) for mask in masks]
    for example in range(len(objective.train)):
        (batch,) = objective.micro_batches(1 + example)
        (term,) = objective.losses(model, batch).values()
        for total, gradient in zip(totals, torch.autograd.grad(term.sum, masks), strict=True):
            total += gradient.abs()
    for hook in hooks:
        hook.remove()
    importance = np.zeros((2, config.num_attention_heads))
    for layer, total in enumerate(totals):
        importance[layer, config.heads_of(layer)] = total / total.norm()
    return importance


@pytest.mark.parametrize("name", ["answer", "choose", "tag"])
def test_one_backward_pass_gives_what_masks_of_single_examples_give(name, tmp_path):
    task, settings = prepare(name, tmp_path, 11, 11)
    dataset, path = task.read(settings), settings.train
    task, rows = dataset.task, dataset.train
    encoded = task.encode(tiny_tokenizer(), rows, NUM_POSITIONS, labelled=True)
    examples = training_examples(task, encoded, path, rows), HeldOutExamples(encoded, path, rows)

    def objective(size, **more):
        return FineTuning(task, *examples, batch_size=size, **more)

    model = load_for_task(settings, dataset)[0].eval()
    with torch.no_grad():
        model.layers[0].attention.output.weight[:, 8:16] = 0.0  # a silent head
    expected, before = by_masks(model, objective(1)), (model.config, model.training)
    np.testing.assert_allclose((expected**2).sum(1), [1, 1], rtol=1e-5)
    assert expected[0, 1] == 0 and (np.delete(expected, 1, 1) > 0).all()
    for division in ({}, {"num_parts": 3, "micro_batch_tokens": 29}):
        found = head_importance(model, objective(1000, **division))
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    assert (model.config, model.training) == before
    assert all(value.grad is None for value in model.parameters())
    pruned = prune_heads(model, {1: [1]})
    found = head_importance(pruned, objective(1000))
    np.testing.assert_allclose(found, by_masks(pruned, objective(1)), rtol=1e-4, atol=1e-6)


def test_the_least_important_heads_go_and_each_layer_keeps_its_best():
    config = BertConfig(7, 12, 3, 4, 5)
    importance = np.array([[0.9, 0.1, 0.2, 0.3], [0.01, 0.04, 0.03, 0.02], [0.5, 0.6, 0.7, 0.8]])
    assert least_important(importance, config, 2) == {1: [0, 3]}
    assert least_important(importance, config, 5) == {0: [1, 2], 1: [0, 2, 3]}
    assert least_important(importance, config, 9) == {0: [1, 2, 3], 1: [0, 2, 3], 2: [0, 1, 2]}
    # Heads that are gone are not chosen again.
    gone = BertConfig(7, 12, 2, 4, 5, pruned_heads={0: [0, 1, 2]})
    assert least_important(importance[[0, 2]], gone, 3) == {1: [0, 1, 2]}
