"""BERT, GPT, LSTM, ELMo and T5 on the same text for the same minutes: a page of several corpora.

    bertsmith compare lineage --corpus CORPUS --data DATA --out OUT
    python -m benchmarks.lineage reviews=OUT
    python -m benchmarks.lineage

The second line takes `OUT/comparison.json` into `results/lineage.json` under a name, with the
machine that it runs on, and writes the page, `lineage.md`. The third writes the page anew.
"""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import RESULTS, ROOT, load, machine, table
from bertsmith.comparison.metrics import Metric
from bertsmith.comparison.peak_memory import PEAK_MEMORY_KEY
from bertsmith.config import read_recipe

TARGET = RESULTS / "lineage.json"
PAGE = ROOT / "benchmarks" / "lineage.md"
COSTS = {
    "parameters": "{parameters:,.0f}",
    "million tokens": "{tokens_in_millions:.2f}",
    "tokens a second": "{tokens_per_second:,.0f}",
    "peak memory (MB)": "{megabytes:,.0f}",
}
HEAD = """# The lineage in one table

BERT, a GPT, an LSTM, an ELMo and a T5 of about equal width and depth, trained on the same text with
the same vocabulary for the same minutes: `bertsmith compare lineage`.
[The page about these systems](../docs/lineage.md) explains each.

How to read it:

- Expect T5 to look worst at equal minutes: it learns from the 15 % of its tokens that are missing,
  and has two stacks. This was written before the measurement.
- Bits per byte are those of a missing word, at the same gaps for all. A GPT or LSTM sees the text
  before a gap alone, so its bits are those of the whole text, read from left to right. BERT and T5
  see both sides, and ELMo has a reader for each side: their bits are a *pseudo-likelihood*, which
  is lower for the same knowledge. Compare each with its own kind.
- Scores of tasks are in percent, of the best weights, chosen by these scores, so slightly too high
  for all. Of the reviews of IMDB the first 64 tokens are read. A dash: this system does not learn
  the task.
- Figures are mean ± standard deviation over the seeds. "≈": the difference from BERT is noise
  (an analysis of variance, paired over the seeds, at 95 % for all systems at once).
- Peak memory is that of a process of its own, which trains 20 steps with one thread; the code of
  its libraries counts, too.
- T5 fills gaps hardly better than by token frequencies. What counts here is the first token of a
  gap, and in two minutes it learns from about 240,000 of these: as many tokens as a GPT predicts in
  60 steps. How a gap goes on, it does learn, and with 1,000 reviews that is worth as much as what
  BERT learned. Its initial weights matter: those of the released code suit Adafactor, but not
  AdamW, so a new T5 has others (`bertsmith/lineage/t5.py`). On the reviews, the loss on held-out
  spans is 4.43 after two minutes; with those of the released code it was 4.88, and an accuracy of
  54.3 ± 3.1 % with 1,000 reviews (seed 0; three seeds).
- The rows of 64 tokens are short for reviews. With 256 tokens, and longer reviews in windows, a new
  bidirectional LSTM of the size tiny (`finetune classify --cell lstm --max-length 256`) is right in
  72.7 % of the first 2,000 test reviews of IMDB after 5 epochs of 1,000 reviews, a GRU in 75.6 %,
  and an LSTM in 89.5 % after 2 epochs of all 25,000 (one seed; best weights by these scores).
- Also tried for T5 on the reviews, one run each. The factor of queries without smaller embeddings:
  5.10 after 200 steps. With the factor, smaller embeddings, and relative positions that at first
  prefer neighbours: 4.85 after 200 steps; if also the keys for the source start like the queries, a
  quarter of the tokens is missing, and gaps have one token: gaps at 2.23 bits per byte after 300
  steps, 4.4 % right. Without the factor, with all else but 15 % of the tokens missing, in gaps of
  three: 5.10 after 500 steps of 16 rows (with the weights of the released code 5.16); with half of
  them missing: gaps at 2.24 bits per byte after 300 steps, 3.9 % right.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("reports", nargs="*", metavar="NAME=OUT", help="a corpus and its folder")
    args = parser.parse_args()
    results = load(TARGET)
    for report in args.reports:
        name, _, folder = report.partition("=")
        results[name] = take_report(Path(folder) / "comparison.json")
    TARGET.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.write_text("\n".join(page(results)) + "\n", encoding="utf-8")


def take_report(file: Path) -> dict[str, Any]:
    """Read what the page shows of a comparison, and add the machine."""
    report = json.loads(file.read_text(encoding="utf-8"))
    kept = {name: report[name] for name in ("equal", "figures", "errors")}
    costs = {name: recipe["cost"] for name, recipe in report["recipes"].items()}
    guesses = {
        run["recipe"]: run["guesses"]
        for run in report["runs"]
        if run["seed"] == 0 and "guesses" in run
    }
    return {"machine": machine(), "costs": costs, "guesses": guesses, **kept}


def page(results: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of the page."""
    yield HEAD.rstrip()
    for name, report in results.items():
        yield f"\n## {name[:1].upper()}{name[1:]}\n"
        equal = report["equal"]
        yield (
            f"{equal['budget of each run']} for each run, seeds: {equal['seeds']}. Corpus: "
            f"{equal['corpus'].partition(': ')[2]}. Gaps: {equal['common held-out rows']}. "
            f"{report['machine']}.\n"
        )
        yield from score_tables(report)
        yield "\nThe likeliest words of the models with seed 0, in percent:\n"
        yield from guess_table(report["guesses"])
        yield from (f"\nFailed: {error}" for error in report["errors"])


def score_tables(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield a table of costs and of what was learned without labels, and one of the tasks."""
    names = list(report["costs"])
    metrics = {key: metric_of(key, figure) for key, figure in report["figures"].items()}
    gaps = {key: metrics[key] for key in ("gap_bits_per_byte", "gap_accuracy")}
    tasks = {
        key: metric
        for key, metric in metrics.items()
        if not key.startswith(("gap_", "one_segment_", "two_segments_"))
    }
    rows = [
        (name, *format_costs(report["costs"][name]), *cells(gaps, report, name)) for name in names
    ]
    yield from table(("", *COSTS, *(metric.title for metric in gaps.values())), rows)
    yield ""
    task_rows = [(name, *cells(tasks, report, name)) for name in names]
    yield from table(("", *(metric.title for metric in tasks.values())), task_rows)


def metric_of(key: str, figure: Mapping[str, Any]) -> Metric:
    """Build the metric `key` of a comparison from what comparison.json says of it."""
    values = {name: recipe["values"] for name, recipe in figure["recipes"].items()}
    return Metric(key, figure["title"], values)


def cells(metrics: Mapping[str, Metric], report: Mapping[str, Any], name: str) -> Iterator[str]:
    """Yield the scores of the system `name`, with "≈" where its difference from BERT is noise."""
    for key, metric in metrics.items():
        difference = report["figures"][key]["differences"].get(name)
        has_values = bool(metric.seed_values(name))
        is_noise = has_values and difference and not difference["is_larger_than_noise"]
        yield metric.cell(name) + (" ≈" if is_noise else "")


def format_costs(cost: Mapping[str, float]) -> list[str]:
    """Format what a system cost; dashes if all its runs failed or its memory was not measured."""
    if not cost:
        return ["–"] * len(COSTS)
    values = {
        "parameters": cost["parameters"],
        "tokens_in_millions": cost["tokens"] / 1e6,
        "tokens_per_second": cost["tokens"] / (60 * cost["minutes"]),
        "megabytes": cost.get(PEAK_MEMORY_KEY, 0) / 1e6,
    }
    shown = [text.format(**values) for text in COSTS.values()]
    return shown if PEAK_MEMORY_KEY in cost else [*shown[:-1], "–"]


def guess_table(guesses: Mapping[str, Sequence[Sequence[Mapping[str, Any]]]]) -> list[str]:
    """Format a table of the sentences with a gap, and the likeliest tokens of each system there."""
    sentences = read_recipe(Path("lineage"), kinds=("compare",))["sentences"]
    rows = [
        (
            sentence.replace("[MASK]", "`[MASK]`"),
            *(
                ", ".join(f"{each['token']} {each['percent']:.0f}" for each in of_model[number])
                for of_model in guesses.values()
            ),
        )
        for number, sentence in enumerate(sentences)
    ]
    return table(("", *guesses), rows)


if __name__ == "__main__":
    main()
