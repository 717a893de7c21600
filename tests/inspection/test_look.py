"""The look at a text: what it holds for each task equals what the model predicts."""

import json
import os
import sys

import numpy as np
import pytest
import torch
import transformers
from refusals import refuses
from safetensors.torch import load_file, save_file
from samples import RECORDS
from tiny_models import (
    NUM_POSITIONS,
    make_sentence_encoder,
    save_tiny,
    save_tiny_of,
    tiny_tokenizer,
)

import bertsmith
from bertsmith.data.columns import Columns
from bertsmith.errors import BertsmithError, CheckpointError, ConfigError, InputError
from bertsmith.inspection.look import look
from bertsmith.inspection.page import page_data
from bertsmith.inspection.plain_values import ALPHABET, format_weights
from bertsmith.inspection.saliency import TOLERANCE
from bertsmith.model.bert import BertModel
from bertsmith.model.config_file import TASK_SETTINGS
from bertsmith.model.families.static_vectors import StaticConfig
from bertsmith.model.head_names import MEMBERS_FOLDER
from bertsmith.model.saving import save_model, write_task_settings
from bertsmith.tasks.auto import load

TEXT = "a lovely film and the dull story was very awful ."
INPUTS = {
    "classify": (TEXT, ()),
    "multi_label": (TEXT, "good"),
    "regress": (TEXT, ()),
    "tag": (TEXT, ()),
    "answer": ("the good ?", TEXT),
    "choose": ("the film was", ("good", "a dull story", "very very awful")),
    "masked_lm": ("a [MASK] film was [MASK] .", ()),
}
LABELS = {"tag": ["O", "B-X", "I-X", "B-Y"], "classify": ["neg", "pos"], "multi_label": ["a", "b"]}


@pytest.fixture(scope="module", params=INPUTS)
def case(request, tmp_path_factory):
    """A head, its folder, and the look at its text."""
    head = request.param
    folder = tmp_path_factory.mktemp(head) / "model"
    save_tiny(folder, head, labels=LABELS.get(head, ()))
    text, pair = INPUTS[head]
    return head, folder, look(folder, text, pair=pair, device="cpu")


def predicted(head, folder):
    predictor = load(folder, device="cpu", precision="fp32")
    text, pair = INPUTS[head]
    if head == "choose":
        return predictor({"text": text, "choices": list(pair)})
    return predictor(text, pair) if pair else predictor(text)


def test_decisions_are_those_of_predict(case):
    head, folder, result = case
    prediction = predicted(head, folder)
    decisions = result.decided.decisions
    if head in ("classify", "multi_label"):
        shares = {each.label: each.value for each in decisions}
        assert shares == pytest.approx(dict(prediction.probabilities), abs=1e-5)
        assert decisions[0].value == max(shares.values())
    elif head == "regress":
        assert decisions[0].value == pytest.approx(prediction.value, abs=1e-5)
    elif head == "tag":
        assert [(e.label, e.text) for e in decisions] == [
            (e.label, e.text) for e in prediction.entities
        ]
        assert [TEXT[e.start : e.end] for e in decisions] == [e.text for e in decisions]
    elif head == "answer":
        assert decisions[0].text == prediction.answer
        assert decisions[0].value == pytest.approx(prediction.probability, abs=1e-5)
    elif head == "choose":
        assert decisions[0].label == prediction.text
        assert sorted(e.value for e in decisions) == pytest.approx(
            sorted(prediction.probabilities), abs=1e-5
        )
        assert result.decided.shown.texts[1] == prediction.text
    else:
        words = [(word.token, word.probability) for mask in prediction.masks for word in mask]
        assert [e.label for e in decisions] == [word for word, _ in words]
        assert [e.value for e in decisions] == pytest.approx([p for _, p in words], abs=1e-5)


def test_attributions_explain_the_logits_of_decisions(case):
    head, _, result = case
    explained = [
        (decision, each)
        for decision, each in zip(result.decided.decisions, result.attributions, strict=True)
        if each is not None
    ]
    assert explained
    for decision, each in explained:
        assert decision.target is not None
        assert each.values.sum() == pytest.approx(each.difference, rel=TOLERANCE, abs=1e-5)
        assert each.values.shape == (len(result.tokens),)
    first = explained[0][1]
    specials = [place for place, token in enumerate(result.tokens) if token in ("[CLS]", "[SEP]")]
    assert not first.values[specials].any()
    if head == "regress":
        assert first.logit == pytest.approx(result.decided.decisions[0].value, abs=1e-4)


def test_the_last_layer_of_the_lens_is_the_prediction(case):
    head, folder, result = case
    data = page_data(result.page)
    if head == "tag":
        labels = [cell[0][0] for cell in data["lens"]["tokens"][-1] if cell is not None]
        assert labels == list(predicted(head, folder).label_names)
    elif head == "masked_lm":
        mask = result.tokens.index("[MASK]")
        word = data["lens"]["tokens"][-1][mask][0]
        special = tiny_tokenizer().special_ids
        if tiny_tokenizer().token_to_id(word[0]) not in special:
            assert word[0] == result.decided.decisions[0].label
    elif head == "choose":
        shown = data["lens"]["decisions"][-1][0]
        assert shown[0] == result.decided.shown.texts[1]
    else:
        last = dict(data["lens"]["decisions"][-1])
        own = {e.text or e.label: e.value for e in result.decided.decisions}
        assert last == pytest.approx({name: own[name] for name in last}, rel=1e-3)


def test_the_page_holds_the_weights_to_a_level(case):
    _, _, result = case
    text = format_weights(result.decided.layers.attentions)
    weights = np.stack(result.attentions)
    assert len(text) == weights.size
    levels = np.array([ALPHABET.index(character) for character in text]) / (len(ALPHABET) - 1)
    assert np.abs(levels - np.sqrt(weights.flatten())).max() <= 0.5 / (len(ALPHABET) - 1) + 1e-6
    assert weights.sum(-1) == pytest.approx(1, abs=1e-6)


def test_without_a_head_the_prediction_is_that_of_a_cut_model(tmp_path):
    folder = save_tiny(tmp_path / "model", "classify", labels=["neg", "pos"])
    whole = look(folder, TEXT, device="cpu")
    cut = look(folder, TEXT, without=["2.3", "1.1"], device="cpu").page.without
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    for layer, head in ((1, 2), (0, 0)):
        output = model.bert.encoder.layer[layer].attention.output.dense
        output.weight.data[:, 8 * head : 8 * head + 8] = 0
    tokenizer = tiny_tokenizer()
    ids = torch.tensor([tokenizer.encode(TEXT).ids])
    with torch.no_grad():
        expected = model(ids).logits.softmax(-1)[0].tolist()
    shares = {each.label: each.value for each in cut.decisions}
    assert [shares["neg"], shares["pos"]] == pytest.approx(expected, abs=1e-5)
    assert shares["neg"] != pytest.approx(
        {each.label: each.value for each in whole.decided.decisions}["neg"], abs=1e-4
    )


def test_each_layer_of_a_group_is_shown(tmp_path):
    """An ALBERT of two steps, each of which goes through two layers."""
    save_tiny_of(tmp_path, "albert", inner_group_num=2)
    result = look(tmp_path, "a [MASK] film", without="4.1", device="cpu")
    assert len(result.attentions) == result.data["layers"] == len(result.statistics.means) == 4


def test_an_encoder_alone_shows_attention(tmp_path):
    for name in ("vectors", "sentences"):
        folder = save_tiny(tmp_path / name)
        if name == "sentences":
            make_sentence_encoder(folder)
        result = look(folder, TEXT, device="cpu")
        assert (result.decided.kind, result.decided.decisions) == ("none", ())
        assert result.lens is None
        assert len(result.attentions) == 2


def test_a_detector_of_replaced_tokens_marks_them(tmp_path):
    folder = save_tiny_of(tmp_path / "model", "electra", ("replaced_token",))
    result = look(folder, TEXT, device="cpu")
    theirs = transformers.AutoModelForPreTraining.from_pretrained(folder).eval()
    with torch.no_grad():
        logits = theirs(torch.tensor([tiny_tokenizer().encode(TEXT).ids])).logits[0]
    texts = [
        token
        for token, logit in zip(result.tokens, logits.tolist(), strict=True)
        if logit >= 0 and token not in ("[CLS]", "[SEP]")
    ]
    assert [each.text for each in result.decided.decisions] == texts
    assert texts


def test_words_for_the_masks_of_two_texts_are_told_apart(tmp_path):
    folder = save_tiny(tmp_path / "model", "masked_lm")
    result = look(folder, "[MASK] film", pair="[MASK] story", device="cpu")
    decisions = result.decided.decisions
    assert [(each.part, each.start) for each in decisions] == [(0, 0)] * 5 + [(1, 0)] * 5
    # Eight are explained: the four likeliest words of each.
    expected = [number % 5 < 4 for number in range(10)]
    assert [each is not None for each in result.attributions] == expected


def test_a_model_of_the_hub_has_its_name_there(tmp_path, monkeypatch):
    snapshot = save_tiny(tmp_path / "86b5e09", "classify", labels="ab")
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda name, **_: str(snapshot))
    assert look("anna/sentiment", "a film", device="cpu").data["folder"] == "anna/sentiment"
    assert look(snapshot, "a film", device="cpu").data["folder"] == "86b5e09"


def test_a_long_text_is_cut_and_counted(tmp_path):
    for head, labels in (("classify", "ab"), ("tag", ["O", "B-X"]), ("masked_lm", ())):
        folder = save_tiny(tmp_path / head, head, labels=labels)
        result = look(folder, "film " * 100_000, device="cpu")
        shown = result.decided.shown
        assert len(result.tokens) == NUM_POSITIONS
        assert shown.num_all == 100_002
        assert len(json.dumps(page_data(result.page))) < 100_000
    short = look(folder, TEXT, max_length=7, device="cpu")
    assert short.tokens == ["[CLS]", "a", "lovely", "film", "and", "the", "[SEP]"]


def test_a_notebook_shows_the_page(tmp_path):
    result = bertsmith.look(save_tiny(tmp_path / "model", "classify", labels="ab"), "a <b>film</b>")
    shown = result._repr_html_()
    assert shown.startswith("<iframe ")
    assert "<b>" not in shown and "&lt;script" in shown
    path = result.save(tmp_path / "page.html")
    assert "<b>film" not in path.read_text(encoding="utf-8")
    assert callable(bertsmith.look)


def test_the_callers_gradients_and_modes_stay(tmp_path):
    folder = save_tiny(tmp_path / "model", "classify", labels="ab")
    with torch.no_grad():
        result = look(folder, TEXT, device="cpu")
    assert result.attributions[0].error <= TOLERANCE


WRONG = {
    "empty": ("classify", InputError, ("text", "empty"), {"text": " "}),
    "empty pair": ("classify", InputError, ("--pair", "empty"), {"pair": "\n"}),
    "no token": ("classify", InputError, ("no token",), {"text": "\u200b"}),
    "no layer": ("classify", ConfigError, ("--without", "3.1"), {"without": "3.1"}),
    "no head": ("classify", ConfigError, ("--without", "1.4"), {"without": ["1.1", "1.4"]}),
    "no number": ("classify", ConfigError, ("--without", "all"), {"without": "all"}),
    "many digits": ("classify", ConfigError, ("--without", "999…"), {"without": "9" * 5000 + ".1"}),
    "long head": ("classify", ConfigError, ("--without", "999…"), {"without": "1." + "9" * 5000}),
    "three parts": ("classify", ConfigError, ("--without", "1.1.1"), {"without": "1.1.1"}),
    "number of a head": ("classify", ConfigError, ("--without", "string"), {"without": [1.1]}),
    "one number": ("classify", ConfigError, ("--without", "1.1"), {"without": 1.1}),
    "text of bytes": ("classify", InputError, ("text", "bytes"), {"text": b"good"}),
    "pair of numbers": ("classify", InputError, ("--pair", "int 5"), {"pair": (5,)}),
    "pair of bytes": ("classify", ConfigError, ("--pair", "good"), {"pair": b"good"}),
    "half a token": ("classify", ConfigError, ("--max-length", "9.5"), {"max_length": 9.5}),
    "true texts": ("classify", ConfigError, ("--num-texts", "True"), {"num_texts": True}),
    "no texts of no file": ("classify", ConfigError, ("--num-texts", "--data"), {"num_texts": 0}),
    "labels of no file": (
        "classify",
        ConfigError,
        ("--label-column", "--data"),
        {"columns": Columns(label_column="1")},
    ),
    "no prediction": ("", ConfigError, ("--without", "no prediction"), {"without": "1.1"}),
    "zero": ("classify", ConfigError, ("--without", "0.1"), {"without": "0.1"}),
    "language": ("classify", ConfigError, ("language", "fr"), {"language": "fr"}),
    "length": ("classify", ConfigError, ("--max-length", "99"), {"max_length": 99}),
    "two pairs": ("classify", InputError, ("--pair", "2"), {"pair": ("a", "b")}),
    "pair of words": ("tag", InputError, ("--pair",), {"pair": "good"}),
    "no passage": ("answer", InputError, ("--pair", "passage"), {}),
    "one choice": ("choose", InputError, ("--pair", "1"), {"pair": "good"}),
    "nothing decided": ("masked_lm", ConfigError, ("--without", "[MASK]"), {"without": "1.1"}),
    "no checkpoints": ("classify", CheckpointError, ("--checkpoints",), {"checkpoints": True}),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_requests_are_refused(name, tmp_path):
    head, kind, parts, options = WRONG[name]
    folder = save_tiny(tmp_path / "model", *[head][: bool(head)], labels=LABELS.get(head, ()))
    given = {"text": "a good film", **options}
    with refuses(kind, *parts):
        look(folder, given.pop("text"), **given)


@pytest.mark.parametrize("is_pair", [False, True])
def test_a_model_reads_as_many_texts_as_it_was_trained_on(is_pair, tmp_path):
    folder = save_tiny(tmp_path / "model", "classify", labels="ab")
    write_task_settings(folder, {"task": "classify", "pairs": is_pair})
    right, wrong = ("a story", None) if is_pair else (None, "a story")
    assert look(folder, "a film", pair=right, device="cpu").tokens.count("[SEP]") == 1 + is_pair
    with refuses(InputError, "--pair", "trained on"):
        look(folder, "a film", pair=wrong, device="cpu")


def test_an_option_that_is_not_there_is_refused(tmp_path):
    folder = save_tiny(tmp_path / "model", "classify", labels="ab")
    with pytest.raises(TypeError) as caught:
        look(folder, TEXT, layers=3)
    assert "'layers'" in str(caught.value)


def test_whole_numbers_of_numpy_and_nothing_are_taken(tmp_path):
    folder = save_tiny(tmp_path / "model", "classify", labels="ab")
    result = look(folder, TEXT, pair=None, without=None, max_length=np.int64(7), device="cpu")
    assert len(result.tokens) == 7
    assert repr(result) == "<Look at 7 tokens in 2 layers of 3 heads; save it as a page>"


def test_without_a_head_is_shown_though_no_word_has_a_label(tmp_path):
    folder = save_tiny(tmp_path / "model", "tag", labels=["O", "B-X"])
    weights = load_file(folder / "model.safetensors")
    weights["classifier.bias"] = torch.tensor([99.0, 0.0])
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    result = look(folder, TEXT, without="1.1", device="cpu")
    assert result.decided.decisions == ()
    assert result.page.without.decisions == ()


def test_numbers_that_are_not_finite_are_refused(tmp_path):
    folder = save_tiny(tmp_path / "model", "classify", labels="ab")
    weights = load_file(folder / "model.safetensors")
    name = "bert.encoder.layer.0.attention.self.query.weight"
    weights[name] = torch.full_like(weights[name], 3e38)
    weights[name][::2] *= -1
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    result = look(folder, TEXT, device="cpu")
    with refuses(CheckpointError, "NaN or infinite"):
        result.save(tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


def test_a_folder_of_vectors_without_layers_is_refused(tmp_path):
    tokenizer = tiny_tokenizer()
    model = BertModel(StaticConfig(tokenizer.vocab_size, 24, max_position_embeddings=37))
    save_model(model, tmp_path / "model", tokenizer)
    with refuses(CheckpointError, "no attention"):
        look(tmp_path / "model", TEXT)


def test_a_folder_of_several_models_is_refused(tmp_path):
    folder = save_tiny(tmp_path / "model", "classify", labels="ab")
    save_tiny(folder / MEMBERS_FOLDER / "seed-1", "classify", labels="ab", seed=1)
    settings = json.loads((folder / "config.json").read_text())
    settings.setdefault(TASK_SETTINGS, {})["members"] = ["seed-1"]
    (folder / "config.json").write_text(json.dumps(settings))
    with refuses(CheckpointError, "2 models", "seed-1"):
        look(folder, TEXT)


def test_every_head_of_a_predictor_is_tested_here():
    assert set(RECORDS) - {"", "embed"} == set(INPUTS)


def test_errors_have_one_line(tmp_path):
    folder = save_tiny(tmp_path / "model", "classify", labels="ab")
    with pytest.raises(BertsmithError) as caught:
        look(folder, "")
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(sys.platform != "linux", reason="other file systems have only UTF-8 names")
def test_a_notebook_shows_a_folder_whose_name_is_not_utf8(tmp_path):
    folder = save_tiny(tmp_path / os.fsdecode(b"caf\xe9"), "classify", labels=("bad", "good"))
    shown = look(folder, TEXT, device="cpu")._repr_html_()
    assert r"caf\udce9" in shown.encode().decode()
