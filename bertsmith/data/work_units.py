"""Divide texts into work units, each of which one of many processes reads and encodes.

A unit has whole files, or part of a large file, cut at the end of a document. The units depend only
on the files, not on the number of processes.
"""

import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bertsmith.data.partitions import Partition, plan_partitions
from bertsmith.data.sources import Source, SourcePath
from bertsmith.errors import InputError, read_error

MIN_UNIT_BYTES = 1 << 20  # less work would not be worth the files of a unit
MAX_UNIT_BYTES = 1 << 26  # about ten seconds of a core; what a lost worker costs
USUAL_UNITS = 256  # of texts between 256 MiB and 16 GiB: enough for the workers to end together


@dataclass(frozen=True, slots=True)
class WorkUnit:
    """Partitions that are encoded together, and the number of their bytes on disk."""

    index: int
    partitions: tuple[Partition, ...]
    num_bytes: int

    def __str__(self) -> str:
        first, *others = self.partitions
        more = f" and {len(others):,} more" if others else ""
        return f"part {self.index} ({first}{more})"


def plan_work_units(sources: Sequence[Source]) -> list[WorkUnit]:
    """Divide files into units, in order.

    Raises:
        InputError: a file cannot be read.
    """
    sizes = {source.path: _size(source) for source in sources}
    target = min(max(sum(sizes.values()) // USUAL_UNITS, MIN_UNIT_BYTES), MAX_UNIT_BYTES)
    units: list[WorkUnit] = []
    gathered: list[Partition] = []
    num_bytes = 0
    for partition in plan_partitions(sources, target):
        gathered.append(partition)
        end = sizes[partition.source.path] if partition.end is None else partition.end
        num_bytes += end - partition.start
        if num_bytes >= target:
            units.append(WorkUnit(len(units), tuple(gathered), num_bytes))
            gathered, num_bytes = [], 0
    if gathered:
        units.append(WorkUnit(len(units), tuple(gathered), num_bytes))
    return units


def total_bytes(units: Iterable[WorkUnit]) -> int:
    return sum(unit.num_bytes for unit in units)


def check_is_seen(path: SourcePath) -> None:
    """Check that this machine sees a path that the planning machine has seen.

    Raises:
        InputError: this machine does not see the path.
    """
    if not path.exists():
        raise InputError(
            f"{path}: is not seen on the machine {socket.gethostname()}, or was removed meanwhile. "
            "All machines need the texts and the output folder under the same paths, such as on a "
            "shared file system."
        )


def _size(source: Source) -> int:
    try:
        return source.path.stat().st_size
    except OSError as error:
        raise read_error(InputError, source.path, error) from error
