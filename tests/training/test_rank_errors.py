"""Messages of ranks."""

import io
import os
import pickle
import sys
from pathlib import Path

import pytest
from refusals import refuses

from bertsmith.errors import (
    BertsmithError,
    CheckpointError,
    ConfigError,
    CorpusError,
    InputError,
    SettingError,
    TrainingError,
    WriteError,
)
from bertsmith.errors.model_kinds import SYSTEM_KINDS, ModelKindError
from bertsmith.training.workers.rank_errors import print_on_rank, results_of, sendable


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (CorpusError("corpus: is missing."), CorpusError),
        (SettingError("threads", 0, "1 or more"), ConfigError),
        (WriteError("out: the disk is full.", "Free some space."), InputError),
        (ModelKindError(Path("gpt"), SYSTEM_KINDS["gpt2"], "embed"), CheckpointError),
        (KeyError("layers"), TrainingError),
    ],
    ids=["corpus", "setting", "write", "model kind", "bug"],
)
def test_rank_0_raises_the_error_of_another_rank(error, kind):
    sent = pickle.loads(pickle.dumps(sendable(error)))
    message = error.message if isinstance(error, BertsmithError) else "KeyError: 'layers'"
    with refuses(kind, "rank 1 on far: ") as caught:
        results_of([(None, 7), (sent, None)], ["near", "far"])
    assert type(caught.value) is kind and caught.value.message == f"rank 1 on far: {message}"


def test_a_rank_goes_on_if_nobody_reads_its_message(monkeypatch):
    """A thread that watches ranks would end with the error, and be silent from then on."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb", buffering=0) as raw:
        monkeypatch.setattr(sys, "__stderr__", io.TextIOWrapper(raw, write_through=True))
        print_on_rank("rank 1 is alive")


def test_the_message_of_a_rank_is_read_although_the_rank_is_quiet(capfd, monkeypatch):
    with open(2, "w", closefd=False) as stderr:
        monkeypatch.setattr(sys, "__stderr__", stderr)
        print_on_rank("rank 1 is alive")
    assert capfd.readouterr().err == "bertsmith: rank 1 is alive\n"
