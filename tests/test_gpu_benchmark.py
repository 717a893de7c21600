"""The GPU benchmark, on a CPU with a tiny model: the same code from the first row to the page."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # benchmarks/ is not installed

from benchmarks import gpu  # noqa: E402


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_the_whole_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["gpu", "--device", "cpu", "--smoke", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", words)
    gpu.main()
    (stored,) = tmp_path.glob("gpu-*-smoke.json")
    found = json.loads(stored.read_text(encoding="utf-8"))
    assert max(found["parity"]["tiny"][name] for name in ("loss", "gradients")) <= gpu.TOLERANCE
    natural = found["contests"][0]
    assert natural["title"] == "tiny, natural rows, dropout 0.1"
    assert 0.1 < natural["padding"] < 0.9
    failed = {name for name, each in natural["contenders"].items() if each["error"]}
    assert failed == {gpu.FLASH_COMPILED}  # not on a CPU
    losses = [each["facts"]["loss"] for each in natural["contenders"].values() if each["bursts"]]
    assert all(loss == 0 or abs(loss - np.log(997 * 2)) < 0.5 for loss in losses)
    page = stored.with_suffix(".md").read_text(encoding="utf-8")
    assert "Parity of tiny in fp32 (allowed 1e-05) holds" in page
    assert re.search(r"\| R12 \| tiny, natural.*\*\*[\d.]+×\*\*", page)
    assert re.search(r"\| R13 \| tiny, full rows, dropout 0 \|.*\*\*[\d.]+ %\*\*", page)
    assert "ImportError" in page


def test_both_sides_get_the_same_rows() -> None:
    scale = gpu.SMOKE
    work = gpu.draw(scale, "natural", num_rows=5)
    for each in work:
        batch, padded = each.packed, each.padded
        assert padded["attention_mask"].sum() == batch.num_tokens
        assert each.cells == 5 * scale.max_length
        for place, row in enumerate(batch.order):
            start = sum(batch.lengths[:place])
            ids = batch.input_ids[start : start + batch.lengths[place]]
            assert torch.equal(padded["input_ids"][row][: len(ids)], ids)
            assert ids[0] == gpu.CLS and ids[-1] == gpu.SEP and (ids == gpu.SEP).sum() == 2
        assert (padded["labels"] != -100).sum() == len(batch.targets["masked_labels"])
    tokens = sum(each.packed.num_tokens for each in work)
    by_length = gpu.grouped(work)
    assert sum(int(each.padded["attention_mask"].sum()) for each in by_length) == tokens
    assert sum(each.cells for each in by_length) < sum(each.cells for each in work)


def test_nothing_begins_after_the_last_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["gpu", "--device", "cpu", "--smoke", "--out", str(tmp_path), "--minutes", "0"]
    monkeypatch.setattr(sys, "argv", words)
    gpu.main()
    (page,) = tmp_path.glob("gpu-*-smoke.md")
    text = page.read_text(encoding="utf-8")
    assert (
        "Not measured, for want of time: parity, tiny; tiny, dropout 0.1; tiny, dropout 0." in text
    )
