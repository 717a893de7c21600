import pytest
import torch
import torch.nn.functional as F

from bertsmith.errors import ConfigError
from bertsmith.model import masked_lm_loss as lm_loss
from bertsmith.model.config import BertConfig
from bertsmith.model.families import build_heads
from bertsmith.model.masked_lm_loss import masked_lm_loss


@pytest.fixture
def prediction() -> tuple[torch.Tensor, ...]:
    """Vectors, embedding, bias and labels of 37 positions, 101 words; a third are right."""
    torch.manual_seed(2)
    weight = torch.randn(101, 13, requires_grad=True)
    labels = torch.randint(0, 101, (37,))
    hidden = torch.randn(37, 13)
    hidden[::3] += 3 * weight.detach()[labels[::3]]
    bias = torch.randn(101, requires_grad=True)
    return hidden.requires_grad_(), weight, bias, labels


@pytest.mark.parametrize("max_logits", [1, 101 * 5, 2**24])
def test_loss_and_gradients_equal_cross_entropy(
    prediction: tuple[torch.Tensor, ...], max_logits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
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
def test_loss_in_bf16_is_that_of_its_logits(prediction: tuple[torch.Tensor, ...], way: str) -> None:
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


def test_ties_count_as_argmax_counts_them() -> None:
    weight, bias = torch.zeros(7, 3), torch.zeros(7)
    _, correct = masked_lm_loss(torch.zeros(7, 3), weight, bias, torch.arange(7))
    assert correct == 1


def test_nothing_predicted_is_a_loss_of_zero() -> None:
    weight = torch.randn(7, 3, requires_grad=True)
    loss, correct = masked_lm_loss(
        torch.zeros(0, 3), weight, torch.zeros(7), torch.zeros(0, dtype=torch.int64)
    )
    assert (loss.item(), correct.item()) == (0, 0)
    loss.backward()


def test_a_second_backward_pass_is_refused(prediction: tuple[torch.Tensor, ...]) -> None:
    loss, _ = masked_lm_loss(*prediction)
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="one backward pass"):
        loss.backward()


def test_heads_by_name(small_config: type[BertConfig]) -> None:
    config = small_config()
    built = build_heads(config, ["masked_lm", "classify"], num_labels=5)
    assert built["classify"].dropout_prob == config.hidden_dropout_prob
    with pytest.raises(ConfigError, match="Choose one of: masked_lm"):
        build_heads(config, ["spans"])
    with pytest.raises(ConfigError, match="num_labels is None"):
        build_heads(config, ["classify"])
