"""`bertsmith hardware`: measure this computer, and show what bertsmith uses on it."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from bertsmith.commands.flags import parse
from bertsmith.system.hardware import (
    Measurement,
    describe_computing,
    format_gflops,
    measured,
    select_device,
    select_precision,
)


@dataclass(frozen=True)
class Settings:
    """Show how fast this computer multiplies matrices, and what bertsmith therefore uses.

    Nearly all of BERT's time goes into matrix products. The figures are measured once and
    remembered; a run then uses the fastest way that keeps the promised accuracy. They are measured
    again after a month, where other programs kept the computer busy, and where it turns out faster.
    """

    json: bool = False
    """Print one JSON object instead of text."""
    fresh: bool = False
    """Measure again, and remember that: the computer may have been busy the first time."""


def main(args: Sequence[str], prog: str) -> None:
    """Measure what is not known, then print it."""
    settings = parse(Settings, args, prog)
    found = measured(fresh=settings.fresh)
    chosen = {
        "device": str(select_device("auto")),
        "precision": found.precision,
        "float32_route": found.float32_route,
    }
    if settings.json:
        print(json.dumps(asdict(found) | chosen))
        return
    lines = [
        f"processor            {found.processor}, {found.threads} threads",
        f"fp32                 {found.fp32_gflops:,.0f} GFLOP/s",
        f'fp32, "medium"       {found.fp32_medium_gflops:,.0f} GFLOP/s, '
        f"relative error {found.fp32_medium_error:.1e}",
        f"bf16                 {format_gflops(found.bf16_gflops)}, "
        f"relative error {found.bf16_error:.1e}",
        *(
            [
                f"int8                 {found.int8_gflops:,.0f} GFLOP/s, "
                f"relative error {found.int8_error:.1e}"
            ]
            if found.int8_gflops is not None
            else []
        ),
        "attention            " + describe_attention(found),
        f"measured             {describe_time(found)}",
        f"bertsmith will use   {chosen['device']}, training in {chosen['precision']}, "
        f'fp32 products by the "{chosen["float32_route"]}" route',
    ]
    device = select_device("auto")
    if device.type == "cuda":
        precision = select_precision("auto", device)
        lines.append(f"there, it computes   {describe_computing(device, precision, 1)}")
    print("\n".join(lines))


def describe_time(found: Measurement) -> str:
    """When it was measured, and how busy the computer was with other work."""
    when = found.measured_at.replace("T", " ").replace("+00:00", " UTC")
    if found.load is None:
        return when
    load = f"{when}, with {found.load:.0%} of the cores' time taken by other programs"
    again = ": the figures may be too low, and are measured again when the computer is quiet"
    return load + again if found.is_busy else load


def describe_attention(found: Measurement) -> str:
    """Describe the attention path per precision and use, with exceptions by length."""
    uses: dict[str, list[tuple[str, str]]] = {}
    for name, path in found.attention.items():
        use, _, length = name.rpartition(" ")
        uses.setdefault(use, []).append((length, path))
    return ", ".join(f"{use} {_describe_paths(paths)}" for use, paths in uses.items())


def _describe_paths(paths: Sequence[tuple[str, str]]) -> str:
    """Format paths as `fused` or `explicit (fused at 512 tokens)`."""
    different = [f"{path} at {length} tokens" for length, path in paths if path != paths[0][1]]
    return paths[0][1] + (f" ({', '.join(different)})" if different else "")
