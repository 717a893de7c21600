"""Build a corpus by processes that share only a folder: a job array, or the workers of a cluster.

The texts are divided into many work units, each of which one process encodes into the folder
`unmerged` of the corpus. A shard is the share of the units that one job of an array encodes.
`merge_corpus` then writes the corpus from all units, by the same code and in the same order as if
one process had built it alone. So the corpora of both ways are equal byte for byte.
"""

import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from bertsmith.data.build_plan import PLAN_NAME, BuildPlan, make_plan
from bertsmith.data.corpus import TOKENIZER_DIR
from bertsmith.data.corpus_build import UNMERGED_DIR, check_corpus_out, write_corpus
from bertsmith.data.documents import select_sources
from bertsmith.data.encoded_units import (
    UnitEncoder,
    UnitRecord,
    iter_encoded,
    read_record,
    unit_folder,
)
from bertsmith.data.encoding import EncodedPart
from bertsmith.data.manifest import Manifest
from bertsmith.data.reading import SourceReport
from bertsmith.data.settings import CorpusSettings, ShardNumber
from bertsmith.data.work_units import WorkUnit, plan_work_units, total_bytes
from bertsmith.errors import CorpusError, option
from bertsmith.system.executor import Executor
from bertsmith.system.files import atomic_dir, check_is_replaceable
from bertsmith.system.locks import hold_folder
from bertsmith.system.paths import check_outside
from bertsmith.system.processes import LocalProcesses
from bertsmith.system.progress import progress_bar
from bertsmith.system.temporary_folder import temporary_folder
from bertsmith.system.write_error import naming_write_errors
from bertsmith.tokenization.auto import load_tokenizer
from bertsmith.tokenization.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class ShardReport:
    """Counts of a shard, the share of one job; `all_units` counts the work units of all jobs."""

    units: int
    all_units: int
    documents: int
    tokens: int


def build_shard(
    texts: Sequence[str | Path],
    tokenizer: Tokenizer,
    out: Path,
    settings: CorpusSettings,
    shard: ShardNumber,
    *,
    executor: Executor | None = None,
    overwrite: bool = False,
) -> ShardReport:
    """Encode one shard of the texts into the folder `unmerged` of `out`.

    Work units that are complete are kept, so a shard that was interrupted goes on.

    Args:
        overwrite: whether `out` may hold a corpus; `merge_corpus` replaces it.

    Raises:
        InputError, CorpusError, ConfigError: also where another build is in the folder.
    """
    paths = _check_out(out, texts)
    with hold_folder(out, check=lambda: _check_shard_out(out, overwrite, paths), shared=True):
        folder, plan, units = _prepare(out, paths, tokenizer, settings, shard.total)
        # Two processes must not encode one shard at once.
        with hold_folder(folder / f"shard-{shard.number:05d}"):
            shard_units = units[shard.number - 1 :: shard.total]  # every total-th unit
            records = _encode(folder, plan, shard_units, executor or LocalProcesses())
    return ShardReport(
        units=len(records),
        all_units=len(units),
        documents=sum(record.documents for record in records),
        tokens=sum(record.tokens for record in records),
    )


def merge_corpus(out: Path) -> Manifest:
    """Merge the encoded shards in `out` into a corpus, which replaces them when it is complete.

    Raises:
        CorpusError: no shards are there, or one is missing or altered.
    """
    if not (out / UNMERGED_DIR / PLAN_NAME).is_file():
        raise CorpusError(
            f"{out}: no shards of a corpus are there. Encode them with 'bertsmith corpus build' "
            f"and {option('shard', '1/16')}, each with its own number."
        )
    with hold_folder(out):
        return _merge(out)


def build_with(
    executor: Executor,
    texts: Sequence[str | Path],
    tokenizer: Tokenizer,
    out: Path,
    settings: CorpusSettings,
    *,
    overwrite: bool = False,
) -> Manifest:
    """Build a corpus whose units an executor encodes on machines that see its folder.

    Work units that an interrupted build of the same texts left are kept.

    Raises:
        InputError, CorpusError, ConfigError: as `build_shard`.
    """
    paths = _check_out(out, texts)
    with hold_folder(out, check=lambda: _check_shard_out(out, overwrite, paths)):
        folder, plan, units = _prepare(out, paths, tokenizer, settings, shards=1)
        _encode(folder, plan, units, executor)
        return _merge(out)


def _check_out(out: Path, texts: Sequence[str | Path]) -> list[str]:
    """Check that `out` can be replaced and is in no folder of texts; return the texts, sorted.

    Raises:
        ConfigError: a disk is mounted at `out`, the current folder is in it, or `out` is a folder
            of the texts or inside one.
    """
    check_is_replaceable(out)
    paths = sorted(map(str, texts))
    check_outside(out, *paths)
    return paths


def _check_shard_out(out: Path, overwrite: bool, paths: Sequence[str]) -> None:
    """Refuse a folder unless it is empty, has shards, or a corpus to overwrite.

    Raises:
        CorpusError: something else is there.
    """
    if any(path.name != UNMERGED_DIR for path in out.iterdir()):
        check_corpus_out(out, overwrite, paths, may_be_unmerged=True)


def _prepare(
    out: Path,
    paths: list[str],
    tokenizer: Tokenizer,
    settings: CorpusSettings,
    shards: int,
) -> tuple[Path, BuildPlan, list[WorkUnit]]:
    """Plan the units, and make the folder of units with the plan and the tokenizer."""
    report = SourceReport()
    # Absolute paths, since workers may have another working folder.
    sources = [
        replace(source, path=source.path.absolute()) for source in select_sources(paths, report)
    ]
    units = plan_work_units(sources)
    plan = make_plan(
        tokenizer.fingerprint,
        settings,
        texts=paths,
        files=[(str(source.path), source.path.stat().st_size) for source in sources],
        left_aside=dict(report.skipped),
        units=len(units),
        shards=shards,
    )
    folder = (out / UNMERGED_DIR).absolute()
    with naming_write_errors(folder):
        folder.mkdir(exist_ok=True)
    plan.enter(folder)
    _save_once(tokenizer, folder / TOKENIZER_DIR)
    return folder, plan, units


def _save_once(tokenizer: Tokenizer, target: Path) -> None:
    """Save a tokenizer unless `target` exists; of jobs that begin at once, the first saves it."""
    if target.exists():
        return
    with naming_write_errors(target), temporary_folder(target.parent) as temporary:
        copy = temporary / target.name
        copy.mkdir()
        tokenizer.save(copy)
        try:
            copy.rename(target)
        except OSError:
            if not target.exists():
                raise


def _encode(
    folder: Path, plan: BuildPlan, units: Sequence[WorkUnit], executor: Executor
) -> list[UnitRecord]:
    settings = plan.corpus_settings
    encode = UnitEncoder(folder, plan.digest, settings.text_column, settings.errors)
    records = []
    with (
        progress_bar("encoding", total_bytes(units)) as bar,
        closing(executor.map_in_order(encode, units)) as encoded,
    ):
        for record in encoded:
            records.append(record)
            bar(record.num_bytes)
    return records


def _merge(out: Path) -> Manifest:
    """Merge the units in `out`, which this process has locked, into a corpus."""
    folder = (out / UNMERGED_DIR).absolute()
    plan = BuildPlan.read(folder)
    digest = plan.digest
    records = [read_record(unit_folder(folder, index), digest) for index in range(plan.units)]
    complete = [record for record in records if record is not None]
    if len(complete) < len(records):
        raise CorpusError(_describe_missing(out, plan, records))
    tokenizer = load_tokenizer(folder / TOKENIZER_DIR)
    report = SourceReport(
        skipped=Counter(plan.left_aside), bytes_on_disk=sum(size for _, size in plan.files)
    )
    encoded: Iterator[EncodedPart] = (
        part
        for record in complete
        for part in iter_encoded(unit_folder(folder, record.index), record)
    )
    with atomic_dir(out) as merged:
        shutil.copytree(folder / TOKENIZER_DIR, merged / TOKENIZER_DIR)
        settings = plan.corpus_settings
        return write_corpus(
            merged, encoded, tokenizer, settings, report, plan.texts, action="merging"
        )


def _describe_missing(out: Path, plan: BuildPlan, records: Sequence[UnitRecord | None]) -> str:
    missing = [index for index, record in enumerate(records) if record is None]
    if plan.shards == 1:
        return (
            f"{out}: {len(missing):,} of {plan.units:,} parts are missing. Run the command that "
            "builds the corpus again; it keeps the parts that are complete."
        )
    numbers = sorted({index % plan.shards + 1 for index in missing})
    names = ", ".join(f"{number}/{plan.shards}" for number in numbers[:9])
    if len(numbers) > 9:
        names += f" and {len(numbers) - 9:,} more"
    missing_shards = f"shard {names} is" if len(numbers) == 1 else f"shards {names} are"
    return (
        f"{out}: {missing_shards} not complete ({len(missing):,} of {plan.units:,} parts are "
        "missing). Run 'bertsmith corpus build' with "
        f"{option('shard', f'{numbers[0]}/{plan.shards}')} again; it keeps the parts "
        "that are complete."
    )
