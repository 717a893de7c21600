"""Pre-training: whole steps of masked LM and next sentence prediction, against the Trainer.

The peer is transformers' `Trainer` with `BertForPreTraining`. Both sides run their own
training loop, with AdamW and clipping, on the same rows with the same masks: Wikipedia, at most 128
tokens a row, dropout as in BERT. The peer's rows are drawn before its clock starts; ours are drawn
while it runs.

Two kinds of rows: "full" ones, as `bertsmith pretrain` draws them from long documents (nine in ten
as long as they may be), and "mixed" ones, every length from 5 to 128 equally often, as short
documents would give them.
"""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.speed import roof
from benchmarks.speed.contest import Claim, Contender, Contest, call
from benchmarks.speed.plan import Plan
from benchmarks.speed.protocol import Gate
from benchmarks.speed.trainer_peer import (
    DEFAULT,
    ENDLESS,
    FULLY_TUNED,
    IGNORE_INDEX,
    LEARNING_RATE,
    TUNINGS,
    Collator,
    compute_difference,
    tune,
)
from benchmarks.speed.trainer_peer import train as train_peer

if TYPE_CHECKING:
    from bertsmith.pretraining.job import PretrainJob

HERE = "benchmarks.speed.pretraining"
MAX_LENGTH = 128
BATCH_SIZES = {"tiny": 32, "mini": 32, "small": 32, "base": 16}
"""Rows in a step. A step of the peer with 16 rows of base takes about 20 s on two cores."""
PARITY_ROWS = 8
START_SECONDS = 6.0
"""More seconds than worker processes need to start. Until then the first process does all work, so
its steps are not counted."""
DRAWN_STEPS = 64
"""Number of steps whose rows are drawn for the peer; its loop reads them again and again."""

SHORT_SHARES = {"full": 0.1, "mixed": 1.0}
"""Share of the rows that get a random length, by kind of rows."""

OURS, OURS_FP32 = "bertsmith", "bertsmith fp32"


def checks(plan: Plan) -> Iterator[tuple[str, dict[str, float]]]:
    """Compute the difference of losses and gradients in fp32 for each preset."""
    prepare(plan)
    for preset in sizes(plan):
        folder = plan.work / f"{preset}-parity"
        options = {"corpus": plan.work / "corpus", "preset": preset, "folder": folder}
        yield f"pre-training, {preset}", call(f"{HERE}:parity", plan, **options)


def contests(plan: Plan) -> Iterator[Contest]:
    """Yield a contest for each preset and kind of rows."""
    prepare(plan)
    for preset in sizes(plan):
        for rows in ["full"] if plan.is_quick else SHORT_SHARES:
            yield Contest(
                title=f"Pre-training, {preset}, {rows} rows",
                unit="tokens/s",
                contenders=list(contenders(plan, preset, rows)),
                claims=list(claims(preset, rows)),
                notes=[
                    f"{BATCH_SIZES[preset]} rows of at most {MAX_LENGTH} tokens a step, masked LM "
                    "and next sentence prediction, dropout 0.1, AdamW, clipping."
                ],
            )
    if plan.threads > 1:
        for preset in ["tiny"] if plan.is_quick else ["tiny", "mini"]:
            yield processes_contest(plan, preset)


def processes_contest(plan: Plan, preset: str) -> Contest:
    """Build the contest of two processes with one thread each against one process."""
    two, one = "bertsmith, 2 processes", "bertsmith, 1 process"
    what = f"pre-training, {preset}: two processes against one"
    return Contest(
        title=f"Two processes, {preset}",
        unit="tokens/s",
        contenders=[
            our_contender(plan, name, preset, "full", "auto", threads)
            for name, threads in ((two, 2), (one, 1))
        ],
        claims=[Claim(what, (two,), (one,))],
        notes=["One thread each, the same rows in a step; 2× would be ideal."],
    )


def our_contender(
    plan: Plan, name: str, preset: str, rows: str, precision: str, threads: int
) -> Contender:
    """Describe `bertsmith pretrain` as a contender."""
    options = {"corpus": plan.work / "corpus", "preset": preset, "rows": rows,
               "out": plan.work / f"{preset}-{precision}-{threads}", "precision": precision,
               "threads": threads}  # fmt: skip
    return Contender(name, f"{HERE}:bertsmith", options)


def sizes(plan: Plan) -> list[str]:
    """List the presets to measure; a quick run leaves out the larger ones."""
    return ["tiny", "mini"] if plan.is_quick else list(BATCH_SIZES)


def contenders(plan: Plan, preset: str, rows: str) -> Iterator[Contender]:
    """Yield ours, the peer's variants and the roof; with full rows also ours in fp32."""
    yield our_contender(plan, OURS, preset, rows, "auto", plan.threads)
    if rows == "full":
        yield our_contender(plan, OURS_FP32, preset, rows, "fp32", plan.threads)
    for tuning in TUNINGS:
        options = {"corpus": plan.work / "corpus", "preset": preset, "rows": rows,
                   "out": plan.work / "trainer", "tuning": tuning}  # fmt: skip
        yield Contender(f"transformers, {tuning}", f"{HERE}:transformers", options)
    yield from roof.contenders()


def claims(preset: str, rows: str) -> Iterator[Claim]:
    """Yield the ratios reported for a preset."""
    what = f"pre-training, {preset}, {rows} rows"
    for tuning in TUNINGS:
        is_shown = rows == "full" and tuning == FULLY_TUNED
        yield Claim(what, (OURS, OURS_FP32), (f"transformers, {tuning}",), is_shown)
    if rows == "full":
        what = f"pre-training in fp32, {preset}, {rows} rows"
        yield Claim(what, (OURS_FP32,), (f"transformers, {DEFAULT}",))


def prepare(plan: Plan) -> None:
    """Build the corpus that all sizes share, if it is not there."""
    if not (plan.work / "corpus").exists():
        text, vocabulary = plan.file("enwiki/small.txt"), plan.file("vocabs/bert-base-uncased")
        options = {"text": text, "tokenizer": vocabulary}
        call(f"{HERE}:build", plan, **options, out=plan.work / "corpus")


def build(text: str, tokenizer: str, out: str) -> None:
    """Build a corpus from the text."""
    from bertsmith.data.corpus_build import build_corpus
    from bertsmith.data.settings import CorpusSettings
    from bertsmith.tokenization.auto import load_tokenizer

    build_corpus([text], load_tokenizer(tokenizer), Path(out), CorpusSettings())


def job(
    corpus: str,
    preset: Any,
    rows: str,
    batch_size: int | None = None,
    precision: Any = "fp32",
    threads: int | None = None,
) -> "PretrainJob":
    """Build an endless run without evaluations and checkpoints."""
    from bertsmith.pretraining.job import PretrainJob
    from bertsmith.pretraining.model_settings import ModelSettings
    from bertsmith.pretraining.settings import PretrainingSettings
    from bertsmith.training.settings import OptimSettings, TrainingSettings

    return PretrainJob(
        corpus=Path(corpus),
        model=ModelSettings(preset=preset),
        pretraining=PretrainingSettings(max_length=MAX_LENGTH, short_seq_prob=SHORT_SHARES[rows]),
        training=TrainingSettings(
            steps=ENDLESS,
            batch_size=batch_size or BATCH_SIZES[preset],
            precision=precision,
            device="cpu",
            threads=threads,
            eval_every=ENDLESS,
            eval_rows=1,
            checkpoint_every=ENDLESS,
            keep=0,
        ),
        optim=OptimSettings(learning_rate=LEARNING_RATE, warmup_fraction=0.0, schedule="constant"),
    )


class Watch:
    """Callback that calls the gate at the end of each step, once all processes have started."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self._began = float("inf")

    def begin(self, computing: str) -> None:
        """Note the time; worker processes start after this call."""
        self._began = time.monotonic()

    def write(self, entry: Mapping[str, Any], status: object) -> None:
        """Pass on a journal entry if it is that of a step and all processes have started."""
        has_started = time.monotonic() - self._began >= START_SECONDS
        if "real_tokens" in entry and has_started:
            self.gate.step(entry["real_tokens"], cells=entry["real_tokens"])


def bertsmith(
    gate: Gate, *, corpus: str, preset: str, rows: str, out: str, precision: str, threads: int
) -> None:
    """Run `bertsmith pretrain` as the command line does."""
    from bertsmith.system.process_options import configure_process

    configure_process()

    from bertsmith.model.config import PRESETS
    from bertsmith.pretraining.run import run_pretraining
    from bertsmith.system.hardware import compute_settings

    pretrain_job = job(corpus, preset, rows, precision=precision, threads=threads)
    with compute_settings(pretrain_job.training) as (_, chosen):
        pass  # only to learn which precision the run will choose
    objective = objective_of(pretrain_job)
    batches = [batch for step in range(1, 9) for batch in objective.micro_batches(step)]
    flops = roof.training_flops_per_token(
        {**PRESETS[preset], "vocab_size": objective.train.corpus.vocab_size},
        [length for batch in batches for length in batch.lengths],
        sum(len(batch.targets["masked_labels"]) for batch in batches),
    )
    gate.wait(precision=chosen, flops_per_token=flops)
    run_pretraining(pretrain_job, Path(out), overwrite=True, callbacks=[Watch(gate)])


def transformers(gate: Gate, *, corpus: str, preset: str, rows: str, out: str, tuning: str) -> None:
    """Run the Trainer with `BertForPreTraining`."""
    tune(tuning)
    from transformers import BertForPreTraining

    from bertsmith.data.corpus import Corpus
    from bertsmith.model.config import BertConfig

    pretrain_job = job(corpus, preset, rows)
    ours = BertConfig.from_preset(preset, Corpus.open(pretrain_job.corpus).vocab_size)
    collate = Collator(BATCH_SIZES[preset], MAX_LENGTH if tuning == DEFAULT else None)
    model = BertForPreTraining(peer_config(ours))
    drawn = drawn_rows(pretrain_job, DRAWN_STEPS)
    train_peer(gate, model, drawn, collate, tuning=tuning, out=out)


def objective_of(pretrain_job: "PretrainJob") -> Any:
    """Build the objective of a job: its rows, masks and losses."""
    from bertsmith.pretraining.build import build_objective
    from bertsmith.pretraining.resolve import resolve_unmeasured

    return build_objective(resolve_unmeasured(pretrain_job))


def peer_config(ours: Any, **more: Any) -> Any:
    """Return transformers' config of the same shape."""
    from transformers import BertConfig

    shared = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
              "intermediate_size", "max_position_embeddings", "hidden_dropout_prob",
              "attention_probs_dropout_prob")  # fmt: skip
    return BertConfig(**{name: getattr(ours, name) for name in shared}, **more)


def drawn_rows(pretrain_job: "PretrainJob", steps: int) -> list[dict[str, Any]]:
    """List the rows of the first steps as plain lists, in the order in which they were drawn."""
    objective = objective_of(pretrain_job)
    rows = []
    for step in range(1, steps + 1):
        for batch in objective.micro_batches(step):
            rows += unpacked(batch)
    return rows


def unpacked(batch: Any) -> list[dict[str, Any]]:
    """List the rows of a packed batch in their order before packing."""
    import torch

    labels = torch.full_like(batch.input_ids, IGNORE_INDEX)
    labels[batch.targets["masked_positions"]] = batch.targets["masked_labels"]
    tensors = {
        "input_ids": batch.input_ids,
        "token_type_ids": batch.token_type_ids,
        "labels": labels,
    }
    split = {name: value.split(list(batch.lengths)) for name, value in tensors.items()}
    next_labels = batch.targets["next_sentence_labels"].tolist()
    rows = {
        place: {
            **{name: parts[i].tolist() for name, parts in split.items()},
            "next_sentence_label": next_labels[i],
        }
        for i, place in enumerate(batch.order)
    }
    return [rows[place] for place in sorted(rows)]


def parity(corpus: str, preset: str, folder: str) -> dict[str, float]:
    """Compute the difference of losses and gradients in fp32."""
    import torch
    from transformers import BertForPreTraining

    from bertsmith.model.bert import BertModel
    from bertsmith.model.config import BertConfig
    from bertsmith.model.families import build_heads
    from bertsmith.model.saving import save_model

    torch.manual_seed(0)
    pretrain_job = job(corpus, preset, "mixed", PARITY_ROWS)
    objective = objective_of(pretrain_job)
    config = BertConfig.from_preset(preset, objective.train.corpus.vocab_size)
    ours = BertModel(config, build_heads(config, ["masked_lm", "next_sentence"])).eval()
    save_model(ours, Path(folder))
    theirs = BertForPreTraining.from_pretrained(folder).eval()  # without dropout
    [batch] = objective.micro_batches(1)

    def our_loss() -> torch.Tensor:
        terms = objective.losses(ours, batch).values()
        return torch.stack([term.sum / term.count for term in terms]).sum()

    def their_loss() -> torch.Tensor:
        return theirs(**Collator(PARITY_ROWS, MAX_LENGTH)(unpacked(batch))).loss

    return compute_difference(ours, theirs, our_loss, their_loss)
