"""Files that no model can learn from or be scored by are refused before training begins."""

import json

import pytest
from refusals import refuses
from tiny_models import save_tiny

from bertsmith.errors import ExamplesError, InputError, as_flags
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


BY_LABEL = "text,label\n" + "".join(f"good {i},{'p' if i < 6 else 'q'}\n" for i in range(9))
BY_NUMBER = BY_LABEL.replace(",p", ",1").replace(",q", ",2")
BY_LABELS = "text,label\n" + "".join(f"good {i},{'' if i < 6 else 'q'}\n" for i in range(9))
BY_SCORE = SCORED + "".join(f"good {i},bad,{1 if i < 6 else 2}\n" for i in range(9))
BY_TAG = "".join(f"good {'O' if i < 6 else 'B-X'}\n\n" for i in range(9))
BY_ANSWER = "".join(
    json.dumps({**json.loads(NONE.split("\n")[0] if i < 6 else RIGHT), "id": str(i)}) + "\n"
    for i in range(9)
)
SORTED = [
    (Classify, "a.csv", BY_LABEL), (Classify, "b.csv", BY_LABELS), (Regress, "a.csv", BY_NUMBER),
    (Embed, "a.csv", BY_SCORE), (Tag, "a.conll", BY_TAG), (Answer, "a.jsonl", BY_ANSWER),
]  # fmt: skip


def settings_of(task, name, text, folder, **changes):
    path = folder / name
    path.write_text(text)
    multi = {"multi_label": True} if name == "b.csv" else {}
    return task.settings(
        model=folder, train=path, eval=path, out=folder / "out", **multi, **changes
    )


@pytest.mark.parametrize("task, name, text", SORTED, ids=lambda value: getattr(value, "name", ""))
def test_of_a_sorted_file_the_limit_is_named_where_its_rows_are_alike(task, name, text, tmp_path):
    with refuses(ExamplesError, name, "only the first 5 rows were read (--limit 5)"):
        task.read(settings_of(task, name, text, tmp_path, limit=5))
    task.read(settings_of(task, name, text, tmp_path))
    task.read(settings_of(task, name, text, tmp_path, limit=8))


def test_the_limit_that_is_the_cause_is_named(tmp_path):
    with refuses(ExamplesError, "a.csv", "the first row was read (--limit 1)"):
        Classify.read(settings_of(Classify, "a.csv", BY_LABEL, tmp_path, limit=1))
    with refuses(ExamplesError, "a.csv", "--sample 1"):
        Regress.read(settings_of(Regress, "a.csv", BY_NUMBER, tmp_path, sample=1))
    with refuses(ExamplesError, "a.csv", "the first 5 rows were read (--eval-limit 5)"):
        Regress.read(settings_of(Regress, "a.csv", BY_NUMBER, tmp_path, eval_limit=5))
    three = BY_LABEL + "odd,r\n"
    with refuses(ExamplesError, "a.csv:11:", "'r'", "only the first 8 rows were read (--limit 8)"):
        Classify.read(settings_of(Classify, "a.csv", three, tmp_path, limit=8))
    with pytest.raises(ExamplesError) as caught:  # the limit is above the number of rows
        Classify.read(settings_of(Classify, "a.csv", "text,label\na,p\nb,p\n", tmp_path, limit=5))
    assert "--limit" not in as_flags(caught.value.message)
