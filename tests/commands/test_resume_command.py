"""The command line that is printed to resume a stopped run."""

from bertsmith.commands.resume import resume_command


def test_the_line_resumes_even_if_it_ends_in_words_that_are_no_options():
    line = ["bertsmith", "pretrain", "--overwrite", "--out", "my run", "--", "--overwrite"]
    assert resume_command(line) == "bertsmith pretrain --out 'my run' --resume -- --overwrite"
