"""A fine-tuning on two ranks: with exact sums it has the bytes and scores of one process."""

import json

import torch
from launches import end_ranks, start_ranks
from tiny_models import save_tiny

from bertsmith.model.loading import load_model

TEXTS = ["a good film", "the dull story was very bad", "was fine", "a dull film in the story"] * 10


def test_exact_sums_give_the_bytes_of_one_process(tmp_path):
    """The texts differ in length, so that parts have different numbers of micro-batches."""
    data = tmp_path / "texts.csv"
    labels = ["pos", "neg", "pos", "neg"] * 10
    rows = [f"{text},{label}\n" for text, label in zip(TEXTS, labels, strict=True)]
    data.write_text("text,label\n" + "".join(rows))
    held_out = tmp_path / "held_out.csv"
    held_out.write_text("text,label\na fine film,pos\nthe very dull film,neg\nvery bad,neg\n")
    model = save_tiny(tmp_path / "model")
    results = {}
    for num_ranks in (1, 2):
        out = tmp_path / f"run{num_ranks}"
        words = [
            *("-m", "bertsmith", "finetune", "classify", "--model", model, "--out", out),
            *("--train", data, "--eval", held_out, "--epochs", 2, "--batch-size", 13),
            *("--exact", "--threads", 1, "--precision", "fp32", "--device", "cpu"),
        ]
        answers = end_ranks(start_ranks(words, num_ranks))
        assert [code for code, *_ in answers] == [0] * num_ranks, answers
        result = json.loads((out / "run.json").read_text())["result"]
        del result["out"], result["training"]  # seconds
        results[num_ranks] = load_model(out).state_dict(), result
    (alone, alone_result), (together, together_result) = results[1], results[2]
    assert together_result == alone_result
    assert alone.keys() == together.keys()
    assert all(torch.equal(together[name], value) for name, value in alone.items())
