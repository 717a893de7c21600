"""Charts stay within their frame, and text in a report is never markup."""

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import UndefinedError

from bertsmith import report
from bertsmith.report import Chart, Series, render, round_step, thin, ticks, write_report

finite = st.floats(0, 1e6, allow_nan=False)
points = st.lists(st.tuples(finite, finite), min_size=1, max_size=30)


@given(points)
def test_everything_is_drawn_inside_the_frame(values: list[tuple[float, float]]) -> None:
    chart = Chart("title", "x", "y", [Series("s", values, "dots")])
    for x, y in chart.curves[0].dots:
        assert chart.left <= x <= chart.right + 1e-6
        assert chart.top - 1e-6 <= y <= chart.bottom
    assert all(chart.top - 1e-6 <= tick.place <= chart.bottom + 1e-6 for tick in chart.y_ticks)
    assert all(chart.left <= tick.place <= chart.right + 1e-6 for tick in chart.x_ticks)


@given(st.floats(1e-6, 1e9))
def test_axis_has_a_readable_number_of_round_marks(high: float) -> None:
    step = round_step(high)
    assert 2 < len(ticks(0, high)) <= 8
    assert math.isclose(float(f"{step:.0e}"), step)


@given(points, st.integers(1, 10))
def test_thinned_curve_keeps_its_mean(values: list[tuple[float, float]], limit: int) -> None:
    thinned = thin(values, limit)
    assert len(thinned) <= limit
    assert min(y for _, y in values) - 1e-6 <= min(y for _, y in thinned)
    if len(values) <= limit:
        assert thinned == values


def test_reference_is_a_level_line() -> None:
    series = [Series("s", [(0.0, 0.0), (2.0, 1.0)]), Series("r", [(0.0, 0.5)], "reference")]
    chart = Chart("title", "x", "y", series)
    assert chart.curves[1].path == f"M{chart.left} {(chart.top + chart.bottom) / 2:.1f}H426"
    assert chart.summary == "title. s: from 0.00 to 1.00."


@pytest.fixture
def template(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "page.html").write_text("<p>{{ text }} {{ share|percent }}</p>", encoding="utf-8")
    monkeypatch.setattr(report, "TEMPLATES_DIR", tmp_path)
    return "page.html"


def test_text_is_escaped(template: str) -> None:
    shown = render(template, text="<script>alert(1)</script>", share=0.5)
    assert shown == "<p>&lt;script&gt;alert(1)&lt;/script&gt; 50.0%</p>"


def test_missing_value_is_an_error(template: str, tmp_path: Path) -> None:
    with pytest.raises(UndefinedError, match="'text' is undefined"):
        write_report(tmp_path / "out.html", template, share=0.5)
    assert not (tmp_path / "out.html").exists()
