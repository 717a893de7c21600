"""One array for every kind of number: places, sharing, and gradients that go there."""

from contextlib import closing
from pathlib import Path

import pytest
import torch
from torch import nn

from bertsmith.model.bert import BertModel
from bertsmith.model.config import BertConfig
from bertsmith.model.families import build_heads
from bertsmith.model.shared import SharedFile, map_file
from bertsmith.model.trainable import parameter_specs
from bertsmith.model.weight_names import their_names
from bertsmith.training.flat_parameters import (
    ALIGNMENT,
    CHUNK,
    GradientCollector,
    Layout,
    Storage,
    use_arrays,
)


def bert() -> BertModel:
    config = BertConfig(
        vocab_size=31,
        hidden_size=12,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=20,
        max_position_embeddings=17,
    )
    return BertModel(config, build_heads(config, ["masked_lm", "next_sentence"]))


def test_every_parameter_has_a_place_of_its_own() -> None:
    model = bert()
    layout = Layout.of(parameter_specs(model))
    array = torch.zeros(layout.size)
    for number, view in enumerate(layout.views(array).values(), 1):
        assert not view.any()
        view.fill_(number)
    assert {name: view.shape for name, view in layout.views(array).items()} == {
        name: parameter.shape for name, parameter in model.named_parameters()
    }
    assert all(slot.first % ALIGNMENT == 0 for slot in layout.slots)
    assert layout.size % CHUNK == 0


def test_decay_ends_where_biases_and_layer_norms_begin() -> None:
    layout = Layout.of(bert().parameter_specs())
    for slot in layout.slots:
        theirs = their_names(slot.spec.name)[0]
        spared = theirs.endswith(".bias") or "LayerNorm" in theirs
        assert spared == (not slot.spec.decay), slot.spec.name


@pytest.mark.parametrize("num_parts", [1, 2, 3, 8])
def test_ranges_cover_the_array_once(num_parts: int) -> None:
    layout = Layout((), 5 * CHUNK)
    ranges = layout.divide(num_parts)
    assert len(ranges) == num_parts
    assert [i for first, end in ranges for i in range(first, end, CHUNK)] == [
        i * CHUNK for i in range(5)
    ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_arrays_share_a_file(dtype: torch.dtype) -> None:
    storage = Storage(2 * CHUNK, 3, dtype, ("one", "two"))
    file = SharedFile(storage.num_bytes)
    mine = storage.place(file.map())
    theirs = storage.place(map_file(file.path, storage.num_bytes))
    file.close()
    for number, array in enumerate([mine.weights, *mine.buffers.values(), mine.gradients], 1):
        array.fill_(number)
    if dtype != torch.float32:
        mine.computing.fill_(5)
    for number, array in enumerate([theirs.weights, *theirs.buffers.values(), theirs.gradients], 1):
        assert (array == number).all()
    assert theirs.computing.dtype == dtype
    assert (theirs.computing == (1 if dtype == torch.float32 else 5)).all()
    assert theirs.gradients.shape == (3, 2 * CHUNK)


def test_gradients_as_they_came_take_half_the_memory_of_their_sums() -> None:
    storage = Storage(CHUNK, 2, torch.bfloat16, ("buffer",))
    arrays = storage.place(torch.zeros(storage.num_bytes, dtype=torch.uint8))
    as_they_came, sums = arrays.gradients_of(2), arrays.gradients_of(3)
    assert as_they_came.dtype == torch.bfloat16
    assert as_they_came.shape == sums.shape == (2, CHUNK)
    as_they_came.fill_(1.0)
    assert [sums[part].count_nonzero() for part in (0, 1)] == [CHUNK // 2, CHUNK // 2]
    assert sums[:, CHUNK // 2 :].count_nonzero() == 0
    sums.fill_(2.0)
    assert (arrays.computing == 0).all()
    assert (arrays.buffers["buffer"] == 0).all()


def test_what_lies_between_parameters_is_emptied() -> None:
    """It is counted in the length of the gradient, and may hold numbers of another type."""
    layer = nn.Linear(3, 1)
    layout = Layout.of(parameter_specs(layer))
    array = torch.full((layout.size,), 7.0)
    with closing(GradientCollector(layer, layout)) as collector:
        collector.begin(array)
        layer(torch.ones(1, 3)).sum().backward()
        collector.end()
    assert array.sum() == 4
    assert sum(gap.stop - gap.start for gap in layout.gaps) == layout.size - 4


def test_a_file_that_was_closed_leaves_nothing_behind() -> None:
    file = SharedFile(100)
    file.close()
    assert not Path(file.path).exists()


def test_gradients_of_micro_batches_add_up_in_fp32() -> None:
    layer = nn.Linear(3, 1, bias=False).bfloat16()
    layout = Layout.of(parameter_specs(layer))
    array = torch.full((layout.size,), 9.0)
    with closing(GradientCollector(layer, layout)) as collector:
        collector.begin(array)
        for rows in ([[256.0, 1, 2]], [[1.0, 1, 2]]):
            layer(torch.tensor(rows).bfloat16()).sum().backward()
        collector.end()
    # 257 has no bf16; fp32 keeps it.
    assert layout.views(array)["weight"].tolist() == [[257.0, 2.0, 4.0]]
    assert layer.weight.grad is None


def test_parameters_without_gradients_have_zeros_and_a_model_gets_its_own_back() -> None:
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
