"""How weights change: gradients go in, updated weights come out.

AdamW with the schedule of the paper (Devlin et al. 2019, appendix A.2). Decay spares biases and
LayerNorm, which are told from matrices by their shape. Where the model computes in bf16, the
optimizer works on fp32 masters: an update smaller than 1/256 of a weight would vanish in bf16.
"""

import copy
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import torch
from torch import Tensor, nn

from bertsmith.errors import ConfigError
from bertsmith.training.replicas import share_weights

ModelT = TypeVar("ModelT", bound=nn.Module)


@dataclass(frozen=True)
class OptimSettings:
    """How the weights are updated."""

    learning_rate: float | None = None
    """How far a step moves the weights at most. None takes what suits the model's size."""
    weight_decay: float = 0.01
    """How strongly matrices are pulled towards zero; biases and LayerNorm never are."""
    adam_beta1: float = 0.9
    """How much of the last steps' mean gradient is kept at each step."""
    adam_beta2: float = 0.999
    """The same for the mean squared gradient."""
    adam_epsilon: float = 1e-6
    """Added to the divisor, so that a gradient near zero is not blown up."""
    warmup_fraction: float = 0.1
    """The share of the run in which the learning rate rises from zero to its highest."""
    schedule: Literal["linear", "cosine", "constant"] = "linear"
    """What follows the rise: a straight fall to zero, a half cosine wave to zero, or no fall."""
    max_grad_norm: float = 1.0
    """Longer gradients are shortened to this length; 0 never shortens."""

    def __post_init__(self) -> None:
        """Refuse values with which nothing is learnt."""
        if self.learning_rate is not None:
            _check("learning_rate", self.learning_rate, self.learning_rate > 0, "above 0")
        _check("weight_decay", self.weight_decay, self.weight_decay >= 0, "0 or more")
        for name in ("adam_beta1", "adam_beta2"):
            value = getattr(self, name)
            _check(name, value, 0 <= value < 1, "at least 0 and below 1")
        _check("adam_epsilon", self.adam_epsilon, self.adam_epsilon > 0, "above 0")
        _check("warmup_fraction", self.warmup_fraction, 0 <= self.warmup_fraction < 1,
               "at least 0 and below 1")  # fmt: skip
        _check("max_grad_norm", self.max_grad_norm, self.max_grad_norm >= 0, "0 or more")


def _check(name: str, value: float, holds: bool, allowed: str) -> None:
    if not holds or not math.isfinite(value):
        raise ConfigError(f"optim.{name}: found {value}; allowed is a number {allowed}.")


def schedule(progress: float, settings: OptimSettings) -> float:
    """The share of the highest learning rate in use when a share `progress` of the run is done.

    >>> settings = OptimSettings(warmup_fraction=0.2)
    >>> [schedule(progress, settings) for progress in (0.1, 0.2, 0.6, 1.0)]
    [0.5, 1.0, 0.5, 0.0]
    """
    progress = min(1.0, max(0.0, progress))
    if progress < settings.warmup_fraction:
        return progress / settings.warmup_fraction
    left = (1 - progress) / (1 - settings.warmup_fraction)
    if settings.schedule == "cosine":
        return 0.5 * (1 - math.cos(math.pi * left))
    return 1.0 if settings.schedule == "constant" else left


def decay_groups(parameters: Iterable[nn.Parameter], weight_decay: float) -> list[dict[str, Any]]:
    """Two optimizer groups: matrices and embeddings with decay, all vectors without.

    Every bias and every LayerNorm weight is a vector and nothing else in BERT is, so the number
    of dimensions tells them apart whatever their names.
    """
    matrices: list[nn.Parameter] = []
    vectors: list[nn.Parameter] = []
    for parameter in parameters:
        (matrices if parameter.ndim > 1 else vectors).append(parameter)
    return [
        {"params": matrices, "weight_decay": weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]


class MasterWeights(Generic[ModelT]):
    """The fp32 model that is updated and saved, and the models that compute.

    In fp32 the first of `replicas` is the master itself, in bf16 a copy; the others share its
    memory (see training/replicas.py). Their gradients are added up in the masters' fp32 `.grad`
    whenever all have computed (`gather_gradients`), and their weights are refreshed after every
    update (`publish`).
    """

    def __init__(
        self, master: ModelT, dtype: torch.dtype = torch.float32, num_replicas: int = 1
    ) -> None:
        self.master = master
        first = master if dtype == torch.float32 else copy.deepcopy(master).to(dtype)
        self.replicas = [first, *(share_weights(first) for _ in range(1, num_replicas))]
        self._parameters: list[Tensor] = list(master.parameters())
        self._computing: list[list[Tensor]] = [
            list(replica.parameters()) for replica in self.replicas if replica is not master
        ]
        self._is_split = first is not master

    @property
    def compute(self) -> ModelT:
        """The first of the models that compute."""
        return self.replicas[0]

    def train(self, mode: bool = True) -> None:
        """Turn the computing models' dropout on or off."""
        for replica in self.replicas:
            replica.train(mode)

    def zero_gradients(self) -> None:
        """Forget the gradients of the last step."""
        for parameter in self._parameters:
            parameter.grad = None

    def gather_gradients(self) -> None:
        """Add the computing models' gradients to the masters' and forget the former."""
        for copies in self._computing:
            for parameter, twin in zip(self._parameters, copies, strict=True):
                if twin.grad is None:
                    continue
                if parameter.grad is None:
                    parameter.grad = twin.grad.float()
                else:
                    parameter.grad.add_(twin.grad)
                twin.grad = None

    @torch.no_grad()
    def publish(self) -> None:
        """Give the masters' values to the computing model, rounded to its precision."""
        if self._is_split:
            torch._foreach_copy_(self._computing[0], self._parameters)


class Optimizer:
    """AdamW over the masters, with clipping and the schedule.

    Raises:
        ConfigError: the settings leave the learning rate open.
    """

    def __init__(self, weights: MasterWeights[Any], settings: OptimSettings) -> None:
        if settings.learning_rate is None:
            raise ConfigError("optim.learning_rate: not given. Choose one, such as 5e-4.")
        self.highest_rate = settings.learning_rate
        self.weights = weights
        self.settings = settings
        self._names = {param: name for name, param in weights.master.named_parameters()}
        self._adam = torch.optim.AdamW(
            decay_groups(self._names, settings.weight_decay),
            lr=self.highest_rate,
            betas=(settings.adam_beta1, settings.adam_beta2),
            eps=settings.adam_epsilon,
            fused=next(iter(self._names)).device.type in ("cpu", "cuda", "mps"),
        )

    def clip(self) -> float:
        """The length of the whole gradient before it was shortened to `max_grad_norm`.

        A length that is not finite leaves the gradients as they are: the caller must stop.
        """
        gradients = [param.grad for param in self._names if param.grad is not None]
        norm = float(nn.utils.get_total_norm(gradients, foreach=True))
        limit = self.settings.max_grad_norm
        if math.isfinite(norm) and 0 < limit < norm:
            torch._foreach_mul_(gradients, limit / norm)
        return norm

    def step(self, progress: float) -> float:
        """Update the masters, publish them to the computing model, and tell the learning rate."""
        rate = self.highest_rate * schedule(progress, self.settings)
        for group in self._adam.param_groups:
            group["lr"] = rate
        self._adam.step()
        self.weights.publish()
        return rate

    def state_tensors(self) -> dict[str, Tensor]:
        """The moments and step counts, named `<kind>/<parameter>`, on the CPU."""
        return {
            f"{kind}/{self._names[param]}": value.detach().cpu().contiguous()
            for param, state in self._adam.state.items()
            for kind, value in state.items()
        }

    def load_state_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Restore what `state_tensors` gave; the moments move to their parameter's device."""
        parameters = {name: param for param, name in self._names.items()}
        for key, value in tensors.items():
            kind, _, name = key.partition("/")
            param = parameters[name]
            # A fused step counter lives with its parameter, and so do the moments.
            self._adam.state[param][kind] = value.to(param.device, copy=True)
