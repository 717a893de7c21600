"""Every task with a family other than BERT: learnt, saved, opened again."""

import pytest
import transformers
from close_figures import close
from samples import SAMPLES, prepare
from tiny_models import save_tiny_of

from bertsmith.evaluation.evaluate import evaluate
from bertsmith.finetuning.run import finetune
from bertsmith.model.loading import load_model
from bertsmith.model.model_folder import read_folder
from bertsmith.tasks.auto import load
from bertsmith.tasks.catalog import task_of_folder

FAMILIES = ["albert", "distilbert", "electra", "modernbert", "roberta"]


@pytest.mark.parametrize(
    "name, family", [(name, FAMILIES[i % 5]) for i, name in enumerate(sorted(SAMPLES))]
)
def test_a_task_with_a_family(name, family, tmp_path):
    model = save_tiny_of(tmp_path / "start", family)
    task, settings = prepare(name, tmp_path, 17, 17, model=model, steps=2)
    result = finetune(task, settings)
    assert task_of_folder(read_folder(settings.out)) is task
    assert read_folder(settings.out).settings["model_type"] == family
    report = load_model(settings.out).load_report
    assert not report.missing and not report.unused
    again = evaluate(load(settings.out, device="cpu", precision="fp32"), settings.eval)
    assert again.to_json() == close(result.evaluation.to_json())
    theirs, info = getattr(transformers, SAMPLES[name].transformers).from_pretrained(
        settings.out, output_loading_info=True
    )
    absent = {key for key in info["missing_keys"] if "pooler" not in key}
    assert not absent and not info["unexpected_keys"] and not info["mismatched_keys"]
    assert [type(theirs).__name__] == read_folder(settings.out).settings["architectures"]
