"""Charts stay within their frame, and text in a report is never markup."""

import re
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import Environment, FileSystemLoader, UndefinedError

from bertsmith.pages import page
from bertsmith.pages.charts import COLORS, Band, Chart, Series, thin
from bertsmith.pages.page import render, write_page

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
def test_thinned_curve_keeps_its_mean(values, limit):
    thinned = thin(values, limit)
    assert len(thinned) <= limit
    assert min(y for _, y in values) - 1e-6 <= min(y for _, y in thinned)
    if len(values) <= limit:
        assert thinned == values


def test_text_is_escaped_and_a_missing_value_is_an_error(tmp_path, monkeypatch):
    (tmp_path / "page.html").write_text("<p>{{ text }} {{ share|percent }}</p>", encoding="utf-8")
    monkeypatch.setattr(page, "TEMPLATES_DIR", tmp_path)
    shown = render("page.html", text="<script>alert(1)</script>", share=0.5)
    assert shown == "<p>&lt;script&gt;alert(1)&lt;/script&gt; 50.0%</p>"
    with pytest.raises(UndefinedError, match="'text' is undefined"):
        write_page(tmp_path / "out.html", "page.html", share=0.5)
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
    assert chart.summary == "title. m: from 2.00 to 2.00."
    places = [tuple(map(float, pair.split())) for pair in curve.area[1:-1].split("L")]
    assert len(places) == 4
    assert places[0][0] == places[-1][0]  # there and back
    assert places[0][1] > places[-1][1]  # the lower bound lies lower
    assert all(chart.top <= y <= chart.bottom for _, y in places)
    template = '{% from "pages/charts.html" import drawing %}{{ drawing(it) }}'
    environment = Environment(loader=FileSystemLoader(page.TEMPLATES_DIR), autoescape=True)
    drawn = environment.from_string(template).render(it=chart)
    assert f'<path class="area c3" d="{curve.area}"/>' in drawn
    assert '<path class="curve mean c3"' in drawn


# Machado, Oliveira, Fernandes 2009: what linear RGB is to those without one kind of cone.
EYES = {
    "all cones": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "no red": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
               [-0.003882, -0.048116, 1.051998]],
    "no green": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                 [-0.011820, 0.042940, 0.968881]],
    "no blue": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
                [0.004733, 0.691367, 0.303900]],
}  # fmt: skip
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def linear(color: str) -> np.ndarray:
    shares = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    """CIE L*a*b*: a distance of 2 is just seen."""
    f = np.cbrt(XYZ @ np.clip(rgb, 0, 1) / (XYZ @ np.ones(3)) + 1e-9)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_curves_can_be_told_apart_by_all(scheme):
    style = (page.TEMPLATES_DIR / "pages" / "charts.css").read_text(encoding="utf-8")
    part = style.split("@media (prefers-color-scheme: dark)")[scheme == "dark"]
    colors = dict(re.findall(r"--(c\d|card): (#\w{6})", part))
    card = float(XYZ[1] @ linear(colors["card"]))
    for number in COLORS:
        luminance = float(XYZ[1] @ linear(colors[f"c{number}"]))
        low, high = sorted([card, luminance])
        assert (high + 0.05) / (low + 0.05) >= 3  # WCAG 2.2, 1.4.11
    for seen in map(np.array, EYES.values()):
        places = [lab(seen @ linear(colors[f"c{number}"])) for number in COLORS]
        for one, other in combinations(places, 2):
            assert np.linalg.norm(one - other) > 15
