"""The checkpoints of a run: the same text at each of them."""

import json
from itertools import pairwise

import numpy as np
import pytest
from refusals import refuses
from tiny_models import save_model, save_tiny, tiny_model
from tiny_runs import FP32, SIZE

from bertsmith.errors import CheckpointError
from bertsmith.inspection.look import look
from bertsmith.inspection.page import page_data
from bertsmith.inspection.page_limits import MAX_PAGE_CHECKPOINTS
from bertsmith.inspection.run_steps import evenly_spread
from bertsmith.tokenization.wordpiece import WordPieceTokenizer

TEXT = "a good [MASK] ."


def save_run(folder, steps, *heads, labels=(), **changes):
    """Write a model's folder with a checkpoint, of other weights, for each step."""
    for number, step in enumerate(steps, start=1):
        path = folder / "checkpoints" / f"step-{step:08d}"
        path.parent.mkdir(parents=True, exist_ok=True)
        save_tiny(path, *heads, labels=labels, seed=number, **changes)
    save_tiny(folder, *heads, labels=labels, seed=0)
    return folder


def test_each_checkpoint_is_looked_at_as_by_itself(tmp_path):
    folder = save_run(tmp_path / "run", [3, 11, 7], "masked_lm")
    result = look(folder, TEXT, checkpoints=True, device="cpu")
    assert [each.step for each in result.page.steps] == [3, 7, 11]
    for each in result.page.steps:
        alone = look(folder / "checkpoints" / f"step-{each.step:08d}", TEXT, device="cpu")
        for ours, theirs in zip(each.decided.layers.attentions, alone.attentions, strict=True):
            np.testing.assert_allclose(ours.numpy(), theirs, atol=1e-6)
        assert each.decided.decisions[0].label == alone.decided.decisions[0].label
    data = page_data(result.page)
    assert [frame["step"] for frame in data["frames"]] == [3, 7, 11, None]
    assert len({frame["weights"][0] for frame in data["frames"]}) == 4


def test_labels_stay_in_the_order_of_the_end(tmp_path):
    folder = save_run(tmp_path / "run", [1, 2, 3], "classify", labels=["a", "b", "c"])
    result = look(folder, "a good film", checkpoints=True, device="cpu")
    order = [each.label for each in result.decided.decisions]
    for step in result.page.steps:
        assert [each.label for each in step.decided.decisions] == order


def test_of_many_checkpoints_some_are_taken(tmp_path):
    folder = save_run(tmp_path / "run", range(1, 20), "masked_lm")
    result = look(folder, TEXT, checkpoints=True, device="cpu")
    steps = [each.step for each in result.page.steps]
    assert (len(steps), steps[0], steps[-1]) == (MAX_PAGE_CHECKPOINTS, 1, 19)
    assert page_data(result.page)["numSteps"] == 19


@pytest.mark.parametrize("count", range(1, 30))
def test_indices_are_spread_evenly(count):
    chosen = evenly_spread(count, 12)
    assert chosen == sorted(set(chosen))
    assert (chosen[0], chosen[-1]) == (0, count - 1)
    assert len(chosen) == min(12, count)
    gaps = {after - before for before, after in pairwise(chosen)}
    assert max(gaps, default=1) - min(gaps, default=1) <= 1


def test_checkpoints_of_another_model_are_refused(tmp_path):
    folder = save_run(tmp_path / "size", [3], "masked_lm", num_hidden_layers=1)
    with refuses(CheckpointError, "another model"):
        look(folder, TEXT, checkpoints=True)
    folder = save_run(tmp_path / "words", [3], "masked_lm")
    model = tiny_model("masked_lm", vocab_size=9)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "good", "film", "."]
    save_model(model, folder / "checkpoints" / "step-00000003", WordPieceTokenizer(words))
    with refuses(CheckpointError, "another model"):
        look(folder, TEXT, checkpoints=True)


def test_a_run_of_the_command_line(bertsmith, corpus_dir, tmp_path):
    run, page = tmp_path / "run", tmp_path / "page.html"
    bertsmith("pretrain", "--corpus", corpus_dir, *SIZE, "--steps", "3", "--checkpoint-every", "1",
              "--keep", "5", "--out", run, "--device", "cpu")  # fmt: skip
    said = bertsmith("look", run, "the [MASK] .", "--checkpoints", "--out", page, *FP32[:2])
    assert said.endswith(f"tokens → {page}\n")
    html = page.read_text(encoding="utf-8")
    data = json.loads(html.split('id="data">')[1].split("</script>")[0])
    assert [frame["step"] for frame in data["frames"]][-2:] == [3, None]
    assert len(data["frames"]) == 4
    assert "bertsmith look" in html.split("<footer")[1]
