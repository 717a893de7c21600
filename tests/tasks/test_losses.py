"""Losses are those of torch or a paper; weights are scikit-learn's."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from refusals import refuses
from sklearn.utils.class_weight import compute_class_weight
from torch.distributions import Bernoulli, kl_divergence

from bertsmith.errors import ConfigError
from bertsmith.tasks.losses import BinaryLoss, ClassLoss, balanced, class_weights
from bertsmith.tasks.soft_targets import soft_binary_loss, soft_class_loss, soft_vector_loss

WEIGHTS = (0.5, 2.0, 1.0, 0.25, 3.0)


@pytest.fixture
def predictions():
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(17, 5, generator=generator)
    return logits.requires_grad_(), torch.randint(0, 5, (17,), generator=generator)


@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_cross_entropy_is_torchs(predictions, weights, smoothing):
    logits, labels = predictions
    labels[3] = -100
    tensor = None if weights is None else torch.tensor(weights)
    expected = F.cross_entropy(logits, labels, tensor, reduction="sum", label_smoothing=smoothing)
    torch.testing.assert_close(ClassLoss(weights, smoothing).sum(logits, labels), expected)


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_focal_loss_is_the_papers(predictions, weights):
    logits, labels = predictions
    labels[3] = -100
    known = labels >= 0
    right = logits.softmax(-1)[known, labels[known]]
    scale = torch.ones(16) if weights is None else torch.tensor(weights)[labels[known]]
    expected = (-scale * (1 - right) ** 2 * right.log()).sum()
    found = ClassLoss(weights, focal_gamma=2.0).sum(logits, labels)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(
        *(torch.autograd.grad(loss, logits)[0] for loss in (found, expected))
    )


def test_a_sure_example_has_a_finite_gradient():
    logits = torch.tensor([[200.0, -200.0]], requires_grad=True)
    for gamma in (0.5, 2.0):
        ClassLoss(focal_gamma=gamma).sum(logits, torch.tensor([0])).backward()
        BinaryLoss(focal_gamma=gamma).sum(logits, torch.tensor([[1.0, 0.0]])).backward()
    assert logits.grad.isfinite().all()


def test_binary_losses(predictions):
    logits, _ = predictions
    labels = (torch.rand(17, 5, generator=torch.Generator().manual_seed(1)) < 0.3).float()
    weights = torch.tensor(WEIGHTS)
    expected = F.binary_cross_entropy_with_logits(logits, labels, pos_weight=weights) * 17
    torch.testing.assert_close(BinaryLoss(WEIGHTS).sum(logits, labels), expected)
    expected = F.binary_cross_entropy_with_logits(logits, 0.8 * labels + 0.1) * 17
    torch.testing.assert_close(BinaryLoss(label_smoothing=0.2).sum(logits, labels), expected)
    likely = torch.where(labels > 0, logits.sigmoid(), 1 - logits.sigmoid())
    expected = (-((1 - likely) ** 2) * likely.log()).mean(1).sum()
    found = BinaryLoss(focal_gamma=2.0).sum(logits, labels)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_balanced_weights_are_scikit_learns():
    labels = np.array([0] * 7 + [1] * 2 + [2] * 1)
    expected = compute_class_weight("balanced", classes=np.arange(3), y=labels)
    assert balanced(np.bincount(labels)) == pytest.approx(expected.tolist())
    weights = balanced(np.array([7, 0, 3]))
    assert weights[1] == 1.0
    assert 7 * weights[0] == pytest.approx(3 * weights[2]) == 5


def test_given_weights():
    counts = np.array([3, 4])
    assert class_weights((), ("a", "b=c"), counts) is None
    assert class_weights(("b=c=2.5",), ("a", "b=c"), counts) == (1.0, 2.5)
    for given, parts in (
        ("b", ["'b'", "--class-weights balanced,", "--class-weights a=3"]),
        ("d=2", ["'d'", "a, b"]),
        ("a=x", ["'a=x'"]),
        ("a=-1", ["'a=-1'"]),
    ):
        with refuses(ConfigError, "--class-weights:", *parts):
            class_weights((given,), ("a", "b"), counts)


@pytest.fixture
def pair():
    generator = torch.Generator().manual_seed(0)
    student, teacher = 3 * torch.randn(2, 17, 5, generator=generator)
    return student.requires_grad_(), teacher


@pytest.mark.parametrize("temperature", [1.0, 7.0])
def test_soft_classes_are_torchs_divergence(pair, temperature):
    student, teacher = pair
    loss, alike = soft_class_loss(student, teacher, temperature)
    mine, theirs = (F.log_softmax(x / temperature, -1) for x in (student, teacher))
    expected = temperature**2 * F.kl_div(mine, theirs, reduction="sum", log_target=True)
    torch.testing.assert_close(loss, expected)
    gradients = [torch.autograd.grad(each, student)[0] for each in (loss, expected)]
    torch.testing.assert_close(*gradients)
    assert alike == (student.argmax(-1) == teacher.argmax(-1)).sum()
    assert soft_class_loss(teacher, teacher, temperature) == (0, 17)


@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_soft_decisions_are_torchs_divergence(pair, temperature):
    student, teacher = pair
    loss, alike = soft_binary_loss(student, teacher, temperature, threshold=0.5)
    of_teacher, of_student = (Bernoulli(logits=x / temperature) for x in (teacher, student))
    expected = temperature**2 * kl_divergence(of_teacher, of_student).mean(1).sum()
    torch.testing.assert_close(loss, expected)
    assert alike == ((student >= 0.5) == (teacher >= 0.5)).all(1).sum()
    assert soft_binary_loss(teacher, teacher, temperature)[1] == 17


def test_soft_vectors(pair):
    student, teacher = pair
    loss, right = soft_vector_loss(student, teacher, close=0.4)
    cosines = F.cosine_similarity(student, teacher)
    torch.testing.assert_close(loss, (1 - cosines).sum())
    assert right == (cosines >= 0.6).sum() > 0
    torch.testing.assert_close(soft_vector_loss(3 * teacher, teacher, 0.1)[0], torch.tensor(0.0))
