"""Integrated gradients: equal to captum's, and complete."""

import numpy as np
import pytest
import torch
from test_head_outputs import FAMILIES, save_family, tiny_row
from tiny_models import save_tiny, tiny_tokenizer

from bertsmith.inspection.saliency import (
    TOLERANCE,
    HeadReader,
    Target,
    integrate_gradients,
    integrate_in_parts,
    integrate_until_complete,
)
from bertsmith.model.loading import load_model

HEADS = {
    "classify": Target(((0, 2),)),
    "regress": Target(((0, 0),)),
    "tag": Target(((3, 1), (4, 2))),
    "answer": Target(((2, 0), (4, 1))),
    "masked_lm": Target(((3, 7),)),
}


def mask_words(ids):
    """Put [MASK] in place of every word."""
    tokenizer = tiny_tokenizer()
    special = list(tokenizer.special_ids)
    return np.where(np.isin(ids, special), ids, tokenizer.mask_id).astype(np.int32)


def reader_of(folder, head, **changes):
    labels = {"classify": "abc", "tag": ["O", "B-X", "I-X"]}.get(head, ())
    model = load_model(save_tiny(folder, head, labels=labels, **changes)).requires_grad_(False)
    return HeadReader(model, head, *tiny_row())


def captum_values(reader, baseline_ids, target, num_points):
    """Attribute by captum, through our model as a function of padded word vectors."""
    attr = pytest.importorskip("captum.attr", reason="captum is not installed")
    model = reader.model
    ids, baseline = (
        torch.from_numpy(each.astype(np.int64))[None] for each in (reader.ids, baseline_ids)
    )
    types = torch.from_numpy(reader.type_ids.astype(np.int64))[None]

    def logit(vectors):
        output = model(
            token_type_ids=types.expand(len(vectors), -1),
            inputs_embeds=vectors,
        )
        logits = output.logits if output.logits.ndim == 3 else output.logits[:, None]
        return sum(logits[:, position, number] for position, number in target.cells)

    word = model.embeddings.word
    values = attr.IntegratedGradients(logit).attribute(
        word(ids), word(baseline), n_steps=num_points, method="gausslegendre"
    )
    return values.sum(-1)[0].double().numpy()


@pytest.mark.parametrize("head", HEADS)
def test_attributions_equal_captum(head, tmp_path):
    reader = reader_of(tmp_path / "model", head)
    baseline, target = mask_words(reader.ids), HEADS[head]
    (ours,) = integrate_in_parts(
        reader.compute_target_logits, reader.embed_path_ends(baseline), [target], 16
    )
    expected = captum_values(reader, baseline, target, 64)
    np.testing.assert_allclose(ours.values, expected, rtol=0, atol=2e-5)
    assert np.abs(expected).max() > 0.01


@pytest.mark.parametrize("head", HEADS)
def test_attributions_add_up_to_the_difference_of_the_logits(head, tmp_path):
    reader = reader_of(tmp_path / "model", head)
    (result,) = integrate_gradients(reader, mask_words(reader.ids), [HEADS[head]])
    assert abs(result.values.sum() - result.difference) <= TOLERANCE * abs(result.difference)
    with torch.no_grad():
        ids, types = (
            torch.from_numpy(each.astype(np.int64))[None] for each in (reader.ids, reader.type_ids)
        )
        logits = reader.model(ids, token_type_ids=types).logits[0]
    logits = logits if logits.ndim == 2 else logits[None]
    expected = sum(float(logits[cell]) for cell in HEADS[head].cells)
    assert result.logit == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_attributions_of_every_family_are_complete(family, tmp_path):
    folder = save_family(tmp_path / "model", family, "classify", labels="abc")
    model = load_model(folder).requires_grad_(False)
    reader = HeadReader(model, "classify", *tiny_row())
    targets = [Target(((0, number),)) for number in range(3)]
    results = integrate_gradients(reader, mask_words(reader.ids), targets)
    assert len(results) == 3
    assert max(result.error for result in results) <= TOLERANCE


def test_tokens_that_the_baseline_shares_have_no_attribution(tmp_path):
    reader = reader_of(tmp_path / "model", "classify")
    baseline = mask_words(reader.ids)
    (result,) = integrate_gradients(reader, baseline, [HEADS["classify"]])
    is_same = baseline == reader.ids
    assert (result.values[is_same] == 0).all()
    assert (result.values[~is_same] != 0).all()


class BentLogit:
    """A logit with a bend: ReLU of the sum of all numbers minus 0.37."""

    def __init__(self):
        self.points = []

    def __call__(self, words, targets):
        self.points += words.detach().flatten(1).sum(1).tolist()
        return torch.relu(words.flatten(1).sum(1) - 0.37)[:, None]


def test_parts_of_the_path_are_halved_around_a_bend():
    logits_of = BentLogit()
    ends = torch.zeros(3, 1), torch.tensor([[0.5], [0.3], [0.2]])
    (result,) = integrate_until_complete(logits_of, ends, [Target(((0, 0),))], 509)
    # The logit grows on the last 63 % of the path alone, by each token's share.
    expected = 0.63 * ends[1].flatten().double().numpy()
    np.testing.assert_allclose(result.values, expected, rtol=TOLERANCE)
    assert result.logit == pytest.approx(0.63) and result.baseline_logit == 0
    assert result.num_points == len(logits_of.points) == len(set(logits_of.points)) < 60
    near = [point for point in logits_of.points if abs(point - 0.37) < 0.1]
    assert len(near) > len(logits_of.points) / 3


def test_a_smooth_logit_needs_five_points():
    ends = torch.zeros(2, 1), torch.tensor([[0.8], [-0.4]])
    (result,) = integrate_until_complete(
        lambda words, targets: words.flatten(1).pow(3).sum(1)[:, None], ends, [Target(((0, 0),))]
    )
    assert result.num_points == 5
    np.testing.assert_allclose(result.values, [0.8**3, -(0.4**3)], rtol=1e-5)


def test_it_ends_where_no_number_of_points_suffices():
    ends = torch.zeros(1, 1), torch.ones(1, 1)
    (result,) = integrate_until_complete(
        lambda words, targets: (words > 0.4).float().flatten(1) + 0 * words.flatten(1),
        ends,
        [Target(((0, 0),))],
        41,
    )
    assert (result.num_points, result.error) == (41, 1)
