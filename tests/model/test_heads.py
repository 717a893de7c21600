import pytest
import torch
import torch.nn.functional as F

from bertsmith.model import masked_lm_loss as lm_loss
from bertsmith.model.masked_lm_loss import Guesses, masked_lm_loss
from bertsmith.model.row_maximum import BLOCK, row_maximum


@pytest.fixture
def prediction():
    """Vectors, embedding, bias and labels of 37 positions, 101 words; a third are right."""
    torch.manual_seed(2)
    weight = torch.randn(101, 13, requires_grad=True)
    labels = torch.randint(0, 101, (37,))
    hidden = torch.randn(37, 13)
    hidden[::3] += 3 * weight.detach()[labels[::3]]
    bias = torch.randn(101, requires_grad=True)
    return hidden.requires_grad_(), weight, bias, labels


@pytest.mark.parametrize("max_logits", [101 * 5, 2**24])
def test_loss_and_gradients_equal_cross_entropy(prediction, max_logits, monkeypatch):
    monkeypatch.setattr(lm_loss, "MAX_LOGITS", max_logits)
    hidden, weight, bias, labels = prediction
    logits = F.linear(hidden, weight, bias)
    expected = F.cross_entropy(logits, labels, reduction="sum")
    loss, correct = masked_lm_loss(hidden, weight, bias, labels)
    torch.testing.assert_close(loss, expected)
    assert correct == (logits.argmax(-1) == labels).sum()
    assert 10 < correct < 37
    parameters = (hidden, weight, bias)
    found_gradients = torch.autograd.grad(loss / 7, parameters)
    expected_gradients = torch.autograd.grad(expected / 7, parameters)
    for mine, exact in zip(found_gradients, expected_gradients, strict=True):
        torch.testing.assert_close(mine, exact)


@pytest.mark.parametrize("way", ["parameters", "autocast"])
def test_loss_in_bf16_is_that_of_its_logits(prediction, way):
    dtype = torch.bfloat16 if way == "parameters" else torch.float32
    *values, labels = prediction
    hidden, weight, bias = (x.detach().to(dtype).requires_grad_() for x in values)
    with torch.autocast("cpu", torch.bfloat16, enabled=way == "autocast"):
        loss, _ = masked_lm_loss(hidden, weight, bias, labels)
        loss.backward()
    logits = F.linear(hidden.bfloat16(), weight.bfloat16(), bias.bfloat16()).float()
    # Probabilities are rounded to bf16, to 1 / 512 at most: so much may each position be off.
    expected = F.cross_entropy(logits, labels, reduction="sum")
    torch.testing.assert_close(loss, expected, rtol=0, atol=len(labels) / 512)
    assert hidden.grad.dtype == weight.grad.dtype == bias.grad.dtype == dtype


def test_ties_nothing_predicted_and_a_second_backward_pass(prediction):
    zeros = torch.zeros(7, 3)
    assert masked_lm_loss(zeros, zeros, torch.zeros(7), torch.arange(7))[1] == 1
    weight = torch.randn(7, 3, requires_grad=True)
    loss, correct = masked_lm_loss(zeros[:0], weight, torch.zeros(7), torch.arange(0))
    assert (loss.item(), correct.item()) == (0, 0)
    loss.backward()
    loss, _ = masked_lm_loss(*prediction)
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="one backward pass"):
        loss.backward()


# A student's and a teacher's guesses: equal to plain torch, in bounded memory.

POSITIONS, VOCABULARY, WIDTH, WIDTH_OF_TEACHER = 13, 31, 7, 11


def guesses(width, seed, dtype=torch.float32, rows=POSITIONS):
    generator = torch.Generator().manual_seed(seed)
    shapes = (rows, width), (VOCABULARY, width), (VOCABULARY,)
    return Guesses(*(torch.randn(shape, generator=generator).to(dtype) for shape in shapes))


def plain_loss(student, teacher, count, temperature):
    """The same by torch alone, with all logits at once."""
    logits, taught = (
        F.linear(x.hidden[:count], x.weight, x.bias).float() / temperature
        for x in (student, teacher)
    )
    loss = F.kl_div(logits.log_softmax(-1), taught.softmax(-1), reduction="sum")
    return temperature**2 * loss, (logits.argmax(-1) == taught.argmax(-1)).sum()


@pytest.mark.parametrize(
    ("rows", "count", "temperature", "max_logits"),
    [
        (POSITIONS, POSITIONS, 1.0, lm_loss.MAX_LOGITS),
        (POSITIONS, POSITIONS, 2.0, 6 * VOCABULARY),
        (16, 9, 2.0, 8 * VOCABULARY),  # the rest is filling, which counts for nothing
    ],
)
def test_the_soft_loss_is_torchs_divergence(rows, count, temperature, max_logits, monkeypatch):
    sizes = []
    inner = lm_loss.divergence_and_gradient

    def watched(logits, taught, temperature):
        sizes.append(logits.numel() + taught.numel())
        return inner(logits, taught, temperature)

    monkeypatch.setattr(lm_loss, "divergence_and_gradient", watched)
    monkeypatch.setattr(lm_loss, "MAX_LOGITS", max_logits)
    monkeypatch.setattr(lm_loss, "CACHED_BYTES", 5 * 4 * VOCABULARY)
    student, teacher = guesses(WIDTH, 0, rows=rows), guesses(WIDTH_OF_TEACHER, 1, rows=rows)
    inputs = [x.requires_grad_() for x in (student.hidden, student.weight, student.bias)]
    loss, alike = lm_loss.soft_lm_loss(student, teacher, count, temperature)
    expected, expected_alike = plain_loss(student, teacher, count, temperature)
    torch.testing.assert_close(loss, expected)
    assert alike == expected_alike
    found, wanted = (torch.autograd.grad(0.3 * x, inputs) for x in (loss, expected))
    torch.testing.assert_close(found, wanted)
    assert not found[0][count:].any()
    assert max(sizes) <= max_logits
    rough = [guesses(width, place, torch.bfloat16, rows) for place, width in
             enumerate((WIDTH, WIDTH_OF_TEACHER))]  # fmt: skip
    in_bf16, _ = lm_loss.soft_lm_loss(*rough, count, temperature)
    assert in_bf16.dtype == torch.float32
    torch.testing.assert_close(in_bf16, expected.detach(), rtol=0.03, atol=0.0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_the_highest_value_of_a_row_and_its_first_place(dtype):
    columns = 3 * BLOCK + 5
    infinite = torch.full((2, columns), -torch.inf, dtype=dtype)
    infinite[1, 700] = torch.inf
    for x in (
        # Few different numbers, so that the highest stands in several places.
        *(torch.randint(-9, 10, (41, number)).to(dtype) - 100
          for number in (1, 2 * BLOCK - 1, 2 * BLOCK, 2 * BLOCK + 1, 5 * BLOCK + 19)),
        torch.eye(columns, dtype=dtype),
        infinite,
    ):  # fmt: skip
        values, places = row_maximum(x)
        assert torch.equal(values, x.amax(-1, keepdim=True))
        assert places.squeeze(-1).tolist() == [row.index(max(row)) for row in x.tolist()]
