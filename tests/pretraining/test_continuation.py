"""What a run goes on from: vocabularies that fit or do not, heads that are new, kept or dropped."""

from pathlib import Path

import pytest
import torch
from tiny_models import tiny_model, tiny_tokenizer

from bertsmith.errors import CheckpointError, ConfigError
from bertsmith.model.loading import load_model
from bertsmith.model.model_folder import read_folder
from bertsmith.model.saving import save_model
from bertsmith.pretraining.from_model import (
    Source,
    describe_start,
    first_difference,
    save_with_pooler,
)
from bertsmith.tokenization.added_tokens import AddedToken
from bertsmith.tokenization.wordpiece import WordPieceTokenizer
from bertsmith.vocabulary.extend import check_extensible

NEW = ["goods", "##ss", "→"]


def changed(**settings):
    old = tiny_tokenizer()
    return WordPieceTokenizer(old.vocab, **{**old.settings(), **settings})


def extended():
    old = tiny_tokenizer()
    return WordPieceTokenizer([*old.vocab, *NEW], **old.settings())


def save(folder, *heads, **changes):
    save_model(tiny_model(*heads, **changes), folder, tiny_tokenizer())
    return folder


def opened(folder, *heads):
    return Source.of(str(folder), read_folder(folder), heads)


def fit(source, tokenizer, positions=37):
    counts = torch.arange(tokenizer.vocab_size)
    report = source.fit(tokenizer, Path("corpus"), lambda: counts, positions)
    return list(describe_start({**vars(report)}))


def test_the_same_vocabulary_changes_nothing(tmp_path):
    source = opened(save(tmp_path / "m", "masked_lm"), "masked_lm")
    before = {name: value.clone() for name, value in source.model.state_dict().items()}
    lines = fit(source, tiny_tokenizer())
    assert len(lines) == 1
    assert "vocabulary of 20 pieces, 37 positions" in lines[0]
    for name, value in source.model.state_dict().items():
        assert torch.equal(value, before[name])


def test_an_extension_is_told_and_made(tmp_path):
    source = opened(save(tmp_path / "m", "masked_lm"), "masked_lm")
    rows = source.model.embeddings.word.weight.clone()
    lines = fit(source, extended(), positions=53)
    old = tiny_tokenizer()
    assert "extended   vocabulary from 20 to 23 pieces" in lines[1]
    assert "1 of unknown characters" in lines[1]
    assert lines[2].startswith("longer     positions from 37 to 53")
    found = source.model.embeddings.word.weight
    assert found.shape == (23, 24)
    torch.testing.assert_close(found[20], rows[old.encode_ids("goods")].mean(0))
    torch.testing.assert_close(found[21], rows[old.token_to_id("##s")])
    torch.testing.assert_close(found[22], rows.mean(0))


def test_heads_that_are_missing_begin_and_others_are_dropped(tmp_path):
    folder = tmp_path / "m"
    save_model(tiny_model("classify", num_labels=3), folder, tiny_tokenizer())
    source = opened(folder, "masked_lm", "next_sentence")
    lines = fit(source, tiny_tokenizer())
    assert [line.split()[0] for line in lines] == ["from", "new", "new", "dropped"]
    assert "masked-LM head, from the word embedding" in lines[1]
    assert "next-sentence head, at random" in lines[2]
    assert "classifier.weight" in lines[3]
    bias = source.model.heads["masked_lm"].bias
    assert bias[19] > bias[0]


def test_a_pooler_that_is_not_trained_is_kept_for_the_folder(tmp_path):
    folder = save(tmp_path / "m", "masked_lm", "next_sentence")
    source = opened(folder, "masked_lm")
    lines = fit(source, tiny_tokenizer())
    assert source.model.pooler is None
    assert lines[1:] == ["dropped    cls.seq_relationship.bias, cls.seq_relationship.weight"]
    save_with_pooler(source.model, source.pooler, tiny_tokenizer(), tmp_path / "again")
    assert source.model.pooler is None
    before, after = (load_model(path, heads=[]) for path in (folder, tmp_path / "again"))
    assert torch.equal(after.pooler.dense.weight, before.pooler.dense.weight)


@pytest.mark.parametrize(
    ("new", "difference"),
    [
        (tiny_tokenizer(), None),
        (extended(), None),
        (changed(strip_accents=True), None),  # that is what lowering the case does anyway
        (changed(lowercase=False, strip_accents=True), "lowercase is False, and True there"),
        (WordPieceTokenizer(tiny_tokenizer().vocab[:-1]), "it has 19 pieces, and 20 there"),
        (
            WordPieceTokenizer([*tiny_tokenizer().vocab[:-1], "!"]),
            "id 19 is '!', and '.' there",
        ),
    ],
)
def test_what_differs_is_named(new, difference):
    assert first_difference(tiny_tokenizer(), new) == difference


def test_another_vocabulary_is_refused_with_the_way_on(tmp_path):
    source = opened(save(tmp_path / "m", "masked_lm"), "masked_lm")
    other = WordPieceTokenizer([*tiny_tokenizer().vocab[:-1], "!"])
    with pytest.raises(ConfigError) as refused:
        fit(source, other)
    for part in ("corpus: its tokenizer", "id 19 is '!'", f"--tokenizer {tmp_path / 'm'}",
                 "bertsmith tokenizer extend --from"):  # fmt: skip
        assert part in str(refused.value)


def test_added_tokens_become_pieces_only_where_no_word_is_like_them():
    special = [AddedToken(token) for token in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")]
    marked = changed(added_tokens=[*special, AddedToken("<entity>")])
    check_extensible(marked, Path("m"))
    assert (
        first_difference(marked, WordPieceTokenizer([*marked.vocab, "x"], **marked.settings()))
        is None
    )
    with pytest.raises(CheckpointError, match="'entity' is a word"):
        check_extensible(changed(added_tokens=[*special, AddedToken("entity")]), Path("m"))
