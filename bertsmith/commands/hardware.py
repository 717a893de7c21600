"""`bertsmith hardware`: measure this computer, and show how bertsmith computes on it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch

from bertsmith.commands.settings.hardware import Settings
from bertsmith.model.attention_paths import describe_attention, measured_paths
from bertsmith.model.precision_speeds import int8_speed
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
    chosen = describe_computing(device, precision, count_worker_processes(device), attention)
    if settings.json:
        facts = {
            "processor": processor_name(),
            "threads": torch.get_num_threads(),
            "products": asdict(measured),
            "int8": None if int8 is None else asdict(int8),
            "attention": paths,
            "device": str(device),
            "precision": precision,
            "used": chosen,
        }
        print(json.dumps(facts))
        return
    lines = [
        f"processor            {processor_name()}, {torch.get_num_threads()} threads",
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
        f"bertsmith trains     {chosen}",
    ]
    print("\n".join(lines))


def describe_paths(paths: Mapping[str, str]) -> str:
    """Describe where attention by plain products is used, a line for each precision and use.

    The last line says that the fused kernel is used for everything else.

    >>> paths = {"fp32 learning 64": "explicit", "fp32 learning 512": "explicit"}
    >>> print(describe_paths({**paths, "bf16 reading 64": "fused"}))
    explicit for fp32 learning of 64, 512 tokens
                         else fused
    """
    lengths: dict[str, list[str]] = {}
    for use, path in paths.items():
        if path == "explicit":
            kind, _, length = use.rpartition(" ")
            lengths.setdefault(kind, []).append(length)
    lines = [
        f"explicit for {kind} of {', '.join(kind_lengths)} tokens"
        for kind, kind_lengths in lengths.items()
    ]
    return f"\n{' ' * 21}".join([*lines, "else fused" if lines else "fused"])


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
