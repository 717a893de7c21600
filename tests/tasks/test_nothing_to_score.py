"""Held-out files by which every model would be as good are refused before training begins."""

import json
from pathlib import Path
from typing import Any

import pytest
from tiny_models import save_tiny

from bertsmith.errors import BertsmithError, InputError
from bertsmith.evaluation.evaluate import evaluate
from bertsmith.finetuning.run import finetune
from bertsmith.tasks.auto import load_predictor
from bertsmith.tasks.question_answering import Answer
from bertsmith.tasks.regression import Regress
from bertsmith.tasks.sentence_embedding import Embed
from bertsmith.tasks.text_classification import Classify
from bertsmith.tasks.token_classification import Tag

TEXT = "text,label\n"
SCORED = "sentence1,sentence2,score\n"
CASES = {
    "regress": (Regress, "a.csv", f"{TEXT}good,1\nbad,2\n", f"{TEXT}fine,3\ndull,3\n",
                "the number is 3 in every row", {}),
    "embed": (Embed, "a.csv", f"{SCORED}good,fine,5\ngood,bad,1\n", f"{SCORED}a,film,2\na,the,2\n",
              "the score is 2 in every row", {}),
    "tag": (Tag, "a.conll", "good B-X\nfilm O\n", "a O\nfilm O\n",
            "no label but O.*--metric accuracy", {}),
    "labels": (Classify, "a.csv", f'{TEXT}good,x\nbad,"x,y"\n', f"{TEXT}fine,\ndull,\n",
               "no text has a label.*--metric accuracy", {"multi_label": True}),
}  # fmt: skip


def settings_of(case: str, folder: Path, **more: Any) -> Any:
    task, name, train, held_out, _, settings = CASES[case]
    for part, text in (("train", train), ("eval", held_out)):
        (folder / part).mkdir()
        (folder / part / name).write_text(text)
    return task.settings(
        model=save_tiny(folder / "m", "masked_lm"), train=folder / "train" / name,
        eval=folder / "eval" / name, out=folder / "out", steps=1, device="cpu", precision="fp32",
        **settings, **more,
    )  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_fine_tuning_wants_something_to_score_by(case: str, tmp_path: Path) -> None:
    settings = settings_of(case, tmp_path)
    with pytest.raises(InputError, match=CASES[case][4]):
        finetune(CASES[case][0], settings)
    assert not settings.out.exists()


@pytest.mark.parametrize("case", ["tag", "labels"])
def test_accuracy_needs_no_entities_and_no_labels(case: str, tmp_path: Path) -> None:
    settings = settings_of(case, tmp_path, metric="accuracy")
    assert len(CASES[case][0].read(settings).held_out) > 0


def test_questions_without_answers_are_no_gold(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    row = {"question": "the film ?", "context": "a good film", "answers": []}
    path.write_text(json.dumps({**row, "id": "a"}) + "\n" + json.dumps({**row, "id": "b"}) + "\n")
    predictor = load_predictor(save_tiny(tmp_path / "m", "answer"), device="cpu", precision="fp32")
    for limit in (None, 1):
        with pytest.raises(BertsmithError, match="none of the 2 questions has an answer"):
            evaluate(predictor, path, limit=limit)
    train = tmp_path / "train.jsonl"
    right = {**row, "id": "a", "answers": [{"text": "good", "answer_start": 2}]}
    train.write_text(json.dumps(right) + "\n")
    settings = Answer.settings(model=tmp_path / "m", train=train, eval=path, out=tmp_path / "out")
    with pytest.raises(InputError, match=r"a\.jsonl: none of the 2 questions has an answer"):
        finetune(Answer, settings)
