"""One array for every kind of number: places, sharing, and gradients that go there."""

from contextlib import closing

import torch
from torch import nn

from bertsmith.model.trainable import parameter_specs
from bertsmith.training.flat_parameters import (
    GradientCollector,
    Layout,
    Storage,
    use_arrays,
)


def test_gradients_of_micro_batches_add_up_in_fp32_and_nothing_lies_between():
    layer = nn.Linear(3, 1, bias=False).bfloat16()
    layout = Layout.of(parameter_specs(layer))
    array = torch.full((layout.size,), 9.0)  # what lies between counts in the gradient's length
    with closing(GradientCollector(layer, layout)) as collector:
        collector.begin(array)
        for rows in ([[256.0, 1, 2]], [[1.0, 1, 2]]):
            layer(torch.tensor(rows).bfloat16()).sum().backward()
        collector.end()
    # 257 has no bf16; fp32 keeps it.
    assert layout.views(array)["weight"].tolist() == [[257.0, 2.0, 4.0]]
    assert array.sum() == 257 + 2 + 4
    assert layer.weight.grad is None


def test_parameters_without_gradients_have_zeros_and_a_model_gets_its_own_back():
    model = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
    layout = Layout.of(parameter_specs(model))
    array = torch.zeros(layout.size)
    storage = Storage(layout.size, 1, torch.float32, ())
    memory = torch.ones(storage.num_bytes // 4).view(torch.uint8)
    use_arrays(model, layout, storage.place(memory))
    with closing(GradientCollector(model, layout)) as collector:
        for one in model:
            collector.begin(array)
            one(torch.ones(1, 2)).sum().backward()
            collector.end()
            found = {name for name, view in layout.views(array).items() if view.any()}
            assert found == {
                name for name, p in model.named_parameters() if p in set(one.parameters())
            }
    model[0](torch.ones(1, 2)).sum().backward()
    assert model[0].weight.grad is not None
