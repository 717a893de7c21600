"""The losses over vectors equal those of sentence-transformers."""

import pytest
import torch
from sentence_transformers.sentence_transformer import losses

from bertsmith.tasks.sentence_embedding import contrastive_loss, cosine_loss


def vectors(count, seed):
    return torch.randn(count, 7, generator=torch.Generator().manual_seed(seed), requires_grad=True)


@pytest.mark.parametrize("num_negatives", [0, 1, 2])
def test_contrast_equals_multiple_negatives_ranking(num_negatives):
    parts = [vectors(5, seed) for seed in range(2 + num_negatives)]
    theirs = losses.MultipleNegativesRankingLoss(None, scale=20.0)
    expected = theirs.compute_loss_from_embeddings(parts, torch.arange(5))
    candidates = torch.cat(parts[1:])
    excluded = torch.zeros(5, len(candidates), dtype=torch.bool)
    loss, correct = contrastive_loss(parts[0], candidates, torch.arange(5), excluded, 20.0)
    torch.testing.assert_close(loss / 5, expected)
    mine = torch.autograd.grad(loss / 5, parts[0])[0]
    torch.testing.assert_close(mine, torch.autograd.grad(expected, parts[0])[0])
    cosines = torch.nn.functional.cosine_similarity(parts[0][:, None], candidates[None], dim=-1)
    assert correct == sum(int(row.argmax()) == place for place, row in enumerate(cosines))


def test_what_is_excluded_has_no_part():
    anchors, candidates = vectors(3, 0), vectors(4, 1)
    excluded = torch.zeros(3, 4, dtype=torch.bool)
    excluded[:, 3] = True
    right = torch.arange(3)
    without, _ = contrastive_loss(anchors, candidates[:3], right, excluded[:, :3], 7.0)
    torch.testing.assert_close(
        contrastive_loss(anchors, candidates, right, excluded, 7.0)[0], without
    )


def test_scored_pairs_equal_cosine_similarity():
    first, second = vectors(11, 0), vectors(11, 1)
    scores = torch.tensor([0.0, 0.2, 0.2, 1.0, 0.4, 0.6, 0.6, 0.6, 0.9, 0.1, 0.3])
    cosines = torch.nn.functional.cosine_similarity(first, second)
    squares = losses.CosineSimilarityLoss(None).compute_loss_from_embeddings(
        [first, second], scores
    )
    torch.testing.assert_close(cosine_loss(cosines, scores) / 11, squares)
