"""A student's and a teacher's guesses at hidden words: equal to plain torch, in bounded memory."""

import pytest
import torch
import torch.nn.functional as F

from bertsmith.model import masked_lm_loss, soft_lm_loss
from bertsmith.model.soft_lm_loss import Guesses

POSITIONS, VOCABULARY, WIDTH, WIDTH_OF_TEACHER = 13, 31, 7, 11


def guesses(width, seed, dtype=torch.float32, rows=POSITIONS):
    generator = torch.Generator().manual_seed(seed)
    shapes = (rows, width), (VOCABULARY, width), (VOCABULARY,)
    return Guesses(*(torch.randn(shape, generator=generator).to(dtype) for shape in shapes))


def leaves(found):
    return [x.requires_grad_() for x in (found.hidden, found.weight, found.bias)]


def plain_loss(student, teacher, count, temperature):
    """The same by torch alone, with all logits at once."""
    logits, taught = (
        F.linear(x.hidden[:count], x.weight, x.bias).float() / temperature
        for x in (student, teacher)
    )
    loss = F.kl_div(logits.log_softmax(-1), taught.softmax(-1), reduction="sum")
    return temperature**2 * loss, (logits.argmax(-1) == taught.argmax(-1)).sum()


@pytest.mark.parametrize("temperature", [1.0, 2.0])
@pytest.mark.parametrize("max_logits", [masked_lm_loss.MAX_LOGITS, 6 * VOCABULARY])
def test_it_is_the_divergence_of_torch(monkeypatch, temperature, max_logits):
    monkeypatch.setattr(soft_lm_loss, "MAX_LOGITS", max_logits)
    monkeypatch.setattr(soft_lm_loss, "CACHED_BYTES", 5 * 4 * VOCABULARY)
    student, teacher = guesses(WIDTH, 0), guesses(WIDTH_OF_TEACHER, 1)
    inputs = leaves(student)
    loss, alike = soft_lm_loss.soft_lm_loss(student, teacher, POSITIONS, temperature)
    expected, expected_alike = plain_loss(student, teacher, POSITIONS, temperature)
    torch.testing.assert_close(loss, expected)
    assert alike == expected_alike
    found, wanted = (torch.autograd.grad(0.3 * x, inputs) for x in (loss, expected))
    torch.testing.assert_close(found, wanted)


def test_rows_of_filling_count_for_nothing(monkeypatch):
    monkeypatch.setattr(soft_lm_loss, "MAX_LOGITS", 8 * VOCABULARY)
    student, teacher = guesses(WIDTH, 0, rows=16), guesses(WIDTH_OF_TEACHER, 1, rows=16)
    inputs = leaves(student)
    loss, alike = soft_lm_loss.soft_lm_loss(student, teacher, 9, 2.0)
    expected, expected_alike = plain_loss(student, teacher, 9, 2.0)
    torch.testing.assert_close(loss, expected)
    assert alike == expected_alike
    gradients = torch.autograd.grad(loss, inputs)
    torch.testing.assert_close(gradients, torch.autograd.grad(expected, inputs))
    assert not gradients[0][9:].any()


def test_never_more_than_a_chunk_of_logits(monkeypatch):
    monkeypatch.setattr(soft_lm_loss, "MAX_LOGITS", 6 * VOCABULARY)
    sizes = []
    inner = soft_lm_loss.divergence_and_gradient

    def watched(logits, taught, temperature):
        sizes.append(logits.numel() + taught.numel())
        return inner(logits, taught, temperature)

    monkeypatch.setattr(soft_lm_loss, "divergence_and_gradient", watched)
    student, teacher = guesses(WIDTH, 0), guesses(WIDTH_OF_TEACHER, 1)
    soft_lm_loss.soft_lm_loss(student, teacher, POSITIONS, 2.0)
    assert len(sizes) == 5
    assert max(sizes) <= 6 * VOCABULARY


def test_bf16_is_close():
    exact = [guesses(WIDTH, 0), guesses(WIDTH_OF_TEACHER, 1)]
    rough = [guesses(WIDTH, 0, torch.bfloat16), guesses(WIDTH_OF_TEACHER, 1, torch.bfloat16)]
    inputs = leaves(rough[0])
    loss, _ = soft_lm_loss.soft_lm_loss(*rough, POSITIONS, 2.0)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, plain_loss(*exact, POSITIONS, 2.0)[0], rtol=0.02, atol=0.0)
    gradients = torch.autograd.grad(loss, inputs)
    assert {gradient.dtype for gradient in gradients} == {torch.bfloat16}


def test_a_student_that_is_its_teacher_has_nothing_to_learn():
    one = guesses(WIDTH, 0)
    loss, alike = soft_lm_loss.soft_lm_loss(one, one, POSITIONS, 2.0)
    assert alike == POSITIONS
    torch.testing.assert_close(loss, torch.tensor(0.0), atol=1e-5, rtol=0.0)
