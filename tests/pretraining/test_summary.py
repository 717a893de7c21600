"""The last lines about a pre-training, which the command and Python print alike."""

import pytest

from bertsmith.model.pretraining_catalog import (
    OBJECTIVES,
    PAIR_TASKS,
    ObjectiveEntry,
    PairTaskEntry,
)
from bertsmith.pretraining.summary import describe_pretraining
from bertsmith.training.objective import chances_of_terms, title_of_term

RESULT = {
    "out": "runs/a", "steps": 300, "real_tokens": 9000, "elapsed_seconds": 90.0,
    "tokens_per_second": 100.0, "data_wait_fraction": 0.0, "held_out_unigram_entropy": 6.5,
    "held_out_mlm_loss": 4.25, "held_out_mlm_accuracy": 0.25, "findings": [],
}  # fmt: skip


@pytest.mark.parametrize("loss, is_warned", [(4.25, False), (6.49, True)])
def test_the_score_stands_beside_token_frequencies(loss, is_warned):
    lines = describe_pretraining({**RESULT, "held_out_mlm_loss": loss})
    (scores,) = (line for line in lines if line.startswith("eval "))
    assert f"loss {loss:.3f}" in scores
    assert "token frequency alone: loss 6.500" in scores
    assert any("no better than token frequencies" in line for line in lines) == is_warned


@pytest.mark.parametrize(
    "term, consequence", [("nsp", "no next"), ("sop", "no order"), ("contrast", "no pair")]
)
def test_documents_of_one_sentence_are_told_of_by_their_task(term, consequence):
    lines = describe_pretraining({**RESULT, f"{term}_loss": 0.5, "single_sentence_share": 0.125})
    [note] = (line for line in lines if "of one sentence" in line)
    assert "12.5 %" in note and consequence in note


def test_a_term_that_a_module_of_the_user_uses_again_is_told_once(monkeypatch):
    """A second objective may have the loss term of masked LM; the first entry names the term."""
    added = {"implementation": "focal:FocalLM", "title": "focal"}
    for name in ("focal", "focal again"):
        monkeypatch.setitem(OBJECTIVES, name, ObjectiveEntry(term="mlm", **added))
        monkeypatch.setitem(OBJECTIVES, f"{name} 2", ObjectiveEntry(term="added", **added))
    pairs = PairTaskEntry(term="nsp", has_head=True, chance=0.25, **added)
    monkeypatch.setitem(PAIR_TASKS, "focal pairs", pairs)
    figures = {f"held_out_{term}_{name}": 0.5 for term in ("nsp", "added")
               for name in ("loss", "accuracy")}  # fmt: skip
    lines = describe_pretraining({**RESULT, **figures})
    scores = [line[11:] for line in lines if "accuracy" in line]
    begins = ["masked LM loss 4.250", "next sentence loss 0.500", "focal loss 0.500"]
    assert [score[: len(begin)] for score, begin in zip(scores, begins, strict=True)] == begins
    assert "(chance 50.0 %)" in scores[1]
    assert (title_of_term("mlm"), title_of_term("nsp")) == ("masked LM", "next sentence")
    assert chances_of_terms()["nsp"] == 0.5


def test_a_finding_is_told_with_its_advice():
    finding = {"code": "overfitting", "severity": "warn", "evidence": "rises", "advice": "Stop."}
    assert "note       rises. Stop." in describe_pretraining({**RESULT, "findings": [finding]})
