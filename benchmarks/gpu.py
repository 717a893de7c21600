"""Speed of pre-training on one GPU: bertsmith, transformers, and the GPU's own limit, the roof.

    python -m benchmarks.gpu                            # under ten minutes on one H200
    python -m benchmarks.gpu --device cpu --smoke --out DIR    # the same code with a tiny model

Whole steps (masked LM and next sentence prediction, AdamW, clipping) in bf16 with fp32 weights, and
rows of at most 512 tokens. First parity is checked in fp32: loss and gradients of the same weights
on the same rows. A contender is one way to compute the steps, and a contest is a model size with
one kind of rows. In a contest the contenders take turns in one process; who goes first changes from
round to round, and a turn goes through all prepared steps. Only real tokens are counted. A
contender that fails stands in the result with its error. The roof is the speed of a bf16 matrix
product in the same turns.

Nothing is fetched, and no text is needed: token ids are random, with the frequencies of Zipf's law,
since an embedding's gradient takes longer where a token is frequent. Two kinds of rows: "full"
ones, and "natural" ones, whose lengths are log-normal and cut at 512, as documents have them.
"""

import argparse
import gc
import itertools
import math
import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.common import RESULTS, processor, save, table, versions
from benchmarks.speed.pretraining import peer_config, unpacked
from benchmarks.speed.report import compare, fastest, span, speeds
from benchmarks.speed.roof import training_flops_per_token
from benchmarks.speed.trainer_peer import IGNORE_INDEX, Collator, compute_difference
from bertsmith.data.batches import Batch, pack, send
from bertsmith.model.attention_paths import describe_attention
from bertsmith.model.bert import BertModel
from bertsmith.model.config import BertConfig
from bertsmith.model.families import build_heads
from bertsmith.model.saving import save_model
from bertsmith.pretraining.masking import MaskingVocabulary, mask_tokens
from bertsmith.pretraining.objective import pretraining_losses
from bertsmith.pretraining.settings import MaskingRule
from bertsmith.system.compute import Compute
from bertsmith.system.hardware import compute_settings, describe_computing
from bertsmith.training.objective import LossTerm
from bertsmith.training.settings import OptimSettings
from bertsmith.training.workers.local import LocalWorkers
from bertsmith.training.workers.protocol import total_counts
from bertsmith.training.workers.share import Plan

TOLERANCE = 1e-5
"""Largest relative difference of loss and gradients for which both sides count as equal."""
RATE = 1e-4
MAX_GRAD_NORM = 1.0
CLS, SEP, MASK = 2, 3, 4
SPECIAL_IDS = range(5)
MASKING = MaskingRule(rate=0.15, mask_share=0.8, random_share=0.1)
NATURAL_MEDIAN, NATURAL_SPREAD = 0.4, 0.9
"""Median of the lengths of natural rows, as a share of the longest row, and the standard deviation
of their logarithms. With these, about half of a padded batch is padding."""
HEADS = ("masked_lm", "next_sentence")
OURS, COMPILED = "bertsmith", "bertsmith, layers compiled"
SDPA, GROUPED = "transformers, SDPA", "transformers, SDPA, grouped by length"
SDPA_COMPILED = "transformers, SDPA, compiled"
FLASH_COMPILED = "transformers, FlashAttention-2, compiled"
PEERS = (SDPA, GROUPED, SDPA_COMPILED, FLASH_COMPILED)
ROOF = "matrix products"
VERSIONS = ("torch", "triton", "transformers", "flash-attn", "numpy", "bertsmith")


@dataclass(frozen=True)
class Scale:
    """The sizes of models, rows and runs."""

    presets: Mapping[str, int]
    """Number of rows of a step, by the model size to measure."""
    shape: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the model's config that replace those of the preset."""
    max_length: int = 512
    vocab_size: int = 30522
    num_steps: int = 8
    """Steps that are prepared; a turn goes through all of them."""
    turn_seconds: float = 1.0
    rounds: int = 5
    parity_rows: int = 8
    roof_size: int = 8192
    compiles: bool = True


FULL = Scale({"base": 128, "large": 64})
SMOKE = Scale(
    {"tiny": 6},
    {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 2, "intermediate_size": 128},
    max_length=48,
    vocab_size=997,
    num_steps=2,
    turn_seconds=0.0,
    rounds=2,
    parity_rows=4,
    roof_size=128,
    compiles=False,
)


@dataclass(frozen=True)
class Work:
    """One step: the same rows packed for us, and padded for the peer."""

    packed: Batch
    padded: Mapping[str, torch.Tensor]

    @property
    def cells(self) -> int:
        """Tokens that the peer computes."""
        return self.padded["input_ids"].numel()


Step = Callable[[int, Work], Any]


@dataclass
class Contender:
    """A way to compute the steps; `build` returns a function that does one step, by its number."""

    name: str
    build: Callable[[], Step]
    amount: Callable[[Work], float] = lambda work: float(work.packed.num_tokens)
    is_grouped: bool = False
    """Whether its rows are of similar length within a step."""
    step: Step | None = None
    """The function that `build` returned; None before that, and after an error."""
    facts: dict[str, Any] = field(default_factory=dict)
    """What the first steps showed: seconds, memory, loss, and how often a turn goes through all
    steps (`cycles`)."""
    bursts: list[dict[str, float]] = field(default_factory=list)
    """The result of each turn in the contest: seconds, amount of work, loss, peak memory."""
    error: str | None = None


class Rows:
    """The objective of prepared rows, as training asks for it."""

    rows: Batch

    def num_micro_batches(self, step: int) -> int:
        return 1

    def micro_batch(self, step: int, index: int) -> Batch:
        return self.rows

    def counts(self, batch: Batch) -> dict[str, int]:
        """Count masked tokens and pairs."""
        return {"mlm": len(batch.targets["masked_labels"]), "nsp": batch.num_sequences}

    def losses(self, model: BertModel, batch: Batch) -> dict[str, LossTerm]:
        return pretraining_losses(model, batch, "next_sentence")


def main() -> None:
    """Check, measure, write."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    args = parse()
    scale, device = SMOKE if args.smoke else FULL, torch.device(args.device)
    target = args.out / f"gpu-{time.strftime('%Y-%m-%d')}{'-smoke' if args.smoke else ''}.json"
    began = time.monotonic()
    first = next(iter(scale.presets))
    with compute_settings(Compute(device=args.device)):
        results = begin(args, device)

        def is_time(title: str) -> bool:
            seconds = time.monotonic() - began
            is_left_out = seconds > 60 * args.minutes
            if is_left_out:
                results["left_out"].append(title)
            else:
                print(f"{seconds:.0f} s: {title}", flush=True)
            return not is_left_out

        if is_time(f"parity, {first}"):
            try:
                results["parity"][first] = measure_parity(scale, first, device)
            except Exception as error:
                results["parity"][first] = {"error": in_one_line(error)}
        for preset, dropout in itertools.product(scale.presets, (0.1, 0.0)):
            if is_time(f"{preset}, dropout {dropout:g}"):
                with_peers = preset == first and dropout > 0
                hold(scale, preset, dropout, device, with_peers, results, target)
            clear()
    results["seconds"] = round(time.monotonic() - began)
    save(results, target, page)
    print(target.with_suffix(".md").read_text(encoding="utf-8"))


def parse() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser("python -m benchmarks.gpu", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--smoke", action="store_true", help="a tiny model, to try the script")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result")
    minutes_help = "begin nothing new after so many minutes"
    parser.add_argument("--minutes", type=float, default=8.0, help=minutes_help)
    return parser.parse_args()


def begin(args: argparse.Namespace, device: torch.device) -> dict[str, Any]:
    """Start a result with a description of this run."""
    software, hardware = versions(*VERSIONS), processor()
    if device.type == "cuda":
        torch.cuda.set_device(device.index or 0)
        hardware = torch.cuda.get_device_name(device)
        software["CUDA"] = str(torch.version.cuda)
    return {
        "date": time.strftime("%Y-%m-%d %H:%M"),
        "command": f"python -m benchmarks.gpu --device {device}{' --smoke' * args.smoke}",
        "device": hardware,
        "computing": describe_computing(device, "bf16", 1, describe_attention(device, "bf16")),
        "versions": software,
        "load": os.getloadavg()[0],
        "parity": {},
        "contests": [],
        "profiles": {},
        "left_out": [],
    }


def hold(
    scale: Scale,
    preset: str,
    dropout: float,
    device: torch.device,
    with_peers: bool,
    results: dict[str, Any],
    target: Path,
) -> None:
    """Run the contests of a model size: of natural rows (only with peers), then of full rows."""
    config = our_config(scale, preset, dropout)
    contenders = [Contender(OURS, lambda: our_step(config, device))]
    if scale.compiles:
        contenders.append(Contender(COMPILED, lambda: our_step(config, device, compiled=True)))
    if with_peers:
        contenders += peer_contenders(scale, config, device)
    contenders.append(roof(scale, device))
    for kind in ("natural", "full") if with_peers else ("full",):
        work = draw(scale, kind, scale.presets[preset])
        contest = {
            "title": f"{preset}, {kind} rows, dropout {dropout:g}",
            "unit": "tokens/s",
            "contenders": compete(contenders, work, scale),
            **arithmetic(config, work),
        }
        results["contests"].append(contest)
        save(results, target, page)
    results["profiles"][f"{preset}, dropout {dropout:g}"] = profile(contenders[0], work[0])


def arithmetic(config: BertConfig, work: Sequence[Work]) -> dict[str, Any]:
    """Return the size of a step's rows and the FLOPs per real token."""
    lengths = [length for each in work for length in each.packed.lengths]
    predicted = sum(len(each.packed.targets["masked_labels"]) for each in work)
    tokens, cells = sum(lengths), sum(each.cells for each in work)
    return {
        "rows": len(lengths) // len(work),
        "tokens_per_step": tokens / len(work),
        "padding": 1 - tokens / cells,
        "flops_per_token": training_flops_per_token(asdict(config), lengths, predicted),
    }


# Rows


def draw(scale: Scale, kind: str, num_rows: int, seed: int = 0) -> list[Work]:
    """Draw the rows and masks of each step."""
    rng = np.random.default_rng(seed)
    collate = Collator(num_rows, None)
    work = []
    for _ in range(scale.num_steps):
        batch = draw_batch(draw_lengths(scale, kind, num_rows, rng), scale.vocab_size, rng)
        work.append(Work(batch, collate(unpacked(batch))))
    return work


def draw_lengths(
    scale: Scale, kind: str, num_rows: int, rng: np.random.Generator
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Draw the number of tokens of each row.

    The first row of a step has the maximum, so that all steps are padded to the same length.
    """
    longest = scale.max_length
    if kind == "full":
        return np.full(num_rows, longest, dtype=np.int64)
    drawn = rng.lognormal(math.log(NATURAL_MEDIAN * longest), NATURAL_SPREAD, num_rows)
    drawn[0] = longest
    return np.clip(drawn, 8, longest).astype(np.int64)


def draw_batch(
    lengths: np.ndarray[Any, np.dtype[np.int64]], vocab_size: int, rng: np.random.Generator
) -> Batch:
    """Draw packed, masked rows [CLS] A [SEP] B [SEP] with segments of equal length."""
    ranks = np.arange(1, vocab_size - len(SPECIAL_IDS) + 1)
    frequencies = 1 / (ranks + 2.7)
    drawn = rng.choice(ranks, lengths.sum(), p=frequencies / frequencies.sum())
    ids = drawn + len(SPECIAL_IDS) - 1
    ends = np.cumsum(lengths)
    starts, middles = ends - lengths, ends - lengths // 2
    ids[starts], ids[middles - 1], ids[ends - 1] = CLS, SEP, SEP
    is_second = np.zeros(len(ids), dtype=np.int64)
    for middle, end in zip(middles, ends, strict=True):
        is_second[middle:end] = 1
    vocabulary = MaskingVocabulary(vocab_size, MASK, SPECIAL_IDS)
    masked = mask_tokens(ids, lengths, MASKING, vocabulary, rng)
    labels = np.full(len(ids), IGNORE_INDEX)
    labels[masked.positions] = masked.labels
    cuts = ends[:-1]
    batch = pack(np.split(masked.input_ids, cuts), np.split(is_second, cuts))
    labels_of_rows = np.split(labels, cuts)
    labels = np.concatenate([labels_of_rows[i] for i in batch.order])
    positions = np.flatnonzero(labels != IGNORE_INDEX)
    targets = {
        "masked_positions": torch.from_numpy(positions),
        "masked_labels": torch.from_numpy(labels[positions]),
        "next_sentence_rows": torch.arange(len(lengths)),
        "next_sentence_labels": torch.from_numpy(rng.integers(0, 2, len(lengths))),
    }
    return replace(batch, targets=targets)


def grouped(work: Sequence[Work]) -> list[Work]:
    """Group rows of similar length in a step, as the Trainer does."""
    rows = [row for each in work for row in unpacked(each.packed)]
    rows.sort(key=lambda row: len(row["input_ids"]))
    size = len(rows) // len(work)
    collate = Collator(size, None)
    firsts = range(0, len(rows), size)
    return [
        replace(each, padded=collate(rows[first : first + size]))
        for each, first in zip(work, firsts, strict=True)
    ]


# Contenders


def our_config(scale: Scale, preset: str, dropout: float) -> BertConfig:
    changes = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    return BertConfig.from_preset(preset, scale.vocab_size, **scale.shape, **changes)


def our_step(config: BertConfig, device: torch.device, *, compiled: bool = False) -> Step:
    """Build a step as the training loop does it, without journal and display."""
    torch.manual_seed(0)
    model = BertModel(config, build_heads(config, HEADS)).to(device)
    settings = OptimSettings(learning_rate=RATE, max_grad_norm=MAX_GRAD_NORM)
    objective = Rows()
    # One share: the step is not divided. `Rows` has only the methods of an objective that it needs.
    plan = Plan(objective, settings, seed=0, num_shares=1)  # type: ignore[arg-type]
    workers = LocalWorkers(model, torch.bfloat16, plan)
    if compiled:
        torch._dynamo.config.recompile_limit = 64  # should it be counted for each layer
        for layer in workers.compute_model.layers:
            layer.combine = torch.compile(layer.combine, dynamic=True)

    def step(number: int, work: Work) -> float:
        objective.rows = work.packed
        counts = total_counts(workers.prepare(number))
        [figures] = workers.compute(number, counts)
        norm = workers.reduce_gradients()
        workers.update(number, RATE, divisor=max(1.0, norm / MAX_GRAD_NORM))
        return sum(figures[name][0] / count for name, count in counts.items())

    return step


def peer_contenders(scale: Scale, config: BertConfig, device: torch.device) -> list[Contender]:
    """List transformers' own model under autocast, in the ways that its documents name."""
    ways = {
        SDPA: ("sdpa", False),
        GROUPED: ("sdpa", False),
        SDPA_COMPILED: ("sdpa", True),
        FLASH_COMPILED: ("flash_attention_2", True),
    }
    if not scale.compiles:
        del ways[SDPA_COMPILED]
    return [
        Contender(name, partial(peer_step, config, *way, device), is_grouped=name == GROUPED)
        for name, way in ways.items()
    ]


def peer_step(config: BertConfig, attention: str, compiled: bool, device: torch.device) -> Step:
    """Build a step as the Trainer does it with bf16=True: autocast, fused AdamW, clipping."""
    from transformers import BertForPreTraining

    torch.manual_seed(0)
    theirs = peer_config(config, attn_implementation=attention)
    model = BertForPreTraining(theirs).to(device).train()
    decayed = [parameter for parameter in model.parameters() if parameter.ndim > 1]
    spared = [parameter for parameter in model.parameters() if parameter.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": spared, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=RATE, eps=1e-6, fused=True)
    run = torch.compile(model) if compiled else model

    def step(number: int, work: Work) -> Any:
        batch = {name: send(value, device) for name, value in work.padded.items()}
        with torch.autocast(device.type, torch.bfloat16):
            loss = run(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_GRAD_NORM)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return step


def roof(scale: Scale, device: torch.device) -> Contender:
    """Build a contender of plain matrix products; its amount is in FLOPs."""
    size = scale.roof_size

    def build() -> Step:
        left, right = (torch.randn(size, size, device=device).bfloat16() for _ in range(2))
        return lambda number, work: left @ right

    return Contender(ROOF, build, amount=lambda work: 2.0 * size**3)


def measure_parity(scale: Scale, preset: str, device: torch.device) -> dict[str, float]:
    """Compute the difference of losses and gradients in fp32, and of our loss in bf16."""
    from transformers import BertForPreTraining

    torch.manual_seed(0)
    config = our_config(scale, preset, 0.0)
    ours = BertModel(config, build_heads(config, HEADS)).eval()
    with tempfile.TemporaryDirectory() as folder:
        save_model(ours, Path(folder))
        theirs = BertForPreTraining.from_pretrained(folder).float().eval().to(device)
    ours = ours.to(device)
    [work, *_] = draw(replace(scale, num_steps=1), "natural", scale.parity_rows)
    padded = {name: value.to(device) for name, value in work.padded.items()}

    def our_loss() -> torch.Tensor:
        terms = Rows().losses(ours, work.packed.to(device)).values()
        return torch.stack([term.sum / term.count for term in terms]).sum()

    apart = compute_difference(ours, theirs, our_loss, lambda: theirs(**padded).loss)
    with torch.no_grad():
        exact = float(our_loss())
        ours.to(torch.bfloat16)
        apart["loss in bf16, from fp32"] = abs(float(our_loss()) - exact) / exact
    return apart


# Turns


def compete(
    contenders: Sequence[Contender], work: Sequence[Work], scale: Scale
) -> dict[str, dict[str, Any]]:
    """Warm all contenders up and run them in turns; return their results by name."""
    by_length = grouped(work)

    def attempt(what: Callable[[Contender, Sequence[Work]], object], contender: Contender) -> None:
        if contender.error is None:
            try:
                what(contender, by_length if contender.is_grouped else work)
            except Exception as error:  # the others go on
                contender.error, contender.step = in_one_line(error), None
                print(f"  {contender.name}: {contender.error}", flush=True)
        if contender.error is not None:
            clear()

    for contender in contenders:
        contender.bursts = []  # those of an earlier contest
        attempt(partial(warm_up, seconds=scale.turn_seconds), contender)
    for number in range(scale.rounds):
        for contender in contenders if number % 2 == 0 else reversed(contenders):
            attempt(lambda who, rows: who.bursts.append(take_turn(who, rows)), contender)
    return {
        each.name: {"facts": {**each.facts}, "bursts": each.bursts, "error": each.error}
        for each in contenders
    }


def warm_up(contender: Contender, work: Sequence[Work], seconds: float) -> None:
    """Build it if need be, go once through all steps, and find how often to do so in a turn."""
    facts = contender.facts
    if contender.step is None:
        before, began = torch.cuda.memory_allocated(), time.perf_counter()
        contender.step = contender.build()
        contender.step(1, work[0])
        wait()
        facts["first_seconds"] = time.perf_counter() - began
        facts["static_bytes"] = torch.cuda.memory_allocated() - before
    facts.pop(
        "cycles", None
    )  # of an earlier contest; without it a turn goes through the steps once
    first, again = take_turn(contender, work), take_turn(contender, work)
    facts |= {
        "padding": 1 - sum(each.packed.num_tokens for each in work) / sum(e.cells for e in work),
        "cycles": max(1, round(seconds / max(again["seconds"], 1e-6))),
        "loss": first["loss"],
    }
    if torch.cuda.is_initialized():
        facts["waits"] = waits(contender.step, work[0])


def take_turn(contender: Contender, work: Sequence[Work]) -> dict[str, float]:
    """Do all prepared steps, some times over."""
    assert contender.step is not None
    cycles = contender.facts.get("cycles", 1)
    if torch.cuda.is_initialized():
        torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    wait()
    began = time.perf_counter()
    for number in range(cycles * len(work)):
        outcome = contender.step(number + 1, work[number % len(work)])
    wait()
    seconds = time.perf_counter() - began
    peak = torch.cuda.max_memory_allocated() - before
    return {
        "seconds": seconds,
        "amount": cycles * sum(contender.amount(each) for each in work),
        "loss": 0.0 if contender.name == ROOF else float(outcome),
        "peak_bytes": peak + contender.facts.get("static_bytes", 0),
    }


def waits(step: Step, work: Work) -> list[str]:
    """List the places at which a step waits for the GPU."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            step(1, work)
        finally:
            torch.cuda.set_sync_debug_mode("default")
    return [
        f"{Path(each.filename).name}:{each.lineno}"
        for each in caught
        if "synchroniz" in str(each.message)
    ]


def profile(contender: Contender, work: Work) -> str:
    """Return the time of a step by kernel, longest first."""
    if contender.step is None or contender.error is not None:
        return "not measured"
    from torch.profiler import profile as record

    try:
        with record() as seen:
            contender.step(1, work)
            wait()
        device = "device" if torch.cuda.is_initialized() else "cpu"
        column = f"self_{device}_time_total"
        return seen.key_averages().table(sort_by=column, row_limit=20, max_name_column_width=80)
    except Exception as error:
        return in_one_line(error)


def in_one_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).strip()}".splitlines()[0][:300]


def wait() -> None:
    """Wait until the GPU has done all its work."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


def clear() -> None:
    """Give back the memory that nobody holds."""
    gc.collect()
    torch.cuda.empty_cache()


# The result


INTRODUCTION = (
    "Whole steps in bf16 with fp32 weights: masked LM, next sentence prediction, AdamW, clipping. "
    "Random token ids with the frequencies of Zipf's law; both sides have the same rows and masks. "
    "Real tokens only are counted. A ratio is the median over the rounds, in brackets the least "
    "and the greatest. What compiled layers would add is measured; bertsmith does not offer it."
)


def page(results: Mapping[str, Any]) -> str:
    """Format the result; everything is computed from the JSON beside it."""
    software = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    lines = [
        f"# Pre-training on a GPU, {results['date']}",
        "",
        f"`{results['command']}`, {results['device']}. {software}.",
        "",
        f"bertsmith computes {results['computing']}.",
        "",
        INTRODUCTION,
        "",
        *parity_lines(results["parity"]),
        "",
        *table(
            ("what", "ours", "beside", "figure"),
            [row for contest in results["contests"] for row in ratio_rows(contest)],
        ),
    ]
    for contest in results["contests"]:
        lines += contest_lines(contest)
    for title, kernels in results["profiles"].items():
        lines += ["", f"## A step of bertsmith: {title}", "", "```", kernels.strip(), "```"]
    if results["left_out"]:
        lines += ["", f"Not measured, for want of time: {'; '.join(results['left_out'])}."]
    return "\n".join([*lines, ""])


def parity_lines(results: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield the differences between both sides in fp32, which were computed before the timing."""
    for preset, apart in results.items():
        if "error" in apart:
            yield f"**Parity of {preset} could not be checked: {apart['error']}**"
            continue
        is_equal = all(apart[name] <= TOLERANCE for name in ("loss", "gradients"))
        figures = ", ".join(f"{name} {value:.1e}" for name, value in apart.items())
        verdict = "holds" if is_equal else "**FAILS, so that ratios mean nothing**"
        yield f"Parity of {preset} in fp32 (allowed {TOLERANCE:g}) {verdict}: {figures}."


def ratio_rows(contest: Mapping[str, Any]) -> Iterator[Sequence[str]]:
    """Yield ours beside each peer, and our share of the roof."""
    title = contest["title"]
    for name in PEERS:
        if name in contest["contenders"]:
            ratios = compare(contest, {"ours": [OURS], "peers": [name]})["ratios"]
            figure = "failed"
            if ratios:
                figure = f"**{statistics.median(ratios):.2f}×** ({span(ratios, '.2f')})"
            yield title, OURS, name, figure
    if fastest(contest, [ROOF]) and fastest(contest, [OURS]):
        roof_speed = statistics.median(speeds(contest, ROOF))
        needed = 100 * contest["flops_per_token"]
        shares = [speed * needed / roof_speed for speed in speeds(contest, OURS)]
        figure = f"**{statistics.median(shares):.1f} %** ({span(shares, '.2f')})"
        yield title, OURS, ROOF, figure


CONTENDER_HEADING = (
    "contender", "tokens/s, median", "least to greatest", "padding", "TFLOP/s", "peak memory, GB",
    "built and first step, s", "waits for the GPU in a step", "",
)  # fmt: skip


def contest_lines(contest: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines about every contender of a contest."""
    yield from ("", f"## {contest['title']}", "")
    yield (
        f"{contest['rows']} rows and {contest['tokens_per_step']:,.0f} real tokens a step, "
        f"{contest['flops_per_token'] / 1e6:,.0f} MFLOP a real token."
    )
    yield ""
    yield from table(CONTENDER_HEADING, [cells(contest, name) for name in contest["contenders"]])


def cells(contest: Mapping[str, Any], name: str) -> Sequence[str]:
    """Describe one contender, or why it failed."""
    result = contest["contenders"][name]
    if result["error"] or not result["bursts"]:
        return (name, "failed", *[""] * 6, str(result["error"]))
    rates, facts = speeds(contest, name), result["facts"]
    median = statistics.median(rates)
    if name == ROOF:
        flops = [speed / 1e12 for speed in rates]
        return (name, "", "", "", f"{median / 1e12:.1f} ({span(flops, '.2f')})", *[""] * 4)
    waited = facts.get("waits", [])
    return (
        name,
        f"{median:,.0f}",
        span(rates, ",.0f"),
        "none" if name in (OURS, COMPILED) else f"{facts['padding']:.0%}",
        f"{median * contest['flops_per_token'] / 1e12:.1f}",
        f"{max(burst['peak_bytes'] for burst in result['bursts']) / 1e9:.1f}",
        f"{facts['first_seconds']:.1f}",
        f"{len(waited)}: {', '.join(dict.fromkeys(waited))}" if waited else "0",
        f"loss {facts['loss']:.3f}",
    )


if __name__ == "__main__":
    main()
