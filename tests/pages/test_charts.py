"""Charts stay within their frame, and a page without a value is not written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import UndefinedError

from bertsmith.pages import page
from bertsmith.pages.charts import CHAR_WIDTH, Chart, Series, average_groups, write_svg
from bertsmith.pages.made_by import made_by
from bertsmith.pages.page import write_page

finite = st.floats(0, 1e6, allow_nan=False)
points = st.lists(st.tuples(finite, finite), min_size=1, max_size=30)


@given(points)
def test_everything_is_drawn_inside_the_frame(values):
    chart = Chart("title", "x", "y", [Series("s", values, "dots")])
    for x, y in chart.curves[0].dots:
        assert chart.left <= x <= chart.right + 1e-6
        assert chart.top - 1e-6 <= y <= chart.bottom
    assert all(chart.top - 1e-6 <= tick.position <= chart.bottom + 1e-6 for tick in chart.y_ticks)
    assert all(chart.left <= tick.position <= chart.right + 1e-6 for tick in chart.x_ticks)


@pytest.mark.parametrize("last", [3, 0.0025, 0.000125, 1_250_000])
def test_the_last_number_of_an_axis_ends_within_the_frame(last):
    chart = Chart("title", "x", "y", [Series("s", [(0, 1), (last, 2)])])
    tick = chart.x_ticks[-1]
    assert tick.position + CHAR_WIDTH * len(tick.text) / 2 <= chart.width


@given(points, st.integers(1, 10))
def test_a_curve_is_thinned_to_its_limit(values, limit):
    thinned = average_groups(values, limit)
    assert len(thinned) <= limit
    if len(values) <= limit:
        assert thinned == values


def test_a_level_is_drawn_over_the_curve_that_would_hide_it():
    flat = Series("flat", [(0, 0.5), (9, 0.5)])
    chart = Chart("title", "x", "y", [Series("chance", [(0, 0.5)], "reference", 2), flat])
    assert [curve.series.name for curve in chart.curves] == ["flat", "chance"]


def test_an_axis_may_end_at_zero():
    line = Series("predicted = right", [(-5, -5), (0, 0)])
    chart = Chart("title", "right", "predicted", [line], low=-5, high=0, x_low=-5, x_high=0)
    assert (chart.x_max, chart.y_max) == (0, 0)
    assert chart.curves[0].path.endswith(f"{chart.right:.1f} {chart.top:.1f}")


def test_single_dots_and_points_have_no_line():
    dot, points = Series("a", [(1, 2)], "dots"), Series("b", [(-1, -2), (3, 4)], "points")
    chart = Chart("title", "x", "y", [dot, points], low=-2, x_low=-1)
    assert not dot.is_line and not points.is_line
    assert Series("c", [(1, 2), (3, 4)], "dots").is_line
    assert chart.curves[1].path == "" and chart.curves[1].dots[0] == (chart.left, chart.bottom)
    assert [tick.text for tick in chart.x_ticks] == ["-1", "0", "1", "2", "3"]


@pytest.mark.parametrize("style", ["line", "reference", "mark"])
def test_the_legend_shows_how_a_series_is_drawn(style, tmp_path):
    series = Series("a", [(1, 2)] if style == "mark" else [(0, 2), (1, 2)], style)
    write_svg(tmp_path / "a.svg", [Chart("title", "x", "y", [series])])
    drawn = (tmp_path / "a.svg").read_text().count(f'<path class="curve {style} ')
    assert drawn == 2  # in the chart, and beside its name


@pytest.mark.parametrize("style", ["line", "mean"])
def test_a_curve_of_one_point_is_a_dot_in_chart_and_legend(style, tmp_path):
    chart = Chart("title", "x", "y", [Series("a", [(1, 2)], style)])
    assert len(chart.curves[0].dots) == 1 and not chart.series[0].is_line
    write_svg(tmp_path / "a.svg", [chart])
    assert (tmp_path / "a.svg").read_text().count("<circle ") == 2


def test_a_chart_without_points_has_axes():
    chart = Chart("title", "x", "y", [Series("a", [])], low=2, x_low=3)
    assert [tick.text for tick in (chart.x_ticks[0], chart.x_ticks[-1])] == ["3", "4"]
    assert (chart.y_max, chart.curves[0].path) == (3, "")


def test_points_at_the_left_end_of_the_axis_are_drawn_there():
    chart = Chart("title", "x", "y", [Series("a", [(5, 1), (5, 2)], "points")], x_low=5)
    assert [x for x, _ in chart.curves[0].dots] == [chart.left, chart.left]


@pytest.mark.parametrize(
    ("score", "texts"),
    [
        (0.5, ["0 %", "10 %", "20 %", "30 %", "40 %", "50 %"]),
        (0.015, ["0.0 %", "0.5 %", "1.0 %", "1.5 %"]),
    ],
)
def test_no_two_percentages_of_an_axis_are_the_same(score, texts):
    chart = Chart("title", "x", "y", [Series("a", [(1, score)], "dots")], is_share=True)
    assert [tick.text for tick in chart.y_ticks] == texts


def test_a_page_may_have_values_of_any_name(tmp_path, monkeypatch):
    source = '{% extends "pages/base.html" %}{% block content %}{{ command }}{% endblock %}'
    (tmp_path / "pages").mkdir()
    for name in ("base.html", "charts.css"):
        text = (page.TEMPLATES_DIR / "pages" / name).read_text(encoding="utf-8")
        (tmp_path / "pages" / name).write_text(text, encoding="utf-8")
    (tmp_path / "page.html").write_text(source, encoding="utf-8")
    monkeypatch.setattr(page, "TEMPLATES_DIR", tmp_path)
    with made_by("bertsmith demo --page 'my page'"):
        write_page(tmp_path / "out.html", "page.html", command="a value", version=1, time=2)
    shown = (tmp_path / "out.html").read_text(encoding="utf-8")
    assert "a value" in shown
    assert "<code>bertsmith demo --page &#39;my page&#39;</code>" in shown


def test_a_missing_value_is_an_error(tmp_path, monkeypatch):
    (tmp_path / "page.html").write_text("<p>{{ text }}</p>", encoding="utf-8")
    monkeypatch.setattr(page, "TEMPLATES_DIR", tmp_path)
    with pytest.raises(UndefinedError, match="'text' is undefined"):
        write_page(tmp_path / "out.html", "page.html")
    assert not (tmp_path / "out.html").exists()
