"""Every task with two families, every family with several tasks: learnt, saved, opened again."""

from pathlib import Path

import pytest
import transformers
from close_figures import close
from samples import SAMPLES
from tiny_models import save_tiny_of

from bertsmith.evaluation.evaluate import evaluate
from bertsmith.finetuning.run import finetune
from bertsmith.model.loading import load_model
from bertsmith.model.model_folder import read_folder
from bertsmith.tasks.auto import load
from bertsmith.tasks.catalog import task_named, task_of_folder

FAMILIES = ["albert", "distilbert", "electra", "roberta"]


@pytest.mark.parametrize("name, family", [
    (name, FAMILIES[(place + shift) % 4]) for place, name in enumerate(sorted(SAMPLES))
    for shift in (0, 2 + place % 2)
])  # fmt: skip
def test_a_task_with_a_family(name: str, family: str, tmp_path: Path) -> None:
    sample, task = SAMPLES[name], task_named(name.split()[0])
    for seed, folder in enumerate(("train", "eval")):
        (tmp_path / folder).mkdir()
        sample.write(tmp_path / folder / sample.file, 17, seed)
    settings = task.settings(
        model=save_tiny_of(tmp_path / "start", family), out=tmp_path / "out",
        train=tmp_path / "train" / sample.file, eval=tmp_path / "eval" / sample.file,
        device="cpu", precision="fp32", steps=3, **sample.settings,
    )  # fmt: skip
    result = finetune(task, settings)
    assert task_of_folder(read_folder(settings.out)) is task
    assert read_folder(settings.out).settings["model_type"] == family
    model = load_model(settings.out)
    assert not model.load_report.missing
    assert not model.load_report.unused
    again = evaluate(load(settings.out, device="cpu", precision="fp32"), settings.eval)
    assert again.to_json() == close(result.evaluation.to_json())
    theirs, info = getattr(transformers, sample.transformers).from_pretrained(
        settings.out, output_loading_info=True
    )
    absent = {key for key in info["missing_keys"] if "pooler" not in key}
    assert not absent and not info["unexpected_keys"] and not info["mismatched_keys"]
    assert [type(theirs).__name__] == read_folder(settings.out).settings["architectures"]
