"""The table of speeds of both READMEs, made from the JSON of a full run; it stands between markers.

python -m benchmarks.speed.readme benchmarks/results/speed-2026-01-31.json
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.common import ROOT
from benchmarks.speed.report import compare

READMES = (ROOT / "README.md", ROOT / "README.zh.md")
BEGIN, END = "<!-- speed:begin -->", "<!-- speed:end -->"


def main() -> None:
    """Put the table of a result into the READMEs."""
    [path] = map(Path, sys.argv[1:])
    write_all(path)


def write_all(path: Path) -> None:
    """Write the table of a result into the READMEs of both languages."""
    for readme in READMES:
        before, _, rest = readme.read_text(encoding="utf-8").partition(BEGIN)
        after = rest.partition(END)[2]
        readme.write_text(f"{before}{BEGIN}\n{table(path)}\n{END}{after}", encoding="utf-8")


def shown(readme: Path) -> str:
    """Return the text between the markers."""
    return readme.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0].strip()


def table(path: Path) -> str:
    """Format the chosen ratios of a result and its path."""
    run = json.loads(path.read_text(encoding="utf-8"))
    link = f"benchmarks/results/{path.with_suffix('.md').name}"
    lines = [
        "| | bertsmith | peer | ratio |",
        "|---|---|---|---|",
        *(line for contest in run["contests"].values() for line in rows(contest)),
        "",
        f"Medians of rounds in which all take turns, {run['date']}, {run['machine']}.",
        "Fully tuned: as transformers' documents advise, with bertsmith's settings for threads and",
        f"memory as well. Other ratios, memory and parity: [results]({link}).",
    ]
    return "\n".join(lines)


def rows(contest: Mapping[str, Any]) -> Iterator[str]:
    """Yield the chosen ratios of a contest."""
    for claim in contest["claims"]:
        if claim["is_shown"]:
            found = compare(contest, claim)
            if found["ratio"] is not None:
                yield (
                    f"| {claim['what']} | {found['ours']} | {found['peer']} "
                    f"| **{found['ratio']:.1f}×** |"
                )


if __name__ == "__main__":
    main()
