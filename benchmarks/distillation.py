"""Half the layers: what a student keeps of its teacher's SST-2 score, with its size and speed.

The teacher is a published checkpoint (6 layers, 384 wide) fine-tuned on so many labelled sentences.
Three students begin as layers 0, 2 and 5 of that teacher: one is fine-tuned on the same labels
without a teacher, one is distilled on the same sentences, and one on more sentences, of which the
others have no label. All are scored on the development set by the weights that did best on it, as
is the teacher; sizes and speeds are measured in the same run, teacher and student in turn.

    python -m benchmarks.distillation            # half an hour on two quiet cores
    python -m benchmarks.distillation --labelled 300 --sentences 600 --seeds 1     # a trial

The page is written to benchmarks/results/distillation.md, or to --out.
"""

import argparse
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.speed.finetuning import published_model

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data" / "glue" / "SST-2"
RESULT = ROOT / "benchmarks" / "results" / "distillation.md"
MAX_LENGTH = 128
KEPT, SMALLER, FASTER = 0.97, 0.4, 0.6
"""What a student is to reach: a share of the score, and by how much it is smaller and faster."""


@dataclass(frozen=True)
class Student:
    """What came of one student: its score, and where it was measured its teacher's beside it."""

    score: float
    teacher: float
    encoder_share: float
    bytes_share: float
    speed_ratio: float
    seconds: float


def main() -> None:
    """Fine-tune the teacher, teach the students, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=DATA, help="folder with train and dev.tsv")
    parser.add_argument("--labelled", type=int, default=4000)
    parser.add_argument("--sentences", type=int, default=20_000, help="with and without labels")
    parser.add_argument("--epochs", type=float, default=3)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--num-layers", type=int, default=3)
    parser.add_argument("--precision", choices=("auto", "bf16", "fp32"), default="auto")
    parser.add_argument("--soft-weight", type=float, default=None)
    parser.add_argument("--hidden-weight", type=float, default=None)
    parser.add_argument("--soft-temperature", type=float, default=None)
    parser.add_argument("--only", nargs="+", default=None, help="first words of students' names")
    parser.add_argument("--out", type=Path, default=RESULT)
    args = parser.parse_args()

    from bertsmith.system.process_options import configure_process

    configure_process()
    with tempfile.TemporaryDirectory() as folder:
        found = run(args, Path(folder))
    text = page(args, found)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(text, encoding="utf-8")
    print(text)


def run(args: argparse.Namespace, folder: Path) -> dict[str, list[Student]]:
    """The students of every seed, by how they learnt."""
    from bertsmith.finetuning.run import finetune
    from bertsmith.tasks.text_classification import Classify, ClassifySettings

    write_sentences(args, folder)
    settings = ClassifySettings(
        model=published_model(),
        train=folder / "labelled.tsv",
        eval=args.data / "dev.tsv",
        out=folder / "teacher",
        max_length=MAX_LENGTH,
        epochs=args.epochs,
        device="cpu",
        precision=args.precision,
    )
    say(f"teacher: accuracy {finetune(Classify, settings).evaluation.accuracy:.4f}")
    found: dict[str, list[Student]] = {}
    for seed in range(args.seeds):
        of_seed = replace(settings, seed=seed, out=folder / "student", overwrite=True)
        for name, learn in students(args, folder).items():
            if args.only and not name.startswith(tuple(args.only)):
                continue
            started = time.perf_counter()
            learn(of_seed)
            seconds = time.perf_counter() - started
            found.setdefault(name, []).append(measure(folder, settings, seconds))
            say(f"seed {seed}, {name}: {found[name][-1]}")
    return found


def write_sentences(args: argparse.Namespace, folder: Path) -> None:
    """The first sentences with their labels, and the next ones without."""
    header, *lines = (args.data / "train.tsv").read_text(encoding="utf-8").splitlines()
    labelled, others = lines[: args.labelled], lines[args.labelled : args.sentences]
    (folder / "labelled.tsv").write_text("\n".join([header, *labelled, ""]), encoding="utf-8")
    texts = [line.split("\t")[0] for line in others]
    (folder / "others.txt").write_text("\n".join([*texts, ""]), encoding="utf-8")


def students(args: argparse.Namespace, folder: Path) -> dict[str, Callable[[Any], None]]:
    """How each student learns, by its name on the page."""
    from bertsmith.distillation.run import DistillSettings, distill
    from bertsmith.finetuning.run import finetune
    from bertsmith.model.keep_layers import choose_layers, truncate_layers
    from bertsmith.model.loading import load_model
    from bertsmith.model.saving import save_model
    from bertsmith.tasks.text_classification import Classify
    from bertsmith.tokenization.auto import load_tokenizer

    asked = {
        name: value
        for name in ("soft_weight", "hidden_weight", "soft_temperature")
        if (value := getattr(args, name)) is not None
    }
    student = DistillSettings(teacher=folder / "teacher", num_layers=args.num_layers, **asked)

    def alone(settings: Any) -> None:
        teacher = load_model(folder / "teacher")
        keep = choose_layers(teacher.config.num_hidden_layers, args.num_layers)
        start = truncate_layers(teacher, keep)
        save_model(start, folder / "start", load_tokenizer(folder / "teacher"))
        finetune(Classify, replace(settings, model=folder / "start"))

    def distilled(settings: Any) -> None:
        distill(student, Classify, settings)

    def distilled_on_more(settings: Any) -> None:
        distill(replace(student, unlabelled=folder / "others.txt"), Classify, settings)

    return {
        f"fine-tuned on {args.labelled:,} labels, without a teacher": alone,
        f"distilled on the same {args.labelled:,} sentences": distilled,
        f"distilled on {args.sentences:,} sentences, {args.labelled:,} with labels":
            distilled_on_more,
    }  # fmt: skip


def measure(folder: Path, settings: Any, seconds: float) -> Student:
    """Teacher and student side by side."""
    from bertsmith.evaluation.side_by_side import Trial, compare
    from bertsmith.model.model_folder import read_folder

    trial = Trial(data=settings.eval, device="cpu", precision=settings.precision)
    found = compare(read_folder(folder / "teacher"), read_folder(folder / "student"), trial)
    before, after = found.before, found.after
    return Student(
        score=after.scores["accuracy"],
        teacher=before.scores["accuracy"],
        encoder_share=after.parameters["encoder"] / before.parameters["encoder"],
        bytes_share=after.weight_bytes / before.weight_bytes,
        speed_ratio=after.texts_per_second / before.texts_per_second,
        seconds=seconds,
    )


def page(args: argparse.Namespace, found: dict[str, list[Student]]) -> str:
    """The results in Markdown."""
    teacher = next(iter(found.values()))[0].teacher
    lines = [
        "# Half the layers: students of a fine-tuned teacher",
        "",
        f"SST-2, development set. The teacher, all-MiniLM-L6-v2 fine-tuned on {args.labelled:,} "
        f"sentences for {args.epochs:g} epochs, has an accuracy of {teacher:.2%}. Students have "
        f"{args.num_layers} of its 6 layers; {args.seeds} seeds, mean ± standard deviation.",
        "",
        "| student | accuracy | kept of the teacher's | encoder smaller by | weights smaller by | "
        "faster by | seconds |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, runs in found.items():
        scores = [run.score for run in runs]
        lines.append(
            f"| {name} | {spread(scores)} | {statistics.fmean(scores) / teacher:.1%} "
            f"| {1 - runs[0].encoder_share:.1%} | {1 - runs[0].bytes_share:.1%} "
            f"| {statistics.median(run.speed_ratio for run in runs) - 1:.0%} "
            f"| {statistics.median(run.seconds for run in runs):.0f} |"
        )
    lines += ["", verdict(list(found.values())[-1], teacher), "", *how(args)]
    return "\n".join([*lines, ""])


def verdict(runs: list[Student], teacher: float) -> str:
    """Whether the last student reaches what it is to reach."""
    kept = statistics.fmean(run.score for run in runs) / teacher
    faster = statistics.median(run.speed_ratio for run in runs) - 1
    reached = {
        f"keeps at least {KEPT:.0%} of the score": kept >= KEPT,
        f"has an encoder at least {SMALLER:.0%} smaller": 1 - runs[0].encoder_share >= SMALLER,
        f"is at least {FASTER:.0%} faster": faster >= FASTER,
    }
    parts = [f"{words}: {'yes' if is_so else 'no'}" for words, is_so in reached.items()]
    return f"The last student {'; '.join(parts)}."


def how(args: argparse.Namespace) -> list[str]:
    """The command, the machine and the versions."""
    import torch

    from bertsmith import __version__

    words = " ".join(sys.argv[1:])
    return [
        f"`python -m benchmarks.distillation {words}`".replace(" `", "`"),
        "",
        f"bertsmith {__version__}, torch {torch.__version__}, Python {platform.python_version()}, "
        f"{platform.machine()}, {torch.get_num_threads()} threads, load "
        f"{os.getloadavg()[0]:.1f} at the end. Speed: texts to answers, both models in turn, the "
        "median.",
    ]


def spread(scores: list[float]) -> str:
    """Mean ± standard deviation in per cent."""
    deviation = statistics.stdev(scores) if len(scores) > 1 else 0.0
    return f"{statistics.fmean(scores):.2%} ± {100 * deviation:.2f}"


def say(line: str) -> None:
    """What is done, beside the page."""
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
