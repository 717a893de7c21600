"""What a sentence encoder's folder says is read, and what we cannot do is refused."""

import json
from pathlib import Path

import pytest

from bertsmith.errors import CheckpointError
from bertsmith.system.small_files import SmallFiles
from bertsmith.tasks.sentence_folder import SentenceFolder

MODULES, LENGTH, POOLING = "modules.json", "sentence_bert_config.json", "1_Pooling/config.json"
EARLY, PROMPT = "sentence_distilbert_config.json", "config_sentence_transformers.json"
PROMPTS = {"query": "query: ", "document": ""}
KINDS = [{"type": f"sentence_transformers.models.{x}"} for x in ("Pooling", "Normalize", "Dense")]
FIRST = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}


def write(folder, files):
    for name, value in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(value if isinstance(value, str) else json.dumps(value))
    return SmallFiles(folder)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, (None, False, None)),
        (
            {MODULES: KINDS[:2], POOLING: FIRST, LENGTH: {"max_seq_length": 19}},
            ("first_token", True, 19),
        ),
        ({POOLING: {"pooling_mode_mean_tokens": True}}, ("mean", False, None)),
        ({POOLING: {"pooling_mode": "mean"}}, ("mean", False, None)),
        ({POOLING: {"pooling_mode": ["cls"]}}, ("first_token", False, None)),
        ({POOLING: {}}, (None, False, None)),
        (
            {MODULES: [KINDS[0] | {"path": "1_Mine"}], "1_Mine/config.json": FIRST},
            ("first_token", False, None),
        ),
        ({EARLY: {"max_seq_length": 21}}, (None, False, 21)),
        ({EARLY: {"max_seq_length": 21}, LENGTH: {"max_seq_length": 19}}, (None, False, 19)),
        ({EARLY: {"max_seq_length": 21}, LENGTH: {}}, (None, False, 21)),
        *(
            ({PROMPT: {"default_prompt_name": name, "prompts": prompts}}, (None, False, None))
            for name, prompts in (
                (None, PROMPTS), ("document", PROMPTS), ("other", PROMPTS), ("query", None),
                (["query"], {}),
            )
        ),
    ],
)  # fmt: skip
def test_what_is_said_is_read(tmp_path, files, expected):
    assert SentenceFolder.read(write(tmp_path, files)) == SentenceFolder(*expected)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        *(
            (POOLING, content, "asks for pooling by .*--pooling")
            for content in (
                {"pooling_mode_max_tokens": True}, {"pooling_mode": 7},
                {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True},
                {"pooling_mode": "lasttoken"}, {"pooling_mode": ["cls", "mean"]},
            )
        ),
        *(
            (LENGTH, {"max_seq_length": length}, "max_seq_length is .*3")
            for length in (-5, 0, 1, True, "16", 16.5, float("inf"), [16])
        ),
        (LENGTH, [], "holds .*an object"),
        (PROMPT, {"default_prompt_name": "query", "prompts": PROMPTS}, 'which puts "query: "'),
        (MODULES, KINDS, "asks for Dense"),
        *((MODULES, content, "not valid JSON") for content in ("{", "[1", "[" * 200_000)),
        *((MODULES, rows, "found .* list of objects") for rows in (["x"], [{}, 5], [None])),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_refused(tmp_path, name, content, message):
    with pytest.raises(CheckpointError, match=rf"{Path(name).name}: .*{message}"):
        SentenceFolder.read(write(tmp_path, {name: content}))


def test_a_file_that_is_a_folder(tmp_path):
    (tmp_path / MODULES).mkdir()
    with pytest.raises(CheckpointError, match=r"modules\.json: a folder"):
        SentenceFolder.read(SmallFiles(tmp_path))
