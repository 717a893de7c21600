"""`finetune classify --seeds 2 --average --corpus`: a linear head is a part of the average."""

import json
import shutil
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from refusals import refuses
from tiny_models import (
    BAD,
    GOOD,
    SPECIAL_TOKENS,
    save_tiny,
    tiny_tokenizer,
    write_csv,
    write_reviews,
)
from tiny_runs import small_corpus

from bertsmith import TextClassifier
from bertsmith.distillation.run import distill
from bertsmith.distillation.settings import DistillSettings
from bertsmith.errors import CheckpointError, ConfigError
from bertsmith.finetuning.linear_run import finetune_linear
from bertsmith.finetuning.run import finetune
from bertsmith.finetuning.series import finetune_repeatedly
from bertsmith.inspection.look import look
from bertsmith.model.config_file import own_settings, read_config
from bertsmith.model.head_names import LINEAR_HEAD_FILE, LINEAR_MEMBER, MEMBERS_FOLDER
from bertsmith.system.small_files import SmallFiles
from bertsmith.tasks.auto import load
from bertsmith.tasks.averaged_classification import AveragedClassify
from bertsmith.tasks.chunk_predictor import ChunkPredictor
from bertsmith.tasks.settings.classify import ClassifySettings
from bertsmith.tasks.text_classification import Classify
from bertsmith.tokenization.wordpiece import WordPieceTokenizer

TEXTS = ["a good film", "dull", "the film was very bad . " * 12, "a", ""]
"""The third is read in several windows."""


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folder = tmp_path_factory.mktemp("member")
    rng = np.random.default_rng(0)
    documents = [
        "\n".join(f"the film was {rng.choice(words)} ." for _ in range(5))
        for words in (GOOD, BAD) * 53
    ]
    return ClassifySettings(
        model=save_tiny(folder / "model", "masked_lm"),
        train=write_reviews(folder / "train.csv", 41),
        eval=write_reviews(folder / "eval.csv", 31, seed=1),
        out=folder / "out",
        seeds=2,
        average=True,
        corpus=small_corpus(folder / "corpus", tiny_tokenizer(), documents),
        steps=6,
        learning_rate=5e-3,
        precision="fp32",
        threads=1,
    )


@pytest.fixture(scope="module")
def whole(base):
    return finetune_repeatedly(Classify, base)


@pytest.fixture
def copied(base, whole, tmp_path):
    """A copy of the averaged model's folder, which a test may change."""
    return shutil.copytree(base.out, tmp_path / "copy")


def probabilities_of(folder):
    return load(folder, device="cpu", precision="fp32").probabilities(TEXTS)


def test_all_models_of_an_average_move_to_the_device_of_a_rank(base, whole):
    predictor = load(base.out, device="cpu", precision="fp32")
    others = predictor.definition.other_models
    assert (
        len(others) == 2
    )  # the fine-tuned model of the second seed, and the linear head's encoder
    # A device of torch that every machine has, and that holds no numbers.
    ChunkPredictor.of(predictor.loaded, predictor.definition).move_models("meta")
    assert {model.device.type for model in (predictor.model, *others)} == {"meta"}


def test_the_linear_head_has_half_of_the_weight(base, whole, tmp_path):
    fine_tuned = []
    for seed in range(2):
        alone = replace(base.for_one_run(), seed=seed, out=tmp_path / str(seed))
        finetune(Classify, alone)
        fine_tuned.append(probabilities_of(alone.out))
    linear = replace(base.with_head("linear"), out=tmp_path / "linear")
    finetune_linear(Classify, linear)
    of_linear = probabilities_of(linear.out)
    mean = (np.mean(fine_tuned, axis=0) + of_linear) / 2
    np.testing.assert_allclose(probabilities_of(base.out), mean, atol=1e-6)
    assert not np.allclose(np.mean(fine_tuned, axis=0), of_linear, atol=1e-2)


def test_one_text_alone_gets_the_answer_that_it_gets_beside_others(base, whole):
    predictor = load(base.out, device="cpu", precision="fp32")
    assert predictor(TEXTS[2]).num_windows > 1
    for text, row in zip(TEXTS, probabilities_of(base.out), strict=True):
        np.testing.assert_allclose(predictor.probabilities([text])[0], row, atol=1e-6)


def test_the_report_and_the_card_name_the_linear_head(base, whole):
    text = str(whole)
    assert "linear head" in text and "predictions take 3 times as long" in text
    evaluated = load(base.out / MEMBERS_FOLDER / LINEAR_MEMBER, device="cpu", precision="fp32")
    accuracy = evaluated.evaluate(str(base.eval)).accuracy
    assert whole.linear_head["accuracy"] == accuracy
    score = load(base.out, device="cpu", precision="fp32").evaluate(str(base.eval))
    assert whole.average["accuracy"] == score.accuracy
    assert "of a linear head, with half of the weight" in (base.out / "README.md").read_text()


def test_the_folder_lists_its_members_and_a_saved_copy_is_whole(base, whole, tmp_path):
    members = own_settings(read_config(SmallFiles(base.out)))["members"]
    assert members[-1] == LINEAR_MEMBER
    assert sorted(members) == sorted(each.name for each in (base.out / MEMBERS_FOLDER).iterdir())
    saved = load(base.out, device="cpu", precision="fp32").save(tmp_path / "saved")
    assert (saved / MEMBERS_FOLDER / LINEAR_MEMBER / LINEAR_HEAD_FILE).is_file()
    assert np.array_equal(probabilities_of(saved), probabilities_of(base.out))


def test_the_estimator_restores_the_settings_of_one_model(base, whole):
    loaded = TextClassifier.load(base.out, device="cpu", precision="fp32")
    assert (loaded.model, loaded.steps) == (str(base.model), base.steps)
    assert loaded.head == "fine-tuned" and loaded.corpus is None
    assert loaded.predict_proba(TEXTS).tolist() == probabilities_of(base.out).tolist()


def test_a_series_that_was_stopped_at_its_end_is_resumed(base, whole, copied):
    facts = json.loads((copied / "run.json").read_text())
    del facts["summary"]
    (copied / "run.json").write_text(json.dumps(facts))
    head = copied / MEMBERS_FOLDER / LINEAR_MEMBER / LINEAR_HEAD_FILE
    written = head.stat().st_mtime_ns
    result = finetune_repeatedly(Classify, replace(base, out=copied, resume=True))
    assert result.average == whole.average and result.linear_head == whole.linear_head
    assert head.stat().st_mtime_ns == written  # the complete head is kept


def test_a_series_that_was_stopped_while_the_head_was_fitted_is_resumed(base, whole, copied):
    facts = json.loads((copied / "run.json").read_text())
    del facts["summary"]
    (copied / "run.json").write_text(json.dumps(facts))
    run = copied / MEMBERS_FOLDER / LINEAR_MEMBER / "run.json"
    begun = json.loads(run.read_text())
    del begun["result"]
    run.write_text(json.dumps(begun))
    result = finetune_repeatedly(Classify, replace(base, out=copied, resume=True))
    assert result.average == whole.average


def test_another_series_in_the_folder_leaves_no_linear_head(base, whole, copied):
    finetune_repeatedly(Classify, replace(base, out=copied, corpus=None, overwrite=True))
    assert not (copied / MEMBERS_FOLDER / LINEAR_MEMBER).exists()
    definition = load(copied, device="cpu").definition
    assert isinstance(definition, AveragedClassify) and definition.linear is None


def test_a_folder_without_its_linear_head_is_refused(copied):
    shutil.rmtree(copied / MEMBERS_FOLDER / LINEAR_MEMBER)
    with refuses(CheckpointError, LINEAR_MEMBER, worded=False):
        load(copied, device="cpu")


def test_a_linear_head_for_other_labels_is_refused(base, copied, tmp_path):
    rows = [(f"a {word} film", label) for word, label in zip(GOOD + BAD, "abababab", strict=False)]
    other = replace(
        base.with_head("linear"),
        train=write_csv(tmp_path / "other.csv", ("text", "label"), *rows * 3),
        corpus=None,
        out=tmp_path / "other",
    )
    finetune_linear(Classify, replace(other, eval=other.train))
    member = copied / MEMBERS_FOLDER / LINEAR_MEMBER
    shutil.rmtree(member)
    shutil.copytree(other.out, member)
    with refuses(CheckpointError, "labels are not those of", worded=False):
        load(copied, device="cpu")


def test_the_linear_head_has_the_labels_of_the_teacher(base, tmp_path):
    """A teacher may know more labels than the examples have, and in another order."""
    labels = ("pos", "other", "neg")
    teacher = save_tiny(tmp_path / "teacher", "classify", labels=labels)
    settings = replace(base, model=teacher, steps=1, out=tmp_path / "out")
    train = partial(distill, DistillSettings(teacher=teacher, num_layers=1))
    result = finetune_repeatedly(Classify, settings, train=train)
    predictor = load(settings.out, device="cpu", precision="fp32")
    assert predictor.labels == predictor.definition.linear.task.labels == labels
    assert result.average["accuracy"] == predictor.evaluate(str(base.eval)).accuracy


def test_faults_of_the_corpus_are_told_before_anything_is_trained(base, tmp_path):
    out = tmp_path / "out"
    short = small_corpus(tmp_path / "short", tiny_tokenizer(), ["a film", "a story"])
    with refuses(ConfigError, str(short), "4 tokens", worded=False):
        finetune_repeatedly(Classify, replace(base, corpus=short, out=out))
    tokenizer = WordPieceTokenizer([*SPECIAL_TOKENS, *GOOD, "film", "a"])
    other = small_corpus(tmp_path / "other", tokenizer, ["a good film a fine film"])
    with refuses(ConfigError, str(other), "vocabulary", worded=False):
        finetune_repeatedly(Classify, replace(base, corpus=other, out=out))
    with refuses(ConfigError, "--out", str(base.corpus), worded=False):
        finetune_repeatedly(Classify, replace(base, out=base.corpus / "out"))
    assert not out.exists()


def test_the_linear_head_counts_among_the_models_that_are_not_looked_into(base, whole):
    with refuses(CheckpointError, "3 models", worded=False):
        look(base.out, "a good film")


def test_a_corpus_without_a_use_is_refused(base):
    with refuses(ConfigError, "--corpus", "--average"):
        replace(base, average=False)
    with refuses(ConfigError, "--from-scratch"):
        replace(base, from_scratch=True)
    with refuses(ConfigError, "one label"):
        replace(base, multi_label=True)
