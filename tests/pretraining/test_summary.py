"""The last lines about a pre-training, which the command and Python print alike."""

import pytest

from bertsmith.pretraining.summary import describe_pretraining

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


def test_a_finding_is_told_with_its_advice():
    finding = {"code": "overfitting", "severity": "warn", "evidence": "rises", "advice": "Stop."}
    assert "note       rises. Stop." in describe_pretraining({**RESULT, "findings": [finding]})
