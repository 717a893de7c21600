"""Write the table of speeds into both READMEs, between two markers, from the JSON of a full run.

python -m benchmarks.speed.readme benchmarks/results/speed-2026-01-31.json
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.common import ROOT
from benchmarks.speed.report import compare

ENGLISH, CHINESE = ROOT / "README.md", ROOT / "README.zh.md"
READMES = (ENGLISH, CHINESE)
BEGIN, END = "<!-- speed:begin -->", "<!-- speed:end -->"

HEADS = {
    ENGLISH: "| | bertsmith | compared with | ratio |",
    CHINESE: "| | bertsmith | 对比的库 | 比值 |",
}
NOTES = {
    ENGLISH: (
        "Medians of rounds in which all take turns, {date}, {machine}.",
        "A ratio above 1 means that bertsmith is faster. Full rows: nearly all have the maximum",
        "length. Fully tuned: as the documentation of transformers advises, with bertsmith's",
        "settings for threads and memory as well. tiny, mini, small and base are sizes of BERT,",
        "from 2 layers to 12. Other ratios, memory, and how closely the results agree:",
        "[results]({link}).",
    ),
    CHINESE: (
        "各方轮流运行，取各轮的中位数；{date}，{machine_zh}。",
        "填满的样本行：几乎每行都达到最大长度。充分调优：按 transformers 的文档调优，并用上",
        "bertsmith 的线程和内存设置。tiny、mini、small 和 base 是 BERT 的几种大小，",
        "从 2 层到 12 层。其他比值、内存和一致性检查见[结果（英文）]({link})。",
    ),
}
CHINESE_WORDS = {
    "tokenizing on one thread": "分词，单线程",
    "latency, one text of 32 tokens, base": "单条文本的延迟，32 个词元，base",
    "encoding": "计算向量",
    "fine-tuning": "微调",
    "pre-training, tiny, full rows": "预训练，tiny，填满的样本行",
    "pre-training, mini, full rows": "预训练，mini，填满的样本行",
    "pre-training, small, full rows": "预训练，small，填满的样本行",
    "pre-training, base, full rows": "预训练，base，填满的样本行",
    "transformers, fully tuned": "transformers（充分调优）",
    "tokens/s": "词元/秒",
    "MB/s": "MB/秒",
    "ms": "毫秒",
    ": ": "：",
}
"""Words of the table in Chinese, whole cells first, then parts of them."""


def main() -> None:
    """Put the table of a result into the READMEs."""
    [path] = map(Path, sys.argv[1:])
    write_all(path)


def write_all(path: Path) -> None:
    """Write the table of a result into the READMEs of both languages."""
    for readme in READMES:
        before, _, rest = readme.read_text(encoding="utf-8").partition(BEGIN)
        after = rest.partition(END)[2]
        text = f"{before}{BEGIN}\n{table(path, readme)}\n{END}{after}"
        readme.write_text(text, encoding="utf-8")


def shown(readme: Path) -> str:
    """Return the text between the markers."""
    return readme.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0].strip()


def table(path: Path, readme: Path) -> str:
    """Format the chosen ratios of a result in the language of a README."""
    run = json.loads(path.read_text(encoding="utf-8"))
    values = {
        "date": run["date"],
        "machine": run["machine"],
        "machine_zh": re.sub(r"(\d+) of (\d+) cores", r"\2 个核心中的 \1 个", run["machine"]),
        "link": f"benchmarks/results/{path.with_suffix('.md').name}",
    }
    lines = [HEADS[readme], "|---|---|---|---|"]
    for contest in run["contests"].values():
        lines += rows(contest, readme)
    return "\n".join([*lines, "", *(note.format(**values) for note in NOTES[readme])])


def rows(contest: Mapping[str, Any], readme: Path) -> Iterator[str]:
    """Yield the chosen ratios of a contest.

    If two rows have the same work and the same speed of bertsmith, these cells of the second row
    are empty.
    """
    before = ("", "")
    for claim in contest["claims"]:
        if claim["is_shown"]:
            result = compare(contest, claim)
            if result["ratio"] is not None:
                cells = (claim["what"], result["ours"])
                what, ours = ("" if cells == before else cell for cell in cells)
                before = cells
                row = [in_words(cell, readme) for cell in (what, ours, result["peer"])]
                yield f"| {' | '.join(row)} | **{result['ratio']:.1f}×** |"


def in_words(cell: str, readme: Path) -> str:
    """Translate a cell into the language of a README."""
    if readme != CHINESE:
        return cell
    if cell in CHINESE_WORDS:
        return CHINESE_WORDS[cell]
    for english, chinese in CHINESE_WORDS.items():
        cell = cell.replace(english, chinese)
    return cell


if __name__ == "__main__":
    main()
