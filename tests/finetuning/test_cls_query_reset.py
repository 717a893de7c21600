"""Fine-tuning begins with even attention where pre-training taught [CLS] nothing, or as told."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from refusals import refuses
from samples import prepare
from stop_at import StopAt
from tiny_models import load_for_task, save_tiny
from tiny_runs import small_job

from bertsmith.errors import ConfigError, Interrupted
from bertsmith.finetuning.cls_query_reset import reset_cls_queries
from bertsmith.finetuning.run import finetune
from bertsmith.finetuning.series import finetune_repeatedly
from bertsmith.model.loading import load_model
from bertsmith.model.model_folder import read_folder
from bertsmith.pretraining.run import run_pretraining
from bertsmith.tasks.settings.tag import TagSettings
from bertsmith.tasks.task import TaskDataset
from bertsmith.tasks.text_classification import Classify
from bertsmith.tasks.token_classification import Tag


@pytest.fixture
def settings(tmp_path):
    """What to fine-tune with; the model's folder tells nothing of a run yet."""
    model = save_tiny(tmp_path / "model", "masked_lm", "next_sentence")
    return prepare("classify", tmp_path, 60, 20, model=model, steps=4, learning_rate=5e-3)[1]


def tell_of_run(folder, held_out, command="pretrain", start=None, pairs="next_sentence", before=""):
    """Leave a folder the end of its run, which went on from `start` with `before` to reset it."""
    config = {"source": start or "", "pretraining": {"pairs": pairs}}
    run = {"command": command, "config": config, "summary": {"held_out": held_out}}
    run |= {"source": {"reason_to_reset": before}} if start else {}
    (folder / "run.json").write_text(json.dumps(run))


def loaded(settings, task=None):
    """The model as learning begins with it."""
    dataset = TaskDataset(task or Classify(("neg", "pos")), [], [])
    model, _ = load_for_task(settings, dataset)
    reset_cls_queries(model, read_folder(settings.model), settings, dataset.task.head)
    return model


def queries(model, layer=-1):
    """Weights and biases of a layer's queries, [hidden, hidden + 1]."""
    qkv = model.layers[layer].attention.qkv
    return torch.cat([qkv.weight, qkv.bias[:, None]], 1)[: qkv.out_features // 3].detach()


def is_reset(model):
    assert queries(model, 0).any()
    return not queries(model).any()


MLM = {"held_out_mlm_loss": 4.0}
NSP = {"held_out_nsp_loss": 0.69}


@pytest.mark.parametrize(
    ("run", "reset", "word"),
    [
        (({"held_out_nsp_loss": 0.66},), True, "its attention was reset"),
        (({"held_out_nsp_loss": 0.65},), False, ""),
        # Learnt, but nothing that it could be measured on was held out.
        ((MLM, "pretrain", None, "next_sentence"), False, ""),
        # It depends on where the run began.
        ((None, "pretrain", None, "none"), True, "pairs none"),
        ((MLM, "pretrain", "other", "none"), False, ""),
        ((MLM, "pretrain", "other", "none", "untaught"), True, "pairs none"),
        ((MLM, "distill pretraining", None, "none"), False, ""),
    ],
)
def test_auto_asks_the_run_that_made_the_folder(settings, run, reset, word):
    tell_of_run(settings.model, *run)
    model = loaded(settings)
    assert is_reset(model) is reset
    assert word in model.load_report.note
    assert not is_reset(loaded(replace(settings, cls_attention="keep")))


def test_a_folder_without_a_readable_run_is_left_as_it_is(settings):
    assert not is_reset(loaded(settings))
    for text in ("{", "[]", '{"summary": {"held_out": [1]}}'):
        (settings.model / "run.json").write_text(text)
        assert not is_reset(loaded(settings))


def test_what_is_asked_for_is_done_or_refused(settings):
    tell_of_run(settings.model, {"held_out_nsp_loss": 0.1})
    model = loaded(replace(settings, cls_attention="reset"))
    assert is_reset(model) and "as set by" in model.load_report.note
    tell_of_run(settings.model, NSP)
    # Random weights stay random, and frozen layers keep what they could not learn anew.
    for changes, expected in (
        ({"from_scratch": True}, False), ({"freeze_layers": 2}, False), ({"freeze_layers": 1}, True)
    ):  # fmt: skip
        assert is_reset(loaded(replace(settings, **changes))) is expected
    with refuses(ConfigError, "--from-scratch and --cls-attention reset"):
        replace(settings, from_scratch=True, cls_attention="reset")


def test_where_no_head_reads_it_it_is_left_alone(settings):
    tags = TagSettings(model=settings.model, train=Path("x"), out=settings.out)
    for asked, task, changes in (
        (tags, Tag(("O", "B-PER")), {}),
        (settings, None, {"pooling": "mean"}),
    ):
        save_tiny(settings.model, "masked_lm", **changes)
        tell_of_run(settings.model, NSP)
        assert not is_reset(loaded(asked, task))
        with refuses(ConfigError, "--cls-attention: found reset", "auto and keep", "[CLS]"):
            loaded(replace(asked, cls_attention="reset"), task)


def test_a_stopped_run_goes_on_as_it_began_and_is_not_reset_again(settings):
    tell_of_run(settings.model, NSP)
    with pytest.raises(Interrupted):
        finetune(Classify, settings, [StopAt(1)])
    (settings.model / "run.json").unlink()
    with refuses(ConfigError, "--cls-attention was 'reset', is now 'keep'"):
        finetune(Classify, replace(settings, resume=True, cls_attention="keep"))
    result = finetune(Classify, replace(settings, resume=True))
    assert "its attention was reset" in str(result)
    learnt = queries(load_model(settings.out))
    assert learnt.any()
    again = replace(settings, model=settings.out, out=settings.out.with_name("again"))
    assert torch.equal(queries(loaded(again)), learnt)


def test_a_run_of_ours_tells_it_and_a_series_once(settings, corpus_dir):
    folder = settings.out.with_name("pretrained")
    run_pretraining(small_job(corpus_dir, steps=2, eval_rows=32, device="cpu"), folder)
    run = json.loads((folder / "run.json").read_text())
    assert run["summary"]["held_out"]["held_out_nsp_loss"] > 0.66
    settings = replace(settings, model=folder, seeds=2, steps=1)
    assert str(finetune_repeatedly(Classify, settings)).count("its attention was reset") == 1
