"""The page `few-labels.md`, written from the figures of each sample."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.common import spread, table
from benchmarks.few_labels_names import NAMES
from benchmarks.few_labels_sets import MAX_EVAL_TEXTS
from benchmarks.few_labels_ways import AUTO, AUTO_WITH_CORPUS, CALIBRATION, SPEED, WORDS, Figures
from bertsmith.finetuning.best_head import MANY_TO_COMPARE
from bertsmith.finetuning.label_calibration import FEWEST_TO_CALIBRATE
from bertsmith.system.counts import count_noun

FEWEST_SAMPLES = 10
"""Samples that a cell needs to be shown."""
CLOSE = 1.0
"""Points by which a recommended way may stay behind the best one."""
CONDITIONS = (
    "`counted-vectors` (`bertsmith vectors`), `reviews-bert` (BERT-tiny, 4,000 steps of the recipe "
    "quarter-hour) and `reviews-mini` (BERT-mini, as many steps, which take some 15 minutes on two "
    "idle cores of a fast processor) learned from the reviews of IMDB. `reviews-mini-1` has "
    "another seed and 15 minutes, `reviews-mini-2` a third seed and 4,000 steps. "
    "`counted-vectors-zh` learned from 4 MB of the Chinese Wikipedia. `reviews-bert-zh` is a "
    "BERT-tiny like `reviews-bert`, with 12,000 tokens, that learned from these and from the "
    "training texts of ChnSentiCorp that are no eval texts, without labels.",
    "Weights on disk: `counted-vectors` 4.1 MB, `counted-vectors-zh` 6.1 MB, `reviews-bert` 5.9 "
    "MB, `reviews-mini` 21.3 MB, all-MiniLM-L6-v2 90.9 MB. On SST-2, a linear head with 2,000 "
    "labels adds 0.4 MB, one with a corpus and 200 labels 2.7 MB. The mean of three fine-tuned "
    "models has the weights of three.",
    "The corpus beside our models is that of their pre-training: the same reviews, without labels. "
    "For the Chinese models it is the training texts of ChnSentiCorp that are no eval texts, "
    "without labels. It was read once for all ways of a model and a sample, so only the first of "
    "them has seconds.",
    "Six articles have 2,364 training rows, so that their samples of 2,000 labels hardly differ.",
    "TF-IDF counts words and pairs of words, in Chinese characters and their pairs.",
    "The seconds of our heads count loading and saving the model, those of SetFit and model2vec do "
    "not. The texts per second of training on pairs count neither that nor the head.",
    "The expected calibration error is how far the probabilities of answers are from how often "
    "such answers are right.",
    f"With fewer than {MANY_TO_COMPARE} labels `--head auto` goes by a rule. Its figures are then "
    "those of the linear head, or of a contrastive head, which it calibrates from "
    f"{FEWEST_TO_CALIBRATE} labels on. `--minutes` was not given, so the average of fine-tuned "
    "models was not compared.",
    "The rule, the calibration, and the penalty and the share of counts of the linear head were "
    "chosen on other data: further samples of SST-2 and five genres, scored by other rows, and "
    "sets made of other public files "
    "([how](results/few-labels.md#which-penalty-for-few-texts)). Earlier figures of the table were "
    "a reason to look at them, but chose no value.",
    "The heads of `reviews-mini-1` and `reviews-mini-2` with a corpus were measured before such a "
    "head had a share of counts. Those of `reviews-mini` were measured again since, with a model "
    "that was pre-trained again.",
    "SetFit with its defaults compares each text with each other one. With 200 labels that takes "
    "1,267 steps of 16 pairs, some 23 minutes of a core. With 2,000 labels these would be two "
    "million pairs, some 36 hours at its pace with 64 labels. So there it draws five pairs of "
    "either kind for each text (`--iterations 5`), which is 1,250 steps. So that ten samples took "
    "less time, its encoder learned in bfloat16 (`torch.autocast`) where the row says so; ours "
    "does on this processor without being asked. It was tried without bfloat16, too, on the first "
    "sample alone: 80.3 % in place of 80.2 % with 200 labels, and 82.3 % as well with 2,000.",
    "The samples that were added last have no seconds, since other programs kept both cores "
    "busy. Those of SetFit and of `reviews-bert-zh`, with one thread, and of CoNLL have some, "
    "which are longer than on idle cores.",
)
"""What a reader of the page must know of the models and of the measurement."""
NAMES_NOTE = (
    "F1 of the names in percent. A label is a sentence here, whose every word is labelled. TF-IDF, "
    "SetFit, and the linear and contrastive head are for whole texts and label no words."
)
BySeed = Mapping[int, Figures]
"""The figures of a way by its sample."""
ByCount = dict[int, dict[str, dict[int, Figures]]]
"""The figures of a set by number of labels, way and sample."""


def page(results: Mapping[str, Any], fewest_samples: int = FEWEST_SAMPLES) -> Iterator[str]:
    """Yield the lines of the page.

    Args:
        fewest_samples: cells with fewer samples are left out.
    """
    yield "# Few labels"
    yield ""
    yield (
        "What reaches how much with 16 to 2,000 labels? A cell has the accuracy in percent, as the "
        "mean ± standard deviation over samples of labels, in square brackets the number of "
        "samples where it is not that of the title, and in round ones the median of the seconds of "
        f"training, those of all cores together. It is empty if there are fewer than "
        f"{fewest_samples} samples, which [the file of all samples](results/few-labels.json) has. "
        "All ways learn from the same rows, and nothing is chosen by the rows that score, at most "
        f"{MAX_EVAL_TEXTS:,}. The last two sections say what the models are, how it was measured, "
        "and by which commands."
    )
    figures = by_set(results, fewest_samples)
    for name, by_count in figures.items():
        counts = sorted(by_count)
        ways = list(dict.fromkeys(way for count in counts for way in by_count[count]))
        samples = Counter(len(runs) for by_way in by_count.values() for runs in by_way.values())
        usual = max(samples, key=lambda number: (samples[number], number))
        yield ""
        yield f"## {name}, {count_noun(usual, 'sample')}"
        yield ""
        if name == NAMES:
            yield NAMES_NOTE
            yield ""
        rows = [[way, *(cell(by_count[count].get(way, {}), usual) for count in counts)]
                for way in sorted(ways)]  # fmt: skip
        unit = "sentences" if name == NAMES else "labels"
        yield from table(["", *(f"{count:,} {unit}" for count in counts)], rows)
        yield from speeds(by_count)
        yield from calibration_errors(by_count)
    yield from recommendations(figures)
    yield from measurement(results)


def measurement(results: Mapping[str, Any]) -> Iterator[str]:
    """Yield the sections on the models, the conditions and the commands."""
    yield ""
    yield "## How it was measured"
    yield ""
    yield from (f"- {line}" for line in CONDITIONS)
    yield (
        f"- Processor and versions: {results['machine']}. Other programs used the cores at the "
        "same time."
    )
    yield ""
    yield "## Commands"
    yield ""
    yield "```"
    for command in longest_calls(results["commands"]):
        yield f"python -m benchmarks.few_labels --work DIR {command}"
    yield "```"


def longest_calls(commands: Sequence[str]) -> list[str]:
    """Leave out a command if another differs from it only in that it has more samples.

    A command that was stopped was often begun again with more samples, and then measured the rest.
    """
    most_samples: dict[str, int] = {}
    for command in commands:
        call, _, samples = command.rpartition(" --samples ")
        most_samples[call] = max(most_samples.get(call, 0), int(samples))
    return [f"{call} --samples {samples}".lstrip() for call, samples in most_samples.items()]


def merge(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge the figures of several folders, measured on one machine."""
    commands = dict.fromkeys(command for part in parts for command in part["commands"])
    return {key: value for part in parts for key, value in part.items()} | {"commands": [*commands]}


def by_set(results: Mapping[str, Any], fewest_samples: int) -> dict[str, ByCount]:
    """Arrange the figures by set, number of labels, way and sample.

    A way is left out for a number of labels for which it has fewer than `fewest_samples`.
    """
    figures: dict[str, ByCount] = {}
    for key, values in results.items():
        if " | " in key:  # the other keys are those of the machine and the commands
            name, count, way, seed = key.split(" | ")
            of_count = figures.setdefault(name, {}).setdefault(int(count), {})
            of_count.setdefault(way, {})[int(seed)] = values
    return {
        name: {
            count: {way: runs for way, runs in by_way.items() if len(runs) >= fewest_samples}
            for count, by_way in by_count.items()
        }
        for name, by_count in figures.items()
    }


def speeds(by_count: ByCount) -> Iterator[str]:
    """Yield a table of the texts that ways learn from, in pairs, in a second of one core."""
    medians = {
        count: {
            way: f"{np.median(values):,.1f}" for way, values in values_by_way(by_way, SPEED).items()
        }
        for count, by_way in by_count.items()
    }
    comparable = {count: cells for count, cells in medians.items() if len(cells) > 1}
    if comparable:
        yield from detail("Texts per second of a core in training on pairs", comparable)


def calibration_errors(by_count: ByCount) -> Iterator[str]:
    """Yield a table of how far the probabilities of each way are from the truth."""
    errors = {
        count: {
            way: spread(100 * error for error in values)
            for way, values in values_by_way(by_way, CALIBRATION).items()
        }
        for count, by_way in by_count.items()
    }
    if any(errors.values()):
        yield from detail("Expected calibration error in percent", errors)


def values_by_way(by_way: Mapping[str, BySeed], figure: str) -> dict[str, list[float]]:
    """Return the values of one figure by way; `--head auto` has those of the head that it takes."""
    values = {
        way: [run[figure] for run in by_seed.values() if figure in run]
        for way, by_seed in by_way.items()
        if AUTO not in way
    }
    return {way: of_way for way, of_way in values.items() if of_way}


def detail(title: str, cells: Mapping[int, Mapping[str, str]]) -> Iterator[str]:
    """Yield a table of a set below its main one, with a row for each way.

    Args:
        cells: by number of labels and way.
    """
    counts = sorted(count for count in cells if cells[count])
    ways = sorted({way for count in counts for way in cells[count]})
    yield ""
    yield f"### {title}"
    yield ""
    rows = [[way, *(cells[count].get(way, "") for count in counts)] for way in ways]
    yield from table(["", *(f"{count:,} labels" for count in counts)], rows)


def recommendations(figures: Mapping[str, ByCount]) -> Iterator[str]:
    """Yield a table of what `--head auto` takes, and how far it stays behind the best way."""
    rows: list[list[str]] = []
    leads_alone: list[float] = []
    leads_as_recommended: list[float] = []
    for name, by_count in figures.items():
        for count, runs in sorted(by_count.items()):
            models = {way.rpartition(", ")[0] for way in runs if way.endswith(AUTO)}
            for model in sorted(models):
                for kind in (AUTO, AUTO_WITH_CORPUS):
                    if (way := f"{model}, {kind}") not in runs:
                        continue
                    best = best_beside(way, model, runs)
                    behind = lead(runs[best], runs[way])
                    chosen = Counter(run["chosen"] for run in runs[way].values())
                    rows.append(
                        [
                            name,
                            f"{count:,}",
                            model,
                            "yes" if kind == AUTO_WITH_CORPUS else "",
                            ", ".join(f"{head} {number}" for head, number in chosen.most_common()),
                            spread(100 * run["accuracy"] for run in runs[way].values()),
                            best.removeprefix(f"{model}, "),
                            f"{round(behind, 1) + 0:.1f}",
                        ]
                    )
                    if kind == AUTO:
                        leads_alone.append(behind)
                leads_as_recommended.append(behind)  # with a corpus, if there is one
    if rows:
        yield ""
        yield "## Is `--head auto` right?"
        yield ""
        yield (
            "The recommended way is `--head auto`, with `--corpus` if there are texts of the set's "
            "kind without labels: the reviews of IMDB for SST-2 and IMDB, the other reviews of "
            f"ChnSentiCorp for that set. In {num_close(leads_as_recommended)} of "
            f"{len(leads_as_recommended)} cases it stays at most {CLOSE:g} point behind the best "
            "way of the model, with or without the corpus, or TF-IDF, over the samples that both "
            "have. Where no corpus is taken, none counts for the best way, either: so "
            f"`--head auto` stays at most {CLOSE:g} point behind in {num_close(leads_alone)} of "
            f"{len(leads_alone)} cases."
        )
        yield ""
        titles = ["set", "labels", "model", "corpus", "it takes (samples)", "accuracy", "best way"]
        yield from table([*titles, "behind it"], rows)


def best_beside(way: str, model: str, runs: Mapping[str, BySeed]) -> str:
    """Return the best way of a model or TF-IDF, over the samples that it shares with `way`.

    A way with a corpus has more texts, so it is left out if `way` has none.
    """
    others = [each for each in runs if each == WORDS or each.startswith(f"{model}, ")]
    if not way.endswith(AUTO_WITH_CORPUS):
        others = [each for each in others if "corpus" not in each]
    return max(others, key=lambda other: lead(runs[other], runs[way]))


def num_close(leads: Sequence[float]) -> int:
    """Count the leads of the best way that are at most `CLOSE`."""
    return sum(each <= CLOSE for each in leads)


def lead(runs: BySeed, others: BySeed) -> float:
    """Return by how many points `runs` lead `others` in the mean of the samples of both."""
    shared = sorted(runs.keys() & others.keys())
    if not shared:  # below every real lead, so that these runs are never the best
        return -100.0
    return 100 * float(np.mean([runs[each]["accuracy"] - others[each]["accuracy"]
                                for each in shared]))  # fmt: skip


def cell(runs: BySeed, usual: int) -> str:
    """Format the scores of a way and its seconds."""
    if not runs:
        return ""
    number = "" if len(runs) == usual else f" [{len(runs)}]"
    used = [run["core_seconds"] for run in runs.values() if "core_seconds" in run]
    seconds = f" ({np.median(used):.1f} s)" if used else ""
    scores = (100 * run.get("f1", run.get("accuracy", 0.0)) for run in runs.values())
    return f"{spread(scores)}{number}{seconds}"
