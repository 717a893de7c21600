import json
import re
import shutil
import sys
import types
import warnings
from pathlib import Path

import pytest
import safetensors.torch
import torch
import transformers
from refusals import refuses
from tiny_models import assert_same_weights, save_tiny_of

from bertsmith.errors import BertsmithWarning, CheckpointError, ConfigError
from bertsmith.lineage.encoder_decoder_folders import find_encoder_decoder
from bertsmith.model.hub import find_tokenizer
from bertsmith.model.load_report import LoadReport
from bertsmith.model.loading import load_model
from bertsmith.model.model_folder import read_folder
from bertsmith.model.saving import save_model
from bertsmith.system.checksums import SUMS_FILE


@pytest.fixture
def folder(small_model, tmp_path):
    """A saved model with both pre-training heads."""
    save_model(small_model("masked_lm", "next_sentence"), tmp_path / "model")
    return tmp_path / "model"


def change_config(folder, **changes):
    file = folder / "config.json"
    settings = json.loads(file.read_text())
    file.write_text(json.dumps({k: v for k, v in {**settings, **changes}.items() if v != "absent"}))


def change_weights(folder, change):
    file = folder / "model.safetensors"
    tensors = change(safetensors.torch.load_file(file))
    safetensors.torch.save_file(tensors, file, {"format": "pt"})


def test_the_weight_that_has_another_shape_is_named(folder):
    name = "bert.encoder.layer.1.attention.self.key.weight"
    change_weights(folder, lambda tensors: tensors | {name: tensors[name][:-1].contiguous()})
    with refuses(CheckpointError, name, "[32, 33]", "[33, 33]"):
        load_model(folder)


def test_sentence_order_is_read_by_transformers_and_told_apart_here(small_model, tmp_path):
    model = small_model("masked_lm", "sentence_order").eval()
    save_model(model, tmp_path)
    theirs = transformers.BertForPreTraining.from_pretrained(tmp_path).eval()
    ids = torch.tensor([[2, 7, 11, 3, 5, 3]])
    logits = model(ids).sentence_order_logits
    torch.testing.assert_close(theirs(ids).seq_relationship_logits, logits, atol=1e-5, rtol=0)
    # transformers keeps what our key says.
    theirs.save_pretrained(tmp_path / "again")
    assert set(load_model(tmp_path / "again").heads) == {"masked_lm", "sentence_order"}
    # Weights that tell an order are no beginning for a head that tells what comes next.
    other = load_model(tmp_path, heads=("masked_lm", "next_sentence"))
    assert "cls.seq_relationship.weight" in other.load_report.missing


def test_bf16_models_are_saved_in_fp32(small_model, tmp_path):
    model = small_model("masked_lm").to(torch.bfloat16)
    save_model(model, tmp_path)
    assert_same_weights(load_model(tmp_path).to(torch.bfloat16), model)
    stored = safetensors.torch.load_file(tmp_path / "model.safetensors")
    assert {tensor.dtype for tensor in stored.values()} == {torch.float32}


def test_labels_travel_with_the_model(small_model, tmp_path):
    names = {0: "négatif", 1: "positif", 2: "ni l'un ni l'autre"}
    save_model(small_model("classify", num_labels=3), tmp_path / "a", id2label=names)
    model = load_model(tmp_path / "a")
    assert model.id2label == names
    save_model(model, tmp_path / "b")
    config = transformers.AutoConfig.from_pretrained(tmp_path / "b")
    assert config.id2label == names
    assert config.label2id == {name: number for number, name in names.items()}
    other = load_model(tmp_path / "b", num_labels=7)
    weights = ("classifier.bias", "classifier.weight")
    assert (other.heads["classify"].dense.out_features, other.id2label) == (7, {})
    assert other.load_report.missing == other.load_report.unused == weights


def test_other_spellings_of_weights(folder):
    expected, intact = load_model(folder), (folder / "model.safetensors").read_bytes()
    name, words = "embeddings.LayerNorm.weight", "embeddings.word_embeddings.weight"
    bias, decoder = "cls.predictions.bias", "cls.predictions.decoder"

    def old_names_without_prefix(tensors):
        spellings = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
        old = {re.sub("|".join(spellings), lambda m: spellings[m[0]], n): n for n in tensors}
        return {
            **{spelling.removeprefix("bert."): tensors[n] for spelling, n in old.items()},
            "embeddings.position_ids": torch.arange(29)[None],
            f"{decoder}.weight": tensors[f"bert.{words}"].clone(),
        }

    for change in (
        old_names_without_prefix,
        lambda t: {**t, name: t[f"bert.{name}"].clone()},
        lambda t: {n.replace(bias, f"{decoder}.bias"): x for n, x in t.items()},
    ):
        (folder / "model.safetensors").write_bytes(intact)
        change_weights(folder, change)
        found = load_model(folder)
        assert_same_weights(found, expected)
        assert found.load_report.missing == found.load_report.unused == ()
    for change, said in (
        (lambda t: {**t, name: t[f"bert.{name}"] + 1}, f" {name} "),
        (lambda t: {**t, f"{decoder}.weight": torch.ones(101, 33)}, f": {decoder}.weight"),
        (lambda t: {n: x.to(torch.int8) for n, x in t.items()}, "torch.int8"),
    ):
        (folder / "model.safetensors").write_bytes(intact)
        change_weights(folder, change)
        with refuses(CheckpointError, f"{folder}:", said):
            load_model(folder)


@pytest.mark.parametrize(("labels", "problem_type", "head"), [
    (1, None, "regress"), (3, "regression", None),
    (3, "multi_label_classification", "multi_label"),
    (3, "single_label_classification", "classify"),
])  # fmt: skip
def test_classifiers_of_other_kinds_are_not_taken_for_ours(tmp_path, labels, problem_type, head):
    config = transformers.BertConfig(
        vocab_size=101, hidden_size=33, num_hidden_layers=1, num_attention_heads=3,
        intermediate_size=37, num_labels=labels, problem_type=problem_type,
    )  # fmt: skip
    transformers.BertForSequenceClassification(config).save_pretrained(tmp_path)
    assert list(load_model(tmp_path).heads) == ([head] if head else [])
    fresh = load_model(tmp_path, heads=["classify"], num_labels=3)
    if head == "classify":
        read_folder(tmp_path).check_classifier("classify")
        assert not fresh.load_report.missing
        return
    assert fresh.load_report.missing == ("classifier.bias", "classifier.weight")
    named = ["config.json: problem_type", f"'{problem_type or 'regression'}'", "finetune classify"]
    with refuses(CheckpointError, *named):
        read_folder(tmp_path).check_classifier("classify")
    if head != "multi_label":
        with refuses(CheckpointError, "finetune classify --multi-label --model"):
            read_folder(tmp_path).check_classifier("multi_label")
    if head is None:
        for kind in (None, "regress"):
            with refuses(CheckpointError, "'regression' with 3 outputs", worded=False) as error:
                read_folder(tmp_path).check_classifier(kind)
            assert str(error.value).count("'regression'") == 1
    elif head != "regress":
        with refuses(CheckpointError, "finetune regress --model"):
            read_folder(tmp_path).check_classifier("regress")


@pytest.mark.parametrize("family", ["bert", "albert", "distilbert", "modernbert"])
def test_layers_of_the_weights_that_the_config_leaves_out_are_told(tmp_path, family):
    save_tiny_of(tmp_path, family)
    (tmp_path / SUMS_FILE).unlink()
    change_config(tmp_path, **{"n_layers" if family == "distilbert" else "num_hidden_layers": 1})
    if family == "modernbert":
        change_config(tmp_path, layer_types="absent")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert load_model(tmp_path).config.num_hidden_layers == 1
    messages = [str(entry.message) for entry in told]
    # The layers of an ALBERT share their weights.
    assert ["num_hidden_layers is 1" in each for each in messages] == [True] * (family != "albert")


def test_a_group_of_layers_that_the_config_leaves_out_is_told(tmp_path):
    """Each group of this ALBERT has two layers."""
    save_tiny_of(tmp_path, "albert", num_hidden_groups=2, inner_group_num=2)
    (tmp_path / SUMS_FILE).unlink()
    change_config(tmp_path, num_hidden_layers=1, num_hidden_groups=1)
    with pytest.warns(BertsmithWarning) as told:
        assert len(load_model(tmp_path).layers) == 2
    assert ["num_hidden_layers is 1" in str(entry.message) for entry in told] == [True]


def test_new_heads_on_an_encoder_without_pooler(small_model, tmp_path):
    save_model(small_model("masked_lm"), tmp_path)
    torch.manual_seed(3)
    model = load_model(tmp_path, heads=["classify"], num_labels=5)
    assert model.load_report.missing == (
        "bert.pooler.dense.bias", "bert.pooler.dense.weight", "classifier.bias",
        "classifier.weight",
    )  # fmt: skip
    assert model.pooler.dense.weight.std().item() == pytest.approx(0.2, rel=0.2)
    assert not model.pooler.dense.bias.any() and not model.heads["classify"].dense.bias.any()
    with refuses(ConfigError, "num_labels is None"):
        load_model(tmp_path, heads=["classify"])
    save_model(small_model("classify", num_labels=3), tmp_path)
    with refuses(ConfigError, "num_labels is 0"):
        load_model(tmp_path, heads=["classify"], num_labels=0)


@pytest.mark.parametrize(("changes", "parts"), [
    ({"model_type": "xlnet"}, [".json: model_type is 'xlnet'", " bert, "]),
    ({"model_type": "gpt2"}, [".json: this is a GPT", "commands are generate"]),
    ({"position_embedding_type": "relative_key_query"}, ["'relative_key_query'", "'absolute'"]),
    ({"hidden_size": "33"}, [".json: hidden_size is '33'"]),
    ({"hidden_size": 39}, ["word_embeddings", "[101, 33]", "[101, 39]"]),
    ({"num_hidden_layers": 3}, [": 16 ", "bert.encoder.layer.2.attention.self.query.weight, "]),
    ({"vocab_size": 10**12}, [f".json: vocab_size: found {10**12}", "at most 10,000,000"]),
    ({"architectures": 5}, [".json: architectures is 5"]),
    ({"id2label": ["a", "b"]}, ['.json: id2label is ["a", "b"]']),
    ({"id2label": {"0": None}}, ['.json: id2label is {"0": null}']),
    ({"num_labels": "x"}, ['.json: num_labels is "x"']),
    *((text, ["config.json:"]) for text in ("", "{", "[]", "\xff")),
])  # fmt: skip
def test_configs_that_do_not_fit(folder, changes, parts):
    if isinstance(changes, str):
        (folder / "config.json").write_bytes(changes.encode("latin-1"))
    else:
        change_config(folder, **changes)
    with refuses(CheckpointError, str(folder), *parts, worded=changes not in ("", "{", "\xff")):
        load_model(folder)


def test_config_may_be_silent(folder):
    for name in ("model_type", "layer_norm_eps", "hidden_act", "pad_token_id", "architectures"):
        change_config(folder, **{name: "absent"})
    change_config(folder, hidden_dropout_prob=None)
    assert load_model(folder).config.layer_norm_eps == 1e-12


def test_labels_that_do_not_fit(small_model, tmp_path):
    save_model(small_model("classify", num_labels=2), tmp_path)
    change_config(tmp_path, id2label="NAMES")
    file = tmp_path / "config.json"
    intact = file.read_text()
    for names, *parts in (
        ('{"0": "x", "1": "x"}', "id2label", "0 and 1 'x'"),
        ('{"0": "x", "1": "y", "1": "z"}', "'1'"),
        ('{"0": "a", "1": "b", "2": "c"}', "id2label", "0, 1, 2", "2 outputs", "0 to 1"),
    ):
        file.write_text(intact.replace('"NAMES"', names))
        with refuses(CheckpointError, "config.json: ", *parts):
            load_model(tmp_path)


def test_two_labels_of_one_name_are_not_saved(small_model, tmp_path):
    model = small_model("classify", num_labels=2)
    for names in ({0: "LABEL_1"}, {0: 1, 1: "1"}):
        with refuses(ConfigError, "id2label", f"'{names[0]}' twice"):
            save_model(model, tmp_path, id2label=names)
    with refuses(ConfigError, "id2label names the label 2", "0 to 1"):
        save_model(model, tmp_path, id2label={1: "a", 2: "b"})
    assert not list(tmp_path.iterdir())


def test_heads_may_be_one_name_or_an_iterator(small_model, tmp_path):
    save_model(small_model("classify", num_labels=2), tmp_path)
    for heads in ("classify", iter(["classify"])):
        model = load_model(tmp_path, heads=heads)
        assert list(model.heads) == ["classify"]
        assert model.load_report.missing == ()


@pytest.mark.parametrize("shape", [(), (2,), (2, 1, 66)])
def test_a_last_layer_that_is_no_matrix_is_refused(small_model, tmp_path, shape):
    save_model(small_model("classify", num_labels=2), tmp_path)
    file = tmp_path / "model.safetensors"
    tensors = safetensors.torch.load_file(file) | {"classifier.weight": torch.ones(shape)}
    safetensors.torch.save_file(tensors, file)
    with refuses(CheckpointError, "classifier.weight", str(list(shape))):
        load_model(tmp_path)


def test_a_single_weight_is_told_in_the_singular(small_model, tmp_path):
    save_model(small_model(), tmp_path)
    file = tmp_path / "model.safetensors"
    tensors = safetensors.torch.load_file(file)
    tensors["other"] = tensors.pop("encoder.layer.0.intermediate.dense.bias")
    safetensors.torch.save_file(tensors, file)
    with refuses(CheckpointError, ": 1 weight is missing", "1 stored weight has another name"):
        load_model(tmp_path)
    report = LoadReport(matched=("a",), missing=("b",), unused=("c",))
    assert str(report) == "Loaded 1 weight; 1 missing one starts at random: b; 1 was not needed: c."


def test_a_label2id_that_disagrees_is_told_of(small_model, tmp_path):
    save_model(small_model("classify", num_labels=2), tmp_path)
    (tmp_path / SUMS_FILE).unlink()
    for numbers, said in (
        ({"b": 0, "a": 1}, "label2id gives 'b' the number 0, id2label 1"),
        ({"a": 0, "c": 1}, "label2id gives 'c' the number 1, id2label none"),
        ({"LABEL_0": 0, "LABEL_1": 1}, None),
    ):
        change_config(tmp_path, id2label={"0": "a", "1": "b"}, label2id=numbers)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            assert load_model(tmp_path).id2label == {0: "a", 1: "b"}
        assert [said in str(entry.message) for entry in told] == ([True] if said else [])


def test_vocabulary_against_the_embedding(small_model, tmp_path):
    model = small_model("masked_lm")
    save_model(model, tmp_path)
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *map(str, range(96))]
    (tmp_path / "vocab.txt").write_text("\n".join(pieces))
    assert read_folder(tmp_path).tokenizer.vocab_size == 101
    (tmp_path / "added_tokens.json").write_text(json.dumps({"[NEW]": 101}))
    with refuses(CheckpointError, f"{tmp_path}:", "102 tokens", "embedding 101"):
        _ = read_folder(tmp_path).tokenizer
    with refuses(CheckpointError, f"{tmp_path}/new:", "103 tokens", "embedding 101"):
        save_model(model, tmp_path / "new", types.SimpleNamespace(vocab_size=103))
    with refuses(ConfigError, "family bert", "masked_lm, classify"):
        save_model(small_model("masked_lm", "classify", num_labels=2), tmp_path / "new")
    assert not list(tmp_path.glob("new/*"))


def test_a_typo_in_a_path_does_not_go_to_the_hub(tmp_path, monkeypatch):
    def snapshot_download(name, **_):
        raise OSError

    (tmp_path / "runs" / "sentiment").mkdir(parents=True)
    (tmp_path / "runs" / "sentiment.csv").touch()
    monkeypatch.chdir(tmp_path)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "huggingface_hub", None)
        with refuses(CheckpointError, "nobody/nothing:", "huggingface_hub"):
            load_model("nobody/nothing")
    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
    for name, *near in (
        ("runs/sentimnt", "folder runs ", " sentiment."), (Path("runs/other"), "folder runs "),
        ("rums", " runs.", "org/name"), (tmp_path / "absent",), (tmp_path / "runs", "config.json"),
        ("runs/sentiment.csv",), ("someone/sentiment", "Hugging Face hub"),
    ):  # fmt: skip
        with refuses(CheckpointError, f"{name}: ", *near):
            load_model(name)
    assert find_tokenizer("runs/sentimnt") == Path("runs/sentimnt")
    with refuses(CheckpointError, "someone/sentiment: ", "Hugging Face hub"):
        find_tokenizer("someone/sentiment")


def test_a_corpus_and_a_tokenizer_are_no_models(corpus_dir, tmp_path):
    with refuses(CheckpointError, "a corpus, not a model", "'bertsmith pretrain'"):
        load_model(corpus_dir)
    with refuses(CheckpointError, "a tokenizer, not a model", "'bertsmith corpus build'"):
        load_model(corpus_dir / "tokenizer")
    with refuses(CheckpointError, "a corpus, not a model"):
        find_encoder_decoder(corpus_dir)
    shutil.copytree(corpus_dir / "tokenizer", tmp_path / "part")
    (tmp_path / "part" / "model.safetensors").touch()  # a model that was not copied whole
    with refuses(CheckpointError, "no config.json"):
        load_model(tmp_path / "part")


def test_weights_inside_layers_that_a_bert_lacks_are_told(small_model, tmp_path):
    save_model(small_model("masked_lm"), tmp_path)
    layer = "bert.encoder.layer.0"
    others = (f"{layer}.output.adapters.a.down.weight", f"{layer}.rotary.inv_freq")
    added = {name: torch.ones(3) for name in others}
    change_weights(tmp_path, lambda tensors: tensors | added)
    with pytest.warns(BertsmithWarning) as given:
        load_model(tmp_path)
    (message,) = [str(each.message) for each in given]
    assert f"computed without them: {others[0]}. " in message
