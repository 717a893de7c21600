"""The command line that is printed to resume a stopped run, and what is printed on resuming."""

import pytest
from tiny_models import save_tiny, write_reviews
from tiny_runs import FP32

from bertsmith.cli import main
from bertsmith.commands.resume import resume_command


def test_the_line_resumes_even_if_it_ends_in_words_that_are_no_options():
    line = ["bertsmith", "pretrain", "--overwrite", "--out", "my run", "--", "--overwrite"]
    assert resume_command(line) == "bertsmith pretrain --out 'my run' --resume -- --overwrite"


def test_nothing_is_said_of_resuming_a_complete_run(bertsmith, capsys, tmp_path):
    model = save_tiny(tmp_path / "model", "masked_lm")
    table = write_reviews(tmp_path / "reviews.csv", 19)
    words = ["finetune", "classify", "--model", model, "--train", table, "--eval", table]
    words = [str(word) for word in (*words, "--steps", 1, "--out", tmp_path / "out", *FP32)]
    bertsmith(*words)
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main([*words, "--resume"])
    (line,) = capsys.readouterr().err.splitlines()
    assert "this run is complete" in line
