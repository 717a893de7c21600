"""`bertsmith hardware`: measure this computer, and show how bertsmith computes on it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch

from bertsmith.commands.output import print_json
from bertsmith.commands.settings.hardware import Settings
from bertsmith.model.attention_paths import (
    PATH_NAMES,
    USE_NAMES,
    describe_attention,
    measured_paths,
)
from bertsmith.model.precision_speeds import int8_speed
from bertsmith.system.counts import count_noun
from bertsmith.system.hardware import (
    count_worker_processes,
    describe_computing,
    select_device,
    select_precision,
)
from bertsmith.system.matrix_products import format_gflops, measured_products
from bertsmith.system.measurements import (
    Measured,
    forget,
    gpu_key,
    machine_key,
    processor_name,
)


def main(settings: Settings, line: Sequence[str]) -> None:
    """Measure what is not measured yet, or with --fresh everything, and print the figures.

    `line`, the words of the command line, which every command gets, is not needed here.
    """
    device = select_device("auto")
    if settings.fresh:
        forget(machine_key())
        if device.type == "cuda":
            forget(gpu_key(device))
    measured = measured_products()
    paths = measured_paths()
    int8 = int8_speed()
    speeds = measured.value
    precision = select_precision("auto", device)
    attention = describe_attention(device, precision)
    # `configure_process` has already limited torch's threads to the container's cores.
    computing = describe_computing(device, precision, count_worker_processes(device), attention)
    if settings.json:
        facts = {
            "processor": processor_name(),
            "threads": torch.get_num_threads(),
            "products": asdict(measured),
            "int8": None if int8 is None else asdict(int8),
            "attention": paths,
            "device": str(device),
            "precision": precision,
            "used": computing,
        }
        print_json(facts)
        return
    lines = [
        f"processor            {processor_name()}, {count_noun(torch.get_num_threads(), 'thread')}",
        f"fp32                 {speeds.fp32_gflops:,.0f} GFLOP/s",
        f'fp32, "medium"       {speeds.fp32_medium_gflops:,.0f} GFLOP/s, '
        f"relative error {speeds.fp32_medium_error:.1e}",
        f"bf16                 {format_gflops(speeds.bf16_gflops)}, "
        f"relative error {speeds.bf16_error:.1e}",
    ]
    if int8 is not None:
        speed = format_gflops(int8.int8_gflops)
        lines.append(f"int8                 {speed}, relative error {int8.int8_error:.1e}")
    lines += [
        f"attention            {describe_paths(paths)}",
        f"measured             {describe_time(measured)}",
        f"bertsmith trains     {computing}",
    ]
    print("\n".join(lines))


def describe_paths(paths: Mapping[str, str]) -> str:
    """Describe where attention is computed by matrix products, and where by torch's fused kernel.

    Args:
        paths: "explicit" (matrix products) or "fused" by precision, use ("learning" with
            gradients, "reading" without) and length.

    >>> paths = {"fp32 learning 64": "explicit", "fp32 learning 512": "explicit"}
    >>> print(describe_paths({**paths, "bf16 reading 64": "fused"}))
    by plain matrix products where they are faster here:
                         - training in fp32, for texts of 64, 512 tokens
                         else by torch's fused kernel
    """
    lengths: dict[str, list[str]] = {}
    for name, path in paths.items():
        if path == "explicit":
            precision, use, length = name.split()
            lengths.setdefault(f"{USE_NAMES[use]} in {precision}", []).append(length)
    if not lengths:
        return f"by {PATH_NAMES['fused']}"
    lines = [
        f"by {PATH_NAMES['explicit']} where they are faster here:",
        *(f"- {use}, for texts of {', '.join(each)} tokens" for use, each in lengths.items()),
        f"else by {PATH_NAMES['fused']}",
    ]
    return f"\n{' ' * 21}".join(lines)


def describe_time(measurement: Measured[Any]) -> str:
    """Describe when a measurement was made, and how busy the computer was."""
    when = measurement.measured_at.replace("T", " ").replace("+00:00", " UTC")
    if measurement.load is None:
        return when
    load = f"{when}, with {100 * measurement.load:.0f} % of the cores' time used by other programs"
    doubt = (
        ": the figures may be too low, and are measured again by the next command that needs them "
        "while the computer is idle"
    )
    return load + doubt if measurement.is_busy else load
