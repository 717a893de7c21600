"""A GPT sorts texts into classes by their last token, and is transformers' own classifier."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers
from refusals import refuses
from samples import write_scores
from stop_at import StopAt
from tiny_gpt import SHAPE
from tiny_gpt import build_theirs as build_language_model
from tiny_models import NUM_POSITIONS, tiny_tokenizer, write_reviews
from tiny_tokenizers import tiny_byte_bpe
from torch.nn import functional as F

from bertsmith.data.batches import pack
from bertsmith.errors import CheckpointError, Interrupted
from bertsmith.finetuning.run import finetune
from bertsmith.inspection.look import look
from bertsmith.lineage.gpt import Gpt, GptConfig
from bertsmith.lineage.gpt_folder import load_gpt, save_gpt
from bertsmith.model.families import family_named
from bertsmith.model.loading import build, load_model
from bertsmith.model.model_folder import read_folder
from bertsmith.model.saving import save_model
from bertsmith.model.weight_formats.safetensors_file import read_safetensors
from bertsmith.model.weight_names import hugging_face_names
from bertsmith.tasks.auto import load
from bertsmith.tasks.logits import sequence_logits
from bertsmith.tasks.settings.classify import ClassifySettings
from bertsmith.tasks.text_classification import Classify

END, PAD = SHAPE["eos_token_id"], 3
LABELS = torch.tensor([2, 0, 1, 0])


def build_theirs(pad_token_id=PAD, **changes):
    """Build a GPT2ForSequenceClassification of random weights with three classes."""
    torch.manual_seed(0)
    shape = SHAPE | {"num_labels": 3, "pad_token_id": pad_token_id} | changes
    config = transformers.GPT2Config(**shape, attn_implementation="eager")
    model = transformers.GPT2ForSequenceClassification(config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return model


def pad_right(sequences, pad=PAD):
    """Return ids and mask, int64 [batch, length]."""
    rows = [torch.from_numpy(row) for row in sequences]
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=pad)
    lengths = torch.tensor([len(row) for row in rows])
    return ids, (torch.arange(ids.shape[1]) < lengths[:, None]).long()


def draw_sequences(*lengths):
    """Draw ids above all special ones."""
    rng = np.random.default_rng(0)
    return [rng.integers(4, SHAPE["vocab_size"], length) for length in lengths]


@pytest.fixture(scope="module")
def theirs():
    return build_theirs()


@pytest.fixture(scope="module")
def ours(theirs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("theirs")
    theirs.save_pretrained(folder)
    return load_model(folder)


def test_a_folder_of_transformers_gives_its_logits_loss_and_gradients(theirs, ours):
    assert list(ours.heads) == ["classify"] and not ours.load_report.missing
    ids, mask = pad_right(draw_sequences(7, 23, 1, 11))
    outputs = [model(input_ids=ids, attention_mask=mask, labels=LABELS) for model in (ours, theirs)]
    for name in ("logits", "loss"):
        found, expected = (getattr(output, name) for output in outputs)
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    for model, output in zip((ours, theirs), outputs, strict=True):
        model.zero_grad()
        output.loss.backward()
    expected = dict(theirs.named_parameters())
    family = family_named("gpt2")
    for name, parameter in ours.named_parameters():
        (their_name,) = hugging_face_names(name, ours.config)
        gradient = family.transpose(their_name, expected.pop(their_name).grad)
        torch.testing.assert_close(parameter.grad, gradient, atol=1e-5, rtol=1e-5)
    assert not expected


def test_sizes_may_have_the_names_that_all_models_share(ours, theirs, tmp_path):
    theirs.save_pretrained(tmp_path)
    file = tmp_path / "config.json"
    settings = json.loads(file.read_text())
    settings["num_attention_heads"] = settings.pop("n_head")
    file.write_text(json.dumps(settings))
    assert load_model(tmp_path).config == ours.config


def test_transformers_opens_a_folder_of_ours(ours, theirs, tmp_path):
    save_model(ours, tmp_path, id2label={0: "a", 1: "b", 2: "c"})
    again, report = transformers.AutoModelForSequenceClassification.from_pretrained(
        tmp_path, output_loading_info=True
    )
    assert type(again) is transformers.GPT2ForSequenceClassification
    assert not report["missing_keys"] and not report["unexpected_keys"]
    assert again.config.id2label == {0: "a", 1: "b", 2: "c"}
    assert again.config.pad_token_id == PAD
    for name, tensor in theirs.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor), name


def test_padded_equals_packed_for_lengths_of_1_to_129(ours):
    """Padding is the end token, and every third text ends in an end token of its own."""
    sequences = draw_sequences(*np.random.default_rng(1).permutation(np.arange(1, 130)))
    for row in sequences[::3]:
        row[-1] = END
    with torch.no_grad():
        batch = pack(sequences)
        packed = sequence_logits(ours, batch, "classify")
        ids, mask = pad_right(sequences, pad=END)
        padded = ours(input_ids=ids, attention_mask=mask).logits
        torch.testing.assert_close(packed, padded[list(batch.order)], atol=1e-5, rtol=1e-5)
        for index in (0, 3, 64, 128):
            alone = ours(input_ids=torch.from_numpy(sequences[index])[None]).logits[0]
            torch.testing.assert_close(padded[index], alone, atol=1e-5, rtol=1e-5)


def test_padding_that_is_the_end_token_hides_a_text_s_own_end_in_transformers(ours):
    """So our folders name no padding token then, which makes transformers read the last token."""
    (row,) = draw_sequences(17)
    row[-1] = END
    ids = torch.from_numpy(row)[None]
    with torch.no_grad():
        found = ours(input_ids=ids).logits
        trapped = build_theirs(END)(input_ids=ids).logits
        read = build_theirs(None)(input_ids=ids).logits
    torch.testing.assert_close(found, read, atol=1e-5, rtol=1e-5)
    assert (trapped - read).abs().max() > 0.1
    assert replace(ours.config, pad_token_id=END).pad_token_id is None
    with pytest.raises(ValueError) as caught:
        build_theirs(None)(input_ids=ids.expand(2, -1))
    assert "batch sizes > 1" in str(caught.value)


def test_a_class_is_read_from_the_last_token_alone(ours):
    sequences = draw_sequences(29, 7, 1)
    batch = pack(sequences)
    with torch.no_grad():
        hidden = ours.encode(batch)
        last = torch.tensor(batch.lengths).cumsum(0) - 1
        expected = hidden[last] @ ours.heads["classify"].dense.weight.T
        found = sequence_logits(ours, batch, "classify")
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    ours.computes_all_tokens = True
    try:
        every = sequence_logits(ours, batch, "classify")
    finally:
        ours.computes_all_tokens = False
    torch.testing.assert_close(every, expected, atol=1e-5, rtol=1e-5)


def test_the_network_is_that_of_the_language_model(tmp_path):
    save_gpt(tiny_gpt(tiny_tokenizer()), tmp_path, tiny_tokenizer())
    lm, classifier = load_gpt(tmp_path), load_classifier(tmp_path)
    batch = pack(draw_short_sequences())
    with torch.no_grad():
        found = classifier.encode(batch)
        torch.testing.assert_close(found, lm.encode(batch), atol=1e-6, rtol=1e-6)


def tiny_gpt(tokenizer, **changes):
    torch.manual_seed(1)
    shape = {
        "n_embd": 24, "n_layer": 2, "n_head": 3, "n_positions": NUM_POSITIONS,
        "bos_token_id": tokenizer.cls_id, "eos_token_id": tokenizer.sep_id,
        "pad_token_id": tokenizer.pad_id, "initializer_range": 0.2,
    }  # fmt: skip
    return Gpt(GptConfig(tokenizer.vocab_size, **shape | changes))


def load_classifier(path):
    return build(read_folder(path, to_classify=True), ["classify"], 2)


def draw_short_sequences():
    rng = np.random.default_rng(0)
    return [rng.integers(5, tiny_tokenizer().vocab_size, length) for length in (13, 2, 29)]


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classifier")
    save_gpt(tiny_gpt(tiny_tokenizer()), folder / "lm", tiny_tokenizer())
    return ClassifySettings(
        model=folder / "lm", train=write_reviews(folder / "train.csv", 80),
        eval=write_reviews(folder / "eval.csv", 30, seed=1), out=folder / "out", steps=80,
        learning_rate=5e-3, seed=2, threads=1, device="cpu", precision="fp32",
    )  # fmt: skip


@pytest.fixture(scope="module")
def trained(settings):
    return finetune(Classify, settings)


def test_it_learns_and_every_command_opens_the_folder(trained, settings, bertsmith):
    assert trained.evaluation.accuracy > 0.8  # 0.5 is guessing
    line = ("--device", "cpu", "--precision", "fp32", "--json")
    predicted = json.loads(bertsmith("predict", trained.out, "a lovely film", *line))
    assert predicted["predictions"][0]["label"] == "pos"
    scores = json.loads(bertsmith("evaluate", trained.out, "--data", settings.eval, *line))
    assert scores["accuracy"] == trained.evaluation.accuracy
    classifier = load(trained.out, device="cpu", precision="fp32")
    assert classifier("dull and awful").label == "neg"
    assert "neg" in bertsmith("predict", trained.out, "dull and awful", "--device", "cpu")
    counts = json.loads(bertsmith("params", trained.out, "--json"))
    stored = read_safetensors(trained.out / "model.safetensors").values()
    assert counts["parameters"] == sum(tensor.numel() for tensor in stored)
    assert counts["formula"] + sum(counts["beyond_formula"].values()) == counts["encoder"]
    card = (trained.out / "README.md").read_text(encoding="utf-8")
    assert "transformers opens the folder" in card and "from `lm`" in card


def test_a_look_shows_causal_attention_and_the_words_that_decide(trained):
    shown = look(trained.out, "the dull film was very lovely", device="cpu")
    for layer in shown.attentions:
        assert np.triu(layer, 1).max() == 0
        np.testing.assert_allclose(layer.sum(-1), 1, atol=1e-5)
    assert shown.decided.decisions[0].label in ("neg", "pos")
    assert len(shown.attributions) == 2 and shown.attributions[0] is not None


def test_a_text_has_the_same_bytes_in_any_batch(trained):
    classifier = load(trained.out, device="cpu", precision="fp32")
    texts = ["a good film", "the story was very dull and awful and bad .", "lovely"] * 7
    together = classifier.probabilities(texts)
    for text, row in zip(texts[:3], together, strict=False):
        assert classifier.probabilities([text])[0].tobytes() == row.tobytes()


def test_transformers_gives_the_trained_model_s_probabilities(trained):
    tokenizer = transformers.AutoTokenizer.from_pretrained(trained.out)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(trained.out)
    texts = ["a good film", "the story was very dull"]
    inputs = tokenizer(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        logits = model(inputs["input_ids"], attention_mask=inputs["attention_mask"]).logits
    found = load(trained.out, device="cpu", precision="fp32").probabilities(texts)
    torch.testing.assert_close(
        torch.from_numpy(found).float(), F.softmax(logits, -1), atol=1e-5, rtol=1e-5
    )


def test_a_resumed_run_is_the_uninterrupted_one_bit_for_bit(settings, tmp_path):
    whole, stopped = (replace(settings, steps=9, out=tmp_path / name) for name in ("a", "b"))
    finetune(Classify, whole)
    with pytest.raises(Interrupted):
        finetune(Classify, stopped, [StopAt(4)])
    finetune(Classify, replace(stopped, resume=True))
    ours, expected = (read_safetensors(each.out / "model.safetensors") for each in (stopped, whole))
    assert ours.keys() == expected.keys()
    assert all(torch.equal(value, expected[name]) for name, value in ours.items())


def test_several_labels_and_runs_of_a_series(settings, tmp_path, bertsmith):
    out = tmp_path / "series"
    bertsmith(
        "finetune", "classify", "--model", settings.model, "--train", settings.train, "--eval",
        settings.eval, "--out", out, "--steps", "3", "--multi-label", "--device", "cpu",
        "--precision", "fp32", "--threads", "1", "--seeds", "2",
    )  # fmt: skip
    model = load_model(out)
    assert list(model.heads) == ["multi_label"] and model.heads["multi_label"].dense.bias is None


def save_published(folder):
    """Write a GPT-2 folder as it is published, with its own tokenizer; return its end token."""
    bpe = tiny_byte_bpe()
    pieces = [bpe.id_to_token(number) for number in range(5, bpe.vocab_size)]
    vocab = {piece: number for number, piece in enumerate([*pieces, "<|endoftext|>"])}
    transformers.GPT2Tokenizer(vocab=vocab, merges=list(bpe.merges)).save_pretrained(folder)
    end = len(vocab) - 1
    shape = {"vocab_size": len(vocab), "bos_token_id": end, "eos_token_id": end}
    build_language_model(seed=4, **shape, pad_token_id=None).save_pretrained(folder)
    return end


def test_a_published_gpt_2_reads_the_end_token_after_the_text(settings, tmp_path):
    end_id = save_published(tmp_path / "gpt2")
    out = tmp_path / "out"
    finetune(Classify, replace(settings, model=tmp_path / "gpt2", steps=2, out=out))
    config = json.loads((out / "config.json").read_text())
    assert config["pad_token_id"] is None and config["eos_token_id"] == end_id
    classifier = load(out, device="cpu", precision="fp32")
    ids = classifier.tokenizer("a good film")["input_ids"]
    assert ids[0] == ids[-1] == end_id
    model = transformers.AutoModelForSequenceClassification.from_pretrained(out)
    theirs = transformers.AutoTokenizer.from_pretrained(out)("a good film", return_tensors="pt")
    assert theirs["input_ids"][0].tolist() == ids
    with torch.no_grad():
        logits = model(theirs["input_ids"]).logits
    found = torch.from_numpy(classifier.probabilities(["a good film"])).float()
    torch.testing.assert_close(found, F.softmax(logits, -1), atol=1e-5, rtol=1e-5)
    model.save_pretrained(tmp_path / "gpt2")
    with refuses(CheckpointError, "GPT-2's own tokenizer", "finetune classify"):
        load(tmp_path / "gpt2")


def test_what_it_cannot_do_is_said_in_one_line(settings, trained, refused, tmp_path):
    model, out = settings.model, tmp_path / "none"
    data = ("--train", settings.train, "--eval", settings.eval, "--out", out)
    assert "finetune classify" in refused("predict", model, "a film")
    assert "commands are generate" in refused("fill", model, "a [MASK]")
    for head in ("linear", "contrastive"):
        line = refused("finetune", "classify", "--head", head, "--model", trained.out, *data)
        assert "an encoder such as BERT is needed here" in line
    numbers = write_scores(tmp_path / "numbers.csv", 9)
    line = ("--train", numbers, "--eval", numbers, "--out", out)
    for folder in (model, trained.out):
        assert "finetune classify" in refused("finetune", "regress", "--model", folder, *line)
    line = refused("compress", trained.out, "--out", out, "--num-layers", "1")
    assert "commands are predict" in line
    assert "commands are predict" in refused("generate", trained.out, "a film")
    assert "--pooling" in refused(
        "finetune", "classify", "--model", model, *data, "--pooling", "max"
    )
    line = refused("finetune", "classify", "--model", model, *data, "--cls-attention", "reset")
    assert "--cls-attention" in line
    assert not out.exists()
