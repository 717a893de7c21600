import pytest
import torch
import torch.nn.functional as F

from bertsmith.model import masked_lm_loss as lm_loss
from bertsmith.model.masked_lm_loss import LogitFactors, MaskedLMLoss
from bertsmith.model.row_maximum import ROW_BLOCK, row_maximum


def masked_lm_loss(*arguments):
    return MaskedLMLoss.apply(*arguments, None)[:2]


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


def test_ties_and_nothing_predicted():
    zeros = torch.zeros(7, 3)
    assert masked_lm_loss(zeros, zeros, torch.zeros(7), torch.arange(7))[1] == 1
    weight = torch.randn(7, 3, requires_grad=True)
    loss, correct = masked_lm_loss(zeros[:0], weight, torch.zeros(7), torch.arange(0))
    assert (loss.item(), correct.item()) == (0, 0)
    loss.backward()


@pytest.mark.parametrize(
    ("rows", "count", "temperature"),
    [(13, 13, 1.0), (16, 9, 2.0)],  # the rest is filling, which counts for nothing
)
def test_the_soft_loss_is_torchs_divergence(rows, count, temperature, monkeypatch):
    monkeypatch.setattr(lm_loss, "MAX_LOGITS", 8 * 31)  # so that there are several portions
    monkeypatch.setattr(lm_loss, "CACHED_BYTES", 3 * 4 * 31)
    torch.manual_seed(0)
    student, teacher = (
        LogitFactors(torch.randn(rows, width), torch.randn(31, width), torch.randn(31))
        for width in (7, 11)
    )
    inputs = [x.requires_grad_() for x in (student.hidden, student.weight, student.bias)]
    loss, alike = lm_loss.soft_lm_loss(student, teacher, count, temperature)
    logits, taught = (F.linear(x.hidden[:count], x.weight, x.bias) for x in (student, teacher))
    shares = ((x / temperature).log_softmax(-1) for x in (logits, taught))
    expected = temperature**2 * F.kl_div(*shares, reduction="sum", log_target=True)
    torch.testing.assert_close(loss, expected)
    assert alike == (logits.argmax(-1) == taught.argmax(-1)).sum()
    found, wanted = (torch.autograd.grad(0.3 * x, inputs) for x in (loss, expected))
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_the_highest_value_of_a_row_and_its_first_place(dtype):
    # Few different numbers, so that the highest stands in several places.
    for columns in (1, 2 * ROW_BLOCK - 1, 2 * ROW_BLOCK, 2 * ROW_BLOCK + 1, 5 * ROW_BLOCK + 19):
        for highest in (-91, 10):
            x = torch.randint(highest - 19, highest + 1, (41, columns)).to(dtype)
            values, places = row_maximum(x)
            assert torch.equal(values, x.amax(-1, keepdim=True))
            assert places.squeeze(-1).tolist() == [row.index(max(row)) for row in x.tolist()]
