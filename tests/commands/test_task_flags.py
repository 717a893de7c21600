"""The flags of predict and evaluate are those of the model's task, wherever its name stands."""

import pytest
from tiny_models import save_tiny

from bertsmith.commands import predict
from bertsmith.commands.help import HelpAsked
from bertsmith.commands.task_flags import parse_for_folder
from bertsmith.data.examples import Columns
from bertsmith.data.tagged import TagColumns
from bertsmith.errors import CheckpointError


def flags_of(args):
    return parse_for_folder(predict.Settings, args, "predict")[0]


@pytest.fixture(scope="module")
def tagger(tmp_path_factory):
    return str(save_tiny(tmp_path_factory.mktemp("tagger"), "tag", labels=("B-PER", "O")))


def test_only_the_model_decides(tagger, tmp_path):
    args = ["--device", "cpu", tagger, "--split", "spaces", "x" * 5000]
    assert isinstance(flags_of(args).columns, TagColumns)
    other = str(save_tiny(tmp_path, "classify", labels=("a", "b")))
    assert isinstance(flags_of([other, tagger]).columns, Columns)


def test_a_name_of_the_hub_tells_its_task(tagger, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda name, **_: tagger)
    monkeypatch.chdir(tmp_path)
    settings = flags_of(["org/tagger", "a text"])
    assert isinstance(settings.columns, TagColumns)


def test_a_model_that_is_not_there(tmp_path):
    for args, words in (
        ([str(tmp_path / "nowhere"), "--split", "spaces", "x" * 5000], "nowhere: there is no such"),
        (["a text without a model " * 20], "Name the folder of a checkpoint"),
    ):
        with pytest.raises(CheckpointError, match=words):
            flags_of(args)
    for flag in ("-h", "--help", "--help-all"):
        with pytest.raises(HelpAsked):
            flags_of([str(tmp_path / "nowhere"), flag])
