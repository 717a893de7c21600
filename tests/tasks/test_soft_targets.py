"""Soft targets are torch's divergences; what is no class changes nothing."""

import pytest
import torch
import torch.nn.functional as F
from torch.distributions import Bernoulli, kl_divergence

from bertsmith.tasks.soft_targets import soft_binary_loss, soft_class_loss, soft_vector_loss


@pytest.fixture
def pair():
    generator = torch.Generator().manual_seed(0)
    student, teacher = 3 * torch.randn(2, 17, 5, generator=generator)
    return student.requires_grad_(), teacher


@pytest.mark.parametrize("temperature", [1.0, 2.0, 7.0])
def test_classes(pair, temperature):
    student, teacher = pair
    loss, alike = soft_class_loss(student, teacher, temperature)
    expected = temperature**2 * F.kl_div(
        F.log_softmax(student / temperature, -1),
        F.log_softmax(teacher / temperature, -1),
        reduction="sum",
        log_target=True,
    )
    torch.testing.assert_close(loss, expected)
    gradients = [torch.autograd.grad(each, student)[0] for each in (loss, expected)]
    torch.testing.assert_close(*gradients)
    assert alike == (student.argmax(-1) == teacher.argmax(-1)).sum()
    assert soft_class_loss(teacher, teacher, temperature) == (0, 17)


def test_what_is_no_class_counts_for_nothing(pair):
    student, teacher = pair
    expected = soft_class_loss(student, teacher, 2.0)[0]
    padded = [F.pad(each, (0, 3), value=-torch.inf) for each in pair]
    loss, _ = soft_class_loss(*padded, 2.0)
    torch.testing.assert_close(loss, expected)
    gradients = [torch.autograd.grad(each, student)[0] for each in (loss, expected)]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_decisions(pair, temperature):
    student, teacher = pair
    loss, alike = soft_binary_loss(student, teacher, temperature, border=0.5)
    of_teacher, of_student = (Bernoulli(logits=x / temperature) for x in (teacher, student))
    expected = temperature**2 * kl_divergence(of_teacher, of_student).mean(1).sum()
    torch.testing.assert_close(loss, expected)
    assert alike == ((student >= 0.5) == (teacher >= 0.5)).all(1).sum()
    assert soft_binary_loss(teacher, teacher, temperature)[1] == 17


def test_vectors(pair):
    student, teacher = pair
    loss, right = soft_vector_loss(student, teacher, close=0.4)
    cosines = F.cosine_similarity(student, teacher)
    torch.testing.assert_close(loss, (1 - cosines).sum())
    assert right == (cosines >= 0.6).sum() > 0
    torch.testing.assert_close(soft_vector_loss(3 * teacher, teacher, 0.1)[0], torch.tensor(0.0))
