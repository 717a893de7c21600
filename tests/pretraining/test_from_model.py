"""What a run goes on from: vocabularies that fit or do not, heads that are new, kept or dropped."""

from pathlib import Path

import pytest
import torch
from refusals import refuses
from tiny_models import save_tiny, save_tiny_of, tiny_tokenizer
from tiny_runs import small_corpus

from bertsmith.errors import CheckpointError, ConfigError
from bertsmith.model.loading import load_model
from bertsmith.model.model_folder import read_folder
from bertsmith.pretraining.from_model import (
    adapt,
    check_extends,
    describe_start,
    first_difference,
)
from bertsmith.pretraining.job import PretrainJob
from bertsmith.pretraining.model_settings import ModelSettings
from bertsmith.pretraining.resolve import resolve_unmeasured
from bertsmith.pretraining.settings import PretrainingSettings
from bertsmith.tokenization.added_tokens import AddedToken
from bertsmith.tokenization.wordpiece import WordPieceTokenizer
from bertsmith.training.settings import TrainingSettings
from bertsmith.vocabulary.extend import check_extensible

NEW = ["goods", "##ss", "→"]


def changed(**settings):
    old = tiny_tokenizer()
    return WordPieceTokenizer(old.vocab, **{**old.settings(), **settings})


def extended():
    old = tiny_tokenizer()
    return WordPieceTokenizer([*old.vocab, *NEW], **old.settings())


def continued(place, folder, tokenizer, positions=37, pairs="none"):
    """Adapt a folder's model to a corpus; return it and what is told."""
    corpus = small_corpus(place, tokenizer, ["good films .\ngood", "bad .\nfilm"])
    model = ModelSettings(max_position_embeddings=positions)
    training = TrainingSettings(batch_size=4, eval_rows=4, precision="fp32")
    job = PretrainJob(corpus, model, PretrainingSettings(16, pairs=pairs), training, from_=folder)
    counts = torch.arange(tokenizer.vocab_size)
    config, opened = resolve_unmeasured(job), read_folder(folder)
    found, _, report = adapt(config, opened, tokenizer, lambda: counts)
    return found, list(describe_start({**vars(report)}))


def test_a_vocabulary_stays_as_it_is_or_is_extended(tmp_path):
    folder = save_tiny(tmp_path / "m", "masked_lm")
    before = load_model(folder, heads=["masked_lm"]).state_dict()
    model, (line,) = continued(tmp_path / "same", folder, tiny_tokenizer())
    assert "vocabulary of 20 tokens, 37 positions" in line
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])
    model, lines = continued(tmp_path / "longer", folder, extended(), positions=53)
    old, rows = tiny_tokenizer(), before["embeddings.word.weight"]
    assert "extended   vocabulary from 20 to 23 tokens" in lines[1]
    assert "1 with unknown characters starts" in lines[1]
    assert lines[2].startswith("longer     positions from 37 to 53")
    found = model.embeddings.word.weight
    assert found.shape == (23, 24)
    torch.testing.assert_close(found[20], rows[old.encode_ids("goods")].mean(0))
    torch.testing.assert_close(found[21], rows[old.token_to_id("##s")])
    torch.testing.assert_close(found[22], rows.mean(0))


def test_heads_that_are_missing_begin_and_others_are_dropped(tmp_path):
    folder = save_tiny(tmp_path / "m", "classify", labels=("a", "b", "c"))
    model, lines = continued(tmp_path / "c", folder, tiny_tokenizer(), pairs="next_sentence")
    assert [line.split()[0] for line in lines] == ["from", "new", "new", "dropped"]
    bias = model.heads["masked_lm"].bias
    assert bias[19] > bias[0]  # as often as they are in the corpus


def test_a_corpus_of_another_tokenizer_is_refused_with_the_folder_quoted_once():
    with refuses(ConfigError, "corpus: ", "lowercase is", "--tokenizer 'my model', or with"):
        check_extends(tiny_tokenizer(), changed(lowercase=False), "my model", Path("corpus"))


def test_what_differs_is_named():
    old = tiny_tokenizer()
    assert first_difference(old, changed(strip_accents=True)) is None  # lowering does it anyway
    cased = changed(lowercase=False, strip_accents=True)
    assert first_difference(old, cased) == "lowercase is False instead of True"


def test_added_tokens_become_pieces_only_where_no_word_is_like_them():
    special = [AddedToken(token) for token in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")]
    marked = changed(added_tokens=[*special, AddedToken("<entity>")])
    check_extensible(marked, Path("m"))
    longer = WordPieceTokenizer([*marked.vocab, "x"], **marked.settings())
    assert first_difference(marked, longer) is None
    with refuses(CheckpointError, "m: ", "'entity'"):
        check_extensible(changed(added_tokens=[*special, AddedToken("entity")]), Path("m"))


@pytest.mark.parametrize("family, pooling, noun", [
    ("gpt2", "last_token", "a GPT"), ("recurrent", "max", "an LSTM (or GRU)"),
])  # fmt: skip
def test_a_classifier_of_another_system_is_not_pretrained(tmp_path, family, pooling, noun):
    shape = {"pooling": pooling, "type_vocab_size": 0}
    save_tiny_of(tmp_path / "m", family, ["classify"], labels=["bad", "good"], **shape)
    with refuses(CheckpointError, "m/config.json: ", noun):
        continued(tmp_path / "run", tmp_path / "m", tiny_tokenizer())
