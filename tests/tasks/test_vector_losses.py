"""Losses of vectors are those of sentence-transformers; another module's loss is imported."""

from pathlib import Path
from typing import get_args

import pytest
import torch
import torch.nn.functional as F
from refusals import refuses
from sentence_transformers.sentence_transformer import losses
from tiny_models import tiny_model, tiny_tokenizer

from bertsmith.config import from_mapping
from bertsmith.data.sentence_pairs import RelatedReader, RelatedTexts
from bertsmith.errors import ConfigError
from bertsmith.tasks.example_objective import collate
from bertsmith.tasks.related_vectors import RelatedVectors
from bertsmith.tasks.sentence_embedding import Embed
from bertsmith.tasks.settings.embed import EmbedSettings
from bertsmith.tasks.settings.vector_losses import (
    LOSS_HELP,
    VECTOR_LOSSES,
    Loss,
    loss_name,
)
from bertsmith.tasks.vector_losses import (
    MatryoshkaLoss,
    angle_loss,
    contrastive_loss,
    cosent_loss,
    cosine_loss,
    load_vector_loss,
)

SCORES = (0.0, 0.2, 0.2, 1.0, 0.4, 0.6, 0.6, 0.6, 0.9, 0.1, 0.3)


def vectors(count, seed):
    return torch.randn(count, 7, generator=torch.Generator().manual_seed(seed), requires_grad=True)


def group_of(anchors, *others, target_cosines=None, **options):
    """Make a group of different texts; `others` are the positives, then negatives of each."""
    count = len(anchors)
    numbers = torch.arange(count)
    return RelatedVectors(
        anchors=anchors,
        candidates=torch.cat(others),
        owners=numbers.repeat(len(others)),
        positive_indices=numbers,
        anchor_texts=numbers,
        candidate_texts=count + torch.arange(count * len(others)),
        target_cosines=target_cosines,
        **options,
    )


def check_gradients(mine, theirs, *inputs):
    gradients = [torch.autograd.grad(x, inputs, retain_graph=True) for x in (mine, theirs)]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("num_negatives", [0, 1, 2])
def test_contrast_equals_multiple_negatives_ranking(num_negatives):
    parts = [vectors(5, seed) for seed in range(2 + num_negatives)]
    theirs = losses.MultipleNegativesRankingLoss(None, scale=20.0)
    expected = theirs.compute_loss_from_embeddings(parts, torch.arange(5))
    loss = contrastive_loss(group_of(*parts, temperature=0.05))
    torch.testing.assert_close(loss / 5, expected)
    check_gradients(loss / 5, expected, *parts)


def test_an_excluded_candidate_has_no_part_in_the_contrast():
    anchors, positives = vectors(5, 0), vectors(5, 1)
    group = group_of(anchors, positives, anchors)
    group.candidate_texts[5:] = group.anchor_texts
    cosines = F.cosine_similarity(anchors[:, None], group.candidates[None], dim=-1)
    right = [(20 * cosines[i, i]).exp() for i in range(5)]
    total = [sum((20 * cosines[i, j]).exp() for j in range(10) if j != 5 + i) for i in range(5)]
    expected = -sum((a / b).log() for a, b in zip(right, total, strict=True))
    loss = contrastive_loss(group)
    torch.testing.assert_close(loss, expected)
    check_gradients(loss, expected, anchors, positives)


def test_scored_pairs_equal_cosine_similarity():
    pair = [vectors(11, 0), vectors(11, 1)]
    squares = losses.CosineSimilarityLoss(None).compute_loss_from_embeddings(
        pair, torch.tensor(SCORES)
    )
    loss = cosine_loss(group_of(*pair, target_cosines=torch.tensor(SCORES)))
    torch.testing.assert_close(loss / 11, squares)
    check_gradients(loss / 11, squares, *pair)


def test_cosent_is_that_of_sentence_transformers_and_its_formula():
    pair = [vectors(11, 0), vectors(11, 1)]
    theirs = losses.CoSENTLoss(None, scale=20.0).compute_loss_from_embeddings(
        pair, torch.tensor(SCORES)
    )
    cosines = F.cosine_similarity(*pair)
    terms = [
        (20 * (cosines[j] - cosines[i])).exp()
        for i in range(11)
        for j in range(11)
        if SCORES[i] > SCORES[j]
    ]
    group = group_of(*pair, target_cosines=torch.tensor(SCORES), temperature=0.05)
    loss = cosent_loss(group)
    for expected in (theirs, (1 + sum(terms)).log()):
        torch.testing.assert_close(loss / 11, expected)
        check_gradients(loss / 11, expected, *pair)
    alike = group_of(*pair, target_cosines=torch.ones(11))
    assert cosent_loss(alike) == 0
    assert torch.autograd.grad(cosent_loss(alike), pair[0])[0].abs().sum() == 0


@pytest.mark.parametrize("size", [6, 7])
def test_angle_is_that_of_sentence_transformers_and_its_formula(size):
    pair = [vectors(11, seed) for seed in range(2)]
    cut = [x[:, :size] for x in pair]
    theirs = losses.AnglELoss(None, scale=20.0).compute_loss_from_embeddings(
        cut, torch.tensor(SCORES)
    )
    half = (size + 1) // 2
    first, second = (torch.complex(x[:, :half], F.pad(x[:, half:], (0, size % 2))) for x in cut)
    products = (first * second.conj()).sum(1) / (first.abs().square().sum(1).sqrt())
    products = products / second.abs().square().sum(1).sqrt()
    angles = (products.real + products.imag).abs()
    terms = [
        (20 * (angles[j] - angles[i])).exp()
        for i in range(11)
        for j in range(11)
        if SCORES[i] > SCORES[j]
    ]
    group = group_of(*cut, target_cosines=torch.tensor(SCORES), temperature=0.05)
    loss = angle_loss(group)
    for expected in (theirs, (1 + sum(terms)).log()):
        torch.testing.assert_close(loss / 11, expected)
        check_gradients(loss / 11, expected, *pair)


def test_matryoshka_adds_the_losses_of_the_first_numbers():
    parts = [vectors(5, seed) for seed in range(3)]
    loss = MatryoshkaLoss(contrastive_loss, dims=(5, 2))(group_of(*parts))
    cut = [contrastive_loss(group_of(*(part[:, :size] for part in parts))) for size in (7, 5, 2)]
    torch.testing.assert_close(loss, sum(cut))
    check_gradients(loss, sum(cut), *parts)
    for dims in ((7,), (0, 2)):
        with refuses(ConfigError, "dims:", str(list(dims)), "from 1 to 6"):
            MatryoshkaLoss(contrastive_loss, dims)(group_of(*parts))


@pytest.mark.same_on_all_computers
@pytest.mark.parametrize("loss", [cosine_loss, cosent_loss, angle_loss])
def test_a_loss_that_learns_from_scores_needs_them(loss):
    with refuses(ConfigError, "--loss", "scores", "contrastive"):
        MatryoshkaLoss(loss, dims=(5,))(group_of(vectors(5, 0), vectors(5, 1)))


def test_a_group_has_the_roles_of_the_texts(tmp_path):
    """Rows of unequal lengths are sorted in the batch, and may have any number of negatives."""
    path = tmp_path / "a.jsonl"
    path.write_text(
        '{"anchor": "good", "positive": "a fine film .", "negatives": ["bad"], "score": 4}\n'
        '{"anchor": "a very dull film", "positive": "awful", "score": 9}\n'
        '{"anchor": "the story", "positive": "story", "negatives": ["a", "film was"], "score": -1}'
    )
    examples = RelatedReader(path, keeps_negatives=True).read()
    assert [row.negatives for row in examples] == [("bad",), (), ("a", "film was")]
    assert not any(row.negatives for row in RelatedReader(path).read())
    task, tokenizer = Embed(loss="a:b", score_range=(-1.0, 9.0)), tiny_tokenizer()

    def vectors_of(texts):
        rows = [RelatedTexts(text, text) for text in texts]
        batch = collate(task.encode(tokenizer, rows, 37, labelled=False), range(len(rows)))
        group = RelatedVectors.of_batch(task.outputs(tiny_model(), batch), batch, (0.0, 1.0), 1.0)
        return group.anchors

    batch = collate(task.encode(tokenizer, examples, 37, labelled=True), range(3))
    outputs = task.outputs(tiny_model(), batch)
    group = RelatedVectors.of_batch(outputs, batch, task.score_range, 0.05)
    owners = group.negative_owners
    for found, texts in (
        (group.anchors, ["good", "a very dull film", "the story"]),
        (group.positives, ["a fine film .", "awful", "story"]),
        (group.negatives[owners.argsort(stable=True)], ["bad", "film was", "a"]),
    ):
        torch.testing.assert_close(found, vectors_of(texts))
    assert sorted(owners.tolist()) == [0, 2, 2]
    torch.testing.assert_close(group.scores, torch.tensor([4.0, 9.0, -1.0]))
    with pytest.raises(ValueError):
        group_of(vectors(3, 0), vectors(3, 1)).scores  # noqa: B018 - the property raises


def mean_distance(group):
    return (group.anchors - group.positives).square().mean()


def distances(group):
    return (group.anchors - group.positives).square().sum(1)


def no_tensor(group):
    return 0.5


NOT_A_LOSS = 7


def settings_with(loss, **changes):
    return EmbedSettings(Path("a"), Path("b"), Path("c"), loss=loss, **changes)


@pytest.mark.parametrize(("name", "parts"), [
    ("nowhere_to_be_found:loss", ["'nowhere_to_be_found'", "PYTHONPATH=."]),
    (f"{__name__}:NOT_A_LOSS", [" NOT_A_LOSS ", f" {__name__}. "]),
    (f"{__name__}:", ["module:function", "my_losses:triplet_loss"]),
    ("os:system", [": os ", "my_losses:triplet_loss"]),
])  # fmt: skip
def test_a_loss_that_cannot_be_imported_is_refused(name, parts):
    settings_with(name)  # settings import no code
    with refuses(ConfigError, f"--loss {name}: ", *parts, worded="PYTHONPATH=." not in parts):
        Embed.read(settings_with(name))


def test_every_loss_of_the_catalog_has_its_function():
    assert list(VECTOR_LOSSES) == list(get_args(Loss))
    found = [load_vector_loss(name).__name__ for name in VECTOR_LOSSES]
    assert found == [f"{name}_loss" for name in VECTOR_LOSSES]
    assert all(f" {name}: {entry.summary}." in LOSS_HELP for name, entry in VECTOR_LOSSES.items())


@pytest.mark.parametrize("name, found", [("distances", "a tensor [5]"), ("no_tensor", "float")])
def test_a_result_that_is_no_sum_is_refused(name, found):
    group = group_of(vectors(5, 0), vectors(5, 1))
    loss = load_vector_loss(f"{__name__}:{name}")
    with refuses(ConfigError, f"--loss {__name__}:{name}: ", found, "sum()", "len(group)"):
        loss(group)
    assert load_vector_loss(f"{__name__}:mean_distance")(group) == mean_distance(group)


def test_a_value_that_is_no_loss_is_refused():
    for loss, parts in (("cosin", ["'cosin'", "cosine", "module:function"]), ("mse", ["'mse'"])):
        with refuses(ConfigError, "--loss:", *parts):
            settings_with(loss)
    for loss in ("contrastive", "cosent", f"{__name__}:distances"):
        with refuses(ConfigError, "--group-size", "2 or more"):
            settings_with(loss, group_size=1)
    settings_with("cosine", group_size=1)


def test_a_function_is_named_and_a_file_must_not_name_one():
    name = f"{__name__}:mean_distance"
    table = {"model": "a", "train": "b", "out": "c"}
    of_call = from_mapping(
        EmbedSettings, {**table, "loss": mean_distance}, "SentenceEncoder", may_name_code=True
    )
    assert of_call.loss == loss_name(mean_distance) == loss_name(name) == name
    with refuses(ConfigError, "a.toml: loss:", f"'{name}'", "code"):
        from_mapping(EmbedSettings, {**table, "loss": name}, "a.toml")
    assert from_mapping(EmbedSettings, {**table, "loss": "cosine"}, "a.toml").loss == "cosine"

    def inner(group):
        return group.anchors.sum()

    for other in (inner, lambda group: inner(group), MatryoshkaLoss(inner, (5,)), 7):
        with refuses(ConfigError, "--loss:", "at the top of a module", worded=False):
            loss_name(other)
