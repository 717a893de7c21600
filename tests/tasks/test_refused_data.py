"""Files that no model can learn from or be scored by are refused before training begins."""

import json

import pytest
from refusals import refuses
from tiny_models import save_tiny

from bertsmith.errors import InputError
from bertsmith.finetuning.run import finetune
from bertsmith.tasks.question_answering import Answer
from bertsmith.tasks.regression import Regress
from bertsmith.tasks.sentence_embedding import Embed
from bertsmith.tasks.text_classification import Classify
from bertsmith.tasks.token_classification import Tag

TEXT = "text,label\n"
SCORED = "sentence1,sentence2,score\n"
MULTI = {"multi_label": True, "label_separator": "|"}
QUESTION = {"question": "the film ?", "context": "a good film", "answers": []}
NONE = "".join(json.dumps({**QUESTION, "id": id_}) + "\n" for id_ in "ab")
RIGHT = json.dumps({**QUESTION, "id": "a", "answers": [{"text": "good", "answer_start": 2}]})
MANY = "good B-PER\nfilm O\n\n" * 5001


@pytest.mark.parametrize("task, name, train, held_out, parts", [
    (Regress, "a.csv", "good,1\nbad,2\n", "fine,3\ndull,3\n", ["eval/a.csv:", " 3 "]),
    (Regress, "a.csv", "a,1\nb,good\n", "", ["train/a.csv:3:", "'good'"]),
    (Embed, "a.csv", f"{SCORED}good,fine,5\ngood,bad,1\n", f"{SCORED}a,film,2\na,the,2\n",
     ["eval/a.csv:", " 2 "]),
    (Tag, "a.conll", "good B-X\nfilm O\n", "a O\nfilm O\n", [" O,", "--metric accuracy"]),
    (Tag, "a.conll", "a O\nb O\n", "a B-X\n", ["a.conll:", "'O'", "--label-column"]),
    (Tag, "a.conll", f"{MANY}a PERSON\n", "a B-PER\n", ["a.conll:15004:", "'PERSON'"]),
    (Classify, "a.csv", 'good,x\nbad,"x|y"\n', "fine,\ndull,\n",
     ["eval/a.csv:", "--metric accuracy"]),
    (Classify, "a.csv", "a,x\nb,y\n", "a,x | odd\n", ["a.csv:2:", "'odd'"]),
    (Classify, "a.csv", "a,\nb,\n", "a,x\n", ["train/a.csv:", "--label-column"]),
    (Answer, "a.jsonl", RIGHT, NONE, ["eval/a.jsonl:", "none of the 2 "]),
])  # fmt: skip
def test_what_is_refused(task, name, train, held_out, parts, tmp_path):
    settings = {"model": save_tiny(tmp_path / "m", "masked_lm"), "out": tmp_path / "out"}
    settings |= MULTI if task is Classify else {}
    for part, text in (("train", train), ("eval", held_out or train)):
        (tmp_path / part).mkdir()
        settings[part] = tmp_path / part / name
        settings[part].write_text(TEXT + text if task in (Regress, Classify) else text)
    with refuses(InputError, *parts):
        finetune(task, task.settings(**settings))
    assert not (tmp_path / "out").exists()
    if "--metric accuracy" in parts:  # which needs no entities and no labels
        assert len(task.read(task.settings(**settings, metric="accuracy")).held_out) > 0
