"""The lines that a pre-training prints at its end: time, tokens, scores, and their baselines."""

from collections.abc import Mapping
from typing import Any

from bertsmith.errors import option
from bertsmith.model.pretraining_catalog import OBJECTIVES, PAIR_TASKS
from bertsmith.pretraining.from_model import describe_start
from bertsmith.pretraining.settings import added_objectives
from bertsmith.system.counts import count_noun, percent
from bertsmith.training.findings import find_plateau
from bertsmith.training.objective import title_of_term

NOTED_SHARE = 0.01
"""Share of the text, from which on a line says that a pair task or word masking cannot use it."""
TERMS_WITH_LINES = ("mlm", "lm", "forward", "backward", "span", "rtd")
"""Loss terms that have lines of their own among the scores. A line of another term comes from its
entry in `PAIR_TASKS` or `OBJECTIVES`."""
UNUSED_SENTENCES = {
    "nsp": "have no next sentence",
    "sop": "teach no order",
    "contrast": "give no pair of rows",
}
"""Consequence of documents of one sentence, by the loss term of the pair task."""


def describe_pretraining(result: Mapping[str, Any]) -> list[str]:
    """Describe the result of `run_pretraining` in lines, warnings included."""
    lines = [
        *describe_start(result.get("source")),
        f"trained    {count_noun(result['steps'], 'step')}, {result['real_tokens']:,} tokens in "
        f"{float(result['elapsed_seconds']) / 60:.1f} minutes "
        f"({result['tokens_per_second']:,.0f} tokens/s, "
        f"waited {percent(result['data_wait_fraction'])})",
        *_describe_text(result),
        *_describe_scores(result),
        f"model      {result['out']}  (with curves.svg and journal.jsonl)",
    ]
    lines += [
        f"note       {finding['evidence']}. {finding['advice']}"
        for finding in result.get("findings", ())
        if finding["severity"] != "info" and finding["code"] != "plateau"
    ]
    if (plateau := find_plateau(result)) is not None:
        lines.append(f"note       {plateau.advice}")
    return lines


def has_trained_generator(result: Mapping[str, Any]) -> bool:
    """Return whether the run trained an ELECTRA, whose generator is a masked LM.

    Its last step has the loss of replaced token detection (rtd). There is no `held_out_rtd_loss`
    if the corpus has no eval split.
    """
    return "rtd_loss" in result


def _describe_text(result: Mapping[str, Any]) -> list[str]:
    """Note how much of the text a pair task or word masking cannot use."""
    lines = []
    if float(result.get("single_sentence_share", 0.0)) > NOTED_SHARE:
        lines += [
            f"note       {percent(result['single_sentence_share'])} of the text is in documents "
            f"of one sentence, which {consequence}"
            for term, consequence in UNUSED_SENTENCES.items()
            if f"{term}_loss" in result
        ]
    if float(result.get("single_character_share", 0.0)) > NOTED_SHARE:
        lines.append(
            f"note       {percent(result['single_character_share'])} of the text are Chinese "
            f"characters, each of them a word here, as neither {option('word_list')} nor "
            f"{option('segmenter')} names longer ones"
        )
    return lines


def _describe_scores(result: Mapping[str, Any]) -> list[str]:
    """Describe the eval scores, a line for each loss term; for a few objectives more than one."""
    lines = []
    before = result.get("before", {})
    if "held_out_mlm_loss" in result:
        lines.append(
            f"eval       masked LM {_figures('mlm', before, result)} "
            f"(token frequency alone: loss {result['held_out_unigram_entropy']:.3f})"
        )
    if "held_out_lm_loss" in result:
        lines.append(
            f"eval       next token {_figures('lm', before, result)}, "
            f"{result['held_out_lm_bits_per_byte']:.3f} bits per byte "
            f"(token frequency alone: loss {result['held_out_unigram_entropy']:.3f})"
        )
    if "held_out_backward_loss" in result:
        lines += _describe_both_ways(before, result)
    if "held_out_span_loss" in result:
        lines.append(f"eval       missing spans {_figures('span', before, result)}")
    # Entries of the user's modules are last in the catalog. If the term of one of them is the term
    # of an earlier entry, such as mlm, the scores of this term stand in the lines already.
    described_terms = set(TERMS_WITH_LINES)
    for task in PAIR_TASKS.values():
        if task.term not in described_terms and f"held_out_{task.term}_loss" in result:
            described_terms.add(task.term)
            chance = "" if task.chance is None else f" (chance {percent(task.chance)})"
            lines.append(f"           {task.title} {_figures(task.term, before, result)}{chance}")
    if "held_out_rtd_loss" in result:
        lines += _describe_detection(before, result)
    for objective in added_objectives():
        entry = OBJECTIVES[objective]
        if entry.term not in described_terms and f"held_out_{entry.term}_loss" in result:
            described_terms.add(entry.term)
            lines.append(f"eval       {entry.title} {_figures(entry.term, before, result)}")
    return lines


def _describe_both_ways(before: Mapping[str, float], after: Mapping[str, float]) -> list[str]:
    forward, backward = (
        f"{title_of_term(name)} {_figures(name, before, after)}, "
        f"perplexity {after[f'held_out_{name}_perplexity']:,.1f}, "
        f"{after[f'held_out_{name}_bits_per_byte']:.3f} bits per byte"
        for name in ("forward", "backward")
    )
    return [
        f"eval       {forward}",
        f"           {backward}",
        f"           mean of both: loss {after['held_out_loss']:.3f}, "
        f"perplexity {after['held_out_perplexity']:,.1f} "
        f"(token frequency alone: loss {after['held_out_unigram_entropy']:.3f})",
    ]


def _describe_detection(before: Mapping[str, float], after: Mapping[str, float]) -> list[str]:
    original = 1 - after["held_out_rtd_replaced"]
    metrics = ("recall", "precision", "auc")
    recall, precision, auc = (after[f"held_out_rtd_{metric}"] for metric in metrics)
    return [
        f"           {title_of_term('rtd')} {_figures('rtd', before, after)} (all called original: "
        f"{percent(original)})",
        f"           recall {percent(recall)}, precision {percent(precision)}, "
        f"area under the ROC curve {auc:.3f}",
    ]


def _figures(term: str, before: Mapping[str, float], after: Mapping[str, float]) -> str:
    """Format eval loss and accuracy; for a continued model, also their values before training."""
    loss, accuracy = f"held_out_{term}_loss", f"held_out_{term}_accuracy"
    if loss not in before:
        return f"loss {after[loss]:.3f}, accuracy {percent(after[accuracy])}"
    return (
        f"loss {before[loss]:.3f} → {after[loss]:.3f}, "
        f"accuracy {100 * before[accuracy]:.1f} → {percent(after[accuracy])}"
    )
