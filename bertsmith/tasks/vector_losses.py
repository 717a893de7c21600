"""Losses of text vectors: functions from the vectors of a group of examples to a number.

A group is the examples of `finetune embed` that are compared with one another. An example is an
anchor and its positive, a text that belongs to it, perhaps with negatives or with a score.
`cosines` are those of the anchors with their positives. `target_cosines` are the cosines that the
scores ask for.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pkgutil import resolve_name

import torch
import torch.nn.functional as F
from torch import Tensor

from bertsmith.errors import ConfigError, option
from bertsmith.system.named_functions import FunctionSetting
from bertsmith.system.user_script import is_script_guarded
from bertsmith.tasks.related_vectors import RelatedVectors
from bertsmith.tasks.settings.vector_losses import is_own_loss, loss_entry

VectorLoss = Callable[[RelatedVectors], Tensor]
"""A loss, summed over the examples of the group: an fp32 scalar."""

OWN_LOSS = FunctionSetting(
    "loss",
    example="my_losses:triplet_loss",
    advice="Name a function that takes the vectors of a group (RelatedVectors) and returns a loss.",
    lack="computes no loss of vectors",
)
"""The option `--loss` with a function of the user's own."""


def contrastive_loss(group: RelatedVectors) -> Tensor:
    """Compute the contrastive loss with in-batch negatives.

    The loss is the cross entropy over cosines divided by the temperature, with the other texts of
    the group as negatives (Henderson et al. 2017, section 4; van den Oord et al. 2018, "InfoNCE").
    """
    logits = group.cosines_with_candidates * (1 / group.temperature)
    return F.cross_entropy(logits, group.positive_indices, reduction="sum")


# The default for scored pairs, since CoSENT was worse: on STS-B a BERT-tiny reached a Spearman
# correlation of 0.710 with this loss, and of 0.697 with CoSENT.
def cosine_loss(group: RelatedVectors) -> Tensor:
    """Compute the squared errors of the cosines (Reimers & Gurevych 2019, section 3)."""
    return (group.cosines - _target_cosines(group)).square().sum()


def cosent_loss(group: RelatedVectors) -> Tensor:
    """Compute CoSENT, which learns only the order of the scores.

    The loss is log(1 + s) times the number of examples, where s is the sum of exp((cos_j - cos_i) /
    temperature) over all pairs of examples i and j of which i has the higher score (Su 2022,
    "CoSENT: a more effective sentence vector scheme than Sentence-BERT",
    https://kexue.fm/archives/8847).
    """
    return _order_loss(group.cosines, group)


def angle_loss(group: RelatedVectors) -> Tensor:
    """Compute AnglE: CoSENT with the similarity |Re z + Im z| in place of the cosine.

    The two halves of a vector are the real and the imaginary parts of a complex vector. z is the
    inner product of the anchor's complex vector with the positive's, both scaled to length 1: the
    sum of the anchor's numbers times the complex conjugates of the positive's. Unlike a cosine, the
    similarity does not flatten out where vectors are nearly parallel (Li & Li 2023,
    "AnglE-optimized Text Embeddings", section 3; in the form of the authors' code, as in
    sentence-transformers).
    """
    num_padding = group.anchors.shape[1] % 2  # an odd vector gets a 0, to have two equal halves
    anchors = F.normalize(F.pad(group.anchors, (0, num_padding)))
    positives = F.normalize(F.pad(group.positives, (0, num_padding)))
    real, imaginary = anchors.chunk(2, dim=1)
    other_real, other_imaginary = positives.chunk(2, dim=1)
    real_part = (real * other_real + imaginary * other_imaginary).sum(1)
    imaginary_part = (imaginary * other_real - real * other_imaginary).sum(1)
    return _order_loss((real_part + imaginary_part).abs(), group)


def _order_loss(similarities: Tensor, group: RelatedVectors) -> Tensor:
    """Compute the loss of `cosent_loss` for any similarities, fp32 `[examples]`."""
    # The targets have the order of the scores, and only their order counts.
    scaled, targets = similarities / group.temperature, _target_cosines(group)
    # [examples i, examples j], of which only the pairs count where i has the higher score.
    differences = scaled - scaled[:, None]
    is_higher = targets[:, None] > targets
    exponents = differences.masked_fill(~is_higher, -torch.inf).flatten()
    # One more exponent, 0, is the 1 in log(1 + ...).
    return len(group) * F.pad(exponents, (1, 0)).logsumexp(0)


def _target_cosines(group: RelatedVectors) -> Tensor:
    """Return the cosines that the scores ask for, fp32 `[examples]`.

    Raises:
        ConfigError: there are no scores. The reader of the examples refuses a file without scores
            for these losses, but not if they are parts of a loss of the user's own.
    """
    if group.target_cosines is None:
        raise ConfigError(
            f"{option('loss')}: found a loss that learns from scores, but the examples have none. "
            "Give pairs with scores, or a loss such as contrastive."
        )
    return group.target_cosines


@dataclass(frozen=True)
class MatryoshkaLoss:
    """A loss that applies `loss` to whole vectors and to their first numbers.

    Vectors of a model that was trained with it can be shortened to their first numbers (Kusupati et
    al. 2022, eq. 1). Assign the loss to a name in a module of your own, and pass this name to the
    option `--loss`, such as `my_losses:short_too`:

    >>> short_too = MatryoshkaLoss(contrastive_loss, dims=(128, 64))
    """

    loss: VectorLoss
    dims: tuple[int, ...]
    """Lengths of the short vectors. The losses of all lengths and of whole vectors have the weight
    1."""

    def __call__(self, group: RelatedVectors) -> Tensor:
        """Add up the losses of whole vectors and of each length in `dims`.

        Raises:
            ConfigError: a length in `dims` is below 1, or not below the length of a vector.
        """
        size = group.anchors.shape[1]
        if not all(0 < dim < size for dim in self.dims):
            raise ConfigError(
                f"dims: found {list(self.dims)}; allowed are numbers from 1 to {size - 1}, since "
                f"the vectors of this model have {size} numbers."
            )
        losses_of_short = [self.loss(group.first_dimensions(dim)) for dim in self.dims]
        return torch.stack([self.loss(group), *losses_of_short]).sum()


def check_is_shared(name: str, threads: int | None) -> None:
    """Refuse a loss of the user's own script that worker processes cannot import.

    Args:
        name: a value of `--loss`.
        threads: the number of processes that the user asked for; None if it is left open.

    Raises:
        ConfigError: the loss is in a notebook, or in a script that is not guarded, and the run may
            have several processes.
    """
    if name.startswith("__main__:") and threads != 1 and not is_script_guarded():
        raise ConfigError(
            f"{option('loss', name)}: other processes cannot import a notebook, or a script "
            "without if __name__ == '__main__'. Move the function to a module (a .py file) and "
            f"import it, or pass {option('threads', 1)}."
        )


def load_vector_loss(name: str) -> VectorLoss:
    """Return the loss that a value of `--loss` other than "auto" names.

    Raises:
        ConfigError: the value names a function that cannot be imported.
    """
    if is_own_loss(name):
        return CheckedLoss(name, OWN_LOSS.load(name))
    loss: VectorLoss = resolve_name(loss_entry(name).implementation)
    return loss


@dataclass(frozen=True)
class CheckedLoss:
    """A loss of the user's own, whose result is checked to be a scalar."""

    name: str
    function: VectorLoss

    def __call__(self, group: RelatedVectors) -> Tensor:
        """Compute the loss.

        Raises:
            ConfigError: the function did not return a scalar, a tensor without dimensions.
        """
        loss = self.function(group)
        if not isinstance(loss, Tensor) or loss.dim():
            is_tensor = isinstance(loss, Tensor)
            found = f"a tensor {list(loss.shape)}" if is_tensor else type(loss).__name__
            raise ConfigError(
                f"{option('loss', self.name)}: returned {found}; allowed is a scalar, a tensor "
                "without dimensions. Return the loss summed over the examples, such as "
                "losses.sum(), or a mean times len(group)."
            )
        return loss
