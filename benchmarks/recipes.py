"""Every recipe, run: does it work, and how fast?

Each recipe of the package runs as it stands for some minutes, at one size of model, on one text
with the kind of tokenizer that it names. Told are the held-out figures beside what word frequency
alone would guess, which differs between vocabularies. So few minutes do not tell which recipe is
better (`bertsmith compare` does); they tell that each works.

    python benchmarks/recipes.py --work runs/recipes --minutes 2

Writes `benchmarks/results/recipes.md`.
"""

import argparse
import platform
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from own_texts import DATA, HERE, ROOT, bertsmith

RECIPES = ROOT / "bertsmith" / "recipes"
KINDS = {"roberta": "byte-bpe", "albert": "unigram"}
"""The tokenizers that recipes name, where it is not WordPiece."""
GENERAL, CONTINUED = "quarter-hour", "continue"
LABELS = 200


def main() -> None:
    """Run the recipes one after another and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--work", type=Path, required=True, help="folder for what is learnt")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--preset", default="tiny")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    corpora = {kind: build(args, kind) for kind in ("wordpiece", *sorted(KINDS.values()))}
    rows = [row for name in names() for row in pretrain(args, name, corpora)]
    rows += distill(args, corpora["wordpiece"])
    write(args, rows)


def names() -> list[str]:
    """The recipes for pre-training, the general one first, since others go on from its model."""
    found = sorted(path.stem for path in (RECIPES / "pretrain").glob("*.toml"))
    return [GENERAL, *(name for name in found if name != GENERAL)]


def build(args: argparse.Namespace, kind: str) -> Path:
    """A vocabulary of a kind and the corpus that it makes of Wikipedia."""
    tokenizer, corpus = args.work / f"{kind}-tokenizer", args.work / f"{kind}-corpus"
    text = args.data / "enwiki/small.txt"
    if not corpus.exists():
        bertsmith("tokenizer", "train", text, "--kind", kind, "--vocab-size", 8000,
                  "--out", tokenizer)  # fmt: skip
        bertsmith("corpus", "build", text, "--tokenizer", tokenizer, "--out", corpus)
    return corpus


def pretrain(
    args: argparse.Namespace, name: str, corpora: dict[str, Path]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """One recipe, and what its run came to."""
    recipe, out = RECIPES / "pretrain" / f"{name}.toml", args.work / name
    corpus = corpora[KINDS.get(name, "wordpiece")]
    shape = ["--from", args.work / GENERAL] if name == CONTINUED else ["--preset", args.preset]
    said = bertsmith("pretrain", recipe, "--corpus", corpus, "--minutes", args.minutes, *shape,
                     "--out", out)  # fmt: skip
    yield recipe.relative_to(RECIPES).with_suffix("").as_posix(), said


def distill(args: argparse.Namespace, corpus: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The recipes with a teacher: the general model, and what it becomes with all of SST-2."""
    teacher, sst2 = args.work / GENERAL, args.data / "glue/SST-2"
    recipe = RECIPES / "distill/pretraining.toml"
    said = bertsmith("distill", "pretraining", recipe, "--teacher", teacher, "--corpus", corpus,
                     "--minutes", args.minutes, "--out", args.work / "distilled")  # fmt: skip
    yield recipe.relative_to(RECIPES).with_suffix("").as_posix(), said
    tuned, texts = args.work / "tuned", args.work / "texts.tsv"
    lines = (sst2 / "train.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
    texts.write_text("".join(lines[:1] + lines[1 + LABELS :][:4000]), encoding="utf-8")
    bertsmith("finetune", "classify", "--model", teacher, "--train", sst2 / "train.tsv", "--limit",
              8000, "--eval", sst2 / "dev.tsv", "--epochs", 2, "--out", tuned)  # fmt: skip
    recipe = RECIPES / "finetune/few-labels.toml"
    said = bertsmith("finetune", "classify", recipe, "--teacher", tuned, "--train",
                     sst2 / "train.tsv", "--limit", LABELS, "--unlabelled", texts, "--eval",
                     sst2 / "dev.tsv", "--out", args.work / "student")  # fmt: skip
    training: Any = said["training"]
    steps = {name: training[name] for name in ("steps", "tokens_per_second")}
    yield recipe.relative_to(RECIPES).with_suffix("").as_posix(), steps | said


def write(args: argparse.Namespace, rows: list[tuple[str, dict[str, Any]]]) -> None:
    """The table."""
    lines = [
        "# Every recipe, run",
        "",
        f"`python benchmarks/recipes.py --work DIR --minutes {args.minutes:g}`, "
        f"{time.strftime('%Y-%m-%d')}, {platform.machine()}, {torch.get_num_threads()} threads, "
        f"torch {torch.__version__}. Size {args.preset}, Wikipedia (`enwiki/small.txt`), "
        "vocabularies of 8,000; one run each. Masked words are told as loss and share right, "
        "beside the loss of word frequency alone.",
        "",
        "| recipe | steps | tokens a second | held out |",
        "|---|---|---|---|",
        *(f"| `{name}` | {shown(found, 'steps')} | {shown(found, 'tokens_per_second')} "
          f"| {told(found)} |" for name, found in rows),
    ]  # fmt: skip
    target = HERE / "results" / "recipes.md"
    target.write_text("\n".join([*lines, ""]), encoding="utf-8")
    print(target.read_text(encoding="utf-8"))


def shown(found: dict[str, Any], name: str) -> str:
    """A whole number, where the run tells it."""
    return f"{found[name]:,.0f}" if name in found else "–"


def told(found: dict[str, Any]) -> str:
    """The held-out figures of a run in words."""
    if "held_out_loss" not in found:
        before, after = (found["comparison"][side]["scores"] for side in ("before", "after"))
        return f"accuracy {100 * after['accuracy']:.1f} % (teacher {100 * before['accuracy']:.1f})"
    parts = []
    if "held_out_mlm_loss" in found:
        parts.append(
            f"masked words {found['held_out_mlm_loss']:.3f}, "
            f"{100 * found['held_out_mlm_accuracy']:.1f} % "
            f"(frequency {found['held_out_unigram_entropy']:.3f})"
        )
    for term, words in (("nsp", "next sentence"), ("sop", "sentence order")):
        if f"held_out_{term}_accuracy" in found:
            parts.append(f"{words} {100 * found[f'held_out_{term}_accuracy']:.1f} %")
    if "held_out_rtd_auc" in found:
        parts.append(f"replaced words: area under the ROC curve {found['held_out_rtd_auc']:.3f}")
    return "; ".join(parts)


if __name__ == "__main__":
    main()
