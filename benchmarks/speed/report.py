"""The page of a run of `benchmarks.speed`: Markdown that is made from the JSON of the run.

A run has contests, in which contenders do the same work in turns. A burst is the measurement of one
turn. A claim names the contenders of ours and of the peers whose ratio is reported. The roof is the
speed of plain matrix products.
"""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.speed import roof, time_to_quality

INTRODUCTION = """\
Each contender is a process of its own; all are warm and take turns, and who goes first changes from
round to round. Rates count real tokens only, never padding. A ratio is the median over the rounds
of ours over the peer's, in brackets its least and greatest value; for times it is turned over, so
that more than 1 is always quicker. transformers' Trainer takes part with its defaults, tuned as its
documents tell, and fully tuned: with bertsmith's own process settings as well. Where several ways
of ours fit, the fastest counts. Graphics processors were not measured."""


def page(run: Mapping[str, Any]) -> str:
    """Format the page."""
    lines = [f"# Speed, {run['date']}", "", *machine(run), "", INTRODUCTION, ""]
    contests = run["contests"].values()
    lines += ["| what | bertsmith | peer | ratio |", "|---|---|---|---|"]
    lines += [row for contest in contests for row in claim_rows(contest)]
    lines += [""]
    if "quality" in run:
        lines += ["## Time to quality", "", *time_to_quality.lines(run["quality"]), ""]
    for contest in contests:
        lines += [f"## {contest['title']}", "", *details(contest), ""]
    lines += ["## Parity", "", *parity(run["parity"]), ""]
    return "\n".join(lines)


def machine(run: Mapping[str, Any]) -> Iterator[str]:
    """Format the machine, versions and method."""
    versions = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
    yield f"`{run['command']}`, {run['machine']}. {versions}."


def claim_rows(contest: Mapping[str, Any]) -> Iterator[str]:
    """Yield a row for each ratio of a contest, and one for the share of the roof."""
    for claim in contest["claims"]:
        comparison = compare(contest, claim)
        ratio = "not measured"
        if comparison["ratios"]:
            ratio = f"**{comparison['ratio']:.2f}×** ({span(comparison['ratios'], '.2f')})"
        yield f"| {claim['what']} | {comparison['ours']} | {comparison['peer']} | {ratio} |"
    name = fastest(contest, ["bertsmith", "bertsmith fp32"])
    if name and (share := roof_share(contest, name)):
        what = f"{contest['title'].lower()}: share of the roof"
        yield f"| {what} | {name} | matrix products | **{share:.0%}** |"


def compare(contest: Mapping[str, Any], claim: Mapping[str, Any]) -> dict[str, Any]:
    """Format the fastest of both sides with their medians, and the ratio in each round.

    If all contenders of a side failed, there is no ratio.
    """
    names = fastest(contest, claim["ours"]), fastest(contest, claim["peers"])
    sides = [name and f"{name}: {median(contest, name)}" for name in names]
    if None in names:
        return {"ours": sides[0] or "", "peer": sides[1] or "", "ratio": None, "ratios": []}
    ours, theirs = (speeds(contest, str(name)) for name in names)
    ratios = [mine / their for mine, their in zip(ours, theirs, strict=False)]
    return {
        "ours": sides[0],
        "peer": sides[1],
        "ratio": statistics.median(ratios),
        "ratios": ratios,
    }


def fastest(contest: Mapping[str, Any], names: Sequence[str]) -> str | None:
    """Return the contender with the highest median speed, or None."""
    done = [
        name
        for name in names
        if (result := contest["contenders"].get(name)) and result["bursts"] and not result["error"]
    ]
    return max(done, key=lambda name: statistics.median(speeds(contest, name)), default=None)


def speeds(contest: Mapping[str, Any], name: str) -> list[float]:
    """List a contender's speed in each round, in units per second."""
    bursts = contest["contenders"][name]["bursts"]
    if contest["unit"] == "ms":
        return [1 / burst["median_seconds"] for burst in bursts]
    return [burst["amount"] / burst["seconds"] for burst in bursts]


def values(contest: Mapping[str, Any], name: str) -> list[float]:
    """Convert speeds to the contest's unit."""
    if contest["unit"] == "ms":
        return [1000 / speed for speed in speeds(contest, name)]
    return speeds(contest, name)


def median(contest: Mapping[str, Any], name: str) -> str:
    """Format a contender's median over the rounds, with the contest's unit."""
    return f"{figure(statistics.median(values(contest, name)))} {contest['unit']}"


def details(contest: Mapping[str, Any]) -> Iterator[str]:
    """Format all contenders of a contest."""
    before, after = contest["load"]
    yield (
        f"{' '.join(contest['notes'])} {contest['threads']} thread(s), {contest['date']}, load "
        f"{before:.1f} before and {after:.1f} after."
    )
    yield ""
    yield f"| contender | median, {contest['unit']} | least to greatest | padding | share of the " \
          "roof | peak memory, MB | |"  # fmt: skip
    yield "|---|---|---|---|---|---|---|"
    for name, result in contest["contenders"].items():
        if result["error"] or not result["bursts"]:
            reason = str(result["error"]).replace("|", "/").replace("\n", " ")
            yield f"| {name} | failed | | | | | {reason} |"
        else:
            yield row(contest, name)


def row(contest: Mapping[str, Any], name: str) -> str:
    """Format a contender that finished."""
    bursts, facts = (contest["contenders"][name][key] for key in ("bursts", "facts"))
    shown = values(contest, name)
    unit, scale = "", 1.0
    if name.startswith(roof.PREFIX):
        unit, scale = " GFLOP/s", 1e-9
        shown = [value * scale for value in shown]
    share = roof_share(contest, name)
    cosine = facts.get("least_cosine")
    notes = [facts.get("precision"), cosine and f"least cosine to the reference {cosine:.4f}"]
    return (
        f"| {name} | {figure(statistics.median(shown))}{unit} | {span(shown)} "
        f"| {padding(bursts)} | {f'{share:.0%}' if share else ''} "
        f"| {max(burst['peak_megabytes'] for burst in bursts):,.0f} "
        f"| {', '.join(str(note) for note in notes if note)} |"
    )


def padding(bursts: Sequence[Mapping[str, Any]]) -> str:
    """Format the share of padding in what was computed, where it is known."""
    if any(burst["cells"] is None for burst in bursts):
        return ""
    real, computed = (sum(burst[key] for burst in bursts) for key in ("amount", "cells"))
    return f"{1 - real / computed:.0%}"


def roof_share(contest: Mapping[str, Any], name: str) -> float | None:
    """Divide a contender's useful operations a second by those of plain matrix products.

    The products are those in the same number format. None if they were not measured.
    """
    facts = contest["contenders"][name]["facts"]
    roof_name = f"{roof.PREFIX} {facts.get('precision')}"
    needed = next(
        (result["facts"]["flops_per_token"] for result in contest["contenders"].values()
         if "flops_per_token" in result["facts"]), None)  # fmt: skip
    if needed is None or name == roof_name or fastest(contest, [roof_name]) is None:
        return None
    reached = statistics.median(speeds(contest, name)) * needed
    return float(reached / statistics.median(speeds(contest, roof_name)))


def parity(results: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    """Format the differences between both sides, which were computed before the timing."""
    yield "Checked in fp32 before anything is timed; the run stops above 1e-5. Losses relative,"
    yield "gradients as one vector relative to its length, vectors by their largest entry, texts by"
    yield "how many have other ids."
    yield ""
    yield "| | difference from the peer |"
    yield "|---|---|"
    for name, differences in results.items():
        shown = ", ".join(f"{what} {value:.1e}" for what, value in differences.items())
        yield f"| {name} | {shown} |"


def span(numbers: Sequence[float], pattern: str | None = None) -> str:
    """Format the smallest and the largest of some numbers."""
    shown = [f"{n:{pattern}}" if pattern else figure(n) for n in (min(numbers), max(numbers))]
    return " to ".join(shown)


def figure(value: float) -> str:
    """Format a number: from 100 on as a whole number, below with three significant digits."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
