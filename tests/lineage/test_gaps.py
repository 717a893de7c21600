"""Each system predicts a missing token from what it sees; alone or among others the same."""

import numpy as np
import pytest
import torch
from refusals import refuses
from tiny_models import save_tiny, tiny_model
from tiny_tokenizers import tiny_wordpiece

from bertsmith.data.batches import pack
from bertsmith.errors import ConfigError
from bertsmith.evaluation.minimal_pairs import load_pair_scorer
from bertsmith.lineage.elmo import Elmo, ElmoConfig
from bertsmith.lineage.gaps import Gap, gap_log_probs
from bertsmith.lineage.gpt import Gpt, GptConfig
from bertsmith.lineage.recurrent import RecurrentConfig, RecurrentLanguageModel
from bertsmith.lineage.sentence_scores import BidirectionalScorer, LeftToRightScorer
from bertsmith.lineage.source_target import SourceTarget
from bertsmith.lineage.span_corruption import NUM_SENTINELS
from bertsmith.lineage.t5 import T5, T5Config
from bertsmith.lineage.text_generation import TextGenerator
from bertsmith.tasks.pair_scores import MinimalPair

TEXT = "the river runs to the sea and the rain falls"


@pytest.fixture(scope="module")
def tokenizer():
    return tiny_wordpiece()


@pytest.fixture(scope="module")
def systems(tokenizer):
    torch.manual_seed(0)
    size = tokenizer.vocab_size
    ids = {
        "bos_token_id": tokenizer.cls_id,
        "eos_token_id": tokenizer.sep_id,
        "pad_token_id": tokenizer.pad_id,
    }
    gpt = GptConfig(
        size, n_embd=36, n_layer=2, n_head=3, n_positions=41, initializer_range=0.3, **ids
    )
    t5 = T5Config(
        vocab_size=size + NUM_SENTINELS, d_model=36, d_kv=12, d_ff=72, num_layers=2,
        num_decoder_layers=2, num_heads=3, pad_token_id=tokenizer.pad_id,
        eos_token_id=tokenizer.sep_id, decoder_start_token_id=tokenizer.pad_id,
    )  # fmt: skip
    elmo = Elmo(
        ElmoConfig(size, 36, 2, 36, filters=((1, 11), (2, 13)), character_size=5, **ids)
    ).eval()
    elmo.set_characters(tokenizer)
    return {
        "elmo": elmo,
        "gpt": Gpt(gpt).eval(),
        "lstm": RecurrentLanguageModel(RecurrentConfig(size, 36, 2, "lstm", **ids)).eval(),
        "t5": T5(t5).eval(),
        "bert": tiny_model("masked_lm", vocab_size=size, max_position_embeddings=41).eval(),
    }


def gaps_of(ids):
    """Leave out each token in turn."""
    return [
        Gap(tuple(ids[:place]), tuple(ids[place + 1 :]), token) for place, token in enumerate(ids)
    ]


@torch.inference_mode()
def log_probs(model, tokenizer, gaps):
    return torch.cat(list(gap_log_probs(model, tokenizer, gaps)))


def score(model, tokenizer, text):
    """Sum the log-probabilities of all tokens of a text, each missing in turn."""
    gaps = gaps_of(tokenizer.encode_ids(text))
    rows = log_probs(model, tokenizer, gaps)
    return float(sum(row[gap.missing] for row, gap in zip(rows, gaps, strict=True)))


@pytest.mark.parametrize("name", ["gpt", "lstm", "elmo", "t5", "bert"])
def test_a_gap_is_predicted_alone_as_among_others(systems, tokenizer, name):
    gaps = gaps_of(tokenizer.encode_ids(TEXT))
    together = log_probs(systems[name], tokenizer, gaps)
    for gap, row in zip(gaps, together, strict=True):
        alone = log_probs(systems[name], tokenizer, [gap])
        torch.testing.assert_close(alone[0], row, atol=1e-5, rtol=0)
    torch.testing.assert_close(together.exp().sum(-1), torch.ones(len(gaps)))


@pytest.mark.parametrize("name", ["gpt", "lstm"])
def test_left_to_right_the_sum_is_the_log_likelihood(systems, tokenizer, name):
    scorer = LeftToRightScorer(TextGenerator(systems[name], tokenizer))
    (expected,) = scorer.predict([MinimalPair(TEXT, "the sea")])
    assert score(systems[name], tokenizer, TEXT) == pytest.approx(expected.good, abs=1e-3)


@pytest.mark.parametrize("name", ["gpt", "lstm", "elmo"])
def test_sentences_that_differ_after_the_cut_are_a_tie(systems, tokenizer, name):
    max_length = 1 + len(tokenizer.encode_ids("the river runs"))
    if name == "elmo":
        scorer = BidirectionalScorer(systems[name], tokenizer, max_length + 1)  # it reads [SEP]
    else:
        scorer = LeftToRightScorer(TextGenerator(systems[name], tokenizer), max_length)
    cut, whole = scorer.predict([
        MinimalPair("the river runs down to the sea", "the river runs"),
        MinimalPair("the river runs", "the river runs"),
    ])  # fmt: skip
    assert cut.answer == "tie" and cut.is_identical and cut.is_truncated
    assert whole.is_identical and not whole.is_truncated
    assert scorer.num_tokens == 4 * max_length


def test_of_elmo_a_gap_has_the_mean_of_both_readers(systems, tokenizer):
    # The means of all gaps sum to the mean of both sums.
    elmo, ids = systems["elmo"], tokenizer.encode_ids(TEXT)
    (expected,) = BidirectionalScorer(elmo, tokenizer).predict([MinimalPair(TEXT, "the sea")])
    row = np.array([tokenizer.cls_id, *ids, tokenizer.sep_id])
    with torch.inference_mode():
        forward, backward = elmo.encode(pack([row]))
        left = elmo.compute_logits(forward[:-2]).log_softmax(-1)
        right = elmo.compute_logits(backward[2:]).log_softmax(-1)
    places = range(len(ids))
    assert float((left[places, ids] + right[places, ids]).sum()) / 2 == pytest.approx(
        expected.good, abs=1e-3
    )
    rows = log_probs(elmo, tokenizer, gaps_of(ids))
    torch.testing.assert_close(rows, ((left + right) / 2).log_softmax(-1), atol=1e-5, rtol=0)


def test_of_bert_the_sum_is_the_pseudo_log_likelihood(tmp_path):
    folder = save_tiny(tmp_path / "m", "masked_lm")
    scorer = load_pair_scorer(folder, device="cpu", precision="fp32")
    loaded = scorer.loaded
    text = "good film"
    (expected,) = scorer.predict([MinimalPair(text, "bad film")])
    assert score(loaded.model, loaded.tokenizer, text) == pytest.approx(expected.good, abs=1e-3)


def test_t5_predicts_what_follows_the_first_sentinel(systems, tokenizer):
    model, ids = systems["t5"], tokenizer.encode_ids(TEXT)
    sentinel = tokenizer.vocab_size + NUM_SENTINELS - 1
    (row,) = log_probs(model, tokenizer, [Gap(tuple(ids[:3]), tuple(ids[4:]))])
    batch = SourceTarget.of(
        [[*ids[:3], sentinel, *ids[4:], tokenizer.sep_id]],
        [[sentinel, ids[3], tokenizer.sep_id]],
        tokenizer.pad_id,
    )
    with torch.inference_mode():
        logits = model.compute_logits(model.decode(batch))
    torch.testing.assert_close(row, logits[1].log_softmax(-1), atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("name", "sees_the_right"),
    [("gpt", False), ("lstm", False), ("elmo", True), ("t5", True), ("bert", True)],
)
def test_which_sides_a_system_sees(systems, tokenizer, name, sees_the_right):
    ids = tokenizer.encode_ids(TEXT)
    before, after = tuple(ids[:4]), tuple(ids[5:])
    first, right, left = log_probs(
        systems[name],
        tokenizer,
        [Gap(before, after), Gap(before, after[::-1]), Gap(before[::-1], after)],
    )
    assert (not torch.allclose(first, right, atol=1e-5)) == sees_the_right
    assert not torch.allclose(first, left, atol=1e-5)


def test_a_model_that_predicts_no_tokens_is_refused(tokenizer):
    with refuses(ConfigError, "predicts no tokens"):
        log_probs(tiny_model("next_sentence"), tokenizer, [Gap((5,), (6,))])


def test_a_t5_without_sentinels_is_refused(tokenizer):
    size = tokenizer.vocab_size
    model = T5(T5Config(vocab_size=size, d_model=36, d_kv=12, d_ff=72, num_layers=1, num_heads=3))
    with refuses(ConfigError, f"{size} tokens", "no sentinels", "pretrain t5"):
        log_probs(model, tokenizer, [Gap((5,), (6,))])
