"""Equal terms: the same rows for all, and a budget that becomes as many steps."""

from tiny_models import tiny_model

from bertsmith.comparison.budget import ComparisonBudget, bert_training_length, count_tokens
from bertsmith.comparison.common_eval import CommonEvaluation
from bertsmith.data.corpus import Corpus
from bertsmith.pretraining.build import build_objective
from bertsmith.pretraining.flops import flops_per_token
from bertsmith.pretraining.job import PretrainJob
from bertsmith.pretraining.model_settings import ModelSettings
from bertsmith.pretraining.resolve import resolve_unmeasured
from bertsmith.pretraining.settings import PretrainingSettings
from bertsmith.training.settings import TrainingSettings


def rows(common_eval):
    common_eval(tiny_model("masked_lm", vocab_size=common_eval.held_out.vocab_size))
    return [batch.input_ids.tolist() for batch in common_eval._batches]


def test_rows_are_a_function_of_the_corpus(corpus_dir):
    held_out = Corpus.open(corpus_dir, "held_out")
    first, again = CommonEvaluation(held_out, 16, 23), CommonEvaluation(held_out, 16, 23)
    assert rows(first) == rows(again)
    assert sum(batch.num_sequences for batch in first._batches) == 23
    assert not any(batch.token_type_ids.any() for batch in first._batches)
    pairs = CommonEvaluation(held_out, 16, 23, paired=True)
    rows(pairs)
    assert all(batch.token_type_ids.any() for batch in pairs._batches)
    assert first(tiny_model("next_sentence")) == {}  # it guesses no words


def test_operations_become_steps_of_either_length(corpus_dir):
    pretraining = PretrainingSettings(max_length=24, start_steps=3, start_length=8)
    training = TrainingSettings(batch_size=6, device="cpu")
    model = ModelSettings("tiny", max_position_embeddings=32)
    job = PretrainJob(corpus_dir, model, pretraining, training)
    config = resolve_unmeasured(job)
    objective = build_objective(config)
    model = objective.new_model(config.model)
    amount = sum(
        flops_per_token(objective, model, 1 if step <= 3 else 4) * count_tokens(objective, step)
        for step in range(1, 12)
    )
    budget = ComparisonBudget(amount, "flops")
    assert bert_training_length(budget, job) == {"minutes": None, "steps": 11}
