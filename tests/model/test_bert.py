from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from bertsmith.data.batches import pack
from bertsmith.errors import ConfigError, InputError
from bertsmith.model.bert import BertModel
from bertsmith.model.config import PRESETS, BertConfig
from bertsmith.model.families import build_heads
from bertsmith.model.last_layer import watch_last_layer

Build = Callable[..., BertModel]
Inputs = dict[str, Tensor]


@pytest.mark.parametrize(
    ("preset", "millions"),
    [("tiny", 4.4), ("mini", 11.2), ("small", 28.8), ("medium", 41.4), ("base", 109.5)],
)
def test_presets_have_the_released_sizes(preset: str, millions: float) -> None:
    config = BertConfig.from_preset(preset, vocab_size=30522)
    with torch.device("meta"):
        model = BertModel(config)
    assert sum(p.numel() for p in model.parameters()) / 1e6 == pytest.approx(millions, abs=0.06)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"hidden_size": 32}, "num_attention_heads divides"),
        ({"vocab_size": 0}, "vocab_size is 0"),
        ({"num_hidden_layers": True}, "num_hidden_layers is True"),
        ({"hidden_dropout_prob": 1.0}, "hidden_dropout_prob is 1.0"),
        ({"layer_norm_eps": 0.0}, "layer_norm_eps is 0.0"),
        ({"pad_token_id": 101}, "pad_token_id is 101.*0 to 100"),
        ({"hidden_act": "tanh"}, "gelu, gelu_new"),
        ({"pooling": "max"}, "first_token, mean"),
    ],
)
def test_impossible_configs(
    small_config: Callable[..., BertConfig], changes: dict[str, object], named: str
) -> None:
    with pytest.raises(ConfigError, match=named):
        small_config(**changes)


def test_unknown_preset_lists_the_known() -> None:
    with pytest.raises(ConfigError, match=", ".join(PRESETS)):
        BertConfig.from_preset("huge", vocab_size=101)


def test_initial_weights() -> None:
    torch.manual_seed(0)
    config = BertConfig.from_preset("tiny", vocab_size=1009)
    model = BertModel(config, build_heads(config, ["masked_lm", "next_sentence"]))
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            assert not parameter.any(), name
        elif "norm" in name:
            assert (parameter == 1).all(), name
        else:
            assert parameter.std().item() == pytest.approx(0.02, rel=0.1), name


@pytest.mark.parametrize("pooling", ["first_token", "mean"])
def test_packed_equals_padded(small_model: Build, padded_inputs: Inputs, pooling: str) -> None:
    model = small_model("masked_lm", "next_sentence", pooling=pooling)
    rows = [0, 1, 5, 6]  # those without padding in between
    inputs = {name: value[rows] for name, value in padded_inputs.items()}
    lengths = inputs["attention_mask"].sum(1).tolist()
    batch = pack(
        [row[:n].numpy() for row, n in zip(inputs["input_ids"], lengths, strict=True)],
        [row[:n].numpy() for row, n in zip(inputs["token_type_ids"], lengths, strict=True)],
    )
    hidden = model.encode(batch)
    output = model(**inputs)
    for place, part in zip(batch.order, hidden.split(batch.lengths), strict=True):
        torch.testing.assert_close(part, output.last_hidden_state[place, : len(part)])
    pooled = model.pool(hidden, batch)
    torch.testing.assert_close(pooled, output.pooler_output[list(batch.order)])


def test_mean_pooling_reads_every_real_token(small_model: Build, padded_inputs: Inputs) -> None:
    model = small_model(pooling="mean")
    output = model(**padded_inputs)
    counts = padded_inputs["attention_mask"].sum(1, keepdim=True)
    assert model.pooler is not None
    expected = model.pooler.dense(output.last_hidden_state.sum(1) / counts).tanh()
    torch.testing.assert_close(output.pooler_output, expected)


def test_a_row_does_not_depend_on_its_neighbours(small_model: Build, padded_inputs: Inputs) -> None:
    model = small_model("next_sentence")
    together = model(**padded_inputs)
    for i in range(7):
        alone = model(**{name: value[i : i + 1] for name, value in padded_inputs.items()})
        torch.testing.assert_close(alone.last_hidden_state[0], together.last_hidden_state[i])
        torch.testing.assert_close(alone.next_sentence_logits[0], together.next_sentence_logits[i])


def test_order_and_padding_change_nothing(small_model: Build, padded_inputs: Inputs) -> None:
    model = small_model("classify", num_labels=5)
    expected = model(**padded_inputs)
    order = torch.tensor([3, 0, 6, 2, 5, 1, 4])
    wider = {
        name: torch.cat([value, torch.zeros(7, 4, dtype=value.dtype)], 1)[order]
        for name, value in padded_inputs.items()
    }
    found = model(**wider)
    torch.testing.assert_close(found.logits, expected.logits[order])
    torch.testing.assert_close(found.last_hidden_state[:, :23], expected.last_hidden_state[order])
    assert not found.last_hidden_state[:, 23:].any()


def test_what_stands_at_padding_is_never_read(small_model: Build, padded_inputs: Inputs) -> None:
    model = small_model("masked_lm")
    changed = padded_inputs["input_ids"].clone()
    changed[padded_inputs["attention_mask"] == 0] = 9999
    expected = model(**padded_inputs, output_hidden_states=True, output_attentions=True)
    found = model(
        **{**padded_inputs, "input_ids": changed},
        output_hidden_states=True,
        output_attentions=True,
    )
    assert torch.equal(found.logits, expected.logits)
    padding = padded_inputs["attention_mask"] == 0
    for states in (*found.hidden_states, found.logits, *(a.sum(1) for a in found.attentions)):
        assert not states[padding].any()


def test_visible_weights_change_nothing_and_sum_to_one(
    small_model: Build, padded_inputs: Inputs
) -> None:
    model = small_model()
    plain = model(**padded_inputs)
    visible = model(**padded_inputs, output_attentions=True, output_hidden_states=True)
    torch.testing.assert_close(plain.last_hidden_state, visible.last_hidden_state)
    assert torch.equal(visible.hidden_states[-1], visible.last_hidden_state)
    assert len(visible.hidden_states) == 3
    for weights in visible.attentions:
        assert weights.shape == (7, 3, 23, 23)
        real = padded_inputs["attention_mask"][:, None].expand(-1, 3, -1) == 1
        torch.testing.assert_close(weights.sum(-1)[real], torch.ones(int(real.sum())))


def test_what_is_absent_is_none(small_model: Build, padded_inputs: Inputs) -> None:
    output = small_model("masked_lm")(padded_inputs["input_ids"])
    assert output.logits.shape == (7, 23, 101)
    assert output.pooler_output is None
    assert output.next_sentence_logits is None
    assert output.hidden_states is None
    assert output.attentions is None


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"input_ids": torch.zeros(23, dtype=torch.int64)}, r"\[23\].*\[batch, length\]"),
        ({"input_ids": torch.zeros(7, 0, dtype=torch.int64)}, r"\[7, 0\]"),
        ({"input_ids": torch.zeros(7, 23)}, "float32.*integers"),
        ({"input_ids": torch.zeros(7, 31, dtype=torch.int64)}, "31 columns.*at most 29"),
        ({"attention_mask": torch.ones(7, 19)}, r"attention_mask.*\[7, 19\].*\[7, 23\]"),
        ({"attention_mask": torch.full((7, 23), 2)}, "row 0, column 0: found 2"),
        ({"token_type_ids": torch.zeros(5, 23, dtype=torch.int64)}, r"token_type_ids.*\[5, 23\]"),
    ],
)
def test_inputs_of_a_wrong_kind(
    small_model: Build, padded_inputs: Inputs, changes: Inputs, named: str
) -> None:
    with pytest.raises(InputError, match=named):
        small_model()(**{**padded_inputs, **changes})


@pytest.mark.parametrize(
    ("name", "value", "named"),
    [
        ("input_ids", 101, "input_ids, row 5, column 3: found 101.*0 to 100"),
        ("input_ids", -1, "input_ids, row 5, column 3: found -1"),
        ("token_type_ids", 3, "token_type_ids, row 5, column 3: found 3.*0 to 2"),
    ],
)
def test_values_out_of_range(
    small_model: Build, padded_inputs: Inputs, name: str, value: int, named: str
) -> None:
    padded_inputs[name][5, 3] = value
    with pytest.raises(InputError, match=named):
        small_model()(**padded_inputs)


@pytest.mark.parametrize("name", ["input_ids", "attention_mask", "token_type_ids"])
def test_lists_in_place_of_tensors(small_model: Build, padded_inputs: Inputs, name: str) -> None:
    inputs: dict[str, Any] = {**padded_inputs, name: padded_inputs[name].tolist()}
    with pytest.raises(InputError, match=rf"{name} is a list.*tensor.*torch\.tensor"):
        small_model()(**inputs)


def test_a_number_in_place_of_rows(small_model: Build) -> None:
    with pytest.raises(InputError, match=r"input_ids has the shape \[\]"):
        small_model()(torch.tensor(3))


def test_a_row_without_a_token(small_model: Build, padded_inputs: Inputs) -> None:
    padded_inputs["attention_mask"][2] = 0
    with pytest.raises(InputError, match="row 2: every token is masked"):
        small_model()(**padded_inputs)


def test_pooling_without_a_pooler(small_model: Build) -> None:
    model = small_model("masked_lm")
    batch = pack([np.arange(5)])
    with pytest.raises(ConfigError, match="no pooler"):
        model.pool(model.encode(batch), batch)


@pytest.mark.parametrize("pooling", ["first_token", "mean"])
def test_the_last_layer_need_not_be_computed_where_nobody_reads(
    small_model: Build, padded_inputs: Inputs, pooling: str
) -> None:
    model = small_model(pooling=pooling)
    batch = model.pack(**padded_inputs).batch
    hidden = model.encode(batch)
    firsts = model.encode(batch, first_only=True)
    torch.testing.assert_close(firsts, hidden[batch.first_tokens], atol=1e-6, rtol=0.0)
    with watch_last_layer(model) as seen:
        assert torch.equal(model.encode(batch, first_only=True), hidden[batch.first_tokens])
    assert torch.equal(seen.vectors(batch), hidden)
    with watch_last_layer(model, every_token=False):
        assert torch.equal(model.encode(batch, first_only=True), firsts)
    pooled, expected = model.encode_pooled(batch), model.pool(hidden, batch)
    torch.testing.assert_close(pooled, expected, atol=1e-6, rtol=0.0)
    torch.testing.assert_close(
        torch.autograd.grad(pooled.sum(), model.embeddings.word.weight)[0],
        torch.autograd.grad(expected.sum(), model.embeddings.word.weight)[0],
    )


def test_dropout_follows_the_seed(small_model: Build, padded_inputs: Inputs) -> None:
    model = small_model("masked_lm").train()
    torch.manual_seed(7)
    first = model(**padded_inputs).logits
    second = model(**padded_inputs).logits
    torch.manual_seed(7)
    assert torch.equal(model(**padded_inputs).logits, first)
    assert not torch.equal(first, second)


@pytest.mark.parametrize("way", ["parameters", "autocast"])
def test_bf16_stays_close_to_fp32(small_model: Build, padded_inputs: Inputs, way: str) -> None:
    """bf16 keeps 8 bits, so two layers and a head may differ by two per cent."""
    heads = ("masked_lm", "next_sentence")
    expected = small_model(*heads)(**padded_inputs)
    model = small_model(*heads)
    if way == "parameters":
        model = model.to(torch.bfloat16)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=way == "autocast"):
        found = model(**padded_inputs, output_attentions=True)
    for name in ("last_hidden_state", "pooler_output", "logits", "next_sentence_logits"):
        mine, exact = getattr(found, name).float(), getattr(expected, name)
        error = mine - exact
        assert error.abs().max() < 0.05 * exact.abs().max(), name
        assert error.square().mean().sqrt() < 0.02 * exact.square().mean().sqrt(), name


def test_bf16_trains(small_model: Build, padded_inputs: Inputs) -> None:
    exact, model = small_model("masked_lm").train(), small_model("masked_lm").train()
    gradients = []
    for each in (exact, model.to(torch.bfloat16)):
        for module in each.modules():
            if hasattr(module, "dropout_prob"):
                module.dropout_prob = 0.0
        border = each.pack(**padded_inputs)
        hidden = each.encode(border.batch)
        loss, _ = each.heads["masked_lm"].loss(
            hidden, each.embeddings.word.weight, border.batch.input_ids
        )
        assert loss.dtype == torch.float32
        (loss / len(hidden)).backward()
        gradients.append(torch.cat([p.grad.float().flatten() for p in each.parameters()]))
    cosine = torch.cosine_similarity(*gradients, dim=0)
    assert cosine > 0.999
