"""Time to quality: minutes of pre-training from scratch, then SST-2, against the Trainer.

The same model (tiny), text, vocabulary and minutes, once on general text and once on reviews of
films. Ours is `bertsmith pretrain` with the recipe for a quarter of an hour; the peer is
transformers' tuned Trainer (T+) with the same rows, optimizer and schedule, whose end is set from
its speed in a trial before its clock starts. Both models are then measured by the same code: masked
words on held-out text, and SST-2 fine-tuned on 2,000 labels, once with what pre-training taught
[CLS] to look at and once with all tokens alike to begin with (`--cls-attention`). Our minutes
include measuring on held-out text eleven times, which the peer is spared.
"""

import dataclasses
import json
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.common import spread, table
from benchmarks.own_texts import plain_text
from benchmarks.speed.contest import ChildError, call, say
from benchmarks.speed.plan import Plan
from benchmarks.speed.pretraining import drawn_rows
from benchmarks.speed.trainer_peer import Collator, build_trainer, tune

if TYPE_CHECKING:
    from bertsmith.pretraining.job import PretrainJob
    from bertsmith.tasks.settings import ClsAttention

HERE = "benchmarks.speed.time_to_quality"
TEXTS = {"enwiki": "enwiki/small.txt", "imdb": "imdb/train.csv.xz"}
RECIPE = "quarter-hour"
VOCAB_SIZE = 8000
SEEDS = (0, 1, 2)
NUM_LABELS = 2000
FINETUNING_RATE = 5e-4
CLS_ATTENTION: "dict[ClsAttention, str]" = {
    "keep": "SST-2, [CLS] as pre-trained",
    "reset": "SST-2, [CLS] reset",
}
"""Both, since each side would choose the better."""
TRIAL_STEPS = 30
SIDES = {"bertsmith": f"{HERE}:bertsmith", "transformers T+": f"{HERE}:transformers"}


def measure(plan: Plan) -> Iterator[tuple[str, dict[str, Any]]]:
    """Train and measure both sides on each text; gives its name and the figures of each side."""
    for name in plan.texts:
        yield name, {"minutes": plan.minutes, "threads": plan.threads, "sides": sides(plan, name)}


def sides(plan: Plan, text: str) -> dict[str, dict[str, Any]]:
    """The figures of each side, or its error."""
    corpus = plan.work / f"{text}-own-vocabulary"
    if not corpus.exists():
        call(f"{HERE}:build", plan, text=plan.file(TEXTS[text]), out=corpus)
    found: dict[str, dict[str, Any]] = {}
    for name, function in SIDES.items():
        out = plan.work / f"quality-{text}-{name.split()[0]}"
        shared = {"corpus": corpus, "out": out}
        try:
            say(f"Time to quality: {name} trains on {text} for {plan.minutes:g} minutes")
            found[name] = call(function, plan, **shared, minutes=plan.minutes, threads=plan.threads)
            found[name] |= call(f"{HERE}:held_out", plan, **shared, minutes=plan.minutes)
            say(f"  {found[name]}")
            scores = call(f"{HERE}:sst2", plan, model=out, work=plan.work / "quality-sst2",
                          data=plan.file("glue/SST-2"), threads=plan.threads)  # fmt: skip
            found[name] |= {"sst2": scores}
        except ChildError as error:
            found.setdefault(name, {})["error"] = str(error)
            say(f"  failed: {error}")
    return found


def build(text: str, out: str) -> None:
    """A vocabulary of the text's own, and its corpus."""
    from bertsmith.cli import main

    work = Path(f"{out}-work")
    work.mkdir(exist_ok=True)
    text, tokenizer = str(plain_text(Path(text), work)), str(work / "tokenizer")
    main(["tokenizer", "train", text, "--vocab-size", str(VOCAB_SIZE), "--out", tokenizer,
          "--overwrite"])  # fmt: skip
    main(["corpus", "build", text, "--tokenizer", tokenizer, "--out", out])


def job(corpus: str, minutes: float, threads: int | None = None) -> "PretrainJob":
    """The recipe's run for so many minutes."""
    from bertsmith.commands.pretrain import parse
    from bertsmith.pretraining.job import PretrainJob

    words = [RECIPE, "--corpus", corpus, "--out", "-", "--minutes", str(minutes)]
    settings = parse([*words, "--device", "cpu"], "bertsmith pretrain")
    names = {field.name for field in dataclasses.fields(PretrainJob)}
    wanted = PretrainJob(**{name: getattr(settings, name) for name in names})
    training = dataclasses.replace(wanted.training, threads=threads)
    return dataclasses.replace(wanted, training=training)


def bertsmith(corpus: str, out: str, minutes: float, threads: int) -> dict[str, Any]:
    """`bertsmith pretrain`, as the command line runs it."""
    from bertsmith.system.process_options import configure_process

    configure_process()
    from bertsmith.pretraining.run import pretrain

    result = pretrain(job(corpus, minutes, threads), Path(out), overwrite=True)
    return {"steps": result["steps"], "tokens": result["real_tokens"]}


def transformers(corpus: str, out: str, minutes: float, threads: int) -> dict[str, Any]:
    """The Trainer on the same rows, stopped when its minutes are over."""
    tune("T+")
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

    from bertsmith.data.shards import Corpus
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
    """Figures on held-out rows, the same with the same masks for both sides."""
    from bertsmith.model.loading import load_model
    from bertsmith.pretraining.build import build_objective
    from bertsmith.pretraining.resolve import resolve_unmeasured

    figures = build_objective(resolve_unmeasured(job(corpus, minutes))).evaluate(
        load_model(out).eval()
    )
    return {
        "masked_lm_accuracy": 100 * figures["held_out_mlm_accuracy"],
        "masked_lm_loss": figures["held_out_mlm_loss"],
    }


def sst2(model: str, work: str, data: str, threads: int) -> dict[str, list[float]]:
    """Accuracy on the development set in percent, for each of `CLS_ATTENTION` and each seed."""
    from bertsmith.finetuning.run import finetune
    from bertsmith.tasks.text_classification import Classify, ClassifySettings

    scores: dict[str, list[float]] = {name: [] for name in CLS_ATTENTION}
    for cls_attention, seed in product(CLS_ATTENTION, SEEDS):
        settings = ClassifySettings(
            model=Path(model),
            train=Path(data) / "train.tsv",
            eval=Path(data) / "dev.tsv",
            out=Path(work),
            limit=NUM_LABELS,
            learning_rate=FINETUNING_RATE,
            cls_attention=cls_attention,
            seed=seed,
            device="cpu",
            threads=threads,
            overwrite=True,
        )
        accuracy = finetune(Classify, settings).evaluation.accuracy
        scores[cls_attention].append(100 * accuracy)
    return scores


def lines(found: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Format a table for each text that was trained on."""
    heading = ("number", "system", "steps", "tokens, millions", "masked words right",
               *CLS_ATTENTION.values())  # fmt: skip
    for number, (text, figures) in enumerate(found.items()):
        if number:
            yield ""
        yield (
            f"{figures['minutes']:g} minutes from scratch, {figures['threads']} threads; "
            f"BERT-tiny, {VOCAB_SIZE:,} pieces, recipe quarter-hour, `{TEXTS[text]}`, "
            f"{figures['date']}."
        )
        yield ""
        sides = [("R16", name, *cells(side)) for name, side in figures["sides"].items()]
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
