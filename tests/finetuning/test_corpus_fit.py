"""`finetune classify --head linear --corpus`: what the head learns from a corpus, and refuses."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from refusals import refuses
from tiny_models import (
    BAD,
    GOOD,
    NUM_POSITIONS,
    SPECIAL_TOKENS,
    save_tiny,
    tiny_tokenizer,
    write_csv,
)
from tiny_runs import small_corpus

from bertsmith import TextClassifier
from bertsmith.data.corpus import Corpus
from bertsmith.errors import CheckpointError, ConfigError, as_flags
from bertsmith.finetuning.best_head import finetune_best_head
from bertsmith.finetuning.corpus_fit import label_documents
from bertsmith.finetuning.folds import split
from bertsmith.finetuning.heads import training_function_for
from bertsmith.finetuning.linear_run import finetune_linear
from bertsmith.finetuning.unlabelled_texts import read_sentences
from bertsmith.model.bert import BertModel
from bertsmith.model.families.static_vectors import StaticConfig
from bertsmith.model.head_names import LINEAR_HEAD_FILE
from bertsmith.model.model_folder import read_folder
from bertsmith.model.saving import save_model
from bertsmith.model.weight_formats.safetensors_file import read_safetensors, write_safetensors
from bertsmith.tasks.auto import load
from bertsmith.tasks.sentence_folder import SentenceFolder
from bertsmith.tasks.settings.classify import ClassifySettings
from bertsmith.tasks.text_classification import Classify
from bertsmith.tokenization.wordpiece import WordPieceTokenizer

UNSEEN = {"fine": "pos", "lovely": "pos", "dull": "neg", "awful": "neg"}
"""Words of the corpus that no labelled text has, and the label of their documents."""


def documents_of(words, count, rng):
    """Write documents whose sentences have one of these words each."""
    frames = ("the film was very {} .", "a {} story and a {} film .", "the story was {} and {} .")
    return [
        "\n".join(rng.choice(frames).format(*rng.permutation(words)) for _ in range(5))
        for _ in range(count)
    ]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A corpus of documents that praise or blame, about half of each."""
    rng = np.random.default_rng(0)
    documents = [*documents_of(["good", *GOOD], 103, rng), *documents_of(["bad", *BAD], 101, rng)]
    folder = tmp_path_factory.mktemp("corpus") / "corpus"
    return small_corpus(folder, tiny_tokenizer(), rng.permutation(documents).tolist())


@pytest.fixture(scope="module")
def base(corpus, tmp_path_factory):
    """Settings of a run on labelled texts that know only the words good and bad."""
    folder = tmp_path_factory.mktemp("corpus-fit")
    rng = np.random.default_rng(1)
    rows = []
    for number in range(47):
        word, label = (("good", "pos"), ("bad", "neg"))[number % 2]
        others = rng.choice(["a", "the", "film", "story", "was", "very", "and"], 5)
        rows.append((" ".join([*others, word, "."]), label))
    return ClassifySettings(
        model=save_tiny(folder / "model", "masked_lm"),
        train=write_csv(folder / "train.csv", ("text", "label"), *rows),
        out=folder / "out",
        head="linear",
        corpus=corpus,
        precision="fp32",
        threads=1,
    )


@pytest.fixture(scope="module")
def result(base):
    return finetune_linear(Classify, base)


@pytest.fixture
def settings(base, tmp_path):
    return replace(base, out=tmp_path / "out")


def test_a_word_that_only_the_corpus_has_gets_the_label_of_its_documents(settings, tmp_path):
    """The vectors of the model are 0, so that only counts and the corpus say something."""
    tokenizer = tiny_tokenizer()
    config = StaticConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=7,
        max_position_embeddings=NUM_POSITIONS,
        pad_token_id=tokenizer.pad_id,
    )
    model = BertModel(config)
    torch.nn.init.zeros_(model.embeddings.word.weight)
    save_model(model, tmp_path / "model", tokenizer)
    result = finetune_linear(Classify, replace(settings, model=tmp_path / "model"))
    tensors = read_safetensors(settings.out / LINEAR_HEAD_FILE)
    for word, label in UNSEEN.items():
        (token,) = tokenizer.encode_ids(word)
        weights = tensors["corpus_ngram_weights"][tensors["corpus_ngram_keys"] == token]
        assert result.labels[int(weights.argmax())] == label, (word, weights)


def test_the_report_and_the_card_name_the_corpus(base, result):
    assert "of the corpus, 1,020 sentences got labels" in str(result)
    assert "- Texts without labels: the corpus `corpus`" in (base.out / "README.md").read_text()
    assert result.cross_validation.accuracy > 0.9
    assert 0 < result.cross_validation.share_of_counts < 1  # as of a head without a corpus


def test_the_same_seed_gives_the_same_head(result, base, settings):
    finetune_linear(Classify, settings)
    one, other = (read_safetensors(path / LINEAR_HEAD_FILE) for path in (base.out, settings.out))
    for name, tensor in one.items():
        torch.testing.assert_close(tensor, other[name], rtol=0, atol=0, msg=name)


def test_probabilities_are_those_of_the_features_written_out(base, result):
    """The weights of tokens count by their mean over the tokens that are no special ones."""
    tensors = {
        name: tensor.numpy().astype(np.float64)
        for name, tensor in read_safetensors(base.out / LINEAR_HEAD_FILE).items()
    }
    predictor = load(base.out, device="cpu", precision="fp32")
    texts = ["a lovely film", "dull and awful ."]
    encoded = predictor.encode_examples([predictor.example({"text": text}) for text in texts])
    head = predictor.definition.linear
    logits = predictor.encode(texts) @ tensors["vector_weights"] + tensors["bias"]
    for ngrams, name in ((head.ngrams, "ngram"), (head.corpus.ngrams, "corpus_ngram")):
        counted = ngrams.transform(encoded)
        for row in range(2):
            entries = slice(counted.starts[row], counted.starts[row + 1])
            weights = tensors[f"{name}_weights"][counted.columns[entries]]
            logits[row] += counted.values[entries] @ weights
    for row, text in enumerate(texts):
        logits[row] += tensors["token_weights"][predictor.tokenizer.encode_ids(text)].mean(0)
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    np.testing.assert_allclose(predictor.probabilities(texts), shares, atol=1e-5)


def test_a_text_gets_the_same_answer_alone_and_among_others(base, result):
    predictor = load(base.out, device="cpu", precision="fp32")
    texts = ["a lovely film", "dull", "the film was very bad . " * 12, ""]
    together = predictor.probabilities(texts)
    assert predictor(texts[2]).num_windows > 1
    for text, row in zip(texts, together, strict=True):
        np.testing.assert_allclose(predictor.probabilities([text])[0], row, rtol=0, atol=1e-6)


def test_documents_are_labelled_by_the_mean_over_their_sentences():
    answers = np.array([[0, 4], [0, -2], [0, -1], [0, -3], [0, 0]], np.float32)
    documents = np.array([0, 0, 1, 1, 2])  # means 1, -2 and 0; their standard deviation is 1.247
    found = label_documents(answers, documents, np.array([0.5, 0.5], np.float32))
    odds = np.exp(np.array([1, -2, 0]) / np.std([1, -2, 0]))
    np.testing.assert_allclose(found[:, 1], odds / (1 + odds), rtol=1e-6)
    np.testing.assert_allclose(found.sum(1), 1, rtol=1e-6)
    leaning = answers + np.array([0, 7], np.float32)
    np.testing.assert_allclose(
        label_documents(leaning, documents, np.array([0.5, 0.5], np.float32)), found, rtol=1e-5
    )
    rare = label_documents(answers, documents, np.array([0.9, 0.1], np.float32))
    np.testing.assert_allclose(rare[:, 1], odds / (9 + odds), rtol=1e-6)


def test_a_corpus_of_one_document_says_nothing_about_labels():
    found = label_documents(
        np.array([[1, 2], [3, 5]], np.float32), np.zeros(2, np.int64), np.full(2, 0.5, np.float32)
    )
    np.testing.assert_allclose(found, [[0.5, 0.5]])


def test_the_estimator_takes_a_corpus(base, corpus, result):
    classifier = TextClassifier(
        base.model, head="linear", corpus=corpus, precision="fp32", threads=1, verbose=0
    )
    texts = ["a good film .", "a bad film .", "the good story .", "the bad story ."] * 5
    classifier.fit(texts, ["pos", "neg", "pos", "neg"] * 5, eval=None)
    assert classifier.predict(texts[:2]).tolist() == ["pos", "neg"]
    assert classifier.predictor_.definition.linear.corpus is not None
    assert classifier.get_params()["corpus"] == corpus


@pytest.mark.same_on_all_computers
def test_auto_uses_the_corpus_if_it_takes_the_linear_head_and_else_says_that_it_does_not(
    settings, tmp_path
):
    auto = replace(settings, head="auto")
    result = finetune_best_head(Classify, auto)
    assert (result.choice.chosen, result.choice.unused) == ("linear", ())
    assert result.num_sentences == 1020
    model = save_tiny(tmp_path / "encoder")
    SentenceFolder("mean").write(model, 24)
    result = finetune_best_head(Classify, replace(auto, model=model, overwrite=True))
    assert (result.choice.chosen, result.choice.unused) == ("contrastive", ("corpus",))
    assert "contrastive has no use for --corpus" in as_flags(str(result))


def test_the_linear_head_learns_from_the_corpus_in_the_comparison_of_heads(settings, tmp_path):
    """Its scores are those of linear heads that are fitted with the corpus, fold by fold."""
    rows = [(f"{word} film {number}", "pos") for number, word in enumerate(GOOD * 17)]
    rows += [(f"{word} film {number}", "neg") for number, word in enumerate(BAD * 17)]
    rows += [("a film", "pos"), ("the story", "neg"), ("the film", "pos"), ("a story", "neg")]
    train = write_csv(tmp_path / "train.csv", ("text", "label"), *rows)
    auto = replace(settings, train=train, head="auto", steps=1, learning_rate=1e-6)
    with_corpus = finetune_best_head(Classify, auto)
    alone = finetune_best_head(Classify, replace(auto, corpus=None, overwrite=True))
    folds = []
    for number, fold in enumerate(split(Classify.read(auto, (train, None)), 5, auto.seed)):
        out = tmp_path / f"fold-{number}"
        report = finetune_linear(Classify, auto.for_linear_head(out), dataset=fold).evaluation
        folds.append(report.accuracy)
    for one, other in zip(with_corpus.choice.heads, alone.choice.heads, strict=True):
        assert one.head == other.head
        if one.head == "linear":
            assert list(one.scores) == folds and one.scores != other.scores
        else:
            assert one.scores == other.scores
    assert "linear + corpus  " in str(with_corpus) and "+ corpus" not in str(alone)


@pytest.mark.parametrize("changes", [{"head": "fine-tuned"}, {"multi_label": True}])
def test_a_corpus_without_a_linear_head_for_one_label_is_refused(base, changes):
    with refuses(ConfigError, "--corpus", "--head linear"):
        replace(base, **changes)


@pytest.mark.parametrize("head", ["linear", "auto"])
def test_a_corpus_of_another_vocabulary_is_refused(settings, tmp_path, head):
    tokenizer = WordPieceTokenizer([*SPECIAL_TOKENS, *GOOD, "film", "a"])
    other = small_corpus(tmp_path / "other", tokenizer, ["a good film a fine film"])
    of_head = replace(settings, corpus=other, head=head)
    with refuses(ConfigError, str(other), "vocabulary", "--tokenizer"):
        training_function_for(of_head)(Classify, of_head)
    assert not settings.out.exists()


def test_a_model_inside_the_corpus_is_refused(settings):
    with refuses(ConfigError, "--out", str(settings.corpus)):
        finetune_linear(Classify, replace(settings, out=settings.corpus / "out"))


def test_documents_of_short_sentences_are_not_counted(base, tmp_path):
    """They have no answers, and would count as documents of which both labels are as likely."""
    documents = ["a film", "a good film is good .", "a", "a bad film is bad .\nthe story was bad ."]
    corpus = Corpus.open(small_corpus(tmp_path / "corpus", tiny_tokenizer(), documents), "train")
    folder = read_folder(base.model)
    numbers = read_sentences(corpus, folder.tokenizer, NUM_POSITIONS).documents.tolist()
    assert sorted(set(numbers)) == [0, 1] and len(numbers) == 3


def test_a_corpus_of_short_sentences_is_refused(settings, tmp_path):
    other = small_corpus(tmp_path / "short", tiny_tokenizer(), ["a film", "a story"])
    with refuses(ConfigError, str(other), "4 tokens"):
        finetune_linear(Classify, replace(settings, corpus=other))


def test_a_head_reads_the_corpus_even_if_the_labelled_texts_have_no_ngrams(result, base, tmp_path):
    """Texts of unknown words alone have none; then no n-gram of theirs may add to the logits."""
    probabilities = []
    for has_ngrams in (True, False):
        folder = shutil.copytree(base.out, tmp_path / str(has_ngrams))
        tensors = read_safetensors(folder / LINEAR_HEAD_FILE)
        tensors["ngram_weights"] = torch.zeros_like(tensors["ngram_weights"])
        if not has_ngrams:
            names = ("ngram_keys", "ngram_idf", "ngram_weights")
            tensors |= {name: tensors[name][:0] for name in names}
        write_safetensors(folder / LINEAR_HEAD_FILE, tensors)
        predictor = load(folder, device="cpu", precision="fp32")
        probabilities.append(predictor.probabilities([f"a {word} film" for word in UNSEEN]))
    np.testing.assert_allclose(probabilities[1], probabilities[0], atol=1e-6)


def test_pairs_of_texts_are_refused(settings, tmp_path):
    rows = [("a good film", "a good story", "yes"), ("a bad film", "a good story", "no")] * 3
    train = write_csv(tmp_path / "pairs.csv", ("text", "pair", "label"), *rows)
    with refuses(ConfigError, "--corpus", "pairs"):
        finetune_linear(Classify, replace(settings, train=train))


def test_weights_of_tokens_that_do_not_fit_the_vocabulary_are_refused(settings):
    finetune_linear(Classify, settings)
    file = settings.out / LINEAR_HEAD_FILE
    tensors = read_safetensors(file)
    for name, tensor in (
        ("token_weights", torch.zeros(3, 2)),
        ("corpus_ngram_keys", torch.tensor(3)),
    ):
        write_safetensors(file, tensors | {name: tensor})
        with refuses(CheckpointError, LINEAR_HEAD_FILE, name):
            load(settings.out, device="cpu")
