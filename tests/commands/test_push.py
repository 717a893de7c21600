"""`bertsmith push` to a hub that is a folder of this machine: what is sent, and what hinders."""

import json
import shutil
from types import SimpleNamespace

import pytest
from folders import contents
from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled
from huggingface_hub.utils import filter_repo_objects
from tiny_models import save_tiny

ANSWER = SimpleNamespace(status_code=401, headers={}, request=None)


class LocalHub:
    """Takes files as the client does, by its own rule of patterns; raises `refusal` instead."""

    def __init__(self):
        self.repositories, self.sent, self.refusal = {"taken/sentiment": False}, {}, None

    def create_repo(self, name, *, private, exist_ok):
        if self.refusal:
            raise self.refusal
        self.repositories.setdefault(name, private)
        return f"https://huggingface.co/{name}"

    def repo_info(self, name):
        return SimpleNamespace(private=self.repositories[name])

    def upload_folder(self, *, repo_id, folder_path, allow_patterns, commit_message):
        files = contents(folder_path)
        chosen = filter_repo_objects(files, allow_patterns=allow_patterns)
        self.sent[repo_id] = {name: files[name] for name in chosen}


@pytest.fixture
def hub(monkeypatch):
    hub = LocalHub()
    monkeypatch.setattr("huggingface_hub.HfApi", lambda: hub)
    monkeypatch.setattr("huggingface_hub.get_token", lambda: "hf_a_secret_of_tests")
    return hub


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model with files of a run and a checkpoint beside it."""
    place = save_tiny(
        tmp_path_factory.mktemp("models") / "sentiment", "classify", labels=["a", "b"]
    )
    (place / "README.md").write_text("---\nlicense: mit\n---\n# sentiment\n")
    for name in ("journal.jsonl", "events.out.tfevents.1.host", "curves.svg", ".hidden"):
        (place / name).write_text("of the run")
    (place / "run.json").write_text('{"settings": {"train": "/home/anna/train.csv"}}')
    shutil.copytree(place, place / "checkpoints" / "step-00000001")
    return place


def test_model_files_alone_are_sent_as_they_are(bertsmith, hub, folder):
    found = json.loads(bertsmith("push", folder, "anna/sentiment", "--private", "--json"))
    assert hub.repositories["anna/sentiment"] is True
    expected = {"config.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt", "README.md",
                "SHA256SUMS", "model.safetensors"}  # fmt: skip
    assert {*found["files"]} == expected
    assert hub.sent == {"anna/sentiment": {name: contents(folder)[name] for name in expected}}
    assert found["url"].endswith("/anna/sentiment")


@pytest.mark.parametrize(
    ("refusal", "said"),
    [
        (HfHubHTTPError("no", response=ANSWER), "the hub refused the token (401)"),
        (OfflineModeIsEnabled("no network"), "could not be reached (OfflineMode"),
        (None, "bertsmith: taken/sentiment: this repository is public"),
    ],
)
def test_what_hinders_is_said_in_one_line(refused, hub, folder, refusal, said):
    hub.refusal = refusal
    assert said in refused("push", folder, "taken/sentiment", "--private")
    assert not hub.sent


def test_what_cannot_be_sent_is_refused(refused, hub, folder, tmp_path, monkeypatch):
    assert "no such folder" in refused("push", folder / "absent", "anna/x")
    (tmp_path / "config.json").write_text("{}")
    assert "there is no model.safetensors" in refused("push", tmp_path, "anna/x")
    stopped = shutil.copytree(folder, tmp_path / "stopped")
    (stopped / "run.json").write_text('{"config": {}}')
    assert "stopped before its end" in refused("push", stopped, "anna/x")
    assert "allowed is org/name" in refused("push", folder, "a b/c")
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    assert "found no token of the Hugging Face hub" in refused("push", folder, "anna/x")
    assert not hub.sent
