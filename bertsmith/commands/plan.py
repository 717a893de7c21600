"""`bertsmith plan`: forecast time, memory and arithmetic of a pre-training run."""

from collections.abc import Iterator, Sequence
from typing import Any

from bertsmith.commands.output import print_json
from bertsmith.commands.pretrain import build_job
from bertsmith.commands.settings.plan import Settings
from bertsmith.model.config import BertConfig
from bertsmith.pretraining.config import PretrainConfig
from bertsmith.pretraining.forecast import forecast
from bertsmith.pretraining.scaling import Scaling, parse_bandwidth
from bertsmith.system.counts import count_noun, percent

# Prefixes of units (yotta to mega), by factor.
PREFIXES = {1e24: "Y", 1e21: "Z", 1e18: "E", 1e15: "P", 1e12: "T", 1e9: "G", 1e6: "M"}


def main(settings: Settings, line: Sequence[str]) -> None:
    """Time some steps of a run, and print what the whole run would take.

    `line`, the words of the command line, which every command gets, is not needed here.
    """
    estimate = forecast(build_job(settings), settings.measure_seconds)
    facts = estimate.to_json()
    lines = list(describe_forecast(facts, estimate.config))
    num_ranks = settings.nodes * settings.ranks  # `ranks` are those of one machine
    if num_ranks > 1:
        scaling = Scaling(
            num_ranks=num_ranks,
            parameters=estimate.parameters,
            step_seconds=facts["step"]["seconds"],
            bytes_per_second=parse_bandwidth(settings.bandwidth),
        )
        facts["ranks"] = {
            "num_ranks": num_ranks,
            "step_seconds": scaling.seconds,
            "collective_seconds": scaling.collective_seconds,
            "bytes": scaling.num_bytes,
            "efficiency": scaling.efficiency,
        }
        lines += describe_scaling(scaling, settings.bandwidth)
    if settings.json:
        print_json(facts)
    else:
        print("\n".join(lines))


def describe_forecast(facts: dict[str, Any], config: PretrainConfig) -> Iterator[str]:
    """Format a forecast line by line.

    Args:
        facts: the forecast as `to_json` returns it.
        config: the config of the run that was measured.
    """
    shape, step, run, memory = config.model, facts["step"], facts["run"], facts["memory"]
    for note in facts["notes"]:
        yield f"note    {note}"
    yield (
        f"model   {_model_name(config)}: {count_noun(shape.num_hidden_layers, 'layer')}, "
        f"{shape.hidden_size} wide, {facts['vocab_size']:,} tokens; "
        f"{facts['parameters']:,} parameters, "
        f"{facts['encoder_parameters']:,} of them in the encoder"
    )
    yield (
        f"step    {count_noun(step['rows'], 'row')}, {step['tokens']:,.0f} real tokens, "
        f"{step['predicted']:,.0f} tokens to predict, {_format_count(step['flops'], 'FLOP')}"
    )
    yield (
        f"run     {count_noun(run['steps'], 'step')}, {_format_count(run['tokens'])} tokens, "
        f"{run['epochs']:.3g} times through the corpus, {_format_count(run['flops'], 'FLOP')}"
    )
    preparation = _format_time(run["preparation_seconds"])
    evaluations = count_noun(run["evaluations"], "evaluation")
    yield (
        f"time    {_format_time(run['seconds'])} after {preparation} of preparation: "
        f"{_format_time(step['seconds'])} a step ({step['tokens_per_second']:,.0f} tokens/s), "
        f"{evaluations} of {_format_time(run['evaluation_seconds'])} each"
    )
    peak = ""
    if memory["peak"] is not None:
        peak = f"{_format_count(memory['peak'], 'B')} at the peak, of which "
    state = _format_count(memory["state"], "B")
    yield f"memory  {peak}{state} for weights, optimizer and gradients"
    yield (
        f"measured in {count_noun(facts['measured_steps'], 'step')} on {facts['device']} in "
        f"{facts['precision']} with {count_noun(facts['processes'], 'process', 'processes')}"
    )


def describe_scaling(scaling: Scaling, bandwidth: str) -> Iterator[str]:
    """Format the estimate of a step on several ranks line by line.

    Each rank is a machine, or a GPU of one; `bandwidth` is that of the network between them.
    """
    yield (
        f"ranks   {scaling.num_ranks}: {_format_time(scaling.seconds)} a step, of which "
        f"{_format_time(scaling.collective_seconds)} for {_format_count(scaling.num_bytes, 'B')} "
        f"that each rank sends at {bandwidth}; efficiency "
        f"{percent(scaling.efficiency, decimals=0)}"
    )
    yield (
        "        This assumes machines like this one, a network that sends and receives at the "
        "same time, and that no rank computes meanwhile."
    )
    yield "        Gradients and weights travel in fp32, also where the model computes in bf16."


def _model_name(config: PretrainConfig) -> str:
    """Name the model by its size and family, or by the folder that it begins with."""
    if config.source:
        return config.source
    is_bert = config.family == BertConfig.model_type
    return config.preset if is_bert else f"{config.family} {config.preset}"


def _format_count(count: float, unit: str = "") -> str:
    """Format a count to three digits, with its unit and the unit's prefix.

    >>> _format_count(40_877_398), _format_count(9_876), _format_count(9_876, "FLOP")
    ('40.9 M', '9,876', '9,876 FLOP')
    >>> _format_count(999_400_000, "B"), _format_count(999_600_000, "B")
    ('999 MB', '1 GB')
    """
    number, prefix = f"{count:,.0f}", ""
    for size, name in PREFIXES.items():
        if count >= 0.9995 * size:  # such a count is `size` when it is rounded to three digits
            number, prefix = f"{count / size:.3g}", name
            break
    return f"{number} {prefix}{unit}".rstrip()


def _format_time(seconds: float) -> str:
    """Format a duration with its unit; days from two days on.

    >>> [_format_time(seconds) for seconds in (0.0849, 12.3, 900, 7300, 200_000)]
    ['84.9 ms', '12.3 s', '15.0 min', '2.0 h', '2.3 days']
    """
    if seconds >= 2 * 86_400:
        return f"{seconds / 86_400:.1f} days"
    for size, name in ((3600, "h"), (60, "min"), (1, "s")):
        if seconds >= size:
            return f"{seconds / size:.1f} {name}"
    return f"{1e3 * seconds:.1f} ms"
