"""The catalog of pre-training objectives names classes that exist, and heads that families have."""

from pkgutil import resolve_name
from typing import get_args

from bertsmith.model.families import FAMILIES
from bertsmith.model.pretraining_catalog import (
    OBJECTIVES,
    PAIR_TASKS,
    ObjectiveName,
    PairTaskName,
)
from bertsmith.pretraining.objective import Pretraining
from bertsmith.pretraining.pair_task import PairTask, load_pair_task


def test_every_objective_has_its_class_and_a_family_with_its_head():
    assert get_args(ObjectiveName) == tuple(OBJECTIVES)
    for name, entry in OBJECTIVES.items():
        assert issubclass(resolve_name(entry.implementation), Pretraining)
        assert FAMILIES[entry.family].objective == name


def test_every_pair_task_has_its_class_and_a_head_if_it_says_so():
    assert get_args(PairTaskName) == (*PAIR_TASKS, "none")
    for name, entry in PAIR_TASKS.items():
        task = load_pair_task(name)
        assert isinstance(task, PairTask)
        assert (task.name, task.term) == (name, entry.term)
        assert (name in FAMILIES["bert"].heads) == entry.has_head


def test_no_two_losses_have_one_name():
    terms = [entry.term for entry in (*OBJECTIVES.values(), *PAIR_TASKS.values())]
    assert len(set(terms)) == len(terms)
