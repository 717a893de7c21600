"""A T5 writes the names of classes; loss and probabilities are those of transformers' T5."""

import json
from dataclasses import replace

import pytest
import torch
import transformers
from refusals import refuses
from stop_at import StopAt
from tiny_models import write_csv, write_reviews
from tiny_t5 import build_theirs, save_spelling, spelling_tokenizer

from bertsmith.data.examples import Example
from bertsmith.errors import ConfigError, Interrupted
from bertsmith.estimators.texts import TextClassifier
from bertsmith.finetuning.run import finetune
from bertsmith.lineage.text_to_text_generation import TextToTextGenerator
from bertsmith.model.loading import build
from bertsmith.model.model_folder import read_folder
from bertsmith.model.saving import save_model
from bertsmith.model.weight_formats.safetensors_file import read_safetensors
from bertsmith.serving.served_model import ServedModel
from bertsmith.tasks.auto import load
from bertsmith.tasks.example_objective import collate
from bertsmith.tasks.settings.classify import ClassifySettings
from bertsmith.tasks.text_classification import Classify

LABELS = ("good", "good one", "one", "o")
"""Names that begin with each other, and share pieces."""
TEXTS = ["", "a good film", "lovely", "the story was very dull and awful and bad ."]


def save_their_model(folder, version):
    """Write a folder with a T5 of transformers and its tokenizer; return the T5."""
    tokenizer = spelling_tokenizer()
    shape = {"vocab_size": tokenizer.vocab_size + 11, "eos_token_id": tokenizer.sep_id}
    model = build_theirs(version, seed=3, **shape)
    if version == "1.1":
        size = (shape["vocab_size"], 36)
        model.lm_head.weight = torch.nn.Parameter(torch.randn(size) / 6)
    model.save_pretrained(folder)
    tokenizer.save(folder)
    return model


@pytest.fixture(scope="module", params=["1.0", "1.1"])
def random_pair(request, tmp_path_factory):
    """The folder of a classifier of random weights, and transformers' T5 with these weights."""
    folder, source = tmp_path_factory.mktemp("random"), tmp_path_factory.mktemp("lm")
    theirs = save_their_model(source, request.param)
    read = read_folder(source, to_classify=True)
    model = build(read, ["classify"], len(LABELS))
    model.id2label = dict(enumerate(LABELS))
    model.task_settings = {"task": "classify"}
    save_model(model, folder, read.tokenizer)
    return folder, theirs


def their_ids(tokenizer, text):
    return [*tokenizer.encode_ids(text), tokenizer.sep_id]


def their_log_probs(theirs, tokenizer, text):
    """Compute the log-probability of each label's tokens with transformers, `[labels]`."""
    source = torch.tensor([their_ids(tokenizer, text)])
    sums = []
    for label in LABELS:
        target = torch.tensor([their_ids(tokenizer, label)])
        with torch.no_grad():
            sums.append(-theirs(input_ids=source, labels=target).loss * target.shape[1])
    return torch.stack(sums)


def test_probabilities_are_those_of_transformers(random_pair):
    folder, theirs = random_pair
    classifier = load(folder, device="cpu", precision="fp32")
    assert classifier.labels == LABELS
    found = torch.from_numpy(classifier.probabilities(TEXTS))
    for text, row in zip(TEXTS, found, strict=True):
        expected = their_log_probs(theirs, classifier.tokenizer, text).softmax(-1)
        torch.testing.assert_close(row.float(), expected, atol=1e-5, rtol=1e-5)
        assert expected.std() > 1e-3


def test_loss_and_gradients_are_those_of_transformers(random_pair):
    folder, theirs = random_pair
    classifier = load(folder, device="cpu", precision="fp32")
    model = build(read_folder(folder))
    examples = [
        Example(text, None, LABELS[number % 3], number)
        for number, text in enumerate([*TEXTS, "film"])
    ]
    task, tokenizer = classifier.definition, classifier.tokenizer
    batch = collate(task.encode(tokenizer, examples, 37, labelled=True), range(5))
    term = task.training_loss(model, batch)
    targets = [torch.tensor(their_ids(tokenizer, example.label)) for example in examples]
    sources = [torch.tensor(their_ids(tokenizer, example.text)) for example in examples]
    expected = theirs(
        input_ids=torch.nn.utils.rnn.pad_sequence(sources, batch_first=True),
        attention_mask=torch.nn.utils.rnn.pad_sequence(list(map(torch.ones_like, sources)), True),
        labels=torch.nn.utils.rnn.pad_sequence(targets, batch_first=True, padding_value=-100),
    ).loss
    num_tokens = sum(map(len, targets))
    assert (term.count, task.num_predictions(batch)) == (num_tokens, num_tokens)
    torch.testing.assert_close(term.sum / num_tokens, expected, atol=1e-5, rtol=0.0)
    theirs.zero_grad()
    expected.backward()
    (term.sum / num_tokens).backward()
    fed = theirs.encoder.block[0].layer[1].DenseReluDense
    for mine, their in (
        (model.embeddings.word.weight, theirs.shared.weight),
        (model.layers[0].feed_forward.down.weight, fed.wo.weight),
    ):
        torch.testing.assert_close(mine.grad, their.grad, atol=1e-5, rtol=1e-5)


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classify")
    save_spelling(folder / "lm")
    return ClassifySettings(
        model=folder / "lm", train=write_reviews(folder / "train.csv", 80),
        eval=write_reviews(folder / "eval.csv", 30, seed=1), out=folder / "out", steps=100,
        learning_rate=1e-2, seed=2, threads=1, device="cpu", precision="fp32",
    )  # fmt: skip


@pytest.fixture(scope="module")
def trained(settings):
    return finetune(Classify, settings)


def test_it_learns_and_every_command_opens_the_folder(trained, settings, bertsmith, tmp_path):
    assert trained.evaluation.accuracy > 0.8  # 0.5 is guessing
    line = ("--device", "cpu", "--precision", "fp32", "--json")
    predicted = json.loads(bertsmith("predict", trained.out, "a lovely film", *line))
    assert predicted["predictions"][0]["label"] == "pos"
    scores = json.loads(bertsmith("evaluate", trained.out, "--data", settings.eval, *line))
    assert scores["accuracy"] == trained.evaluation.accuracy
    assert bertsmith("translate", trained.out, "a lovely film", "--device", "cpu") == "pos\n"
    counts = json.loads(bertsmith("params", trained.out, "--json"))
    stored = read_safetensors(trained.out / "model.safetensors").values()
    assert counts["parameters"] == sum(tensor.numel() for tensor in stored)
    page = tmp_path / "look.html"
    bertsmith("look", trained.out, "a film", "--device", "cpu", "--out", page)
    assert "pos" in page.read_text(encoding="utf-8")
    card = (trained.out / "README.md").read_text(encoding="utf-8")
    assert "text2text-generation" in card and "bertsmith.load" in card and "from `lm`" in card
    served = ServedModel.load("a", trained.out, device="cpu", precision="fp32", max_length=None)
    served.warm_up(64)
    assert served.info.labels == ("neg", "pos")


def test_transformers_writes_the_label(trained):
    tokenizer = transformers.AutoTokenizer.from_pretrained(trained.out)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(trained.out)
    assert type(model) is transformers.T5ForConditionalGeneration
    assert model.config.id2label == {0: "neg", 1: "pos"}
    classifier = load(trained.out, device="cpu", precision="fp32")
    for text in TEXTS[1:]:
        ids = tokenizer(text + " [SEP]", add_special_tokens=False, return_tensors="pt").input_ids
        written = model.generate(ids, do_sample=False, max_new_tokens=9)
        found = tokenizer.decode(written[0], skip_special_tokens=True)
        assert (
            found
            == classifier(text).label
            == TextToTextGenerator.load(trained.out, "cpu")([text])[0]
        )


def test_a_text_has_the_same_bytes_in_any_batch(trained):
    classifier = load(trained.out, device="cpu", precision="fp32")
    texts = TEXTS * 7
    together = classifier.probabilities(texts)
    for text, row in zip(TEXTS, together, strict=False):
        assert classifier.probabilities([text])[0].tobytes() == row.tobytes()


def test_a_resumed_run_is_the_uninterrupted_one_bit_for_bit(settings, tmp_path):
    whole, stopped = (replace(settings, steps=9, out=tmp_path / name) for name in ("a", "b"))
    finetune(Classify, whole)
    with pytest.raises(Interrupted):
        finetune(Classify, stopped, [StopAt(4)])
    finetune(Classify, replace(stopped, resume=True))
    ours, expected = (read_safetensors(each.out / "model.safetensors") for each in (stopped, whole))
    assert ours.keys() == expected.keys()
    assert all(torch.equal(value, expected[name]) for name, value in ours.items())


def test_a_frozen_encoder_stays_and_the_decoder_learns(settings, tmp_path):
    out = tmp_path / "frozen"
    finetune(Classify, replace(settings, steps=3, out=out, freeze_layers=2))
    before, after = (
        read_safetensors(folder / "model.safetensors") for folder in (settings.model, out)
    )
    changed = {name for name, value in after.items() if not torch.equal(value, before[name])}
    in_blocks = {name for name in changed if ".block." in name and "relative" not in name}
    assert in_blocks and all(name.startswith("decoder.") for name in in_blocks)
    assert "shared.weight" not in changed


def test_pairs_are_one_text_with_a_word_before_each(settings, tmp_path, bertsmith):
    rows = [("a good film", "good", "same"), ("a bad film", "good", "other")] * 6
    pairs = write_csv(tmp_path / "pairs.csv", ("text", "pair", "label"), *rows)
    out = tmp_path / "out"
    finetune(Classify, replace(settings, train=pairs, eval=pairs, steps=2, out=out))
    classifier = load(out, device="cpu", precision="fp32")
    rows = classifier.encode_examples([Example("a good film", "the story", None, 0)]).rows
    text = "sentence1: a good film sentence2: the story"
    assert rows.ids[0].tolist() == their_ids(classifier.tokenizer, text)
    predicted = bertsmith("predict", out, "a film", "a story", "--device", "cpu", "--json")
    assert json.loads(predicted)["predictions"][0]["label"] in ("same", "other")


def test_a_long_text_is_read_in_windows_or_cut_and_counted(trained):
    classifier = load(trained.out, device="cpu", precision="fp32")
    text = "the film was very good and " * 20
    whole = classifier(text)
    assert whole.num_windows > 1 and not whole.is_truncated
    task = classifier.definition
    cut = replace(task, windowing=replace(task.windowing, long_texts="cut"))
    prediction = classifier.with_definition(cut)(text)
    assert prediction.num_windows == 1 and prediction.is_truncated


def test_models_of_several_seeds_are_averaged(settings, tmp_path, bertsmith):
    out = tmp_path / "series"
    bertsmith(
        "finetune", "classify", "--model", settings.model, "--train", settings.train, "--eval",
        settings.eval, "--out", out, "--steps", "3", "--average", "--device", "cpu",
        "--precision", "fp32", "--threads", "1", "--seeds", "2",
    )  # fmt: skip
    seeds = [load(out / "members" / name, precision="fp32") for name in ("seed-1",)]
    averaged = load(out, device="cpu", precision="fp32")
    assert len(averaged.definition.others) == 1
    others = averaged.definition.others[0]
    assert torch.equal(others.embeddings.word.weight, seeds[0].model.embeddings.word.weight)
    assert averaged(TEXTS[1]).probability > 0


def test_an_estimator_learns_from_memory(settings, tmp_path):
    classifier = TextClassifier(
        settings.model, out=tmp_path / "out", steps=2, device="cpu", precision="fp32", threads=1
    )
    classifier.fit(["a good film", "a bad film"], [1, 0], eval=None)
    assert set(classifier.predict(["good"]).tolist()) <= {0, 1}


def test_labels_that_it_cannot_write_are_refused(settings, tmp_path):
    for labels, parts in (
        (("pos", "plutôt ж"), ("'plutôt ж'", "cannot spell")),
        (("pos", "Pos"), ("'Pos'", "'pos'", "alike")),
    ):
        train = write_csv(
            tmp_path / "a.csv", ("text", "label"), *(("a film", label) for label in labels)
        )
        out = tmp_path / "out"
        with refuses(ConfigError, *parts):
            finetune(Classify, replace(settings, train=train, eval=train, out=out))
        assert not out.exists()


def test_what_it_cannot_do_is_said_in_one_line(settings, trained, refused, tmp_path):
    model, out = settings.model, tmp_path / "none"
    data = ("--train", settings.train, "--eval", settings.eval, "--out", out)
    classify = ("finetune", "classify", "--model", model, *data)
    assert "--multi-label" in refused(*classify, "--multi-label")
    for flags in (
        ("--from-scratch",),
        ("--class-weights", "balanced"),
        ("--label-smoothing", "0.1"),
        ("--focal-gamma", "2"),
    ):
        assert flags[0] in refused(*classify, *flags)
    assert "--cls-attention" in refused(*classify, "--cls-attention", "reset")
    assert "--pooling" in refused(*classify, "--pooling", "max")
    tagged = tmp_path / "tagged.tsv"
    tagged.write_text(7 * "film\tO\nParis\tB-LOC\n\n")
    line = ("--train", tagged, "--eval", tagged, "--out", out)
    for folder in (model, trained.out):
        assert "finetune regress" in refused("finetune", "tag", "--model", folder, *line)
    for head in ("linear", "contrastive"):
        assert "this is a T5." in refused(*classify, "--head", head)
    assert "finetune classify" in refused("predict", model, "a film")
    assert "int8" in refused("predict", trained.out, "a film", "--precision", "int8")
    assert "this is a fine-tuned T5" in refused(
        "embed", trained.out, settings.train, "--out", tmp_path / "vectors.npy"
    )
    assert "masked language model" in refused("fill", trained.out, "a [MASK]")
    assert "this is a fine-tuned T5" in refused("generate", trained.out, "a film")
    assert not out.exists()
