"""`bertsmith push` by the real client, to a server on this machine that speaks as the hub."""

import json
import os
import shutil
import subprocess
import sys

import pytest
from folders import contents
from hub_server import TOKEN, Repository, serve_hub
from refusals import check_message
from tiny_models import save_tiny

from bertsmith.commands.push import names_license


@pytest.fixture
def hub():
    with serve_hub() as hub:
        yield hub


@pytest.fixture
def push(hub, tmp_path):
    """Push in a process of its own, as the client reads its variables when it is imported."""

    def run(*words, **variables):
        command = [sys.executable, "-m", "bertsmith", "push", *map(str, words)]
        environment = {**os.environ, **hub.variables(tmp_path / "home"), **variables}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600)
        assert TOKEN not in done.stdout + done.stderr
        return done

    return run


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


def test_model_files_alone_are_sent_as_they_are(push, hub, folder):
    done = push(folder, "anna/sentiment", "--private", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    expected = {"config.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt", "README.md",
                "SHA256SUMS", "model.safetensors"}  # fmt: skip
    files = {name: content for name, content in contents(folder).items() if name in expected}
    assert hub.repositories == {"anna/sentiment": Repository(True, files, num_commits=1)}
    assert {*found["files"]} == expected
    assert found["url"].endswith("/anna/sentiment")


def test_a_linear_head_and_further_models_are_sent_too(push, hub, folder, tmp_path):
    place = shutil.copytree(folder, tmp_path / "averaged")
    shutil.copytree(folder, place / "members" / "seed-1", ignore=shutil.ignore_patterns("check*"))
    (place / "linear_head.safetensors").write_bytes(b"weights")
    done = push(place, "anna/averaged", "--json")
    assert done.returncode == 0, done.stderr
    files = set(json.loads(done.stdout)["files"])
    assert {"linear_head.safetensors", "members/seed-1/model.safetensors",
            "members/seed-1/config.json"} <= files  # fmt: skip
    assert not any("run.json" in name or "checkpoints" in name for name in files)


@pytest.mark.parametrize(("card", "is_named"), [
    ("---\nlicense: mit\n---\n# sentiment\n", True),
    ("---\nlanguage: en\nlicense:\n- mit\n- apache-2.0\n---\n", True),
    ("---\nlicense: ['mit']\n---\n", True),
    ("---\nlicense: unknown\n---\n", False),
    ("---\nlicense: \"unknown\"\n---\n", False),
    ("---\nlicense:\nlanguage: en\n---\n", False),
    ("---\nlanguage: en\n---\nlicense: mit\n---\n", False),
    ("# sentiment\n\nlicense: mit\n", False),
    (None, False),
])  # fmt: skip
def test_a_license_is_named_in_the_head_of_the_card(tmp_path, card, is_named):
    if card is not None:
        (tmp_path / "README.md").write_text(card)
    assert names_license(tmp_path) is is_named


def test_a_model_without_a_license_is_sent_with_a_remark(push, folder, tmp_path):
    assert push(folder, "anna/licensed").stderr == ""
    place = shutil.copytree(folder, tmp_path / "sentiment")
    (place / "README.md").write_text("---\nlicense: unknown\n---\n# sentiment\n")
    done = push(place, "anna/unlicensed")
    assert done.returncode == 0, done.stderr
    [line] = done.stderr.splitlines()
    assert line.startswith(f"{place}: ") and "license" in line


@pytest.mark.parametrize(("words", "variables", "parts"), [
    (["anna/sentiment"], {"HF_TOKEN": ""}, ["HF_TOKEN"]),
    (["anna/sentiment"], {"HF_TOKEN": "hf_other"}, ["(401)", "HF_TOKEN"]),
    (["anna/sentiment"], {"HF_HUB_OFFLINE": "1"}, ["(OfflineMode", "HF_HUB_OFFLINE"]),
    (["anna/sentiment"], {"HF_ENDPOINT": "http://127.0.0.1:9"}, ["HF_ENDPOINT", "HF_HUB_OFFLINE"]),
    (["taken/sentiment", "--private"], {}, ["--private"]),
])  # fmt: skip
def test_what_hinders_is_said_in_one_line(push, hub, folder, words, variables, parts):
    hub.repositories["taken/sentiment"] = Repository()
    done = push(folder, *words, **variables)
    assert done.returncode == 2 and done.stdout == ""
    [line] = done.stderr.splitlines()
    worded = "HF_HUB_OFFLINE" not in parts  # the client and the system have words there
    check_message(line, f"bertsmith: {words[0]}: ", *parts, worded=worded)
    assert not hub.uploads and not any(each.files for each in hub.repositories.values())


def test_folders_without_a_finished_model_are_refused(refused, folder, tmp_path):
    assert f"{folder / 'absent'}: " in refused("push", folder / "absent", "anna/x")
    (tmp_path / "config.json").write_text("{}")
    assert "model.safetensors" in refused("push", tmp_path, "anna/x")
    stopped = shutil.copytree(folder, tmp_path / "stopped")
    (stopped / "run.json").write_text('{"config": {}}')
    assert f"{stopped}: " in refused("push", stopped, "anna/x")
    for name in ("sentiment", "a b/c"):
        assert f"found '{name}'; allowed is org/name" in refused("push", folder, name)
