"""Every family equals transformers, in memory and both ways through disk, and uses our engine."""

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers
from refusals import refuses
from tiny_models import assert_same_weights, save_tiny_of

from bertsmith.data.batches import pack
from bertsmith.errors import BertsmithError, CheckpointError, ConfigError
from bertsmith.model import dense_attention
from bertsmith.model.bert import BertModel
from bertsmith.model.families import build_heads, family_named
from bertsmith.model.families.distilbert import DistilBertConfig
from bertsmith.model.int8 import can_quantize, quantize
from bertsmith.model.loading import load_model
from bertsmith.model.prepacked import can_prepack, prepack
from bertsmith.model.saving import save_model
from bertsmith.model.shrinking import to_distilbert, trim_vocabulary, truncate_layers
from bertsmith.model.weight_names import canonical, hugging_face_names
from bertsmith.tokenization.wordpiece import WordPieceTokenizer
from bertsmith.training.layerwise import LayerwiseOptim

TOLERANCE = 1e-5
SHAPE = {
    "vocab_size": 101, "hidden_size": 33, "num_hidden_layers": 2, "num_attention_heads": 3,
    "intermediate_size": 37, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
    "max_position_embeddings": 29, "type_vocab_size": 3,
}  # fmt: skip
DISTILBERT = {
    "vocab_size": 101, "dim": 33, "n_layers": 2, "n_heads": 3, "hidden_dim": 37, "dropout": 0.0,
    "attention_dropout": 0.0, "max_position_embeddings": 29, "seq_classif_dropout": 0.0,
    "qa_dropout": 0.0, "activation": "relu",
}  # fmt: skip
ALBERT = {**SHAPE, "embedding_size": 19, "classifier_dropout_prob": 0.0, "num_hidden_layers": 3}
MODERNBERT = {
    "vocab_size": 101, "hidden_size": 42, "num_hidden_layers": 4, "num_attention_heads": 3,
    "intermediate_size": 37, "max_position_embeddings": 29, "local_attention": 6,
    "pad_token_id": 3, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2,
    "rope_parameters": {
        "full_attention": {"rope_type": "default", "rope_theta": 700.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 30.0},
    },
}  # fmt: skip
ELECTRA = {**SHAPE, "embedding_size": 19, "summary_last_dropout": 0.0}
CASES = {
    "bert": SHAPE,
    "bert-wide": {
        **SHAPE, "hidden_size": 35, "num_attention_heads": 5, "num_hidden_layers": 3,
        "hidden_act": "gelu_python",
    },
    "roberta": {**SHAPE, "max_position_embeddings": 31},
    "roberta-one-type": {
        **SHAPE, "type_vocab_size": 1, "pad_token_id": 3, "hidden_act": "relu",
        "max_position_embeddings": 33,
    },
    "distilbert": DISTILBERT,
    "electra": ELECTRA,
    "electra-wide": {**ELECTRA, "embedding_size": 33, "hidden_act": "swish"},
    "albert": ALBERT,
    "albert-groups": {**ALBERT, "num_hidden_layers": 5, "num_hidden_groups": 2},
    "albert-inner": {**ALBERT, "num_hidden_groups": 2, "inner_group_num": 2},
    "modernbert": MODERNBERT,
    "modernbert-mean": {
        **MODERNBERT, "classifier_pooling": "mean", "classifier_activation": "relu",
        "hidden_activation": "silu", "local_attention": 9,
        "layer_types": ["sliding_attention"] * 3 + ["full_attention"],
    },
}  # fmt: skip
"""Settings of transformers by the name of their family, and what is special in them."""

FAMILIES = ["roberta", "distilbert", "electra", "albert", "modernbert"]
HEADS = {
    "": "AutoModel",
    "masked_lm": "AutoModelForMaskedLM",
    "classify": "AutoModelForSequenceClassification",
    "multi_label": "AutoModelForSequenceClassification",
    "regress": "AutoModelForSequenceClassification",
    "tag": "AutoModelForTokenClassification",
    "answer": "AutoModelForQuestionAnswering",
    "choose": "AutoModelForMultipleChoice",
}
OWN_HEADS = {
    "bert": {
        "pretraining": "AutoModelForPreTraining",
        "next_sentence": "AutoModelForNextSentencePrediction",
    },
    "albert": {"sentence_order": "AutoModelForPreTraining"},
    "electra": {"replaced_token": "AutoModelForPreTraining"},
}
ALL_HEADS = HEADS | {head: name for heads in OWN_HEADS.values() for head, name in heads.items()}


def family_of(name):
    return name.partition("-")[0]


def heads_to_try(name):
    """All heads of a family's plain case, those that read it otherwise of the others."""
    if name == "modernbert-mean":
        return ["classify", "choose"]
    return ["masked_lm"] if "-" in name else [*HEADS, *OWN_HEADS.get(name, ())]


@pytest.fixture(autouse=True)
def quiet():
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()


def reference(name, head):
    """A model of transformers with random weights, all of them away from zero."""
    settings = dict(CASES[name])
    if head in ("classify", "multi_label", "tag"):
        settings["num_labels"] = 5
    if head == "regress":
        settings["num_labels"] = 1
    if head == "multi_label":
        settings["problem_type"] = "multi_label_classification"
    torch.manual_seed(3)
    config = transformers.AutoConfig.for_model(family_of(name), **settings)
    kind = getattr(transformers, ALL_HEADS[head])
    theirs = kind.from_config(config, attn_implementation="eager")
    for name, parameter in theirs.named_parameters():
        is_norm = name.endswith("weight") and "norm" in name.lower()
        torch.nn.init.normal_(parameter, mean=float(is_norm), std=0.2)
    return theirs.eval()


def both(name, head, folder):
    """A model of transformers, and ours as it reads the folder."""
    theirs = reference(name, head)
    theirs.save_pretrained(folder)
    return load_model(folder), theirs


def read_by_transformers(folder, head="masked_lm"):
    """The model of a folder, which must hold each of its weights and no other."""
    theirs, info = getattr(transformers, ALL_HEADS[head]).from_pretrained(
        folder, output_loading_info=True, attn_implementation="eager"
    )
    assert not any(info.values())
    return theirs.eval()


def inputs_of(name, padded_inputs):
    """Rows with any mask whose first column is real, which transformers' classifiers read."""
    padded_inputs["attention_mask"][:, 0] = 1
    types = padded_inputs.pop("token_type_ids")
    if num_types := CASES[name].get("type_vocab_size"):
        padded_inputs["token_type_ids"] = types % num_types
    return padded_inputs


def difference(ours, theirs, mask=None):
    """The largest difference at real positions, relative to the size of the numbers."""
    if mask is not None:
        ours, theirs = ours[mask == 1], theirs[mask == 1]
    assert ours.shape == theirs.shape
    return float((ours - theirs).detach().abs().max() / theirs.detach().abs().max().clamp(min=1))


def their_output(theirs, head, inputs):
    """Everything that transformers gives, and the logits by our names and in our shape."""
    if head == "choose":
        inputs = {name: x[None] for name, x in inputs.items()}
    found = theirs(**inputs, output_hidden_states=True, output_attentions=True)
    if head == "choose":
        return found, {"logits": found.logits.T}
    if head == "answer":
        return found, {"logits": torch.stack([found.start_logits, found.end_logits], -1)}
    names = {
        "": {"last_hidden_state": "last_hidden_state", "pooler_output": "pooler_output"},
        "next_sentence": {"next_sentence_logits": "logits"},
        "sentence_order": {"logits": "prediction_logits", "sentence_order_logits": "sop_logits"},
        "pretraining": {
            "logits": "prediction_logits",
            "next_sentence_logits": "seq_relationship_logits",
        },
    }.get(head, {"logits": "logits"})
    return found, {name: found.get(their) for name, their in names.items()}


def check_equal(ours, theirs, head, inputs):
    mask = inputs["attention_mask"]
    with torch.no_grad():
        found = ours(**inputs, output_hidden_states=True, output_attentions=True)
        expected, outputs = their_output(theirs, head, inputs)
    for mine, their in zip(found.hidden_states, expected.hidden_states, strict=True):
        assert difference(mine, their, mask) < TOLERANCE
    for mine, their in zip(found.attentions, expected.attentions, strict=True):
        rows = mask[:, None].expand(-1, mine.shape[1], -1)
        assert difference(mine, their, rows) < TOLERANCE
    for name, their in outputs.items():
        mine = getattr(found, name)
        assert (mine is None) == (their is None)
        if their is not None:
            is_of_tokens = their.shape[:2] == mask.shape
            assert difference(mine, their, mask if is_of_tokens else None) < TOLERANCE


@pytest.mark.parametrize(
    ("name", "head"), [(name, head) for name in CASES for head in heads_to_try(name)]
)
def test_equal_both_ways_through_disk(name, head, padded_inputs, tmp_path):
    inputs = inputs_of(name, padded_inputs)
    ours, theirs = both(name, head, tmp_path / "theirs")
    assert type(ours.config) is family_named(family_of(name)).config
    heads = {
        "": (),
        "sentence_order": ("masked_lm", "sentence_order"),
        "pretraining": ("masked_lm", "next_sentence"),
    }.get(head, (head,))
    assert tuple(ours.heads) == heads
    assert not ours.load_report.missing
    assert not ours.load_report.unused
    check_equal(ours, theirs, head, inputs)

    save_model(ours, tmp_path / "ours")
    again = read_by_transformers(tmp_path / "ours", head)
    assert type(again) is type(theirs)
    assert_same_weights(again, theirs)
    for key, value in CASES[name].items():
        assert getattr(again.config, key) == value, key
    check_equal(ours, again, head, inputs)


@pytest.mark.parametrize("name", list(CASES))
def test_losses_and_gradients_of_pretraining(name, padded_inputs, tmp_path):
    is_bert = family_of(name) == "bert"
    inputs = inputs_of(name, padded_inputs)
    ours, theirs = both(name, "pretraining" if is_bert else "masked_lm", tmp_path)
    mask, labels = inputs["attention_mask"], inputs["input_ids"].roll(1, 0)
    labels = torch.where((mask == 1) & (labels % 3 == 0), labels, -100)
    next_labels = torch.tensor([0, 1, 1, 0, 1, 0, 1])
    also = {"next_sentence_label": next_labels} if is_bert else {}
    expected = theirs.train()(**inputs, labels=labels, **also).loss
    expected.backward()
    padded = ours.train().pack(inputs["input_ids"], mask, inputs.get("token_type_ids"))
    hidden = ours.encode(padded.batch)
    packed = labels.flatten()[padded.cells]
    positions = (packed != -100).nonzero()[:, 0]
    loss, _ = ours.heads["masked_lm"].loss(
        hidden[positions], ours.embeddings.word.weight, packed[positions]
    )
    loss = loss / len(positions)
    if is_bert:
        logits = padded.reorder(ours.heads["next_sentence"](ours.pool(hidden, padded.batch)))
        loss = loss + torch.nn.functional.cross_entropy(logits, next_labels)
    assert difference(loss, expected) < TOLERANCE
    loss.backward()
    family = family_named(family_of(name))
    gradients = {canonical(key, family): p.grad for key, p in theirs.named_parameters()}
    for key, parameter in ours.named_parameters():
        parts = [gradients.pop(their) for their in hugging_face_names(key, ours.config)]
        assert difference(parameter.grad, torch.cat(parts)) < TOLERANCE, key
    assert not gradients


def test_gradients_by_what_is_shown(padded_inputs, tmp_path):
    inputs, models = inputs_of("bert-wide", padded_inputs), both("bert-wide", "classify", tmp_path)
    gradients = []
    for model in models:
        found = model(**inputs, output_hidden_states=True, output_attentions=True)
        shown = [*found.hidden_states, *found.attentions]
        gradients.append(torch.autograd.grad(found.logits[:, 1].sum(), shown))
    mask = inputs["attention_mask"]
    both_seen = (mask[:, :, None] * mask[:, None])[:, None]  # of a query and a key
    for mine, their in zip(*gradients, strict=True):
        rows = mask if their.ndim == 3 else both_seen.expand_as(their)
        assert difference(mine, their, rows) < TOLERANCE < their.abs().max()


@pytest.mark.parametrize("path", ["explicit", "fused"])
@pytest.mark.parametrize("seed", range(4))
def test_windows_of_a_modernbert_count_padding_between_tokens(seed, path, tmp_path, monkeypatch):
    monkeypatch.setattr(dense_attention, "is_fused_faster", lambda *_: path == "fused")
    draw = np.random.default_rng(seed)
    length = 29
    config = transformers.ModernBertConfig(
        **MODERNBERT | {
            "num_hidden_layers": 3,
            "local_attention": int(draw.integers(0, 24)),
            "global_attn_every_n_layers": int(draw.integers(1, 4)),
        },
        attn_implementation="eager",
    )  # fmt: skip
    torch.manual_seed(seed)
    theirs = transformers.ModernBertModel(config).eval()
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    theirs.save_pretrained(tmp_path)
    ours = load_model(tmp_path)
    mask = torch.from_numpy(draw.random((9, length)) < draw.uniform(0.2, 1.0, (9, 1))).long()
    mask[:, 0] |= mask.sum(1) == 0
    mask[7] = (torch.arange(length) >= 9).long()
    mask[8] = (torch.arange(length) != 10).long()
    ids = torch.from_numpy(draw.integers(4, 101, (9, length)))
    weights = torch.randn(9, length, 42) * mask[..., None]
    gradients = []
    for model in (ours, theirs):
        hidden = model(ids, attention_mask=mask).last_hidden_state
        (hidden * weights).sum().backward()
        gradients.append((hidden, {key: x.grad for key, x in model.named_parameters()}))
    (found, ours_by_name), (expected, theirs_by_name) = gradients
    assert difference(found, expected, mask) < TOLERANCE
    family = family_named("modernbert")
    theirs_by_name = {canonical(key, family): x for key, x in theirs_by_name.items()}
    for key, gradient in ours_by_name.items():
        parts = [theirs_by_name[their] for their in hugging_face_names(key, ours.config)]
        assert difference(gradient, torch.cat(parts)) < TOLERANCE, key


def test_columns_are_kept_only_where_padding_stands_between_tokens():
    model, ids = build("modernbert"), torch.randint(4, 101, (3, 13))
    mask = torch.ones(3, 13, dtype=torch.int64)
    mask[1, :4], mask[2, 9:] = 0, 0
    assert model.pack(ids, mask, None).batch.columns is None
    mask[0, 5] = 0
    assert model.pack(ids, mask, None).batch.columns.max() == 12


@pytest.mark.parametrize("name", ["bert", "roberta", "albert", "modernbert"])
def test_given_positions_and_vectors(name, padded_inputs, tmp_path):
    inputs, (ours, theirs) = inputs_of(name, padded_inputs), both(name, "", tmp_path)
    ids, mask = inputs["input_ids"], inputs["attention_mask"]
    places = torch.arange(24, 24 - ids.shape[1], -1)[None]
    vectors = theirs.get_input_embeddings()(ids.flip(1)).detach()
    for given in (
        {"inputs_embeds": vectors},
        {"input_ids": ids, "position_ids": places},
        {"inputs_embeds": vectors, "position_ids": places},
    ):
        found, expected = (
            model(attention_mask=mask, **given).last_hidden_state for model in (ours, theirs)
        )
        assert difference(found, expected, mask) < TOLERANCE


def build(name, *heads, num_labels=None, **changes):
    """A model of ours with random weights."""
    family = family_named(family_of(name))
    ours = {their: name for name, their in family.keys.items() if their}
    config = family.config(**{ours.get(key, key): value for key, value in CASES[name].items()})
    config = replace(config, initializer_range=0.2, **changes)
    torch.manual_seed(5)
    return BertModel(config, build_heads(config, heads, num_labels)).eval()


@pytest.mark.parametrize("name", CASES)
def test_packed_rows_are_padded_ones(name):
    model = build(name, "classify", num_labels=5)
    lengths = torch.tensor([5, 23, 1, 13, 13])
    mask = torch.arange(23) < lengths[:, None]
    padded = torch.where(mask, torch.randint(4, 101, (5, 23)), model.config.pad_token_id)
    batch = pack([row[real].numpy() for row, real in zip(padded, mask, strict=True)])
    with torch.no_grad():
        expected = model(padded, mask.long())
        hidden = model.encode(batch)
        firsts = model.encode(batch, queries="first")
        logits = model.heads["classify"](model.encode_pooled(batch))
    order = list(batch.order)
    in_order = torch.cat([expected.last_hidden_state[row][mask[row]] for row in order])
    for found, wanted in (
        (hidden, in_order),
        (firsts, hidden[batch.first_tokens]),
        (logits, expected.logits[order]),
    ):
        torch.testing.assert_close(found, wanted, atol=1e-5, rtol=0.0)


@pytest.mark.parametrize("name", ["bert", *FAMILIES])
@pytest.mark.parametrize(
    ("way", "dtype", "allowed"),
    [("prepacked", torch.float32, 1e-5), ("prepacked", torch.bfloat16, 0.02),
     ("int8", torch.bfloat16, 0.04)],
)  # fmt: skip
def test_models_for_reading_alone(name, way, dtype, allowed):
    """Two layers of wide random weights, so that rounding is seen."""
    if not (can_prepack() if way == "prepacked" else can_quantize()):
        pytest.skip("this torch has no such kernels")
    batch = pack([np.arange(5, 12), np.arange(40, 60)])
    model = build(name)
    with torch.inference_mode():
        expected = model.encode(batch)
        prepack(model.to(dtype)) if way == "prepacked" else quantize(model, dtype)
        found = model.encode(batch).float()
    assert (found - expected).norm() < allowed * expected.norm()
    assert torch.cosine_similarity(found, expected, dim=-1).min() > 0.998


def test_a_text_may_be_as_long_as_there_are_positions_behind_padding():
    model = build("roberta")
    assert model.config.max_length == 29
    model(torch.full((1, 29), 7))
    with refuses(BertsmithError, "input_ids", "30 columns", "29 tokens"):
        model(torch.full((1, 30), 7))
    with refuses(ConfigError, "max_position_embeddings is 4", "above 4"):
        build("roberta", pad_token_id=3, max_position_embeddings=4)


@pytest.mark.parametrize("shared", ["attention", "feed_forward", "none"])
def test_shared_parts_are_repeated_for_transformers(shared, padded_inputs, tmp_path):
    ours = build("albert", "masked_lm", shared=shared, num_hidden_groups=3)
    save_model(ours, tmp_path)
    theirs = read_by_transformers(tmp_path)
    assert theirs.config.num_hidden_groups == 3
    check_equal(ours, theirs, "masked_lm", inputs_of("albert", padded_inputs))
    again = load_model(tmp_path)
    first, last = again.layers[0], again.layers[2]
    assert again.config == ours.config
    assert (first.attention is last.attention) == (shared == "attention")
    assert (first.feed_forward is last.feed_forward) == (shared == "feed_forward")
    assert_same_weights(again, ours)
    if shared == "attention":  # copies that differ are not shared
        groups = theirs.albert.encoder.albert_layer_groups
        with torch.no_grad():
            groups[1].albert_layers[0].attention.key.weight[0, 0] += 1
        theirs.save_pretrained(tmp_path)
        with refuses(CheckpointError, "groups.1.albert_layers.0.attention.key.weight", "'shared'"):
            load_model(tmp_path)


def test_shared_weights_learn_at_the_rate_of_the_last_layer_that_has_them():
    parts = build("albert-groups").config.shared_parts  # layers 0 to 2, and 3 to 4
    settings = {"num_layers": 5, "layer_decay": 0.5, "shared_parts": parts}
    frozen, optim = LayerwiseOptim(**settings, freeze_layers=3), LayerwiseOptim(**settings)
    assert frozen.rate_scale("layers.0.attention_norm.weight") == 0
    assert frozen.rate_scale("layers.3.feed_forward.up.weight") == 0.5
    assert optim.rate_scale("layers.0.feed_forward_norm.bias") == 0.125
    with refuses(ConfigError, "--freeze-layers: found 2", "layers 1 to 3", "0 or 3"):
        LayerwiseOptim(**settings, freeze_layers=2)


@pytest.mark.parametrize("name", ["bert-wide", *FAMILIES])
def test_layers_that_are_left(name, padded_inputs, tmp_path):
    whole = build(name, "masked_lm")
    kept = [0, 2] if name in ("modernbert", "bert-wide") else [len(whole.layers) - 1]
    smaller = truncate_layers(whole, kept)
    for layer, number in zip(smaller.layers, kept, strict=True):
        assert_same_weights(layer, whole.layers[number])
    save_model(smaller, tmp_path)
    theirs = read_by_transformers(tmp_path)
    assert theirs.config.num_hidden_layers == len(smaller.layers)
    check_equal(smaller, theirs, "masked_lm", inputs_of(name, padded_inputs))
    assert load_model(tmp_path).config == smaller.config


def test_parts_that_cannot_be_left_out():
    with refuses(ConfigError, "layers: found 1, 3", "number 0"):
        truncate_layers(build("modernbert"), [1, 3])
    with refuses(ConfigError, "num_hidden_groups 2", "inner_group_num 1"):
        truncate_layers(build("albert-groups"), [0, 2])


def test_positions_stay_behind_padding_where_the_vocabulary_is_trimmed(tmp_path):
    special = ["[CLS]", "[UNK]", "[PAD]", "[SEP]", "[MASK]"]
    tokenizer = WordPieceTokenizer(["film", "good", "fine", *special, "bad"])
    whole = build("roberta", vocab_size=9, pad_token_id=5, bos_token_id=3, eos_token_id=6)
    smaller, its_tokenizer = trim_vocabulary(whole, tokenizer, [1, *range(3, 9)])
    save_model(smaller, tmp_path, its_tokenizer)
    again = load_model(tmp_path)
    assert again.config.max_length == whole.config.max_length == 25
    ids = (again.config.pad_token_id, again.config.bos_token_id, again.config.eos_token_id)
    assert ids == (3, 1, 4)
    before, after = (pack([np.array(each.encode("good bad").ids)]) for each in
                     (tokenizer, its_tokenizer))  # fmt: skip
    torch.testing.assert_close(again.encode(after), whole.encode(before), atol=0, rtol=0)


@pytest.mark.parametrize(("name", "changes", "parts"), [
    ("roberta", {"model_type": "deberta"}, ["'deberta'", "albert, bert, distilbert, elec"]),
    ("albert", {"embedding_size": 0}, ["embedding_size is 0"]),
    ("albert", {"num_hidden_groups": 4}, ["num_hidden_groups is 4", "3 layers", "1 to 3"]),
    ("albert", {"shared": "embeddings"}, ["shared is 'embeddings'", "feed_forward"]),
    ("electra", {"summary_type": "last"}, ["summary_type is 'last'", "'first'"]),
    ("electra", {"embedding_size": 23}, ["word_embeddings", "[101, 19]", "[101, 23]"]),
    ("albert", {"classifier_dropout_prob": "0.1"}, ["classifier_dropout_prob is '0.1'", "below 1"]),
    ("electra", {"summary_last_dropout": 1.5}, ["summary_last_dropout is 1.5"]),
    ("distilbert", {"seq_classif_dropout": -0.2}, ["seq_classif_dropout is -0.2"]),
    ("distilbert", {"n_heads": 2}, ["dim is 33", "n_heads 2"]),
    ("modernbert", {"embedding_dropout": [0.1]}, ["embedding_dropout is [0.1]"]),
    ("modernbert", {"hidden_size": 39}, ["hidden_size is 39", "3 attention heads"]),
    ("modernbert", {"hidden_activation": "xielu"}, ["hidden_activation is 'xielu'", "gelu_new"]),
    ("modernbert", {"classifier_pooling": "max"}, ["classifier_pooling is 'max'", "mean"]),
    ("modernbert", {"attention_bias": True}, ["attention_bias is True", "is False"]),
    ("modernbert", {"rope_scaling": {"rope_type": "yarn"}}, ["rope_scaling is {", "'yarn'"]),
    ("modernbert", {"rope_parameters": {"full_attention": {"rope_type": "linear"}}},
     ["rope_parameters: found {", "'linear'", "full_attention", "'default'"]),
    ("modernbert", {"layer_types": ["full_attention"]}, ["layer_types is [", "4 layers"]),
    ("modernbert", {"layer_types": 4 * ["chunked_attention"]}, ["layer_types is ['chunked_"]),
    ("modernbert", {"local_attention": 0}, ["local_attention is 0"]),
])  # fmt: skip
def test_configs_that_do_not_fit(name, changes, parts, tmp_path):
    save_model(build(name, "masked_lm"), tmp_path)
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))
    with refuses(CheckpointError, "config.json", *parts) as error:
        load_model(tmp_path)
    assert "\n" not in str(error.value)


def test_older_spellings_of_a_modernbert(padded_inputs, tmp_path):
    reference("modernbert", "masked_lm").save_pretrained(tmp_path)
    file = tmp_path / "config.json"
    settings = json.loads(file.read_text())
    for name in ("layer_types", "rope_parameters"):
        del settings[name]
    older = {
        "global_attn_every_n_layers": 2, "global_rope_theta": 650.0, "local_rope_theta": 40,
        "layer_norm_eps": 0.3, "position_embedding_type": "sans_pos", "rope_scaling": None,
        "reference_compile": True,
    }  # fmt: skip
    file.write_text(json.dumps(settings | older))
    ours, theirs = load_model(tmp_path), read_by_transformers(tmp_path)
    assert ours.config.layer_types == 2 * ("full_attention", "sliding_attention")
    check_equal(ours, theirs, "masked_lm", inputs_of("modernbert", padded_inputs))
    save_model(ours, tmp_path / "ours")
    written = json.loads((tmp_path / "ours" / "config.json").read_text())
    assert written["rope_parameters"] == theirs.config.rope_parameters
    assert {name: written[name] for name in list(older)[:3]} == dict(list(older.items())[:3])


def test_a_distilbert_may_call_its_sizes_as_a_bert_does(padded_inputs, tmp_path):
    reference("distilbert", "masked_lm").save_pretrained(tmp_path)
    file = tmp_path / "config.json"
    settings = json.loads(file.read_text())
    for own, name in (("n_heads", "num_attention_heads"), ("dim", "hidden_size")):
        settings[name] = settings.pop(own)
    settings["num_hidden_layers"] = 7  # n_layers is there, too, and counts
    file.write_text(json.dumps(settings))
    ours = load_model(tmp_path)
    theirs = reference("distilbert", "masked_lm")
    check_equal(ours, theirs, "masked_lm", inputs_of("distilbert", padded_inputs))


def test_first_weights_of_a_modernbert_are_those_of_transformers():
    sizes = {"hidden_size": 96, "num_attention_heads": 2, "intermediate_size": 150}
    settings = {**MODERNBERT, **sizes, "initializer_range": 0.05}
    config = transformers.ModernBertConfig(**settings)
    theirs = transformers.ModernBertForMaskedLM(config).state_dict()
    ours = build("modernbert", "masked_lm", **sizes)
    ours.config = replace(ours.config, initializer_range=0.05)
    ours.apply(ours.initialize)
    for name, found in ours.state_dict().items():
        expected = theirs[hugging_face_names(name, ours.config)[0]]
        assert float(found.std()) == pytest.approx(float(expected.std()), rel=0.1), name
        assert float(found.mean()) == pytest.approx(float(expected.mean()), abs=0.003), name
        largest = float(expected.abs().max())
        assert float(found.abs().max()) == pytest.approx(largest, rel=0.02), name


@pytest.mark.parametrize("family", ["distilbert", "modernbert", "bert"])
def test_the_tokenizer_of_a_model_without_segments_returns_none(family, tmp_path):
    save_tiny_of(tmp_path, family)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert ("token_type_ids" in theirs("a river")) == (family == "bert")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of sums that differ
        load_model(tmp_path)


def test_transformers_reads_pairs_by_a_roberta_of_one_segment_with_wordpiece(tmp_path):
    """BertTokenizer numbers the segments 0 and 1, and the model has a vector for 0 alone."""
    save_tiny_of(tmp_path, "roberta", ["classify"], labels=("a", "b"), type_vocab_size=1)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    theirs = transformers.RobertaForSequenceClassification.from_pretrained(tmp_path).eval()
    pair = tokenizer("the film was good", "a fine story", return_tensors="pt")
    with torch.no_grad():
        expected, found = theirs(**pair).logits, load_model(tmp_path)(**pair).logits
    torch.testing.assert_close(found, expected, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("family", ["bert", "roberta", "electra"])
def test_dropout_of_a_classifier_may_be_its_own(family, tmp_path):
    model = build(family, "classify", num_labels=5, classifier_dropout=0.37)
    save_model(model, tmp_path)
    again = load_model(tmp_path)
    assert transformers.AutoConfig.from_pretrained(tmp_path).classifier_dropout == 0.37
    assert again.heads["classify"].dropout_prob == again.config.classifier_dropout == 0.37
    again.set_dropout(0.2)
    assert again.heads["classify"].dropout_prob == 0.2


def test_dropout_of_a_modernbert_is_written_under_each_name(tmp_path):
    model = build("modernbert", "classify", num_labels=5)
    model.set_dropout(0.3, 0.2)
    save_model(model, tmp_path)
    theirs = transformers.AutoConfig.from_pretrained(tmp_path)
    for name in ("embedding_dropout", "mlp_dropout", "classifier_dropout", "attention_dropout"):
        assert getattr(theirs, name) == (0.2 if name == "attention_dropout" else 0.3), name
    again = load_model(tmp_path)
    assert again.config == model.config
    assert again.heads["classify"].dropout_prob == again.embeddings.dropout_prob == 0.3


@pytest.mark.parametrize("family", ["albert", "modernbert", "roberta"])
def test_configs_with_several_end_tokens_have_a_hash(family):
    build = family_named(family).config.from_preset
    assert len({build("tiny", vocab_size=101, eos_token_id=[2, 3]) for _ in range(2)}) == 1


def test_heads_that_a_family_has_not():
    for name, head in (("roberta", "next_sentence"), ("albert", "replaced_token")):
        with refuses(ConfigError, f"family {name}", f"'{head}'", "masked_lm"):
            build(name, head)
    with refuses(ConfigError, "type_vocab_size is 2", "0"):
        DistilBertConfig(**{**SHAPE, "type_vocab_size": 2})


def test_a_bert_without_segments_reads_the_first_as_before():
    bert, ids = build("bert", "masked_lm"), torch.randint(0, 101, (5, 23))
    with torch.no_grad():
        expected, found = bert(ids), to_distilbert(bert).eval()(ids)
    torch.testing.assert_close(found.logits, expected.logits, atol=1e-5, rtol=1e-5)
    assert to_distilbert(bert).config.model_type == "distilbert"
    with refuses(ConfigError, "--family distilbert", "family bert", "heads none"):
        to_distilbert(build("bert"))
