"""Choice of the faster way, or path, to compute attention on this machine, measured once.

On a CPU torch's fused kernel takes a third of the time of plain products on one processor and three
times as long on another. The ratio also depends on precision, on length, and on the use: whether
gradients are needed. On CUDA one kernel may take all sequences of a batch (model/varlen.py);
otherwise attention is computed by blocks, padded arrays of sequences of similar length.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import product

import torch
import torch.nn.functional as F
from torch import Tensor

from bertsmith.model.varlen import varlen_trial
from bertsmith.system.hardware import earlier_choices
from bertsmith.system.matrix_products import Precision, multiplies_bf16
from bertsmith.system.measurements import machine_key, remember, shortest_seconds
from bertsmith.system.torch_modes import usual_modes

# Attention is timed at these lengths, for `ATTENTION_SECONDS` each. Any other length takes the path
# of the nearest timed length, by ratio. The fused kernel must be faster by `MIN_FUSED_GAIN`:
# otherwise noise would decide between equal paths.
ATTENTION_LENGTHS = (32, 128, 512)
MIN_FUSED_GAIN = 1.1
ATTENTION_SECONDS = 0.01
DESCRIBED_LENGTH = 128
"""Length whose path `describe_attention` names: that of most rows of pre-training."""

PRECISIONS = ("fp32", "bf16")
USES = ("reading", "learning")
"""Uses of attention: for outputs alone, or also for gradients."""
USE_NAMES = {"reading": "inference", "learning": "training"}
"""Names of the two uses for people."""
PATH_NAMES = {"explicit": "plain matrix products", "fused": "torch's fused kernel"}
"""Names of the two paths for people."""


def attention_path(dtype: torch.dtype, is_learning: bool, length: int) -> str:
    """Return the faster path on this CPU, "explicit" or "fused", for `length` tokens.

    `is_learning` is whether gradients will be taken.
    """
    paths = attention_paths()
    precision = "bf16" if dtype == torch.bfloat16 else "fp32"
    # Not `ATTENTION_LENGTHS`: a resumed run may have begun with a version that timed others.
    return paths[_nearest_name(tuple(paths), _case_prefix(precision, is_learning), length)]


@lru_cache(4096)  # called for each block of each layer
def _nearest_name(names: Sequence[str], prefix: str, length: int) -> str:
    """Return the name that begins with `prefix` and ends with the length nearest by ratio.

    Names are those of `_case_name`, the prefix is that of `_case_prefix`.
    """
    lengths = [int(name.removeprefix(prefix)) for name in names if name.startswith(prefix)]
    return f"{prefix}{min(lengths, key=lambda measured: abs(math.log(length / measured)))}"


def has_all_uses(paths: Mapping[str, str]) -> bool:
    """Return whether `paths` have a known path for every precision and use."""
    prefixes = set()
    for name, path in paths.items():
        prefix, _, length = name.rpartition(" ")
        # Compared with a list: in a damaged file a path may be a value that cannot be hashed.
        if not re.fullmatch("[1-9][0-9]{0,8}", length) or path not in list(PATH_NAMES):
            return False
        prefixes.add(prefix)
    return prefixes == {f"{precision} {use}" for precision, use in product(PRECISIONS, USES)}


def attention_paths() -> Mapping[str, str]:
    """Return the path by precision, use and length, such as "bf16 reading 128".

    The paths are measured if no result is stored for this processor. A resumed run and other
    processes of a run take the paths of the run instead (`earlier_choices`).
    """
    choices = earlier_choices()
    return measured_paths() if choices is None else choices.attention


@lru_cache
def measured_paths() -> dict[str, str]:
    """Return paths measured once per machine, not per thread count, so that all processes agree."""
    return remember(f"{machine_key()} | attention", measure_paths, _check_paths).value


def _check_paths(**paths: str) -> dict[str, str]:
    """Return stored paths, if this version of bertsmith could have stored them.

    `remember` passes the entries of the stored dict as keyword arguments.

    Raises:
        ValueError: they are for other cases than `measure_paths` times, or a path is not known.
    """
    if paths.keys() != {_case_name(*case) for case in _timed_cases()} or not has_all_uses(paths):
        raise ValueError("other cases, or an unknown path")
    return paths


def measure_paths() -> dict[str, str]:
    """Time both paths for each precision, use and length; takes half a second."""
    with usual_modes():
        return {_case_name(*case): _faster_path(*case) for case in _timed_cases()}


def _timed_cases() -> Iterator[tuple[str, bool, int]]:
    """Yield each case that is timed: precision, whether gradients are taken, and length."""
    return product(PRECISIONS, (False, True), ATTENTION_LENGTHS)


def _case_name(precision: str, is_learning: bool, length: int) -> str:
    return f"{_case_prefix(precision, is_learning)}{length}"


def _case_prefix(precision: str, is_learning: bool) -> str:
    """Return the name of a case up to its length, such as "bf16 reading "."""
    use = "learning" if is_learning else "reading"
    return f"{precision} {use} "


def _faster_path(precision: str, is_learning: bool, length: int) -> str:
    """Time both paths of model/dense_attention.py; return the faster one.

    They are timed for 1,024 tokens of two heads of 64 numbers: so few that timing all cases takes
    half a second.
    """
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    if dtype == torch.bfloat16 and not multiplies_bf16():
        return "fused"  # plain products took 2 to 30 times as long on a Zen 3, up to a second each
    size = 64
    sequences = 1024 // length
    generator = torch.Generator().manual_seed(0)
    parts = torch.randn(3, sequences, 2, length, size, generator=generator)
    parts = parts.to(dtype).requires_grad_(is_learning)

    def explicit() -> Tensor:
        query, key, value = (part.flatten(0, 1) for part in parts)
        bias = query.new_zeros(1, 1, 1)
        scores = torch.baddbmm(bias, query, key.transpose(1, 2), alpha=size**-0.5)
        return torch.bmm(scores.softmax(-1), value)

    def time_of(attend: Callable[[], Tensor]) -> float:
        if is_learning:
            return shortest_seconds(lambda: attend().sum().backward(), ATTENTION_SECONDS)  # type: ignore[no-untyped-call]
        with torch.inference_mode():
            return shortest_seconds(attend, ATTENTION_SECONDS)

    fused = time_of(lambda: F.scaled_dot_product_attention(*parts))
    return "fused" if MIN_FUSED_GAIN * fused < time_of(explicit) else "explicit"


def describe_attention(device: torch.device, precision: Precision) -> str:
    """Describe the path that training takes and, on CUDA, the trial that chose it."""
    if device.type == "cpu":
        dtype = torch.bfloat16 if precision == "bf16" else torch.float32
        return f"attention by {PATH_NAMES[attention_path(dtype, True, DESCRIBED_LENGTH)]}"
    if device.type != "cuda" or precision == "fp32":
        return "attention by blocks"
    trial = varlen_trial(device)
    way = "of the whole row" if trial.pays else "by blocks"
    return f"attention {way} ({trial})"
