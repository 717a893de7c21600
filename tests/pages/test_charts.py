"""Charts stay within their frame, and a page without a value is not written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import UndefinedError

from bertsmith.pages import page
from bertsmith.pages.charts import Chart, Series, thin
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
