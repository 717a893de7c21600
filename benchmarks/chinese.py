"""The road in Chinese: plain text → vocabulary → pre-training → names and answers in Chinese.

`own_texts.py zhwiki` makes the model, from 4 MB of Wikipedia in a quarter of an hour; reviews with
few labels are its task. Here the same model learns names (MSRA, 10,000 sentences) and answers in
passages (the 3,219 questions of CMRC 2018's development set, scored on the 1,002 of its trial set),
beside the same model from scratch. Nothing is chosen by what is scored: the last figures of the
journal count.

    python -m benchmarks.chinese --work runs/own-texts/zhwiki    # with the model in there, if any

Writes `benchmarks/results/chinese.md`.
"""

import argparse
import json
import platform
import time
from pathlib import Path

from benchmarks.own_texts import DATA, HERE, ROADS, bertsmith, mean_sd, prepare
from bertsmith.training.journal import read_journal

SEEDS = (0, 1, 2)
SYSTEMS = {"pre-trained": (), "from scratch": ("--from-scratch",)}
TASKS = {
    "names: MSRA, 10,000 sentences, scored on 4,631": (
        "tag",
        "msra_ner/train.txt.xz",
        "msra_ner/dev.txt",
        ("--limit", 10_000, "--epochs", 3, "--learning-rate", 5e-4),
        {"F1": "held_out_tag_f1", "token accuracy": "held_out_tag_accuracy"},
    ),
    "answers: CMRC 2018, 3,219 questions, scored on 1,002": (
        "answer",
        "cmrc2018/dev.json.xz",
        "cmrc2018/trial.json.xz",
        ("--epochs", 3, "--learning-rate", 5e-4),
        {"exact match": "held_out_answer_exact_match", "F1": "held_out_answer_f1"},
    ),
}


def main() -> None:
    """Pre-train where there is no model yet, learn each task, write the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--work", type=Path, required=True, help="folder for what is learnt")
    parser.add_argument("--minutes", type=float, default=15.0)
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    if not (args.work / "model" / "config.json").exists():
        prepare(args, ROADS["zhwiki"])
    rows = [
        (title, system, figure, scores)
        for title in TASKS
        for system in SYSTEMS
        for figure, scores in learn(args, title, system).items()
    ]
    report(args, rows)


def learn(args: argparse.Namespace, title: str, system: str) -> dict[str, list[float]]:
    """The scores of a task over the seeds, in percent."""
    task, train, dev, flags, figures = TASKS[title]
    scores: dict[str, list[float]] = {name: [] for name in figures}
    for seed in SEEDS:
        out = args.work / "finetuned"
        bertsmith("finetune", task, "--model", args.work / "model", "--train", args.data / train,
                  "--eval", args.data / dev, "--out", out, "--seed", seed,
                  *flags, *SYSTEMS[system])  # fmt: skip
        entries = read_journal(out / "journal.jsonl")
        for name, key in figures.items():
            scores[name].append(100 * [entry[key] for entry in entries if key in entry][-1])
    return scores


def report(args: argparse.Namespace, rows: list[tuple[str, str, str, list[float]]]) -> None:
    """Write the table and print it."""
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
        f"{100 * summary['held_out']['held_out_mlm_accuracy']:.1f} % right. Mean ± standard "
        f"deviation over {len(SEEDS)} seeds, after the last epoch.",
        "",
        "| task | system | score | |",
        "|---|---|---|---|",
        *(f"| {title} | {name} | {figure} | {mean_sd(s)} |" for title, name, figure, s in rows),
        "",
    ]
    (HERE / "results" / "chinese.md").write_text("\n".join(lines), encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
