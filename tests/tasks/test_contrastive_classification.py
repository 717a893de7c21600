"""The loss over pairs of labelled texts, and the order in which they are taken."""

import numpy as np
import pytest
import torch

from bertsmith.tasks.contrastive_classification import label_similarity, order_in_pairs, pair_loss


def test_texts_with_the_same_label_should_be_alike():
    similarity = label_similarity(torch.tensor([0, 1, 0]))
    assert similarity.tolist() == [[1, 0, 1], [0, 1, 0], [1, 0, 1]]


def test_texts_with_several_labels_should_be_as_alike_as_their_labels():
    flags = torch.tensor([[1, 1, 0], [1, 0, 1], [0, 0, 0], [0, 0, 0.0]])
    expected = [[1, 1 / 3, 0, 0], [1 / 3, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]]
    torch.testing.assert_close(label_similarity(flags), torch.tensor(expected))


def test_the_loss_is_the_mean_over_pairs_written_out():
    vectors = torch.randn(7, 5, generator=torch.Generator().manual_seed(0), requires_grad=True)
    labels = [0, 1, 0, 2, 1, 1, 0]
    same, others = [], []
    for i in range(7):
        for j in range(7):
            cosine = torch.cosine_similarity(vectors[i], vectors[j], dim=0)
            if i != j:
                kind, target = (same, 1) if labels[i] == labels[j] else (others, 0)
                kind.append((cosine - target) ** 2)
    expected = (torch.stack(same).mean() + torch.stack(others).mean()) / 2
    loss = pair_loss(vectors, label_similarity(torch.tensor(labels)))
    torch.testing.assert_close(loss, expected)
    (gradient,) = torch.autograd.grad(loss, vectors, retain_graph=True)
    (right,) = torch.autograd.grad(expected, vectors)
    torch.testing.assert_close(gradient, right)


@pytest.mark.parametrize("labels", [[0], [0, 0], [0, 1]])
def test_a_batch_may_lack_a_kind_of_pair(labels):
    vectors = torch.randn(len(labels), 3, requires_grad=True)
    loss = pair_loss(vectors, label_similarity(torch.tensor(labels)))
    loss.backward()
    assert loss.isfinite() and vectors.grad.isfinite().all()


def test_an_epoch_takes_every_text_once_and_neighbours_share_a_label():
    labels = np.repeat(np.arange(11), [2, 4, 2, 6, 2, 2, 4, 2, 2, 2, 1]).tolist()
    order = order_in_pairs(labels, np.random.default_rng(0))
    assert sorted(order.tolist()) == list(range(len(labels)))
    place = order.tolist().index(len(labels) - 1)  # the only text of its label
    others = [labels[index] for index in order if index != len(labels) - 1]
    assert others[::2] == others[1::2]
    again = order_in_pairs(labels, np.random.default_rng(0))
    assert again.tolist() == order.tolist()
    different = order_in_pairs(labels, np.random.default_rng(1))
    assert different.tolist() != order.tolist() and place < len(labels)
