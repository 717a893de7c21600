"""compress as it is typed, in each of its ways."""

import json
import shutil
from dataclasses import replace

import pytest
import torch
import transformers
from tiny_models import reviews, save_tiny, save_tiny_of, write_reviews
from tiny_runs import FP32
from tiny_tokenizers import TINY

from bertsmith.data.corpus import Corpus
from bertsmith.evaluation.evaluate import evaluate
from bertsmith.model.loading import load_model
from bertsmith.pretraining.objective import Pretraining
from bertsmith.pretraining.settings import PretrainingSettings
from bertsmith.system.files import sha256_file
from bertsmith.system.small_files import SmallFiles
from bertsmith.tasks.cross_encoder import MODEL_KEY, OLD_KEY
from bertsmith.tasks.loading import load_predictor
from bertsmith.tasks.sentence_folder import SentenceFolder
from bertsmith.tokenization.auto import load_tokenizer

SHAPE = {"num_hidden_layers": 3}
SIGMOID = "torch.nn.modules.activation.Sigmoid"


@pytest.fixture(scope="module")
def place(tmp_path_factory, corpus_dir):
    folder = tmp_path_factory.mktemp("compress")
    labels = ("neg", "pos")
    save_tiny(folder / "classifier", "classify", labels=labels, **SHAPE)
    save_tiny(folder / "pretrained", "masked_lm", **SHAPE)
    save_tiny(folder / "bare", **SHAPE)
    SentenceFolder("first_token", True, 17).write(folder / "bare", 24)
    write_reviews(folder / "data.csv", 23)
    texts = [example.text for example in reviews(9)]
    (folder / "texts.txt").write_text("\n\n".join(texts))
    tokenizer = load_tokenizer(corpus_dir / "tokenizer")
    save_tiny_of(folder / "on-corpus", "bert", ["masked_lm", "next_sentence"], tokenizer)
    return folder


@pytest.fixture
def compress(bertsmith, place, tmp_path):
    """Compress a model; gives the JSON that it printed and the new folder."""

    def run(model, *args, out="out"):
        words = ("compress", place / model, "--out", tmp_path / out, "--json", *FP32, *args)
        return json.loads(bertsmith(*words)), tmp_path / out

    return run


def record(folder):
    return json.loads((folder / "compression.json").read_text())


def test_a_sentence_encoder_stays_one_and_is_scored_by_pairs(compress, place):
    data = place / "pairs.tsv"
    pairs = zip(reviews(9), reviews(10)[1:], strict=True)
    rows = [f"{i % 6}\t{a.text}\t{b.text}" for i, (a, b) in enumerate(pairs)]
    data.write_text("\n".join(["score\tsentence1\tsentence2", *rows]) + "\n")
    report, out = compress("bare", "--num-layers", 1, "--data", data)
    assert SentenceFolder.read(SmallFiles(out)) == SentenceFolder("first_token", True, 17)
    for folder, side in ((place / "bare", "before"), (out, "after")):
        scores = evaluate(load_predictor(folder, device="cpu", precision="fp32"), data).to_json()
        assert report[side]["scores"]["spearman"] == scores["spearman"]


@pytest.mark.parametrize(
    "entries", [{OLD_KEY: SIGMOID}, {MODEL_KEY: {"activation_fn": SIGMOID}}], ids=["old", "new"]
)
def test_a_cross_encoder_stays_one(compress, entries, tmp_path):
    """What only sentence-transformers writes into config.json decides on the output, too."""
    encoder = save_tiny(tmp_path / "pairs", "regress")
    config = json.loads((encoder / "config.json").read_text())
    (encoder / "config.json").write_text(json.dumps(config | entries))
    (encoder / "SHA256SUMS").unlink()
    _, out = compress(encoder, "--num-layers", 2)
    before, after = (load_predictor(f, device="cpu", precision="fp32") for f in (encoder, out))
    assert after.definition.pairs is before.definition.pairs is True
    pair = [("the film was good", "a fine story")]
    (expected,), (found,) = before.predict(pair), after.predict(pair)
    assert found.value == expected.value


def test_examples_of_standard_input_cannot_score_two_models(refused, place, tmp_path):
    words = ("compress", place / "classifier", "--out", tmp_path / "out", "--num-layers", 1)
    told = refused(*words, "--data", "-", "--format", "csv")
    assert "--data: standard input can be read only once" in told
    assert not (tmp_path / "out").exists()


def test_an_encoder_of_other_file_names_keeps_pooling_and_length(compress, place, tmp_path):
    early = shutil.copytree(place / "bare", tmp_path / "early")
    (early / "1_Pooling").rename(early / "pool")
    (early / "sentence_bert_config.json").rename(early / "sentence_roberta_config.json")
    modules = (early / "modules.json").read_text().replace("1_Pooling", "pool")
    (early / "modules.json").write_text(modules)
    (early / "SHA256SUMS").unlink()
    for more in ((), ("--overwrite",)):
        _, out = compress(early, "--num-layers", 1, *more)
        assert SentenceFolder.read(SmallFiles(out)) == SentenceFolder("first_token", True, 17)


def on_corpus(corpus_dir):
    """What both models are asked, by 37 tokens that they can read."""
    held_out = Corpus.open(corpus_dir, "held_out")
    settings = PretrainingSettings(max_length=37)
    return Pretraining(Corpus.open(corpus_dir), held_out, settings, batch_size=1)


def test_a_corpus_says_which_pieces_stay_and_scores_the_model(compress, corpus_dir, place):
    report, out = compress("on-corpus", "--vocabulary", "--corpus", corpus_dir, "--min-count", 20)
    counts = Corpus.open(corpus_dir).count_tokens()
    assert report["covered"] == counts[counts >= 20].sum() / counts.sum() < 1
    objective, model = on_corpus(corpus_dir), load_model(place / "on-corpus")
    with torch.no_grad():
        assert report["before"]["scores"] == objective.evaluate(model)
    # The whole model, made to read [UNK] for what was left out, and never to guess it.
    whole, smaller = (load_tokenizer(folder) for folder in (place / "on-corpus", out))
    gone = torch.tensor([piece not in set(smaller.vocab) for piece in whole.vocab])
    batches = list(objective.held_out_batches(model))
    assert any(gone[batch.input_ids].any() for batch in batches)

    def read(ids):
        return ids.masked_fill(gone[ids], whole.unk_id)

    with torch.no_grad():
        model.heads["masked_lm"].bias[gone] = -1e9
        for number, batch in enumerate(batches):
            targets = {**batch.targets, "masked_labels": read(batch.targets["masked_labels"])}
            batches[number] = replace(batch, input_ids=read(batch.input_ids), targets=targets)
        expected = objective.evaluate_on(model, batches)
    assert report["after"]["scores"] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(("line", "parts"), [
    ("classifier", ["--num-layers", "--vocabulary"]),
    ("classifier --layer-choice last", ["--layers", "--num-layers"]),
    ("classifier --layers 0 --num-layers 1", ["--layers", "--num-layers"]),
    ("classifier --layers 0 --layer-choice last", ["--layer-choice last", "--num-layers"]),
    ("classifier --layers 0,three", ["--layers: found '0,three'", "0 to 2"]),
    ("classifier --layers 0,3", ["--layers: found '0, 3'", "0 to 2"]),
    ("classifier --num-layers 4", ["--num-layers: found 4", "1 to 3"]),
    ("bare --num-layers 1 --corpus corpus", ["bare: ", "--data", "--corpus"]),
    ("pretrained --num-layers 1 --corpus corpus", ["corpus: ", "--tokenizer"]),
    ("classifier --num-layers 1 --vocabulary texts.txt", ["--num-layers", "--vocabulary"]),
    ("pretrained --num-layers 1 --data data.csv", ["pretrained: ", "'bertsmith finetune classify"]),
    ("classifier --vocabulary texts.txt --min-count 0", ["--min-count: found 0", "1 or more"]),
    ("classifier --vocabulary", ["--vocabulary TEXTS", "--corpus DIR"]),
    ("classifier --vocabulary --corpus corpus", ["corpus: ", "--tokenizer"]),
    ("classifier --num-layers 1 --limit 5", ["--limit", "--data"]),
    ("classifier --num-layers 1 --label-column 2", ["--label-column", "--data"]),
])  # fmt: skip
def test_refusals(refused, place, corpus_dir, monkeypatch, tmp_path, line, parts):
    monkeypatch.chdir(place)
    if not (place / "corpus").exists():
        (place / "corpus").symlink_to(corpus_dir)
    words = ("compress", *line.split(), "--out", tmp_path / "out", *FP32)
    told = refused(*words, worded="--tokenizer" not in parts)  # its fingerprints are checksums
    assert all(part in told for part in parts)
    assert list(tmp_path.iterdir()) == []


def test_layers(bertsmith, compress, place):
    before = {file: sha256_file(file) for file in (place / "classifier").iterdir()}
    report, out = compress("classifier", "--num-layers", 2, "--data", place / "data.csv")
    assert report["kept_layers"] == [0, 2]
    assert load_model(out).id2label == load_model(place / "classifier").id2label
    sizes = [report[side]["parameters"]["encoder"] for side in ("before", "after")]
    assert 3 * sizes[1] == 2 * sizes[0]
    assert set(report["after"]["scores"]) > {"accuracy", "macro_f1"}
    assert load_tokenizer(out).fingerprint == load_tokenizer(place / "classifier").fingerprint
    assert {file: sha256_file(file) for file in (place / "classifier").iterdir()} == before
    (step,) = record(out)
    assert step["method"] == "layers" and step["after"] == report["after"]
    text = out.parent / "text"
    printed = bertsmith("compress", place / "pretrained", "--layers", "0,1", "--out", text, *FP32)
    assert printed.splitlines()[:2] == ["kept 2 of 3 layers: 0, 1", f"model in {text}"]


def test_steps_add_up_and_nothing_is_lost(compress, refused, place, tmp_path):
    _, first = compress("classifier", "--layers", "0,1", out="first")
    _, second = compress(first, "--vocabulary", place / "texts.txt", out="second")
    assert [step["method"] for step in record(second)] == ["layers", "vocabulary"]
    message = refused("compress", first, "--layers", "0", "--out", second)
    assert f"{second}: " in message and "--overwrite" in message
    _, second = compress(first, "--layers", "0", "--overwrite", out="second")
    assert [step["kept_layers"] for step in record(second)] == [[0, 1], [0]]
    (tmp_path / "file").write_text("mine")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "diary.txt").write_text("mine")
    ask = ("compress", place / "classifier", "--layers", "0", "--overwrite", "--out")
    assert f"{tmp_path / 'file'}: " in refused(*ask, tmp_path / "file")
    assert "(diary.txt)" in refused(*ask, tmp_path / "notes")
    source = place / "classifier"
    assert f"--out {source} is the folder that this command reads" in refused(*ask, source)
    assert f"{place}: " in refused(*ask, place)
    assert (tmp_path / "notes" / "diary.txt").read_text() == "mine"


def test_a_pretrained_model_is_scored_by_a_corpus(compress, corpus_dir, place):
    report, out = compress("on-corpus", "--num-layers", 1, "--corpus", corpus_dir)
    assert set(load_model(out).heads) == {"masked_lm", "next_sentence"}
    objective = on_corpus(corpus_dir)
    for folder, side in ((place / "on-corpus", "before"), (out, "after")):
        with torch.no_grad():
            assert report[side]["scores"] == objective.evaluate(load_model(folder))


@pytest.mark.same_on_all_computers
@pytest.mark.parametrize(
    ("kind", "family"),
    [("byte-bpe", "roberta"), ("unigram", "albert"), ("wordpiece", "modernbert")],
)
def test_vocabulary_of_texts(kind, family, compress, tmp_path):
    tokenizer, text = TINY[kind](), "The river runs to the sea."
    whole = save_tiny_of(tmp_path / "whole", family, ["classify"], tokenizer, num_labels=2)
    (tmp_path / "texts.txt").write_text(text)
    report, out = compress(whole, "--vocabulary", tmp_path / "texts.txt")
    smaller = load_tokenizer(out)
    assert report["vocab_size"] == smaller.vocab_size < tokenizer.vocab_size
    assert report["covered"] == 1.0
    assert smaller.encode(text).tokens == tokenizer.encode(text).tokens
    transformers.AutoModelForSequenceClassification.from_pretrained(out)
