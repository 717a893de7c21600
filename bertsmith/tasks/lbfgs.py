"""L-BFGS for smooth convex functions (Nocedal and Wright 2006, algorithms 7.4 and 7.5).

torch's own takes over three seconds to import what it needs, more than a linear head takes to fit.
"""

from collections import deque
from collections.abc import Callable

from torch import Tensor

HISTORY = 10
"""Number of the last steps whose curvature is known."""
SUFFICIENT_DECREASE = 1e-4
"""Share of the decrease that the gradient promises which a step must bring (Armijo)."""
MAX_HALVINGS = 30

Function = Callable[[Tensor], tuple[Tensor, Tensor]]


def minimize(function: Function, start: Tensor, *, tolerance: float, max_iterations: int) -> Tensor:
    """Return where a convex function is smallest.

    Args:
        function: returns value and gradient at a point, a tensor of any shape.
        start: the first point; it is not changed.
        tolerance: largest entry of the gradient at which the search ends.
        max_iterations: number of steps after which it ends anyway.
    """
    point = start
    value, gradient = function(point)
    history: deque[tuple[Tensor, Tensor, Tensor]] = deque(maxlen=HISTORY)
    for _ in range(max_iterations):
        if gradient.abs().max() <= tolerance:
            break
        direction = _direction(gradient, history)
        slope = (direction * gradient).sum()
        # Nothing is known of the curvature before the first step, so that one is short.
        step = 1.0 if history else min(1.0, float(1 / gradient.abs().sum()))
        for _ in range(MAX_HALVINGS):
            new_point = point + step * direction
            new_value, new_gradient = function(new_point)
            if new_value <= value + SUFFICIENT_DECREASE * step * slope:
                break
            step /= 2
        else:  # the value no longer falls by more than fp32 can tell
            break
        moved, bent = new_point - point, new_gradient - gradient
        curvature = (moved * bent).sum()
        if curvature > 0:
            history.append((moved, bent, curvature))
        point, value, gradient = new_point, new_value, new_gradient
    return point


def _direction(gradient: Tensor, history: deque[tuple[Tensor, Tensor, Tensor]]) -> Tensor:
    """Return the product of the inverse curvature and the gradient, downhill."""
    direction = -gradient
    factors = []
    for moved, bent, curvature in reversed(history):
        factor = (moved * direction).sum() / curvature
        direction = direction - factor * bent
        factors.append(factor)
    if history:
        _, bent, curvature = history[-1]
        direction = direction * (curvature / bent.square().sum())
    for (moved, bent, curvature), factor in zip(history, reversed(factors), strict=True):
        direction = direction + (factor - (bent * direction).sum() / curvature) * moved
    return direction
