"""L-BFGS for smooth convex functions (Nocedal and Wright 2006, algorithms 7.4 and 7.5).

It fits the weights of a linear head. torch.optim.LBFGS is not used: importing torch.optim takes
over three seconds, longer than the head takes to fit.
"""

from collections import deque
from collections.abc import Callable

from torch import Tensor

HISTORY = 10
"""Number of the last steps that approximate the inverse Hessian."""
SUFFICIENT_DECREASE = 1e-4
"""Smallest allowed ratio of a step's decrease to the one that the gradient predicts (Armijo)."""
MAX_HALVINGS = 30
"""Number of times that a step is halved, down to a billionth, before the search ends."""

Function = Callable[[Tensor], tuple[Tensor, Tensor]]
"""A function that returns its value and its gradient at a point."""


def minimize(function: Function, start: Tensor, *, tolerance: float, max_iterations: int) -> Tensor:
    """Minimize a convex function; return the point where it is smallest.

    Args:
        function: returns value and gradient at a point, a tensor of any shape.
        start: the first point; it is not changed.
        tolerance: the search ends when no entry of the gradient has a larger absolute value.
        max_iterations: largest number of steps.
    """
    point = start
    value, gradient = function(point)
    history: deque[tuple[Tensor, Tensor, Tensor]] = deque(maxlen=HISTORY)
    for _ in range(max_iterations):
        if gradient.abs().max() <= tolerance:
            break
        direction = _direction(gradient, history)
        slope = (direction * gradient).sum()  # the predicted change for a step of 1, below 0
        # The curvature is unknown before the first step, so the first step is short.
        step = 1.0 if history else min(1.0, float(1 / gradient.abs().sum()))
        for _ in range(MAX_HALVINGS):
            new_point = point + step * direction
            new_value, new_gradient = function(new_point)
            if new_value <= value + SUFFICIENT_DECREASE * step * slope:
                break
            step /= 2
        else:  # the decrease is smaller than the rounding of fp32
            break
        displacement, gradient_change = new_point - point, new_gradient - gradient
        curvature = (displacement * gradient_change).sum()
        if curvature > 0:  # else rounding has hidden it, and it would be divided by 0
            history.append((displacement, gradient_change, curvature))
        point, value, gradient = new_point, new_value, new_gradient
    return point


def _direction(gradient: Tensor, history: deque[tuple[Tensor, Tensor, Tensor]]) -> Tensor:
    """Return minus the product of the approximate inverse Hessian and the gradient.

    These are the two loops of algorithm 7.4. `history` has an entry for each of the last steps, the
    oldest first: the displacement, the change of the gradient, and the curvature, which is the
    scalar product of the two.
    """
    direction = -gradient
    factors = []
    for displacement, change, curvature in reversed(history):
        factor = (displacement * direction).sum() / curvature
        direction = direction - factor * change
        factors.append(factor)
    if history:  # the first approximation of the inverse Hessian: a multiple of the identity
        _, change, curvature = history[-1]
        direction = direction * (curvature / change.square().sum())
    for (displacement, change, curvature), factor in zip(history, reversed(factors), strict=True):
        direction = direction + (factor - (change * direction).sum() / curvature) * displacement
    return direction
