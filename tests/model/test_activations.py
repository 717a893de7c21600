"""Activation functions in place, and their lowest values."""

import pickle

import pytest
import torch

from bertsmith.model.activations import ACTIVATIONS, IN_PLACE, lowest_output


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_in_place_the_same_bytes_replace_the_input(name):
    torch.manual_seed(0)
    x = 4 * torch.randn(37, 101)
    expected = ACTIVATIONS[name](x)
    in_place = pickle.loads(pickle.dumps(IN_PLACE[ACTIVATIONS[name]]))
    found = in_place(x)
    assert torch.equal(found, expected)
    assert found.data_ptr() == x.data_ptr()


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_no_output_is_below_the_lowest(name):
    outputs = ACTIVATIONS[name](torch.linspace(-20, 20, 400_001))
    assert lowest_output(ACTIVATIONS[name]) == pytest.approx(float(outputs.min()), abs=1e-6)
    assert float(ACTIVATIONS[name](torch.tensor(-1e4))) > -1e-6
