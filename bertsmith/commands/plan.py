"""`bertsmith plan`: forecast arithmetic, memory and time of a pre-training run."""

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bertsmith.commands.pretrain import build_job
from bertsmith.commands.settings.plan import Settings
from bertsmith.errors import ConfigError
from bertsmith.model.accounting import RELEASED_VOCABULARY
from bertsmith.model.config import BertConfig
from bertsmith.pretraining.accelerators import accelerators
from bertsmith.pretraining.estimate import Estimate, forecast, forecast_to_json
from bertsmith.pretraining.job import PretrainJob
from bertsmith.pretraining.random_corpus import write_random_corpus
from bertsmith.system.counts import count_noun, percent
from bertsmith.system.terminal import align_columns

FORMULA = (
    "forward and backward, for real tokens: 6 × parameters of the layers per token,\n"
    "12·H·L per pair of tokens that attend to each other, 6·(H² + V·H) + 2·V per predicted token"
)


def main(settings: Settings, line: Sequence[str]) -> None:
    settings.training.check_length()
    with _with_corpus(settings) as job:
        found = forecast(
            job, seconds=settings.measure_seconds, has_text=settings.corpus is not None
        )
    facts = forecast_to_json(
        found, accelerators(settings.hardware, settings.flops, settings.efficiency)
    )
    print(json.dumps(facts) if settings.json else describe_forecast(facts, found))


@contextmanager
def _with_corpus(settings: Settings) -> Iterator[PretrainJob]:
    """Build the job, with a corpus of random text where it has none."""
    if settings.corpus is None:
        with tempfile.TemporaryDirectory(prefix="bertsmith-plan-") as folder:
            write_random_corpus(Path(folder), settings.vocab_size or RELEASED_VOCABULARY)
            yield build_job(settings, Path(folder))
        return
    if not settings.corpus.exists():
        raise ConfigError(
            f"--corpus: found '{settings.corpus}', which is not there. Build it with 'bertsmith "
            "corpus build', or pass --corpus None to plan with random text."
        )
    yield build_job(settings)


def describe_forecast(facts: dict[str, Any], found: Estimate) -> str:
    blocks = [_overview(facts, found), _arithmetic(facts), _memory(facts), _time(facts)]
    return "\n\n".join("\n".join(block) for block in blocks)


def _overview(facts: dict[str, Any], found: Estimate) -> list[str]:
    config, step, run = found.model.config, facts["step"], facts["run"]
    lines = [
        f"model   {_model_name(found)}: {count_noun(config.num_hidden_layers, 'layer')}, "
        f"{config.hidden_size} wide, {facts['vocab_size']:,} tokens; "
        f"{facts['parameters']:,} parameters, "
        f"{facts['encoder_parameters']:,} of them in the encoder",
        f"step    {count_noun(step['rows'], 'row')}, {step['tokens']:,.0f} real tokens, "
        f"{step['predicted']:,.0f} tokens to predict",
    ]
    if facts["chosen"]:
        lines.insert(0, f"chosen  {facts['chosen']}")
    if run["steps"] is None:
        lines.append("run     as many steps as fit, which is not known without measuring")
        return lines
    epochs = "" if run["epochs"] is None else f", {run['epochs']:.3g} times through the corpus"
    lines.append(
        f"run     {count_noun(run['steps'], 'step')}, {_big(run['tokens'])} tokens{epochs}"
    )
    return lines


def _model_name(found: Estimate) -> str:
    """Name the model by size and family, or by its initial folder."""
    if found.config.source:
        return found.config.source
    family, preset = found.config.family, found.config.preset
    return preset if family == BertConfig.model_type else f"{family} {preset}"


def _arithmetic(facts: dict[str, Any]) -> list[str]:
    step, run = facts["step"]["flops"], facts["run"]["flops"]
    whole = sum(step.values())
    rows = [("arithmetic", "a step", "the run", "share")]
    rows += [
        (name, _flop(count), _flop(run and run[name]), percent(count / whole))
        for name, count in step.items()
    ]
    rows.append(("total", _flop(whole), _flop(run and sum(run.values())), ""))
    return [*align_columns(rows), FORMULA]


def _memory(facts: dict[str, Any]) -> list[str]:
    memory, processes = facts["memory"], facts["processes"]
    many = f"{processes} processes" if processes > 1 else "1 process"
    rows = [("memory", "at the peak")]
    rows += [
        (label, _bytes(memory[name]))
        for name, label in (
            ("weights", f"weights, fp32{' and bf16' * (facts['precision'] == 'bf16')}"),
            ("optimizer", "optimizer"),
            ("gradients", f"gradients of {many}"),
            ("activations", f"activations of {many}"),
            ("rest", "Python, PyTorch and overhead"),
            ("peak", "all"),
        )
    ]
    return align_columns(rows)


def _time(facts: dict[str, Any]) -> list[str]:
    step, run, tokens = facts["step"], facts["run"], facts["step"]["tokens"]
    rows = [("time", "a step", "tokens/s", "the run")]
    if step["seconds"] is not None:
        speed = f"{step['tokens_per_second']:,.0f}"
        rows.append(("this computer", _time_of(step["seconds"]), speed, _time_of(run["seconds"])))
    rows += [
        (
            f"{other['name']}, {100 * other['efficiency']:.0f} % of "
            f"{other['flops'] / 1e12:,.0f} TFLOP/s",
            _time_of(other["step_seconds"]),
            f"{tokens / other['step_seconds']:,.0f}",
            _time_of(other["seconds"]),
        )
        for other in facts["elsewhere"]
    ]
    table, notes = align_columns(rows), []
    if facts["elsewhere"]:
        notes.append(
            "for other hardware the utilization is assumed (small models reach far less), and "
            "evaluations are left out"
        )
    if facts["not_measured"]:
        return [*table, *notes, f"not measured on this computer: {facts['not_measured']}"]
    evaluation = run["evaluation_seconds"]
    return [
        *table,
        f"measured here on {facts['device']} in {facts['precision']} with {facts['processes']} "
        f"process{'es' * (facts['processes'] > 1)}: {facts['measured_steps']} steps; "
        f"{run['evaluations']} evaluations of {_time_of(evaluation)} are in the run",
        *notes,
    ]


def _big(count: float) -> str:
    """Format a count to three digits.

    >>> _big(40_877_398), _big(9_876)
    ('40.9 M', '9,876')
    """
    for size, name in ((1e12, " T"), (1e9, " G"), (1e6, " M")):
        if count >= size:
            return f"{count / size:.3g}{name}"
    return f"{count:,.0f}"


def _flop(count: float | None) -> str:
    """Format a number of operations with a prefix.

    >>> _flop(1.234e10), _flop(None)
    ('12.3 GFLOP', '')
    """
    if count is None:
        return ""
    for size, name in ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G")):
        if count >= size:
            return f"{count / size:.1f} {name}FLOP"
    return f"{count / 1e6:.1f} MFLOP"


def _bytes(count: float) -> str:
    """
    >>> _bytes(31_500_000), _bytes(2.34e9)
    ('32 MB', '2.34 GB')
    """
    return f"{count / 1e6:,.0f} MB" if abs(count) < 1e9 else f"{count / 1e9:,.2f} GB"


def _time_of(seconds: float | None) -> str:
    """
    >>> [_time_of(seconds) for seconds in (4e-5, 0.0849, 12.3, 900, 7300, 200_000)]
    ['40.0 µs', '84.9 ms', '12.3 s', '15.0 min', '2.0 h', '2.3 days']
    """
    if seconds is None:
        return ""
    for size, name in ((86_400, "days"), (3600, "h"), (60, "min"), (1, "s")):
        if seconds >= size * (1 if size < 86_400 else 2):
            return f"{seconds / size:.1f} {name}"
    return f"{1e3 * seconds:.1f} ms" if seconds >= 1e-3 else f"{1e6 * seconds:.1f} µs"
