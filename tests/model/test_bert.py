import pytest
import torch
from refusals import refuses
from tiny_models import save_tiny_of, tiny_model, tiny_tokenizer

from bertsmith.errors import ConfigError, InputError
from bertsmith.model.bert import BertModel
from bertsmith.model.config import PRESETS, BertConfig
from bertsmith.model.families import build_heads
from bertsmith.model.loading import load_model


@pytest.mark.parametrize(("changes", "parts"), [
    ({"hidden_size": 32}, ["hidden_size is 32", "num_attention_heads 3"]),
    ({"vocab_size": 0}, ["vocab_size is 0"]),
    ({"hidden_dropout_prob": 1.0}, ["hidden_dropout_prob is 1.0"]),
    ({"layer_norm_eps": 0.0}, ["layer_norm_eps is 0.0"]),
    ({"pad_token_id": 101}, ["pad_token_id is 101", "0 to 100"]),
    ({"hidden_act": "tanh"}, ["hidden_act is 'tanh'", "gelu, gelu_new"]),
    ({"pooling": "max"}, ["pooling is 'max'", "first_token, mean"]),
    ({"name": "huge"}, ["preset is 'huge'", ", ".join(PRESETS)]),
])  # fmt: skip
def test_impossible_configs(small_model, changes, parts):
    with refuses(ConfigError, *parts):
        if "name" in changes:
            BertConfig.from_preset(**changes, vocab_size=101)
        small_model(**changes)


def test_initial_weights():
    torch.manual_seed(0)
    config = BertConfig.from_preset("tiny", vocab_size=1009)
    model = BertModel(config, build_heads(config, ["masked_lm", "next_sentence"]))
    for name, parameter in model.named_parameters():
        if name.endswith("bias") or "norm" in name:
            assert (parameter == float("norm.weight" in name)).all(), name
        else:
            assert parameter.std().item() == pytest.approx(0.02, rel=0.1), name


class WithState(torch.nn.Linear):
    """A layer that stores more than tensors."""

    def get_extra_state(self):
        return {"number": 1}


def test_a_module_around_a_model_has_its_own_weights_in_its_state():
    model = tiny_model("masked_lm")
    around = torch.nn.ModuleDict({"first": WithState(2, 2), "bert": model})
    state = around.state_dict()
    assert state["first._extra_state"] == {"number": 1}
    for name, parameter in around.named_parameters():
        assert state[name].data_ptr() == parameter.data_ptr(), name


def test_a_module_around_an_albert_has_copies_of_shared_weights(tmp_path):
    model = load_model(save_tiny_of(tmp_path, "albert"))
    state = torch.nn.ModuleDict({"bert": model}).state_dict()
    assert len(state) == len(model.state_dict())
    assert len({tensor.data_ptr() for tensor in state.values()}) == len(state)


def test_what_stands_at_padding_is_never_read(small_model, padded_inputs):
    shown = {"output_hidden_states": True, "output_attentions": True}
    model = small_model("masked_lm")
    padding = padded_inputs["attention_mask"] == 0
    changed = torch.where(padding, 9999, padded_inputs["input_ids"])
    expected = model(**padded_inputs, **shown)
    found = model(**{**padded_inputs, "input_ids": changed}, **shown)
    assert torch.equal(found.logits, expected.logits)
    for states in (*found.hidden_states, found.logits, *(a.sum(1) for a in found.attentions)):
        assert not states[padding].any()


def zeros(*shape):
    return torch.zeros(shape, dtype=torch.int64)


@pytest.mark.parametrize(("changes", "parts"), [
    ({"input_ids": zeros(23)}, ["[23]", "[batch, length]"]),
    ({"input_ids": torch.zeros(7, 23)}, ["torch.float32", ".long()"]),
    ({"input_ids": zeros(7, 31)}, ["31 columns", "29 tokens"]),
    ({"input_ids": None}, ["input_ids:", "inputs_embeds"]),
    ({"inputs_embeds": torch.zeros(7, 23, 33)}, ["input_ids and inputs_embeds"]),
    ({"input_ids": None, "inputs_embeds": torch.zeros(7, 23, 5)}, ["[7, 23, 5]", ", 33]"]),
    ({"position_ids": zeros(7, 2)}, ["[7, 2]", "input_ids [7, 23]"]),
    ({"position_ids": zeros(1, 7, 23)}, ["[1, 7, 23]", "[batch, length]"]),
    ({"position_ids": zeros(1, 23), "input_ids": [[1, 2]]}, [" a list", "torch.tensor()"]),
    ({"position_ids": 29 + zeros(7, 23)}, ["row 0, column 0: found 29", "0 to 28"]),
    ({"attention_mask": torch.ones(7, 19)}, ["[7, 19]", "input_ids [7, 23]"]),
    ({"attention_mask": torch.full((7, 23), 2)}, ["row 0, column 0: found 2"]),
    ({"attention_mask": torch.zeros(7, 23)}, ["row 0:"]),
    ({"token_type_ids": zeros(5, 23)}, ["[5, 23]", "input_ids [7, 23]"]),
    ({"input_ids": [[1, 2]]}, [" a list", "torch.tensor()"]),
    ({"input_ids": 101}, ["row 5, column 3: found 101", "0 to 100"]),
    ({"token_type_ids": 3}, ["row 5, column 3: found 3", "0 to 2"]),
])  # fmt: skip
def test_inputs_of_a_wrong_kind(small_model, padded_inputs, changes, parts):
    for name, value in changes.items():
        if isinstance(value, int):  # of one token
            padded_inputs[name][5, 3] = value
        else:
            padded_inputs[name] = value
    with refuses(InputError, list(changes)[-1], *parts):
        small_model()(**padded_inputs)


def test_an_output_has_no_item_by_the_name_of_a_method(small_model, padded_inputs):
    output = small_model("classify", num_labels=2)(**padded_inputs)
    assert output["logits"] is output.logits
    assert output["last_hidden_state"] is output.last_hidden_state
    for name in ("keys", "no_such_output"):
        with pytest.raises(KeyError):
            output[name]


def test_an_output_is_built_again_from_its_items(small_model, padded_inputs):
    output = small_model("answer")(**padded_inputs, output_hidden_states=True)
    for items in (dict(output), output.items(), ((name, output[name]) for name in output)):
        rebuilt = type(output)(items)
        assert list(rebuilt) == list(output) == ["start_logits", "end_logits", "hidden_states"]
        assert all(rebuilt[name] is output[name] for name in output)


@pytest.mark.parametrize("pooling", ["first_token", "mean"])
def test_the_last_layer_need_not_be_computed_where_nobody_reads(
    small_model, padded_inputs, pooling
):
    model = small_model(pooling=pooling)
    batch = model.pack(**padded_inputs).batch
    hidden = model.encode(batch)
    firsts = model.encode(batch, queries="first")
    torch.testing.assert_close(firsts, hidden[batch.first_tokens], atol=1e-6, rtol=0.0)
    pooled, expected = model.encode_pooled(batch), model.pool(hidden, batch)
    if pooling == "mean":
        rows = [row.mean(0) for row in hidden.split(list(batch.lengths))]
        torch.testing.assert_close(expected, model.pooler.dense(torch.stack(rows)).tanh())
    torch.testing.assert_close(pooled, expected, atol=1e-6, rtol=0.0)
    torch.testing.assert_close(
        torch.autograd.grad(pooled.sum(), model.embeddings.word.weight)[0],
        torch.autograd.grad(expected.sum(), model.embeddings.word.weight)[0],
    )


@pytest.mark.parametrize("way", ["parameters", "autocast"])
def test_bf16_stays_close_to_fp32(small_model, padded_inputs, way):
    """bf16 keeps 8 bits, so two layers and a head may differ by two per cent."""
    heads = ("masked_lm", "next_sentence")
    expected = small_model(*heads)(**padded_inputs)
    model = small_model(*heads).to(torch.bfloat16 if way == "parameters" else torch.float32)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=way == "autocast"):
        found = model(**padded_inputs, output_attentions=True)
    for name in ("last_hidden_state", "pooler_output", "logits", "next_sentence_logits"):
        mine, exact = getattr(found, name).float(), getattr(expected, name)
        error = mine - exact
        assert error.abs().max() < 0.05 * exact.abs().max(), name
        assert error.square().mean().sqrt() < 0.02 * exact.square().mean().sqrt(), name


@pytest.mark.filterwarnings("ignore")  # of torch, while it traces
def test_compiled_by_torch_it_computes_the_same():
    model = tiny_model("masked_lm", num_hidden_layers=1)
    batch = tiny_tokenizer()(["a good film", "the"], padding=True, return_tensors="pt")
    with torch.no_grad():
        compiled = torch.compile(model, backend="eager")(**batch).logits
        torch.testing.assert_close(compiled, model(**batch).logits)
