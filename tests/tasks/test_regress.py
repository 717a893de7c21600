"""Numbers for texts: the loss, the scores, and transformers' own regression folders."""

from dataclasses import replace

import numpy as np
import pytest
from samples import prepare
from tiny_models import load_for_task, loss_of, save_tiny

from bertsmith.tasks.example_objective import collate
from bertsmith.tasks.regression import Regress


@pytest.fixture
def settings(tmp_path):
    return prepare("regress", tmp_path, 31, 17)[1]


def test_the_loss_is_the_squared_error(settings):
    dataset = Regress.read(settings)
    model, tokenizer = load_for_task(settings, dataset)
    encoded = dataset.task.encode(tokenizer, dataset.train, 37, labelled=True)
    batch = collate(encoded, range(13))
    term = loss_of(dataset.task, model.eval(), batch)
    found = dataset.task.predict(model, encoded, dataset.train)[:13]
    errors = [p.value - float(e.label) for p, e in zip(found, dataset.train[:13], strict=True)]
    assert term.sum.item() == pytest.approx(np.square(errors).sum(), rel=1e-5)
    assert term.count == 13


def test_a_new_head_begins_at_the_mean(settings):
    dataset = Regress.read(settings)
    model, _ = load_for_task(settings, dataset)
    mean = np.mean([float(example.label) for example in dataset.train])
    assert model.heads["regress"].dense.bias.item() == pytest.approx(mean)
    stored = save_tiny(settings.out, "regress")
    kept, _ = load_for_task(replace(settings, model=stored), dataset)
    assert kept.heads["regress"].dense.bias.item() == 0.0
