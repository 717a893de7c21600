"""Measurements of a machine that none was needed for."""

import json
from datetime import UTC, datetime

from bertsmith.model.attention_paths import ATTENTION_LENGTHS, measured_paths
from bertsmith.system import measurements
from bertsmith.system.matrix_products import ProductSpeeds, threads_key

USES = [
    f"{dtype} {use} {length}"
    for dtype in ("fp32", "bf16")
    for use in ("reading", "learning")
    for length in ATTENTION_LENGTHS
]
PRODUCTS = {
    "fp32_gflops": 100.0, "fp32_medium_gflops": 200.0, "fp32_medium_error": 4e-7,
    "bf16_gflops": 400.0, "bf16_error": 3e-3,
}  # fmt: skip


def speeds(**changes: float) -> ProductSpeeds:
    """Make speeds where bf16 is twice as fast as fp32."""
    return ProductSpeeds(**(PRODUCTS | changes))


def store(attention: str = "fused", int8_gflops: float = 800.0, **changes: float) -> None:
    """Write a measurement of this machine into the cache of `XDG_CACHE_HOME`."""
    values = {
        threads_key("products"): PRODUCTS | changes,
        threads_key("int8"): {"int8_gflops": int8_gflops, "int8_error": 1.5e-2},
        f"{measurements.machine_key()} | attention": dict.fromkeys(USES, attention),
    }
    conditions = {"measured_at": datetime.now(UTC).isoformat(), "load": 0.0}
    path = measurements._cache_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({key: {"value": v, **conditions} for key, v in values.items()}))
    measurements._checked.update(values)  # this process does not measure them again
    measured_paths.cache_clear()
