"""Cards of folders: what run.json says, in the hub's format; somebody's own card stays."""

import json
from dataclasses import replace

import pytest
from huggingface_hub import ModelCard
from refusals import refuses
from samples import prepare
from stop_at import StopAt
from tiny_models import save_tiny
from tiny_runs import small_job

from bertsmith.compression.folder import check_model_out
from bertsmith.errors import ConfigError, Interrupted
from bertsmith.finetuning.run import finetune
from bertsmith.finetuning.series import finetune_repeatedly
from bertsmith.pretraining.run import run_pretraining
from bertsmith.system.checksums import SUMS_FILE
from bertsmith.tasks.text_classification import Classify
from bertsmith.training.model_card import model_card


@pytest.fixture
def settings(tmp_path):
    return prepare("classify", tmp_path / "secret place", 40, 20, steps=2, threads=1)[1]


def test_a_finetuned_folder_and_one_made_smaller(settings, tmp_path, bertsmith):
    finetune(Classify, settings)
    card = ModelCard.load(settings.out / "README.md")
    evaluation = json.loads((settings.out / "run.json").read_text())["result"]["evaluation"]
    assert (card.data.pipeline_tag, card.data.license) == ("text-classification", "unknown")
    [found] = [each for each in card.data.eval_results if each.metric_type == "accuracy"]
    assert (found.metric_value, found.dataset_name) == (evaluation["accuracy"], "a.csv")
    for part in ("40 examples of `a.csv`", "20 examples of `a.csv`", "`neg`", "`start`",
                 f"| accuracy | {evaluation['accuracy']:.4f} |", "| steps | 2 |"):  # fmt: skip
        assert part in card.text
    assert "secret" not in str(card) and card.data.base_model is None
    assert "README" not in (settings.out / SUMS_FILE).read_text()

    words = ("--num-layers", "1", "--data", settings.eval, "--device", "cpu")
    smaller = tmp_path / "small"
    bertsmith("compress", settings.out, "--out", smaller, *words)
    card = ModelCard.load(smaller / "README.md")
    assert card.data.pipeline_tag == "text-classification"
    assert "# small" in card.text and "1 layer, 24 wide, made smaller from `out`" in card.text
    (smaller / "README.md").write_text("mine")
    with refuses(ConfigError, "small: ", "(README.md)", "--out"):
        check_model_out(smaller, settings.out, overwrite=True)


def test_ones_own_card_stays_and_a_series_tells_its_spread(settings, tmp_path):
    with pytest.raises(Interrupted):
        finetune(Classify, settings, [StopAt(1)])
    (settings.out / "README.md").write_text("---\nlicense: mit\n---\nmine\n")
    finetune(Classify, replace(settings, resume=True))
    assert (settings.out / "README.md").read_text().endswith("mine\n")
    finetune_repeatedly(Classify, replace(settings, out=tmp_path / "series", seeds=2))
    assert "The best of 2 seeds: " in (tmp_path / "series" / "README.md").read_text()


@pytest.mark.parametrize(("task", "labels", "is_pair"), [
    ("classify", ("neg", "pos"), False), ("classify", ("neg", "pos"), True),
    ("multi_label", ("a", "b"), False), ("regress", ("value",), False),
    ("tag", ("B-PER", "O"), False), ("answer", (), False), ("choose", (), False),
    ("masked_lm", (), False), (None, (), False),
])  # fmt: skip
def test_the_code_of_a_card_runs(task, labels, is_pair, tmp_path, monkeypatch, capsys):
    folder = save_tiny(tmp_path / "films", *filter(None, [task]), labels=labels)
    if is_pair:
        config = json.loads((folder / "config.json").read_text())
        settings = config.get("bertsmith", {}) | {"task": "classify", "pairs": True}
        (folder / "config.json").write_text(json.dumps(config | {"bertsmith": settings}))
    run = {"config": {"model": {"num_hidden_layers": 2, "hidden_size": 24}}, "settings": {}}
    card = model_card(folder, run, "films")
    code = card.partition("```python\n")[2].partition("```")[0]
    assert ("Another" in code) == (is_pair or task in ("choose", None))
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    assert bool(capsys.readouterr().out) == (task not in ("masked_lm", None))


@pytest.mark.parametrize(("model_type", "is_opened"), [("bert", True), ("recurrent", False)])
def test_the_card_of_an_average_says_who_opens_it(model_type, is_opened, tmp_path):
    settings = {"task": "classify", "members": ["seed-1"]}
    config = {"model_type": model_type, "architectures": ["XForSequenceClassification"]}
    (tmp_path / "config.json").write_text(json.dumps(config | {"bertsmith": settings}))
    run = {"config": {"model": {"num_hidden_layers": 2, "hidden_size": 24}}, "settings": {}}
    card = model_card(tmp_path, run, "films")
    assert "the mean of the probabilities of all models in this folder" in card
    assert ("transformers opens one of them alone." in card) == is_opened


def test_a_pretrained_folder(corpus_dir, tmp_path):
    run_pretraining(small_job(corpus_dir, steps=2), tmp_path / "run")
    card = ModelCard.load(tmp_path / "run" / "README.md")
    assert card.data.pipeline_tag == "fill-mask" and card.data.base_model is None
    held_out = json.loads((tmp_path / "run" / "run.json").read_text())["summary"]["held_out"]
    assert f"| masked LM loss | {held_out['held_out_mlm_loss']:.4f} |" in card.text
    assert "pre-trained from random weights" in card.text
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    run["settings"]["from"] = "org/name"
    card = ModelCard(model_card(tmp_path / "run", run, "more"))
    assert card.data.base_model == "org/name" and "pre-trained, from `org/name`" in card.text
