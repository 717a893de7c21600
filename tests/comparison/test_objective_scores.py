"""Which metrics of a pre-training are scores of `compare`."""

from bertsmith.comparison.runs import objective_scores


def test_scores_that_common_rows_or_gaps_replace_are_left_out():
    held_out = {
        "held_out_loss": 3.0,
        "held_out_mlm_accuracy": 0.4,
        "held_out_common_mlm_accuracy": 0.3,
        "held_out_nsp_accuracy": 0.9,
        "held_out_rtd_accuracy": 0.8,
        "held_out_rtd_auc": 0.7,
        "held_out_span_accuracy": 0.6,
    }
    assert objective_scores(held_out) == {"nsp_accuracy": 0.9, "rtd_auc": 0.7}


def test_the_score_of_an_objective_of_ones_own_stays_whatever_its_name_begins_with():
    held_out = {"held_out_span_order_accuracy": 0.9, "held_out_mlm_next_accuracy": 0.8}
    assert objective_scores(held_out) == {"span_order_accuracy": 0.9, "mlm_next_accuracy": 0.8}
