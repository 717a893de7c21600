"""RoBERTa, ALBERT, DistilBERT and ELECTRA equal transformers, both ways, and use our engine."""

import json
import pickle
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tiny_models import save_tiny_of, tiny_tokenizer, write_reviews
from torch import Tensor

from bertsmith.data.batches import pack
from bertsmith.errors import BertsmithError, CheckpointError, ConfigError
from bertsmith.finetuning.run import finetune
from bertsmith.model.bert import BertModel
from bertsmith.model.config import BertConfig
from bertsmith.model.families import build_heads, family_named
from bertsmith.model.families.albert import AlbertConfig
from bertsmith.model.families.distilbert import DistilBertConfig
from bertsmith.model.head_pruning import prune_heads
from bertsmith.model.int8 import can_quantize
from bertsmith.model.keep_layers import distilled, truncate_layers
from bertsmith.model.loading import load_model
from bertsmith.model.onednn_weights import can_prepack, prepack, quantize
from bertsmith.model.saving import save_model
from bertsmith.model.vocabulary_trimming import trim_vocabulary
from bertsmith.model.weight_names import canonical, their_names
from bertsmith.tasks.auto import load
from bertsmith.tasks.text_classification import Classify, ClassifySettings
from bertsmith.tokenization.wordpiece import WordPieceTokenizer
from bertsmith.training.flat_parameters import GradientCollector, Layout, Storage, use_arrays
from bertsmith.training.layerwise import LayerwiseOptim

TOLERANCE = 1e-5
SHAPE = {
    "vocab_size": 101,
    "hidden_size": 33,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 37,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "max_position_embeddings": 29,
    "type_vocab_size": 3,
}
DISTILBERT = {
    "vocab_size": 101, "dim": 33, "n_layers": 2, "n_heads": 3, "hidden_dim": 37, "dropout": 0.0,
    "attention_dropout": 0.0, "max_position_embeddings": 29, "seq_classif_dropout": 0.0,
    "qa_dropout": 0.0,
}  # fmt: skip
ALBERT = {**SHAPE, "embedding_size": 19, "classifier_dropout_prob": 0.0, "num_hidden_layers": 3}
ELECTRA = {**SHAPE, "embedding_size": 19, "summary_last_dropout": 0.0}
HEADS = {
    "": "AutoModel",
    "masked_lm": "AutoModelForMaskedLM",
    "classify": "AutoModelForSequenceClassification",
    "multi_label": "AutoModelForSequenceClassification",
    "regress": "AutoModelForSequenceClassification",
    "tag": "AutoModelForTokenClassification",
    "answer": "AutoModelForQuestionAnswering",
    "choose": "AutoModelForMultipleChoice",
    "sentence_order": "AutoModelForPreTraining",
    "replaced_token": "AutoModelForPreTraining",
}


@dataclass(frozen=True)
class Case:
    """A config of transformers, and how many types of segments its models know."""

    family: str
    config: str
    settings: dict[str, Any] = field(default_factory=dict)
    num_types: int = 3


CASES = {
    "roberta": Case("roberta", "RobertaConfig", {**SHAPE, "max_position_embeddings": 31}),
    "roberta-one-type": Case(
        "roberta",
        "RobertaConfig",
        {**SHAPE, "type_vocab_size": 1, "pad_token_id": 3, "hidden_act": "relu",
         "max_position_embeddings": 33},
        num_types=1,
    ),
    "distilbert": Case("distilbert", "DistilBertConfig", DISTILBERT, num_types=0),
    "distilbert-relu": Case(
        "distilbert", "DistilBertConfig", {**DISTILBERT, "activation": "relu"}, num_types=0
    ),
    "electra": Case("electra", "ElectraConfig", ELECTRA),
    "electra-wide": Case("electra", "ElectraConfig", {**ELECTRA, "embedding_size": 33}),
    "albert": Case("albert", "AlbertConfig", ALBERT),
    "albert-groups": Case(
        "albert", "AlbertConfig", {**ALBERT, "num_hidden_layers": 5, "num_hidden_groups": 2}
    ),
    "albert-inner": Case(
        "albert", "AlbertConfig", {**ALBERT, "num_hidden_groups": 2, "inner_group_num": 2}
    ),
}  # fmt: skip


def architectures_of(case: Case) -> list[str]:
    """The heads that are tried: all of a family's first case, three of the others."""
    if case is not CASES[case.family]:
        return ["", "masked_lm", "classify"]
    others = {"albert": ["sentence_order"], "electra": ["replaced_token"]}
    return [
        name for name in HEADS if name not in ("sentence_order", "replaced_token")
    ] + others.get(case.family, [])


TRIED = [(name, head) for name, case in CASES.items() for head in architectures_of(case)]


@pytest.fixture(autouse=True)
def quiet() -> None:
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()


def reference(case: Case, head: str) -> transformers.PreTrainedModel:
    """A model of transformers with random weights, all of them away from zero."""
    settings = dict(case.settings)
    if head in ("classify", "multi_label", "tag"):
        settings["num_labels"] = 5
    if head == "regress":
        settings["num_labels"] = 1
    if head == "multi_label":
        settings["problem_type"] = "multi_label_classification"
    torch.manual_seed(3)
    config = getattr(transformers, case.config)(**settings)
    theirs = getattr(transformers, HEADS[head]).from_config(config, attn_implementation="eager")
    for name, parameter in theirs.named_parameters():
        is_norm = name.endswith("weight") and "norm" in name.lower()
        torch.nn.init.normal_(parameter, mean=float(is_norm), std=0.2)
    return theirs.eval()


def inputs_of(case: Case, padded_inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Rows with any mask whose first column is real, which transformers' classifiers read."""
    padded_inputs["attention_mask"][:, 0] = 1
    types = padded_inputs.pop("token_type_ids")
    if case.num_types:
        padded_inputs["token_type_ids"] = types % case.num_types
    return padded_inputs


def difference(ours: Tensor, theirs: Tensor, mask: Tensor | None = None) -> float:
    """The largest difference at real positions, relative to the size of the numbers."""
    if mask is not None:
        ours, theirs = ours[mask == 1], theirs[mask == 1]
    assert ours.shape == theirs.shape
    ours, theirs = ours.detach(), theirs.detach()
    return float((ours - theirs).abs().max() / theirs.abs().max().clamp(min=1))


def their_output(theirs: Any, head: str, inputs: dict[str, Tensor]) -> tuple[Any, Tensor | None]:
    """Everything that transformers gives, and the logits in our shape."""
    wanted = {"output_hidden_states": True, "output_attentions": True}
    if head == "choose":
        found = theirs(**{name: x[None] for name, x in inputs.items()}, **wanted)
        return found, found.logits.T
    found = theirs(**inputs, **wanted)
    if head == "answer":
        return found, torch.stack([found.start_logits, found.end_logits], -1)
    if head == "sentence_order":
        return found, found.prediction_logits
    return found, found.get("logits")


def check_equal(ours: BertModel, theirs: Any, head: str, inputs: dict[str, Tensor]) -> None:
    mask = inputs["attention_mask"]
    with torch.no_grad():
        found = ours(**inputs, output_hidden_states=True, output_attentions=True)
        expected, logits = their_output(theirs, head, inputs)
    for mine, their in zip(found.hidden_states, expected.hidden_states, strict=True):
        assert difference(mine, their, mask) < TOLERANCE
    for mine, their in zip(found.attentions, expected.attentions, strict=True):
        rows = mask[:, None].expand(-1, mine.shape[1], -1)
        assert difference(mine, their, rows) < TOLERANCE
    if head == "":
        assert difference(found.last_hidden_state, expected.last_hidden_state, mask) < TOLERANCE
        pooled = expected.get("pooler_output")
        assert (found.pooler_output is None) == (pooled is None)
        if pooled is not None:
            assert difference(found.pooler_output, pooled) < TOLERANCE
        return
    is_of_tokens = logits.shape[:2] == mask.shape
    assert difference(found.logits, logits, mask if is_of_tokens else None) < TOLERANCE
    if head == "sentence_order":
        assert difference(found.sentence_order_logits, expected.sop_logits) < TOLERANCE


@pytest.mark.parametrize(("name", "head"), TRIED)
def test_equal_both_ways_through_disk(
    name: str, head: str, padded_inputs: dict[str, Tensor], tmp_path: Path
) -> None:
    case = CASES[name]
    inputs = inputs_of(case, padded_inputs)
    theirs = reference(case, head)
    theirs.save_pretrained(tmp_path / "theirs")
    ours = load_model(tmp_path / "theirs")
    assert type(ours.config) is family_named(case.family).config
    heads = {"": (), "sentence_order": ("masked_lm", "sentence_order")}.get(head, (head,))
    assert tuple(ours.heads) == heads
    assert not ours.load_report.missing
    assert not ours.load_report.unused
    check_equal(ours, theirs, head, inputs)

    save_model(ours, tmp_path / "ours")
    again, info = getattr(transformers, HEADS[head]).from_pretrained(
        tmp_path / "ours", output_loading_info=True, attn_implementation="eager"
    )
    assert not any(info.values())
    assert type(again) is type(theirs)
    for key, value in theirs.state_dict().items():
        assert torch.equal(again.state_dict()[key], value), key
    for key, value in case.settings.items():
        assert getattr(again.config, key) == value, key
    check_equal(ours, again.eval(), head, inputs)


@pytest.mark.parametrize("name", list(CASES))
def test_gradients_of_masked_lm(
    name: str, padded_inputs: dict[str, Tensor], tmp_path: Path
) -> None:
    inputs = inputs_of(CASES[name], padded_inputs)
    theirs = reference(CASES[name], "masked_lm").train()
    theirs.save_pretrained(tmp_path)
    ours = load_model(tmp_path).train()
    mask, labels = inputs["attention_mask"], inputs["input_ids"].roll(1, 0)
    labels = torch.where((mask == 1) & (labels % 3 == 0), labels, -100)
    expected = theirs(**inputs, labels=labels).loss
    expected.backward()
    border = ours.pack(inputs["input_ids"], mask, inputs.get("token_type_ids"))
    hidden = ours.encode(border.batch)
    packed = labels.flatten()[border.cells]
    positions = (packed != -100).nonzero()[:, 0]
    loss, _ = ours.heads["masked_lm"].loss(
        hidden[positions], ours.embeddings.word.weight, packed[positions]
    )
    loss = loss / len(positions)
    assert difference(loss, expected) < TOLERANCE
    loss.backward()
    family = family_named(CASES[name].family)
    gradients = {canonical(key, family): p.grad for key, p in theirs.named_parameters()}
    for key, parameter in ours.named_parameters():
        parts = [gradients.pop(their) for their in their_names(key, ours.config)]
        assert difference(parameter.grad, torch.cat(parts)) < TOLERANCE, key
    assert not gradients


def build(case: str, *heads: str, num_labels: int | None = None, **changes: Any) -> BertModel:
    """A model of ours with random weights."""
    family = family_named(CASES[case].family)
    settings = CASES[case].settings
    ours = {their: name for name, their in family.keys.items() if their}
    config = family.config(**{ours.get(key, key): value for key, value in settings.items()})
    config = replace(config, initializer_range=0.2, **changes)
    torch.manual_seed(5)
    return BertModel(config, build_heads(config, heads, num_labels)).eval()


@pytest.mark.parametrize("name", list(CASES))
def test_packed_rows_are_padded_ones(name: str) -> None:
    model = build(name, "classify", num_labels=5)
    rng = np.random.default_rng(0)
    rows = [rng.integers(4, 101, length) for length in (5, 23, 1, 13, 13)]
    pad = model.config.pad_token_id
    padded = torch.full((5, 23), pad)
    for row, ids in zip(padded, rows, strict=True):
        row[: len(ids)] = torch.from_numpy(ids)
    mask = (padded != pad).long()
    batch = pack(rows)
    with torch.no_grad():
        expected = model(padded, mask)
        hidden = model.encode(batch)
        firsts = model.encode(batch, first_only=True)
        logits = model.heads["classify"](model.encode_pooled(batch))
        whole = model.heads["classify"](model.pool(hidden, batch))
    in_order = [expected.last_hidden_state[i, : len(rows[i])] for i in batch.order]
    torch.testing.assert_close(hidden, torch.cat(in_order), atol=1e-5, rtol=0.0)
    torch.testing.assert_close(firsts, hidden[batch.first_tokens], atol=1e-5, rtol=0.0)
    torch.testing.assert_close(logits, expected.logits[list(batch.order)], atol=1e-5, rtol=0.0)
    torch.testing.assert_close(whole, logits, atol=1e-5, rtol=0.0)


@pytest.mark.parametrize("name", list(CASES))
def test_saved_and_loaded_is_the_same_bits(name: str, tmp_path: Path) -> None:
    model = build(name, "tag", num_labels=5)
    save_model(model, tmp_path)
    again = load_model(tmp_path)
    assert again.config == model.config
    assert again.state_dict().keys() == model.state_dict().keys()
    for key, value in model.state_dict().items():
        assert torch.equal(again.state_dict()[key], value), key
    assert len(list(again.parameters())) == len(list(model.parameters()))


@pytest.mark.parametrize("name", ["roberta", "distilbert", "electra", "albert"])
@pytest.mark.parametrize("way", ["prepacked", "int8"])
def test_models_for_reading_alone(name: str, way: str) -> None:
    if not (can_prepack() if way == "prepacked" else can_quantize()):
        pytest.skip("this torch has no such kernels")
    batch = pack([np.arange(5, 12), np.arange(40, 60)])
    model = build(name)
    with torch.inference_mode():
        expected = model.encode(batch)
        prepack(model) if way == "prepacked" else quantize(model, torch.float32)
        found = model.encode(batch)
    allowed = 1e-5 if way == "prepacked" else 0.05
    assert (found - expected).norm() < allowed * expected.norm()


# RoBERTa's positions.


def test_a_text_may_be_as_long_as_there_are_positions_behind_padding() -> None:
    model = build("roberta")
    assert model.config.max_length == 29
    model(torch.full((1, 29), 7))
    with pytest.raises(BertsmithError, match="at most 29 tokens"):
        model(torch.full((1, 30), 7))
    with pytest.raises(ConfigError, match="begins at position 4"):
        build("roberta", pad_token_id=3, max_position_embeddings=4)


def test_segments_are_not_told_apart_where_there_are_none() -> None:
    ids = [np.arange(5, 12)]
    for name in ("roberta-one-type", "distilbert"):
        model = build(name)
        found = model.encode(pack(ids, [np.array([0, 0, 0, 1, 1, 1, 1])]))
        torch.testing.assert_close(found, model.encode(pack(ids)), atol=0, rtol=0)


# ALBERT's shared weights.


def num_encoder_parameters(config: BertConfig) -> int:
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in BertModel(config).layers.parameters())


def test_sharing_all_layers_cuts_parameters_by_their_number() -> None:
    bert = num_encoder_parameters(BertConfig.from_preset("mini", vocab_size=101))
    counts = {
        shared: num_encoder_parameters(AlbertConfig.from_preset("mini", 101, shared=shared))
        for shared in ("all", "attention", "feed_forward", "none")
    }
    assert counts["none"] == bert
    assert counts["all"] == bert // 4
    assert counts["attention"] + counts["feed_forward"] == bert + bert // 4


@pytest.mark.parametrize("shared", ["attention", "feed_forward", "none"])
def test_shared_parts_are_repeated_for_transformers_and_shared_again(
    shared: str, padded_inputs: dict[str, Tensor], tmp_path: Path
) -> None:
    ours = build("albert", "masked_lm", shared=shared, num_hidden_groups=3)
    save_model(ours, tmp_path)
    theirs = transformers.AutoModelForMaskedLM.from_pretrained(
        tmp_path, attn_implementation="eager"
    )
    assert theirs.config.num_hidden_groups == 3
    check_equal(ours, theirs.eval(), "masked_lm", inputs_of(CASES["albert"], padded_inputs))
    again = load_model(tmp_path)
    assert again.config == ours.config
    layers = again.layers
    assert (layers[0].attention is layers[2].attention) == (shared == "attention")
    assert (layers[0].feed_forward is layers[2].feed_forward) == (shared == "feed_forward")
    for key, value in ours.state_dict().items():
        assert torch.equal(again.state_dict()[key], value), key


def test_copies_that_differ_are_not_shared(tmp_path: Path) -> None:
    save_model(build("albert", shared="attention", num_hidden_groups=3), tmp_path)
    theirs = transformers.AutoModel.from_pretrained(tmp_path)
    with torch.no_grad():
        theirs.encoder.albert_layer_groups[1].albert_layers[0].attention.key.weight[0, 0] += 1
    theirs.save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match=r"groups\.1.*key\.weight differs.*'shared'"):
        load_model(tmp_path)


def test_shared_weights_stand_once_in_the_arrays_of_a_run() -> None:
    model = build("albert", "masked_lm").train()
    layout = Layout.of(model.parameter_specs())
    assert sum(slot.count for slot in layout.slots) == sum(p.numel() for p in model.parameters())
    storage = Storage(layout.size, 1, torch.float32, ())
    arrays = storage.place(torch.zeros(storage.num_bytes, dtype=torch.uint8))
    views = layout.views(arrays.weights)
    for name, parameter in model.named_parameters():
        views[name].copy_(parameter.detach())
    batch = pack([np.arange(5, 12), np.arange(40, 60)])
    model.encode(batch).square().sum().backward()
    name, expected = "layers.0.attention.qkv.weight", model.layers[2].attention.qkv.weight.grad
    assert expected.abs().max() > 0
    model.zero_grad()
    use_arrays(model, layout, arrays)
    collector = GradientCollector(model, layout)
    collector.begin(arrays.gradients[0])
    model.encode(batch).square().sum().backward()
    collector.end()
    torch.testing.assert_close(layout.views(arrays.gradients[0])[name], expected)


@pytest.mark.parametrize("name", ["roberta", "distilbert", "electra", "albert"])
def test_a_model_goes_to_another_process(name: str) -> None:
    model = build(name, "masked_lm", *(["sentence_order"] if name == "albert" else ["classify"]),
                  num_labels=3)  # fmt: skip
    again = pickle.loads(pickle.dumps(model))
    assert len(list(again.parameters())) == len(list(model.parameters()))
    batch = pack([np.arange(5, 12), np.arange(40, 60)])
    torch.testing.assert_close(again.encode(batch), model.encode(batch), atol=0, rtol=0)


def test_shared_weights_learn_at_the_rate_of_the_last_layer_that_has_them() -> None:
    config = build("albert-groups").config
    assert config.shared_parts == {
        "layers.0.attention": 2,
        "layers.0.feed_forward": 2,
        "layers.3.attention": 4,
        "layers.3.feed_forward": 4,
    }
    settings = {"num_layers": 5, "layer_decay": 0.5, "shared_parts": config.shared_parts}
    optim = LayerwiseOptim(**settings, freeze_layers=3)
    assert optim.rate_scale("layers.0.attention_norm.weight") == 0
    assert optim.rate_scale("layers.3.feed_forward.up.weight") == 0.5
    assert LayerwiseOptim(**settings).rate_scale("layers.0.feed_forward_norm.bias") == 0.125
    with pytest.raises(ConfigError, match=r"layers 1 to 3 .* share weights\. Freeze 0 or 3"):
        LayerwiseOptim(**settings, freeze_layers=2)


# Smaller models.


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("roberta", {}),
        ("distilbert", {}),
        ("electra", {}),
        ("albert", {}),
        ("albert", {"shared": "feed_forward", "num_hidden_groups": 3}),
        ("albert", {"num_hidden_groups": 3}),
    ],
)
def test_layers_that_are_left(
    name: str, changes: dict[str, Any], padded_inputs: dict[str, Tensor], tmp_path: Path
) -> None:
    whole = build(name, "masked_lm", **changes)
    smaller = truncate_layers(whole, [len(whole.layers) - 1])
    save_model(smaller, tmp_path)
    theirs = transformers.AutoModelForMaskedLM.from_pretrained(
        tmp_path, attn_implementation="eager"
    )
    assert theirs.config.num_hidden_layers == 1
    check_equal(smaller, theirs.eval(), "masked_lm", inputs_of(CASES[name], padded_inputs))
    assert load_model(tmp_path).config == smaller.config


def test_what_layers_share_in_groups_is_not_divided(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="share weights in 2 groups of 1"):
        truncate_layers(build("albert-groups"), [0, 2])
    with pytest.raises(ConfigError, match="share their attention"):
        prune_heads(build("albert"), {0: [1]})
    with pytest.raises(ConfigError, match="whose layers share their attention"):
        build("albert", pruned_heads={0: [1]})
    prune_heads(build("albert", shared="none", num_hidden_groups=3), {0: [1]})


def test_positions_stay_behind_padding_where_the_vocabulary_is_trimmed(tmp_path: Path) -> None:
    words = ["film", "good", "fine"]
    special = ["[CLS]", "[UNK]", "[PAD]", "[SEP]", "[MASK]"]
    tokenizer = WordPieceTokenizer([*words, *special, "bad"])
    changes = {"vocab_size": 9, "pad_token_id": 5, "bos_token_id": 3, "eos_token_id": 6}
    whole = build("roberta", **changes)
    smaller, its_tokenizer = trim_vocabulary(whole, tokenizer, [1, *range(3, 9)])
    save_model(smaller, tmp_path, its_tokenizer)
    again = load_model(tmp_path)
    assert again.config.max_length == whole.config.max_length == 25
    ids = (again.config.pad_token_id, again.config.bos_token_id, again.config.eos_token_id)
    assert ids == (3, 1, 4)
    before, after = (pack([np.array(each.encode("good bad").ids)]) for each in
                     (tokenizer, its_tokenizer))  # fmt: skip
    torch.testing.assert_close(again.encode(after), whole.encode(before), atol=0, rtol=0)


# Fine-tuning.


@pytest.mark.parametrize("name", ["roberta", "distilbert", "electra", "albert"])
def test_finetuning_learns_and_transformers_reads_the_result(name: str, tmp_path: Path) -> None:
    save_tiny_of(tmp_path / "start", name)
    settings = ClassifySettings(
        model=tmp_path / "start", train=write_reviews(tmp_path / "train.csv", 80),
        eval=write_reviews(tmp_path / "eval.csv", 30, seed=1), out=tmp_path / "out", steps=60,
        learning_rate=5e-3, dropout=0.0, device="cpu", precision="fp32",
    )  # fmt: skip
    result = finetune(Classify, settings)
    assert result.evaluation.accuracy > 0.8  # 0.5 is guessing
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(settings.out).eval()
    assert theirs.config.id2label == {0: "neg", 1: "pos"}
    texts = ["a good film", "the story was very dull and awful ."]
    tokenizer = tiny_tokenizer()
    rows = [tokenizer.encode(text).ids for text in texts]
    with torch.no_grad():
        expected = [theirs(torch.tensor([row])).logits.softmax(-1)[0] for row in rows]
    classifier = load(settings.out, device="cpu", precision="fp32")
    for prediction, probabilities in zip(classifier(texts), expected, strict=True):
        best = int(probabilities.argmax())
        assert prediction.label == ("neg", "pos")[best]
        assert prediction.probability == pytest.approx(float(probabilities[best]), abs=1e-5)


# What cannot be met.


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("roberta", {"model_type": "deberta"}, r"'deberta'.*albert, bert, distilbert, elec"),
        ("roberta", {"position_embedding_type": "relative_key"}, "'relative_key'.*'absolute'"),
        ("roberta", {"is_decoder": True}, "is_decoder is True"),
        ("albert", {"embedding_size": 0}, "embedding_size is 0"),
        ("albert", {"num_hidden_groups": 4}, "num_hidden_groups is 4 with 3 layers.*1 to 3"),
        ("albert", {"shared": "attention"}, "num_hidden_groups is 1.*'attention'.*must be 3"),
        ("albert", {"shared": "embeddings"}, "shared is 'embeddings'.*feed_forward"),
        ("electra", {"summary_type": "last"}, "summary_type is 'last'.*'first'"),
        ("electra", {"embedding_size": 23}, r"word_embeddings.*\[101, 19\].*\[101, 23\]"),
        ("electra", {"pooling": "mean"}, "pooling is 'mean'.*electra"),
        ("distilbert", {"n_heads": 2}, "hidden_size is 33 with 2 attention heads"),
        ("distilbert", {"n_layers": 3}, "16 weights are missing"),
    ],
)  # fmt: skip
def test_configs_that_do_not_fit(
    name: str, changes: dict[str, object], message: str, tmp_path: Path
) -> None:
    save_model(build(name, "masked_lm"), tmp_path)
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))
    with pytest.raises(CheckpointError, match=message) as error:
        load_model(tmp_path)
    assert "\n" not in str(error.value)


def test_heads_that_a_family_has_not() -> None:
    for name, head in (("roberta", "next_sentence"), ("albert", "replaced_token")):
        with pytest.raises(ConfigError, match=f"family {name} is '{head}'. Choose one of: masked"):
            build(name, head)
    with pytest.raises(ConfigError, match="no segments"):
        DistilBertConfig(**{**SHAPE, "type_vocab_size": 2})


def test_a_bert_without_segments_reads_the_first_as_before() -> None:
    torch.manual_seed(0)
    bert = BertModel(config := BertConfig(**SHAPE), build_heads(config, ["masked_lm"])).eval()
    ids = torch.randint(0, 101, (5, 23), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected, found = bert(ids), distilled(bert).eval()(ids)
    torch.testing.assert_close(found.logits, expected.logits, atol=1e-5, rtol=1e-5)
    assert distilled(bert).config.model_type == "distilbert"
    with pytest.raises(ConfigError, match="Only a BERT with a masked-LM head"):
        distilled(BertModel(config))
