"""Charts stay within their frame, and a page without a value is not written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import UndefinedError

from bertsmith.pages import page
from bertsmith.pages.charts import Band, Chart, Series, thin
from bertsmith.pages.page import write_page

finite = st.floats(0, 1e6, allow_nan=False)
points = st.lists(st.tuples(finite, finite), min_size=1, max_size=30)


@given(points)
def test_everything_is_drawn_inside_the_frame(values):
    chart = Chart("title", "x", "y", [Series("s", values, "dots")])
    for x, y in chart.curves[0].dots:
        assert chart.left <= x <= chart.right + 1e-6
        assert chart.top - 1e-6 <= y <= chart.bottom
    assert all(chart.top - 1e-6 <= tick.place <= chart.bottom + 1e-6 for tick in chart.y_ticks)
    assert all(chart.left <= tick.place <= chart.right + 1e-6 for tick in chart.x_ticks)


@given(points, st.integers(1, 10))
def test_a_curve_is_thinned_to_its_limit(values, limit):
    thinned = thin(values, limit)
    assert len(thinned) <= limit
    if len(values) <= limit:
        assert thinned == values


def test_a_missing_value_is_an_error(tmp_path, monkeypatch):
    (tmp_path / "page.html").write_text("<p>{{ text }}</p>", encoding="utf-8")
    monkeypatch.setattr(page, "TEMPLATES_DIR", tmp_path)
    with pytest.raises(UndefinedError, match="'text' is undefined"):
        write_page(tmp_path / "out.html", "page.html")
    assert not (tmp_path / "out.html").exists()


def test_a_band_is_drawn_around_its_curve_and_inside_the_frame():
    mean = Series(
        "m", [(1.0, 2.0), (2.0, 2.0)], "mean", 3, Band([(1.0, 1.5, 2.5), (2.0, 0.5, 3.5)])
    )
    level = Series("r", [(0.0, 0.0)], "reference")
    chart = Chart("title", "x", "y", [mean, level])
    assert chart.y_max >= 3.5
    curve, reference = chart.curves
    assert reference.path == f"M{chart.left} {chart.bottom:.1f}H{chart.right}"
    places = [tuple(map(float, pair.split())) for pair in curve.area[1:-1].split("L")]
    assert len(places) == 4
    assert places[0][0] == places[-1][0]  # there and back
    assert places[0][1] > places[-1][1]  # the lower bound lies lower
    assert all(chart.top <= y <= chart.bottom for _, y in places)
