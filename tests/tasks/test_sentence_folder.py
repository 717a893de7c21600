"""What a sentence encoder's folder says is read, and what we cannot do is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from bertsmith.errors import CheckpointError
from bertsmith.system.small_files import SmallFiles
from bertsmith.tasks.sentence_folder import SentenceFolder


def write(folder: Path, name: str, value: Any) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps(value))


def pooling(folder: Path, **modes: bool | str) -> None:
    write(folder, "1_Pooling/config.json", {"word_embedding_dimension": 3, **modes})


def test_a_plain_folder_says_nothing(tmp_path: Path) -> None:
    assert SentenceFolder.read(SmallFiles(tmp_path)) == SentenceFolder(None, False, None)


def test_everything_is_read(tmp_path: Path) -> None:
    kinds = ["Transformer", "Pooling", "Normalize"]
    write(
        tmp_path,
        "modules.json",
        [{"type": f"sentence_transformers.models.{kind}"} for kind in kinds],
    )
    pooling(tmp_path, pooling_mode_cls_token=True, pooling_mode_mean_tokens=False)
    write(tmp_path, "sentence_bert_config.json", {"max_seq_length": 19})
    assert SentenceFolder.read(SmallFiles(tmp_path)) == SentenceFolder("first_token", True, 19)


@pytest.mark.parametrize(
    ("modes", "expected"),
    [
        ({"pooling_mode_mean_tokens": True}, "mean"),
        ({"pooling_mode": "mean"}, "mean"),
        ({"pooling_mode": "cls"}, "first_token"),
        ({"pooling_mode": ["cls"]}, "first_token"),
        ({}, None),
    ],
)
def test_ways_of_pooling(tmp_path: Path, modes: Any, expected: str | None) -> None:
    pooling(tmp_path, **modes)
    assert SentenceFolder.read(SmallFiles(tmp_path)).pooling == expected


def test_pooling_in_a_folder_of_another_name(tmp_path: Path) -> None:
    kind = "sentence_transformers.models.Pooling"
    write(tmp_path, "modules.json", [{"type": kind, "path": "1_Mine"}])
    write(tmp_path, "1_Mine/config.json", {"pooling_mode_cls_token": True})
    assert SentenceFolder.read(SmallFiles(tmp_path)).pooling == "first_token"


@pytest.mark.parametrize(
    "modes",
    [
        {"pooling_mode_max_tokens": True},
        {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True},
        {"pooling_mode": "lasttoken"},
        {"pooling_mode": ["cls", "mean"]},
        {"pooling_mode": 7},
    ],
)
def test_pooling_that_we_have_not(tmp_path: Path, modes: Any) -> None:
    pooling(tmp_path, **modes)
    with pytest.raises(CheckpointError, match=r"config\.json: asks for pooling by .*--pooling"):
        SentenceFolder.read(SmallFiles(tmp_path))


def test_early_names_of_the_file_with_the_length(tmp_path: Path) -> None:
    write(tmp_path, "sentence_distilbert_config.json", {"max_seq_length": 21})
    assert SentenceFolder.read(SmallFiles(tmp_path)).max_length == 21
    write(tmp_path, "sentence_bert_config.json", {"max_seq_length": 19})
    assert SentenceFolder.read(SmallFiles(tmp_path)).max_length == 19
    write(tmp_path, "sentence_bert_config.json", {})
    assert SentenceFolder.read(SmallFiles(tmp_path)).max_length == 21


PROMPTS = {"query": "query: ", "document": ""}


@pytest.mark.parametrize(
    ("name", "prompts"),
    [(None, PROMPTS), ("document", PROMPTS), ("other", PROMPTS), ("query", None), (["query"], {})],
)
def test_a_prompt_that_says_nothing(tmp_path: Path, name: Any, prompts: Any) -> None:
    settings = {"default_prompt_name": name, "prompts": prompts}
    write(tmp_path, "config_sentence_transformers.json", settings)
    assert SentenceFolder.read(SmallFiles(tmp_path)) == SentenceFolder()


def test_a_prompt_before_every_text_is_refused(tmp_path: Path) -> None:
    settings = {"default_prompt_name": "query", "prompts": PROMPTS}
    write(tmp_path, "config_sentence_transformers.json", settings)
    with pytest.raises(CheckpointError, match='is "query", which puts "query: "'):
        SentenceFolder.read(SmallFiles(tmp_path))


def test_a_module_that_we_have_not(tmp_path: Path) -> None:
    write(tmp_path, "modules.json", [{"type": "sentence_transformers.models.Dense"}])
    with pytest.raises(CheckpointError, match=r"modules\.json: asks for Dense"):
        SentenceFolder.read(SmallFiles(tmp_path))


@pytest.mark.parametrize("content", ["{", "[1"])
def test_a_damaged_file(tmp_path: Path, content: str) -> None:
    (tmp_path / "modules.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"modules\.json: not valid JSON"):
        SentenceFolder.read(SmallFiles(tmp_path))


def test_a_file_of_another_kind(tmp_path: Path) -> None:
    write(tmp_path, "sentence_bert_config.json", [])
    with pytest.raises(CheckpointError, match=r"sentence_bert_config\.json: holds .*an object"):
        SentenceFolder.read(SmallFiles(tmp_path))


@pytest.mark.parametrize("length", [-5, 0, 1, True, "16", 16.5, float("inf"), [16]])
def test_a_length_that_is_none(tmp_path: Path, length: Any) -> None:
    write(tmp_path, "sentence_bert_config.json", {"max_seq_length": length})
    with pytest.raises(CheckpointError, match=r"sentence_bert_config\.json: max_seq_length is .*3"):
        SentenceFolder.read(SmallFiles(tmp_path))


@pytest.mark.parametrize("modules", [["x"], [{}, 5], [None]])
def test_modules_that_are_no_objects(tmp_path: Path, modules: Any) -> None:
    write(tmp_path, "modules.json", modules)
    with pytest.raises(CheckpointError, match=r"modules\.json: found .* list of objects"):
        SentenceFolder.read(SmallFiles(tmp_path))


def test_a_file_that_is_a_folder_or_too_deep(tmp_path: Path) -> None:
    (tmp_path / "modules.json").mkdir()
    with pytest.raises(CheckpointError, match=r"modules\.json: a folder"):
        SentenceFolder.read(SmallFiles(tmp_path))
    (tmp_path / "modules.json").rmdir()
    (tmp_path / "modules.json").write_text("[" * 200_000)
    with pytest.raises(CheckpointError, match=r"modules\.json: not valid JSON"):
        SentenceFolder.read(SmallFiles(tmp_path))
