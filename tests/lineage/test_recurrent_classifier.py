"""An LSTM or GRU sorts texts into classes, new or from a language model, as torch computes it."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from refusals import refuses
from stop_at import StopAt
from tiny_models import tiny_tokenizer, write_reviews
from torch import nn

from bertsmith.data.batches import pack
from bertsmith.errors import CheckpointError, ConfigError, Interrupted, SettingError
from bertsmith.estimators.texts import TextClassifier
from bertsmith.finetuning.resolve import default_learning_rate
from bertsmith.finetuning.run import finetune
from bertsmith.lineage.recurrent import RecurrentConfig, RecurrentLanguageModel
from bertsmith.lineage.recurrent_classifier import RecurrentClassifierConfig
from bertsmith.lineage.recurrent_folder import load_recurrent, save_recurrent
from bertsmith.model.bert import BertModel
from bertsmith.model.families import build_heads
from bertsmith.model.loading import build, load_model
from bertsmith.model.model_folder import read_folder
from bertsmith.model.saving import save_model
from bertsmith.model.weight_formats.safetensors_file import read_safetensors
from bertsmith.tasks.auto import load
from bertsmith.tasks.inference import set_precision
from bertsmith.tasks.logits import sequence_logits
from bertsmith.tasks.settings.classify import ClassifySettings
from bertsmith.tasks.text_classification import Classify
from bertsmith.tokenization.auto import load_tokenizer

LENGTHS = (1, 29, 7, 7, 13, 2)
SIMILAR = (23, 29, 19)  # rows that are padded inside
VOCAB = 101


def draw_sequences(lengths=LENGTHS):
    rng = np.random.default_rng(0)
    return [rng.integers(3, VOCAB, length) for length in lengths]


def make_model(cell="lstm", *, bidirectional=True, pooling="max"):
    torch.manual_seed(0)
    config = RecurrentClassifierConfig(
        VOCAB, hidden_size=38, num_hidden_layers=2, cell=cell, bidirectional=bidirectional,
        pooling=pooling,
    )  # fmt: skip
    model = BertModel(config, build_heads(config, ["classify"], 3))
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    return model.eval()


def torchs_layers(model):
    """Return one module of torch with all layers and the same weights."""
    config = model.config
    directions = 2 if config.bidirectional else 1
    kind = nn.LSTM if config.cell == "lstm" else nn.GRU
    theirs = kind(
        38, 38 // directions, num_layers=2, batch_first=True, bidirectional=config.bidirectional
    )
    weights = {}
    for number, layer in enumerate(model.layers):
        for cell, ending in ((layer.cell, ""), (layer.reverse, "_reverse")):
            for name, tensor in () if cell is None else cell.state_dict().items():
                weights[name.replace("_l0", f"_l{number}{ending}")] = tensor
    theirs.load_state_dict(weights)
    return theirs


@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("pooling", ["max", "last"])
@pytest.mark.parametrize("lengths", [LENGTHS, SIMILAR])
def test_vectors_logits_and_gradients_are_torchs(lengths, cell, bidirectional, pooling):
    """The truth reads each sequence alone; `last` are the states with which torch ends."""
    model = make_model(cell, bidirectional=bidirectional, pooling=pooling)
    theirs = torchs_layers(model)
    batch = pack(draw_sequences(lengths))
    found = sequence_logits(model, batch, "classify")
    expected = []
    for index in batch.order:
        words = model.embeddings.word(torch.from_numpy(draw_sequences(lengths)[index])[None])
        outputs, state = theirs(words)
        ends = state[0] if cell == "lstm" else state
        last = torch.cat([*ends[-2:]] if bidirectional else [ends[-1]], dim=-1)
        vector = outputs.max(1).values if pooling == "max" else last
        expected.append(model.heads["classify"].dense(vector)[0])
    expected = torch.stack(expected)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    wanted = [theirs.weight_hh_l0, *([theirs.weight_hh_l0_reverse] if bidirectional else [])]
    wanted = torch.autograd.grad(expected.square().sum(), wanted)
    found.square().sum().backward()
    first = model.layers[0]
    for cell, gradient in zip((first.cell, first.reverse), wanted, strict=False):
        torch.testing.assert_close(cell.weight_hh_l0.grad, gradient, atol=1e-3, rtol=1e-4)


def test_padded_equals_packed(pooling="last"):
    for bidirectional in (True, False):
        model = make_model(bidirectional=bidirectional, pooling=pooling)
        rows = [torch.from_numpy(row) for row in draw_sequences()]
        ids = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=50)
        mask = torch.arange(ids.shape[1]) < torch.tensor(LENGTHS)[:, None]
        batch = pack(draw_sequences())
        with torch.no_grad():
            padded = model(input_ids=ids, attention_mask=mask.long()).logits
            packed = sequence_logits(model, batch, "classify")
        torch.testing.assert_close(packed, padded[list(batch.order)], atol=1e-6, rtol=1e-6)


def test_a_folder_comes_back(tmp_path):
    model = make_model("gru", pooling="last")
    save_model(model, tmp_path, id2label={0: "a", 1: "b", 2: "c"})
    again = load_model(tmp_path)
    assert again.config == model.config and again.id2label == {0: "a", 1: "b", 2: "c"}
    for name, tensor in model.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor), name
    path = tmp_path / "config.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(settings | {"cell": "elman"}), encoding="utf-8")
    with refuses(CheckpointError, "config.json", "cell", "elman"):
        load_model(tmp_path)


@pytest.mark.parametrize(
    ("name", "value"),
    [("cell", "rnn"), ("pooling", "mean"), ("bidirectional", 1), ("hidden_size", 37)],
)
def test_a_shape_that_cannot_be_is_refused(name, value):
    shape = {"hidden_size": 38, "num_hidden_layers": 2, "bidirectional": True}
    with refuses(ConfigError, name, str(value)):
        RecurrentClassifierConfig(VOCAB, **shape | {name: value})


def test_layers_stay_in_fp32(remember):
    model = make_model()
    expected = [parameter.clone() for parameter in model.layers.parameters()]
    assert {each.name for each in model.parameter_specs() if not each.fp32_only} == {
        "embeddings.word.weight"
    }
    with refuses(ConfigError, "int8", "bf16"):
        set_precision(model, "int8", torch.device("cpu"))
    set_precision(model, "bf16", torch.device("cpu"))
    assert model.embeddings.word.weight.dtype == torch.bfloat16
    for found, before in zip(model.layers.parameters(), expected, strict=True):
        assert torch.equal(found, before)
    batch = pack(draw_sequences())
    with torch.no_grad():
        assert sequence_logits(model, batch, "classify").isfinite().all()


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recurrent")
    tiny_tokenizer().save(folder / "vocabulary")
    return ClassifySettings(
        model=folder / "vocabulary", cell="lstm", train=write_reviews(folder / "train.csv", 80),
        eval=write_reviews(folder / "eval.csv", 30, seed=1), out=folder / "out", steps=40,
        learning_rate=5e-3, seed=2, threads=1, device="cpu", precision="fp32",
    )  # fmt: skip


@pytest.fixture(scope="module")
def trained(settings):
    return finetune(Classify, settings)


def test_a_new_one_learns_and_every_command_opens_the_folder(trained, settings, bertsmith, refused):
    assert trained.evaluation.accuracy > 0.8  # 0.5 is guessing
    assert default_learning_rate(128, is_recurrent=True) == 3e-3
    assert default_learning_rate(256, is_recurrent=True) == 1e-3
    line = ("--device", "cpu", "--precision", "fp32", "--json")
    predicted = json.loads(bertsmith("predict", trained.out, "a lovely film", *line))
    assert predicted["predictions"][0]["label"] == "pos"
    scores = json.loads(bertsmith("evaluate", trained.out, "--data", settings.eval, *line))
    assert scores["accuracy"] == trained.evaluation.accuracy
    model = load(trained.out, device="cpu", precision="fp32").model
    assert model.config.bidirectional and model.config.pooling == "max"
    counts = json.loads(bertsmith("params", trained.out, "--json"))
    stored = read_safetensors(trained.out / "model.safetensors").values()
    assert counts["parameters"] == sum(tensor.numel() for tensor in stored)
    assert "formula" not in counts
    assert "recurrent layers" in bertsmith("params", trained.out)
    card = (trained.out / "README.md").read_text(encoding="utf-8")
    assert "library_name: bertsmith" in card and "from random weights" in card
    assert "transformers opens" not in card
    assert "commands are predict" in refused("look", trained.out, "a film", "--out", "a.html")
    assert "commands are predict" in refused("generate", trained.out, "a film")
    data = ("--train", settings.train, "--eval", settings.eval, "--out", "b")
    line = ("finetune", "classify", "--teacher", trained.out, *data)
    assert "an encoder such as BERT is needed here" in refused(*line)
    assert "--teacher" in refused(*line, "--model", settings.model, "--cell", "gru")


def test_a_resumed_run_is_the_uninterrupted_one_bit_for_bit(settings, tmp_path):
    whole, stopped = (replace(settings, steps=9, out=tmp_path / name) for name in ("a", "b"))
    finetune(Classify, whole)
    with pytest.raises(Interrupted):
        finetune(Classify, stopped, [StopAt(4)])
    finetune(Classify, replace(stopped, resume=True))
    ours, expected = (read_safetensors(each.out / "model.safetensors") for each in (stopped, whole))
    assert ours.keys() == expected.keys()
    assert all(torch.equal(value, expected[name]) for name, value in ours.items())


def test_the_vocabulary_may_be_that_of_a_corpus(corpus_dir, settings, tmp_path):
    finetune(Classify, replace(settings, model=corpus_dir, steps=1, out=tmp_path / "out"))
    expected = load_tokenizer(corpus_dir / "tokenizer").vocab_size
    assert load_model(tmp_path / "out").config.vocab_size == expected


@pytest.fixture(scope="module")
def language_model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lm")
    tokenizer = tiny_tokenizer()
    torch.manual_seed(1)
    config = RecurrentConfig(
        tokenizer.vocab_size,
        hidden_size=24,
        num_layers=2,
        cell="gru",
        eos_token_id=tokenizer.sep_id,
    )
    save_recurrent(RecurrentLanguageModel(config), folder, tokenizer)
    return folder


def test_one_from_a_language_model_has_its_weights_and_direction(
    language_model, settings, tmp_path
):
    lm = load_recurrent(language_model)
    classifier = build(read_folder(language_model, to_classify=True), ["classify"], 2)
    assert not classifier.config.bidirectional
    rng = np.random.default_rng(0)
    batch = pack([rng.integers(5, lm.config.vocab_size, length) for length in (13, 2, 29)])
    with torch.no_grad():
        assert torch.equal(classifier.encode(batch), lm.encode(batch))
    start = replace(settings, cell=None, model=language_model, steps=20, pooling="last")
    result = finetune(Classify, replace(start, out=tmp_path / "out"))
    model = load_model(result.out)
    assert (model.config.pooling, model.config.cell) == ("last", "gru")
    assert "classifier" in result.load_report  # the new head was missing


def test_an_estimator_trains_one(settings):
    classifier = TextClassifier(
        settings.model, cell="gru", steps=20, learning_rate=5e-3, threads=1, device="cpu",
        precision="fp32",
    )  # fmt: skip
    texts = ["a good film", "a bad film", "lovely and fine", "dull and awful"] * 5
    classifier.fit(texts, ["pos", "neg"] * 10)
    assert classifier.predict(["a good film"])[0] == "pos"


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"cell": None, "preset": "mini"}, ("--preset", "--cell")),
        ({"from_scratch": True}, ("--from-scratch", "--cell")),
        ({"cell": "rnn"}, ("--cell", "rnn")),
        ({"head": "linear"}, ("--cell", "linear")),
    ],
)
def test_settings_that_exclude_each_other_are_refused(settings, changes, parts):
    with refuses(ConfigError, *parts):
        replace(settings, **changes)


def test_a_bert_has_no_such_pooling(settings, tmp_path):
    with refuses((ConfigError, SettingError), "--pooling"):
        replace(settings, cell=None, pooling="mean")
