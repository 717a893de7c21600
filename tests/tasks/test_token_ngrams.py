"""TF-IDF of tokens and pairs of tokens, beside scikit-learn's."""

import numpy as np
import pytest
from tiny_models import BAD, GOOD, OTHER, tiny_tokenizer

from bertsmith.data.encoded_examples import EncodedExamples
from bertsmith.data.encoded_texts import encode_texts
from bertsmith.data.windowing import Windowing
from bertsmith.data.windows import encode_windowed
from bertsmith.tasks.token_ngrams import TokenNgrams


def encode(texts, length=37):
    rows = encode_texts(tiny_tokenizer(), ((text, None) for text in texts), length)
    return EncodedExamples.of_texts(rows)


def random_texts(count, seed=0, most=12):
    rng = np.random.default_rng(seed)
    words = [*GOOD, *BAD, *OTHER[:7]]
    return [" ".join(rng.choice(words, rng.integers(0, most))) for _ in range(count)]


def fit(encoded, max_ngrams=10_000):
    tokenizer = tiny_tokenizer()
    return TokenNgrams.fit(encoded, tokenizer.vocab_size, tokenizer.special_ids, max_ngrams)


def dense(rows):
    matrix = np.zeros((len(rows), rows.num_columns), np.float32)
    for row in range(len(rows)):
        entries = slice(rows.starts[row], rows.starts[row + 1])
        assert (np.diff(rows.columns[entries]) > 0).all()
        matrix[row, rows.columns[entries]] = rows.values[entries]
    return matrix


def test_values_are_those_of_scikit_learn():
    text = pytest.importorskip("sklearn.feature_extraction.text")
    train, others = random_texts(40), random_texts(20, seed=1)
    vectorizer = text.TfidfVectorizer(
        ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"[^ ]+", lowercase=False
    )
    expected = vectorizer.fit_transform(train).toarray()
    ngrams = fit(encode(train))
    assert len(ngrams) == expected.shape[1]
    tokenizer = tiny_tokenizer()
    names = []
    for key in ngrams.keys.tolist():
        ids = [key] if key < tokenizer.vocab_size else list(divmod(key, tokenizer.vocab_size))
        if len(ids) == 2:
            ids[0] -= 1
        names.append(" ".join(tokenizer.id_to_token(number) for number in ids))
    order = [vectorizer.vocabulary_[name] for name in names]
    np.testing.assert_allclose(
        dense(ngrams.transform(encode(train))), expected[:, order], atol=1e-6
    )
    actual = dense(ngrams.transform(encode(others)))
    np.testing.assert_allclose(actual, vectorizer.transform(others).toarray()[:, order], atol=1e-6)


def test_only_neighbours_within_a_row_are_pairs_and_special_tokens_do_not_count():
    tokenizer = tiny_tokenizer()
    good, film = tokenizer.encode_ids("good film")
    pair = (good + 1) * tokenizer.vocab_size + film
    assert fit(encode(["good film"])).keys.tolist() == sorted([good, film, pair])
    assert fit(encode(["good", "film"])).keys.tolist() == sorted([good, film])
    two_parts = encode_texts(tokenizer, [("good", "film")], 37)
    ngrams = fit(EncodedExamples.of_texts(two_parts))
    assert ngrams.keys.tolist() == sorted([good, film])


def test_windows_of_a_text_are_one_row():
    texts = ["good film " * 20, "dull"]
    encoded = encode_windowed(
        tiny_tokenizer(), ((text, None) for text in texts), 16, Windowing("window", 4)
    )
    assert len(encoded.rows) > len(encoded) == 2
    rows = fit(encoded).transform(encoded)
    assert len(rows) == 2
    np.testing.assert_allclose(np.square(dense(rows)).sum(1), 1, atol=1e-6)


def test_texts_without_known_ngrams_are_empty_rows():
    ngrams = fit(encode(["good film", "good"]))
    rows = ngrams.transform(encode(["", "dull story", "good"]))
    assert np.diff(rows.starts).tolist() == [0, 0, 1]
    weights = np.arange(2 * len(ngrams), dtype=np.float32).reshape(-1, 2)
    np.testing.assert_allclose(rows.multiply(weights), dense(rows) @ weights)
    nothing = fit(encode(["", ""]))
    assert len(nothing) == 0 and len(nothing.transform(encode(["good"])).values) == 0


def test_of_too_many_ngrams_the_frequent_ones_stay():
    texts = ["good film", "good story", "good film was", "awful"]
    every, few = fit(encode(texts)), fit(encode(texts), 3)
    tokenizer = tiny_tokenizer()
    good, film = tokenizer.encode_ids("good film")
    assert len(few) == 3 < len(every)
    assert {good, film} <= set(few.keys.tolist())
    assert few.keys.tolist() == sorted(few.keys.tolist())


def test_products_are_those_of_the_matrix():
    rows = fit(encode(random_texts(30))).transform(encode(random_texts(30, seed=2)))
    weights = np.random.default_rng(0).normal(size=(rows.num_columns, 3)).astype(np.float32)
    np.testing.assert_allclose(rows.multiply(weights), dense(rows) @ weights, atol=1e-6)
