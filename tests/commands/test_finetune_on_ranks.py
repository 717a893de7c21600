"""A fine-tuning on two ranks: with exact sums it has the bytes and scores of one process."""

import json

import pytest
import torch
from launches import end_ranks, start_ranks
from tiny_models import save_tiny

from bertsmith.cli import main
from bertsmith.model.loading import load_model

TEXTS = ["a good film", "the dull story was very bad", "was fine", "a dull film in the story"] * 10


@pytest.mark.same_on_all_computers  # as test_ranks.py trains on each kind
def test_exact_sums_give_the_bytes_of_one_process(tmp_path):
    """The texts differ in length, so that parts have different numbers of micro-batches."""
    data = tmp_path / "texts.csv"
    labels = ["pos", "neg", "pos", "neg"] * 10
    rows = [f"{text},{label}\n" for text, label in zip(TEXTS, labels, strict=True)]
    data.write_text("text,label\n" + "".join(rows))
    held_out = tmp_path / "held_out.csv"
    held_out.write_text("text,label\na fine film,pos\nthe very dull film,neg\nvery bad,neg\n")
    model = save_tiny(tmp_path / "model")
    words = [
        *("finetune", "classify", "--model", model, "--train", data, "--eval", held_out),
        *("--epochs", 2, "--batch-size", 13, "--exact"),
        *("--threads", 1, "--precision", "fp32", "--device", "cpu", "--out"),
    ]
    outs = tmp_path / "alone", tmp_path / "together"
    main([*map(str, words), str(outs[0])])  # in this process
    answers = end_ranks(start_ranks(["-m", "bertsmith", *words, outs[1]], 2))
    assert [code for code, *_ in answers] == [0, 0], answers
    results = []
    for out in outs:
        result = json.loads((out / "run.json").read_text())["result"]
        del result["out"], result["training"]  # seconds
        results.append((load_model(out).state_dict(), result))
    (alone, alone_result), (together, together_result) = results
    assert together_result == alone_result
    assert alone.keys() == together.keys()
    assert all(torch.equal(together[name], value) for name, value in alone.items())
