"""One array for every kind of number: places, sharing, and gradients that go there."""

from contextlib import closing
from pathlib import Path

import pytest
import torch
from torch import nn

from bertsmith.model.bert import BertConfig, BertModel
from bertsmith.model.heads import build_heads
from bertsmith.model.huggingface import their_names
from bertsmith.model.shared import SharedFile, map_file
from bertsmith.training.flat_parameters import (
    ALIGNMENT,
    CHUNK,
    Arrays,
    GradientCollector,
    Layout,
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
    layout = Layout.of(model)
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
    layout = Layout.of(bert())
    for slot in layout.slots:
        theirs = their_names(slot.name)[0]
        spared = theirs.endswith(".bias") or "LayerNorm" in theirs
        assert spared == (slot.first >= layout.num_decayed), slot.name


@pytest.mark.parametrize("num_parts", [1, 2, 3, 8])
def test_ranges_cover_the_array_once(num_parts: int) -> None:
    layout = Layout((), 0, 5 * CHUNK)
    ranges = layout.divide(num_parts)
    assert len(ranges) == num_parts
    assert [i for first, end in ranges for i in range(first, end, CHUNK)] == [
        i * CHUNK for i in range(5)
    ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_arrays_share_a_file(dtype: torch.dtype) -> None:
    num_bytes = Arrays.num_bytes(2 * CHUNK, 3, dtype)
    file = SharedFile(num_bytes)
    mine = Arrays.of_bytes(file.map(), 2 * CHUNK, 3, dtype)
    theirs = Arrays.of_bytes(map_file(file.path, num_bytes), 2 * CHUNK, 3, dtype)
    file.close()
    fields = ("weights", "exp_avg", "exp_avg_sq", "gradients", "computing")
    for number, name in enumerate(fields[: 4 if dtype == torch.float32 else 5], 1):
        getattr(mine, name).fill_(number)
    for number, name in enumerate(fields[:4], 1):
        assert (getattr(theirs, name) == number).all(), name
    assert theirs.computing.dtype == dtype
    assert (theirs.computing == (1 if dtype == torch.float32 else 5)).all()
    assert theirs.gradients.shape == (3, 2 * CHUNK)


def test_gradients_as_they_came_take_half_the_memory_of_their_sums() -> None:
    memory = torch.zeros(Arrays.num_bytes(CHUNK, 2, torch.bfloat16), dtype=torch.uint8)
    arrays = Arrays.of_bytes(memory, CHUNK, 2, torch.bfloat16)
    as_they_came, sums = arrays.gradients_of(2), arrays.gradients_of(3)
    assert as_they_came.dtype == torch.bfloat16
    assert as_they_came.shape == sums.shape == (2, CHUNK)
    as_they_came.fill_(1.0)
    assert [sums[part].count_nonzero() for part in (0, 1)] == [CHUNK // 2, CHUNK // 2]
    assert sums[:, CHUNK // 2 :].count_nonzero() == 0
    sums.fill_(2.0)
    assert (arrays.computing == 0).all()
    assert (arrays.exp_avg_sq == 0).all()


def test_what_lies_between_parameters_is_emptied() -> None:
    """It is counted in the length of the gradient, and may hold numbers of another type."""
    layer = nn.Linear(3, 1)
    layout = Layout.of(layer)
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
    layout = Layout.of(layer)
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
    layout = Layout.of(model)
    array = torch.zeros(layout.size)
    memory = torch.ones(Arrays.num_bytes(layout.size, 1, torch.float32) // 4).view(torch.uint8)
    use_arrays(model, layout, Arrays.of_bytes(memory, layout.size, 1, torch.float32))
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
