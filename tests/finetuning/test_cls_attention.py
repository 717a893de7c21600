"""Fine-tuning begins with even attention where pre-training taught [CLS] nothing, or as told."""

import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import load_for_task, save_tiny, save_tiny_of, write_reviews

from bertsmith import cli
from bertsmith.distillation.run import DistillSettings, distill
from bertsmith.errors import ConfigError, Interrupted
from bertsmith.finetuning.cls_query_reset import begin_attention
from bertsmith.finetuning.run import finetune
from bertsmith.finetuning.series import finetune_repeatedly
from bertsmith.model.bert import BertModel
from bertsmith.model.loading import load_model
from bertsmith.model.model_folder import read_folder
from bertsmith.tasks.task import TaskDataset
from bertsmith.tasks.text_classification import Classify, ClassifySettings
from bertsmith.tasks.token_classification import Tag, TagSettings

NAMES = ("neg", "pos")


@pytest.fixture
def settings(tmp_path: Path) -> ClassifySettings:
    """What to fine-tune with; the model's folder tells nothing of a run yet."""
    return ClassifySettings(
        model=save_tiny(tmp_path / "model", "masked_lm", "next_sentence"),
        train=write_reviews(tmp_path / "train.csv", 60),
        eval=write_reviews(tmp_path / "eval.csv", 20, seed=1),
        out=tmp_path / "out",
        steps=20,
        learning_rate=5e-3,
        device="cpu",
        precision="fp32",
    )


def tell_of_run(
    folder: Path,
    held_out: Any,
    command: str = "pretrain",
    start: str | None = None,
    pairs: str = "next_sentence",
) -> None:
    """Leave a folder the end of the run that made it; `start` is the model that it went on from."""
    config = {"source": start or "", "pretraining": {"pairs": pairs}}
    run = {"command": command, "config": config, "summary": {"held_out": held_out}}
    (folder / "run.json").write_text(json.dumps(run))


def loaded(settings: Any, task: Any = None) -> BertModel:
    """The model as learning begins with it."""
    dataset: TaskDataset[Any] = TaskDataset(task or Classify(NAMES), [], [])
    model, _ = load_for_task(settings, dataset)
    begin_attention(model, read_folder(settings.model), settings, dataset.task.head)
    return model


def note_of(model: BertModel) -> str:
    assert model.load_report is not None
    return model.load_report.note


def queries(model: BertModel, layer: int = -1) -> torch.Tensor:
    """Weights and biases of a layer's queries, [hidden, hidden + 1]."""
    qkv = model.layers[layer].attention.qkv
    rows = qkv.out_features // 3
    return torch.cat([qkv.weight[:rows], qkv.bias[:rows, None]], 1).detach()


def is_reset(model: BertModel) -> bool:
    assert queries(model, 0).any()
    return not queries(model).any()


@pytest.mark.parametrize(
    ("held_out", "reset"),
    [
        ({"held_out_nsp_loss": 0.69}, True),
        ({"held_out_nsp_loss": 0.66}, True),
        ({"held_out_nsp_loss": 0.65}, False),
        ({"held_out_sop_loss": 0.7}, True),
        ({"held_out_sop_loss": 0.4}, False),
        ({"held_out_mlm_loss": 5.0}, False),
        ({"held_out_nsp_loss": None}, False),
        ({}, False),
        (None, False),
        ([1], False),
    ],
)
def test_auto_asks_the_run_that_made_the_folder(
    settings: ClassifySettings, held_out: Any, reset: bool
) -> None:
    tell_of_run(settings.model, held_out)
    model = loaded(settings)
    assert is_reset(model) is reset
    assert ("queries to zero" in note_of(model)) is reset
    kept = loaded(replace(settings, cls_attention="keep"))
    assert not is_reset(kept)
    assert "queries to zero" not in note_of(kept)


@pytest.mark.parametrize(
    ("command", "start", "pairs", "held_out", "reset"),
    [
        ("pretrain", None, "none", {"held_out_mlm_loss": 4.0}, True),
        ("pretrain", None, "none", None, True),
        ("pretrain", "other", "none", {"held_out_mlm_loss": 4.0}, False),
        # Learnt, but nothing that it could be measured on was held out.
        ("pretrain", None, "next_sentence", {"held_out_mlm_loss": 4.0}, False),
        ("pretrain", "other", "next_sentence", {"held_out_nsp_loss": 0.69}, False),
        ("distill pretraining", None, "none", {"held_out_mlm_loss": 4.0}, False),
        ("distill pretraining", None, "next_sentence", {"held_out_nsp_loss": 0.69}, False),
    ],
)
def test_it_depends_on_where_the_run_began_and_what_it_learnt(
    settings: ClassifySettings,
    command: str,
    start: str | None,
    pairs: str,
    held_out: Any,
    reset: bool,
) -> None:
    tell_of_run(settings.model, held_out, command, start, pairs)
    model = loaded(settings)
    assert is_reset(model) is reset
    assert ("without pairs" in note_of(model)) is reset


@pytest.mark.parametrize("text", [None, "", "{", "[]", '"word"', '{"summary": 3}', "\xff"])
def test_a_folder_without_a_readable_run_is_left_as_it_is(
    settings: ClassifySettings, text: str | None
) -> None:
    if text is not None:
        (settings.model / "run.json").write_text(text, encoding="latin-1")
    assert not is_reset(loaded(settings))


def test_what_is_asked_for_is_done(settings: ClassifySettings) -> None:
    tell_of_run(settings.model, {"held_out_nsp_loss": 0.1})
    model = loaded(replace(settings, cls_attention="reset"))
    assert is_reset(model)
    assert "mean over tokens. Reason: as asked for" in note_of(model)
    before = load_model(settings.model)
    assert torch.equal(queries(before, 0), queries(model, 0))


def test_random_weights_stay_random(settings: ClassifySettings) -> None:
    tell_of_run(settings.model, {"held_out_nsp_loss": 0.69})
    assert not is_reset(loaded(replace(settings, from_scratch=True)))
    with pytest.raises(ConfigError, match="exclude each other"):
        replace(settings, from_scratch=True, cls_attention="reset")
    with pytest.raises(ConfigError, match="cls-attention is 'even'"):
        replace(settings, cls_attention="even")  # type: ignore[arg-type]


def test_a_task_that_does_not_read_it_is_left_alone(settings: ClassifySettings) -> None:
    tell_of_run(settings.model, {"held_out_nsp_loss": 0.69})
    asked = TagSettings(model=settings.model, train=Path("x"), out=settings.out)
    assert not is_reset(loaded(asked, Tag(("O", "B-PER"))))
    with pytest.raises(ConfigError, match="no head of this task and model"):
        loaded(replace(asked, cls_attention="reset"), Tag(("O", "B-PER")))


def test_a_model_that_pools_by_the_mean_is_left_alone(settings: ClassifySettings) -> None:
    save_tiny(settings.model, "masked_lm", pooling="mean")
    tell_of_run(settings.model, {"held_out_nsp_loss": 0.69})
    assert not is_reset(loaded(settings))
    with pytest.raises(ConfigError, match="no head of this task and model"):
        loaded(replace(settings, cls_attention="reset"))


def test_frozen_layers_keep_what_they_could_not_learn_anew(settings: ClassifySettings) -> None:
    tell_of_run(settings.model, {"held_out_nsp_loss": 0.69})
    assert not is_reset(loaded(replace(settings, freeze_layers=2)))
    assert is_reset(loaded(replace(settings, freeze_layers=1)))


@pytest.mark.parametrize("family", ["roberta", "distilbert", "electra"])
def test_families_whose_heads_read_the_first_token_themselves(
    settings: ClassifySettings, tmp_path: Path, family: str
) -> None:
    folder = save_tiny_of(tmp_path / family, family)
    tell_of_run(folder, {"held_out_mlm_loss": 4.0}, pairs="none")
    assert is_reset(loaded(replace(settings, model=folder)))


def test_layers_that_share_their_attention_keep_it(
    settings: ClassifySettings, tmp_path: Path
) -> None:
    albert = save_tiny_of(tmp_path / "albert", "albert")
    tell_of_run(albert, {"held_out_sop_loss": 0.69})
    assert queries(loaded(replace(settings, model=albert))).any()
    with pytest.raises(ConfigError, match="that of other layers too"):
        loaded(replace(settings, model=albert, cls_attention="reset"))


def test_the_queries_learn_and_a_fine_tuned_folder_is_not_reset_again(
    settings: ClassifySettings,
) -> None:
    tell_of_run(settings.model, {"held_out_nsp_loss": 0.69})
    result = finetune(Classify, settings)
    assert "[CLS] starts as the mean over tokens" in str(result)
    learnt = queries(load_model(settings.out))
    assert learnt.any()
    again = replace(settings, model=settings.out, out=settings.out.with_name("again"))
    assert torch.equal(queries(loaded(again)), learnt)


class StopAtOnce:
    """Asks the run to stop after its first step, as Ctrl-C does."""

    def begin(self, computing: str) -> None:
        pass

    def write(self, entry: Any, status: str) -> None:
        if entry["step"] == 1:
            os.kill(os.getpid(), signal.SIGINT)


def test_a_stopped_run_goes_on_as_it_began(settings: ClassifySettings) -> None:
    """Whatever its model's folder tells by now."""
    tell_of_run(settings.model, {"held_out_nsp_loss": 0.69})
    with pytest.raises(Interrupted):
        finetune(Classify, settings, [StopAtOnce()])
    (settings.model / "run.json").unlink()
    with pytest.raises(ConfigError, match="give --cls-attention auto"):
        finetune(Classify, replace(settings, resume=True, cls_attention="keep"))
    result = finetune(Classify, replace(settings, resume=True))
    assert "[CLS] starts as the mean over tokens" in str(result)


def test_a_student_that_loses_the_last_layer_begins_with_the_one_it_has(
    settings: ClassifySettings, tmp_path: Path
) -> None:
    finetune(Classify, replace(settings, steps=4))
    student = DistillSettings(teacher=settings.out, num_layers=1)
    asked = replace(
        settings, model=settings.out, out=tmp_path / "student", steps=1, learning_rate=1e-9,
        cls_attention="reset",
    )  # fmt: skip
    result = distill(student, Classify, asked)
    assert "mean over tokens. Reason: as asked for" in str(result)
    model = load_model(tmp_path / "student")
    assert len(model.layers) == 1
    assert queries(model).abs().max() < 1e-6


def test_a_series_tells_it_once(settings: ClassifySettings) -> None:
    tell_of_run(settings.model, {"held_out_nsp_loss": 0.69})
    series = str(finetune_repeatedly(Classify, replace(settings, seeds=2, steps=4)))
    assert series.count("queries to zero") == 1
    kept = replace(settings, seeds=2, steps=4, cls_attention="keep", overwrite=True)
    assert "queries to zero" not in str(finetune_repeatedly(Classify, kept))


def test_a_run_of_ours_tells_it(settings: ClassifySettings, corpus_dir: Path) -> None:
    folder = settings.out.with_name("pretrained")
    cli.main(
        ["pretrain", "--corpus", str(corpus_dir), "--out", str(folder), "--preset", "tiny",
         "--steps", "2", "--batch-size", "4", "--max-length", "16", "--eval-rows", "32",
         "--threads", "1", "--precision", "fp32", "--device", "cpu"]
    )  # fmt: skip
    run = json.loads((folder / "run.json").read_text())
    assert run["summary"]["held_out"]["held_out_nsp_loss"] > 0.66
    assert is_reset(loaded(replace(settings, model=folder)))
