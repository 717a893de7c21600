"""The road in Chinese: plain text → vocabulary → pre-training → names and answers in Chinese.

`own_texts.py zhwiki` makes the model, from 4 MB of Wikipedia in a quarter of an hour; reviews with
few labels are its task. Here the same model learns names (MSRA, 10,000 sentences) and answers in
passages (1,000 questions of CMRC 2018's development set, scored on the 1,002 of its trial set),
beside the same model from scratch. Nothing is chosen by what is scored: the last figures of the
journal count. Runs that are done are kept in the folder.

    python -m benchmarks.chinese --work runs/own-texts/zhwiki    # with the model in there, if any

Writes `benchmarks/results/chinese.md`.
"""

import argparse
import json
import platform
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.own_texts import DATA, HERE, ROADS, bertsmith, mean_sd, prepare
from bertsmith.training.journal import read_journal

LEARNING_RATE = 5e-4
SEEDS = (0, 1, 2)
SYSTEMS = {"pre-trained": (), "from scratch": ("--from-scratch",)}


@dataclass(frozen=True)
class Case:
    """A task, its files below the data folder, how it is learnt, and which figures count."""

    title: str
    train: str
    eval: str
    flags: tuple[object, ...]
    figures: dict[str, str]


CASES = {
    "tag": Case(
        "names: MSRA, 10,000 sentences, scored on 4,631",
        "msra_ner/train.txt.xz",
        "msra_ner/dev.txt",
        ("--limit", 10_000, "--epochs", 3),
        {"f1": "F1", "accuracy": "characters right"},
    ),
    "answer": Case(
        "answers: CMRC 2018, 1,000 questions, scored on 1,002",
        "cmrc2018/dev.json.xz",
        "cmrc2018/trial.json.xz",
        ("--limit", 1_000, "--epochs", 2),
        {"f1": "F1", "exact_match": "exact match"},
    ),
}


def main() -> None:
    """Pre-train where there is no model yet, learn each task, write the table after each run."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--work", type=Path, required=True, help="folder for what is learnt")
    parser.add_argument("--minutes", type=float, default=15.0)
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    if not (args.work / "model" / "config.json").exists():
        prepare(args, ROADS["zhwiki"])
    target = args.work / "scores.json"
    found = json.loads(target.read_text(encoding="utf-8")) if target.exists() else {}
    for task in CASES:
        for seed in SEEDS:
            for system in SYSTEMS:
                key = f"{task}/{system}/{seed}"
                if key not in found:
                    found[key] = learn(args, task, system, seed)
                    target.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
                    report(args, found)


def learn(args: argparse.Namespace, task: str, system: str, seed: int) -> dict[str, float]:
    """The scores of a run after its last epoch, in percent."""
    case, out = CASES[task], args.work / "finetuned"
    bertsmith("finetune", task, "--model", args.work / "model", "--train", args.data / case.train,
              "--eval", args.data / case.eval, "--out", out, "--seed", seed,
              "--learning-rate", LEARNING_RATE, *case.flags, *SYSTEMS[system])  # fmt: skip
    last: dict[str, float] = {}
    for entry in read_journal(out / "journal.jsonl"):
        last |= entry
    return {name: 100 * last[f"held_out_{task}_{name}"] for name in case.figures}


def report(args: argparse.Namespace, found: dict[str, dict[str, float]]) -> None:
    """Write the table."""
    import torch

    summary = json.loads((args.work / "model" / "run.json").read_text(encoding="utf-8"))["summary"]
    lines = [
        "# The road in Chinese",
        "",
        f"`python -m benchmarks.chinese --work DIR`, {time.strftime('%Y-%m-%d')}, "
        f"{platform.machine()}, {torch.get_num_threads()} threads, torch {torch.__version__}, "
        f"Python {platform.python_version()}.",
        "",
        f"BERT-tiny, pre-trained on `{ROADS['zhwiki'].text}` for {summary['steps']:,} steps, "
        f"{summary['real_tokens']:,} tokens: of the hidden held-out words "
        f"{100 * summary['held_out']['held_out_mlm_accuracy']:.1f} % right. Learning rate "
        f"{LEARNING_RATE:g} for both; mean ± standard deviation over seeds, after the last epoch.",
        "",
        "| task | system | seeds | score | |",
        "|---|---|---|---|---|",
    ]
    for task, case in CASES.items():
        for system in SYSTEMS:
            runs = [run for key, run in found.items() if key.startswith(f"{task}/{system}/")]
            for name, title in case.figures.items() if runs else ():
                scores = mean_sd([run[name] for run in runs])
                lines.append(f"| {case.title} | {system} | {len(runs)} | {title} | {scores} |")
    (HERE / "results" / "chinese.md").write_text("\n".join([*lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
