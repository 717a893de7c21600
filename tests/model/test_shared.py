"""A model in memory that processes of one machine share, and its copy on another machine."""

import pickle

import torch
from tiny_models import tiny_model

from bertsmith.model.shared import SharedModel, pickle_with_weights


def weights_of(shared):
    return {name: value.clone() for name, value in shared.model.state_dict().items()}


def assert_same(weights, others):
    assert weights.keys() == others.keys()
    assert all(torch.equal(value, others[name]) for name, value in weights.items())


def test_processes_of_one_machine_map_the_same_memory():
    shared = SharedModel(tiny_model("masked_lm").bfloat16())
    weights = weights_of(shared)
    one, other = (pickle.loads(pickle.dumps(shared)) for _ in range(2))
    assert_same(weights, weights_of(one))
    with torch.no_grad():
        next(one.model.parameters()).fill_(3)
    assert_same(weights_of(one), weights_of(other))
    assert_same(weights_of(one), weights_of(shared))


def test_another_machine_gets_the_weights_and_shares_them_there():
    shared = SharedModel(tiny_model("masked_lm").bfloat16())
    weights = weights_of(shared)
    pickled = pickle_with_weights(("a teacher", shared))
    del shared  # its memory is gone, as it is for other machines
    name, received = pickle.loads(pickled)
    assert name == "a teacher"
    assert not any(weight.requires_grad for weight in received.model.parameters())
    assert_same(weights, weights_of(received))
    assert_same(weights, weights_of(pickle.loads(pickle.dumps(received))))


def test_a_model_that_is_shared_already_is_sent_once():
    shared = SharedModel(tiny_model("masked_lm"))
    alone = len(pickle_with_weights(shared))
    pickle.dumps(shared)  # its weights are now views of one memory
    assert len(pickle_with_weights(shared)) < 1.2 * alone
