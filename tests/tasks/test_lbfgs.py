"""L-BFGS finds the minimum of convex functions."""

import torch

from bertsmith.tasks.lbfgs import minimize


def test_minimum_of_an_ill_conditioned_quadratic():
    torch.manual_seed(0)
    factors = torch.randn(20, 20, dtype=torch.float64)
    matrix = factors @ factors.T + torch.diag(torch.logspace(-2, 2, 20, dtype=torch.float64))
    linear = torch.randn(20, dtype=torch.float64)

    def quadratic(point):
        return point @ matrix @ point / 2 - linear @ point, matrix @ point - linear

    start = torch.ones(20, dtype=torch.float64)
    minimum = minimize(quadratic, start, tolerance=1e-9, max_iterations=2000)
    torch.testing.assert_close(minimum, torch.linalg.solve(matrix, linear), rtol=1e-6, atol=1e-7)
    assert torch.equal(start, torch.ones(20, dtype=torch.float64))


def test_a_step_that_overshoots_is_shortened():
    """The logarithm of cosh is flat far away, so full steps of a quadratic model overshoot."""
    calls = []

    def log_cosh(point):
        calls.append(point)
        return (point.cosh().log()).sum(), point.tanh()

    minimum = minimize(log_cosh, torch.full((3,), 8.0), tolerance=1e-5, max_iterations=200)
    assert minimum.abs().max() <= 1e-4
    values = [float(point.cosh().log().sum()) for point in calls]
    assert max(values) > values[0]  # a step was too long


def test_it_ends_at_the_start_if_that_is_the_minimum_and_after_the_most_iterations():
    def square(point):
        return point.square().sum(), 2 * point

    zero = torch.zeros(4)
    assert minimize(square, zero, tolerance=1e-6, max_iterations=10) is zero
    far = torch.full((4,), 100.0)
    assert minimize(square, far, tolerance=1e-6, max_iterations=1).abs().max() > 1
