"""Time to quality: minutes of pre-training from scratch, then SST-2, against the Trainer.

Both sides train the same model (tiny) with the same vocabulary for the same minutes, once on
general text and once on reviews of films. Ours is `bertsmith pretrain` with the recipe for a
quarter of an hour, but with AdamW, random weights and next sentence prediction, which the Trainer
has, too. The peer is transformers' Trainer, fully tuned, with the same rows, optimizer and
schedule. The length of its schedule is computed from its speed in a trial before its clock starts.
Both models are then measured by the same code: masked words on held-out text, and SST-2 fine-tuned
on 2,000 labels, once with the attention of [CLS] as it was pre-trained and once with that attention
reset (`--cls-attention`). Our minutes include eleven evaluations on held-out text; the peer has
none.
"""

import dataclasses
import json
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from subprocess import CalledProcessError
from typing import TYPE_CHECKING, Any

from benchmarks.common import bertsmith, build_corpus, spread, table
from benchmarks.quality import plain_text
from benchmarks.speed.contest import ChildError, call, say
from benchmarks.speed.plan import Plan
from benchmarks.speed.pretraining import drawn_rows, objective_of
from benchmarks.speed.trainer_peer import FULLY_TUNED, Collator, build_trainer, tune

if TYPE_CHECKING:
    from bertsmith.pretraining.job import PretrainJob

HERE = "benchmarks.speed.time_to_quality"
TEXTS = {"enwiki": "enwiki/small.txt", "imdb": "imdb/train.csv.xz"}
RECIPE = ("--recipe", "quarter-hour", "--pairs", "next_sentence", "--optimizer", "adamw",
          "--word-initializer", "normal")  # fmt: skip
VOCAB_SIZE = 8000
SEEDS = (0, 1, 2)
NUM_LABELS = 2000
FINETUNING_RATE = 5e-4
CLS_ATTENTION = {
    "keep": "SST-2, [CLS] as pre-trained",
    "reset": "SST-2, [CLS] reset",
}
"""The values of `--cls-attention`, with the columns of the table. Each side would choose the better
one, so both are shown."""
TRIAL_STEPS = 30
OURS = "bertsmith"
SIDES = (OURS, f"transformers, {FULLY_TUNED}")


def measure(plan: Plan) -> Iterator[tuple[str, dict[str, Any]]]:
    """Train and measure both sides on each text; yield its name and the figures."""
    for name, file in TEXTS.items():
        work = plan.work / f"{name}-own-vocabulary"
        work.mkdir(parents=True, exist_ok=True)
        corpus = build_corpus(plain_text(plan.file(file), work), VOCAB_SIZE, work)
        sides: dict[str, dict[str, Any]] = {side: {} for side in SIDES}
        for side, side_figures in sides.items():
            say(f"Time to quality: {side} trains on {name} for {plan.minutes:g} minutes")
            try:
                for figures in measure_side(plan, side, corpus, work / side.split()[0]):
                    side_figures.update(figures)
            except (ChildError, CalledProcessError) as error:
                side_figures["error"] = str(error)
            say(f"  {side_figures}")
        yield name, {"minutes": plan.minutes, "threads": plan.threads, "sides": sides}


def measure_side(plan: Plan, side: str, corpus: Path, out: Path) -> Iterator[dict[str, Any]]:
    """Yield what training took, figures on held-out text, and accuracies on SST-2 in percent."""
    computing = ("--device", "cpu", "--threads", plan.threads, "--overwrite")
    shared = {"corpus": corpus, "out": out, "minutes": plan.minutes}
    if side == OURS:
        result = bertsmith("pretrain", *RECIPE, "--corpus", corpus, "--out", out, "--minutes",
                           plan.minutes, *computing)  # fmt: skip
        yield {"steps": result["steps"], "tokens": result["real_tokens"]}
    else:
        yield call(f"{HERE}:transformers", plan, **shared)
    yield call(f"{HERE}:held_out", plan, **shared)
    sst2 = plan.file("glue/SST-2")
    scores: dict[str, list[float]] = {start: [] for start in CLS_ATTENTION}
    for start, seed in product(CLS_ATTENTION, SEEDS):
        tuned = bertsmith(
            "finetune", "classify", "--model", out, "--train", sst2 / "train.tsv", "--eval",
            sst2 / "dev.tsv", "--out", out / "sst2", "--limit", NUM_LABELS, "--learning-rate",
            FINETUNING_RATE, "--cls-attention", start, "--seed", seed, *computing,
        )  # fmt: skip
        scores[start].append(100 * tuned["evaluation"]["accuracy"])
    yield {"sst2": scores}


def job(corpus: str, minutes: float) -> "PretrainJob":
    """Build the settings of our run of so many minutes; the Trainer reads the same ones."""
    from bertsmith.commands.pretrain import build_job
    from bertsmith.commands.settings.pretrain import parse

    words = [*RECIPE, "--corpus", corpus, "--out", "-", "--minutes", str(minutes)]
    return build_job(parse([*words, "--device", "cpu"], "bertsmith pretrain"))


def transformers(corpus: str, out: str, minutes: float) -> dict[str, Any]:
    """Run the Trainer on the same rows until its minutes are over."""
    tune(FULLY_TUNED)
    import torch

    torch.set_float32_matmul_precision("medium")
    wanted = job(corpus, minutes)
    seconds = 60 * minutes
    trial = train(wanted, out, TRIAL_STEPS, seconds)
    # The first third of the trial warms up.
    warm = trial["times"][TRIAL_STEPS // 3 :]
    speed = (len(warm) - 1) / (warm[-1] - warm[0])
    done = train(wanted, out, max(TRIAL_STEPS, round(seconds * speed)), seconds)
    return {"steps": len(done["times"]), "tokens": done["tokens"]}


def train(wanted: "PretrainJob", out: str, steps: int, seconds: float) -> dict[str, Any]:
    """Pre-train for so many steps or seconds, and save the model with its tokenizer."""
    from transformers import BertConfig, BertForPreTraining, set_seed

    from bertsmith.data.corpus import Corpus
    from bertsmith.pretraining.resolve import resolve_unmeasured

    config, training = resolve_unmeasured(wanted), wanted.training
    optim = config.optim
    corpus = Corpus.open(wanted.corpus)
    tokenizer = corpus.tokenizer()
    shape = dataclasses.asdict(config.model)
    del shape["pooling"]
    set_seed(training.seed)
    model = BertForPreTraining(BertConfig(**shape))
    # More than ten minutes' worth on two cores would only fill the memory.
    rows = drawn_rows(wanted, min(steps, 4000))
    collate = Collator(training.batch_size, None)
    times: list[float] = []
    tokens = 0

    def on_step(control: Any) -> None:
        nonlocal tokens
        tokens += collate.sizes.popleft()[0]
        times.append(time.perf_counter())
        control.should_training_stop = times[-1] - began >= seconds

    trainer = build_trainer(
        model,
        rows,
        collate,
        out,
        on_step,
        max_steps=steps,
        per_device_train_batch_size=training.batch_size,
        learning_rate=optim.learning_rate,
        lr_scheduler_type="linear",
        warmup_steps=round(optim.warmup_fraction * steps),
        weight_decay=optim.weight_decay,
        adam_beta2=optim.adam_beta2,
        adam_epsilon=optim.adam_epsilon,
        max_grad_norm=optim.max_grad_norm,
        bf16=True,
        train_sampling_strategy="group_by_length",
        seed=training.seed,
    )
    began = time.perf_counter()
    trainer.train()
    trainer.save_model(out)
    tokenizer.save(out)
    return {"times": times, "tokens": tokens}


def held_out(corpus: str, out: str, minutes: float) -> dict[str, float]:
    """Compute figures on held-out rows, the same with the same masks for both sides."""
    from bertsmith.model.loading import load_model

    figures = objective_of(job(corpus, minutes)).evaluate(load_model(out).eval())
    return {
        "masked_lm_accuracy": 100 * figures["held_out_mlm_accuracy"],
        "masked_lm_loss": figures["held_out_mlm_loss"],
    }


def lines(results: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Format a table for each text that was trained on."""
    heading = ("system", "steps", "tokens, millions", "masked words right",
               *CLS_ATTENTION.values())  # fmt: skip
    for number, (text, figures) in enumerate(results.items()):
        if number:
            yield ""
        yield (
            f"{figures['minutes']:g} minutes from scratch, {figures['threads']} threads; "
            f"BERT-tiny, {VOCAB_SIZE:,} pieces, recipe `{' '.join(RECIPE)}`, `{TEXTS[text]}`, "
            f"{figures['date']}."
        )
        yield ""
        sides = [(name, *cells(side)) for name, side in figures["sides"].items()]
        yield from table(heading, sides)


def cells(side: dict[str, Any]) -> list[str]:
    """Format one side's figures; a dash where one was not measured."""
    if "error" in side:
        return [json.dumps(side["error"]), "", "", "", ""]
    return [
        f"{side['steps']:,}",
        f"{side['tokens'] / 1e6:.1f}",
        f"{side['masked_lm_accuracy']:.1f} %",
        *(f"{spread(side['sst2'][x])} %" if x in side["sst2"] else "–" for x in CLS_ATTENTION),
    ]
