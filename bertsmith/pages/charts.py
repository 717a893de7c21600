"""Charts as SVG, in a page or in separate files."""

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Literal

from bertsmith.pages.colors import Color
from bertsmith.pages.page import write_page
from bertsmith.system.counts import count_noun, percent

MAX_POINTS = 200
"""Maximum number of points of a curve. More points are averaged in groups, since a page could not
show them separately."""

MIN_SPAN = 1e-9
"""Smallest range of values of an axis. `ticks` rounds to ten decimals, so in a smaller range all of
them would be the same number."""

# The size of a chart, the margins around its drawing, and lengths of its legend, in units of the
# SVG. Text is 14 units high, and its letters are about 7.2 wide; a page scales a chart by 0.8 to
# 1.1.
WIDTH, HEIGHT = 440, 270
LEFT, RIGHT, TOP, BOTTOM = 52, 20, 26, 48
LEGEND_LEFT, LEGEND_TOP, LEGEND_BOTTOM, LEGEND_ROW_HEIGHT = 8, 12, 10, 22
LEGEND_LINE_WIDTH, LEGEND_GAP, CHAR_WIDTH = 40, 14, 7.2
MAX_NAME = 48
"""Maximum width of a name in the legend; a letter has width 1, a Chinese character width 2."""

Style = Literal["line", "dots", "points", "reference", "mark", "mean"]
"""Style of a series.

`line` and `mean` are lines through the points; `mean` has a pattern of dashes for each color, and
may have a band around it. `dots` are points joined by a line, `points` are not joined. `reference`
is a dashed horizontal line across the chart, `mark` a vertical line.
"""
Point = tuple[float, float]


@dataclass(frozen=True)
class Series:
    """A curve: its name in the legend, points, style and color.

    A series of the style `reference` is drawn at the y of its first point, one of the style `mark`
    at the x of its first point.
    """

    name: str
    points: Sequence[Point]
    style: Style = "line"
    color: Color = 0
    band: Sequence[tuple[float, float, float]] = ()
    """Band around a `mean`, as points: x, and the lower and upper bound of the band at x."""

    @property
    def is_line(self) -> bool:
        """Whether the legend shows a line (in charts.html): through points, or of a `reference`.

        A `mark` has a vertical line of its own there.
        """
        has_line = self.style in ("line", "mean", "dots") and len(self.points) > 1
        return self.style == "reference" or has_line

    @property
    def has_dots(self) -> bool:
        """Whether points are drawn as dots; a line through a single point could not be seen."""
        is_single = self.style in ("line", "mean") and len(self.points) == 1
        return is_single or self.style in ("dots", "points")


@dataclass(frozen=True)
class _Tick:
    """A tick of an axis: its x or y in units of the SVG, and its text."""

    position: float
    text: str


@dataclass(frozen=True)
class _Curve:
    """A series as SVG: the path of its line, the centers of its dots, and the path of its band."""

    series: Series
    path: str
    dots: Sequence[Point]
    band_path: str = ""


@dataclass(frozen=True)
class _LegendEntry:
    """An entry of the legend: a piece of the series' line, and its name.

    `x` is the left end of the line, `y` the baseline of the name.
    """

    series: Series
    name: str
    x: float
    y: float


@dataclass(frozen=True)
class Chart:
    """Several series in one drawing, with a legend below it; the vertical axis begins at `low`."""

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    is_share: bool = False
    """Whether y values are fractions from 0 to 1, which are written as percentages."""
    low: float = 0.0
    high: float | None = None
    """Upper end of the vertical axis; None for the next round value above all points."""
    x_low: float = 0.0
    x_high: float | None = None
    """Right end of the horizontal axis; None for the largest x of all points."""
    x_names: Sequence[str] = ()
    """Names to show at 0, 1, 2 … of the horizontal axis, in place of numbers."""

    width, left, right, top, bottom = WIDTH, LEFT, WIDTH - RIGHT, TOP, HEIGHT - BOTTOM

    @property
    def height(self) -> float:
        """The height of the drawing and the legend below it."""
        return max((entry.y for entry in self.legend), default=HEIGHT) + LEGEND_BOTTOM

    @cached_property
    def x_max(self) -> float:
        """The right end of the horizontal axis: `x_high`, or the largest x.

        It is `x_low + 1` if no point is to the right of `x_low`, so that the axis has a length.
        """
        if self.x_high is not None:
            return self.x_high
        largest = max((x for series in self.series for x, _ in series.points), default=self.x_low)
        return largest if largest > self.x_low else self.x_low + 1.0

    @cached_property
    def y_max(self) -> float:
        """The upper end of the vertical axis: `high`, or the highest value, rounded up."""
        if self.high is not None:
            return self.high
        values = [y for series in self.series for _, y in series.points]
        upper_bounds = [high for series in self.series for _, _, high in series.band]
        highest = max([*values, *upper_bounds], default=self.low)
        step = round_step(highest - self.low)
        return max(self.low + step, self.low + step * math.ceil((highest - self.low) / step))

    @property
    def x_ticks(self) -> list[_Tick]:
        if self.x_names:
            return [self._x_tick(number, name) for number, name in enumerate(self.x_names)]
        return [self._x_tick(value, format_tick(value)) for value in ticks(self.x_low, self.x_max)]

    def _x_tick(self, value: float, text: str) -> _Tick:
        """Center a text below its value, or further left if it would cross the right border."""
        half = CHAR_WIDTH * _text_width(text) / 2
        return _Tick(min(self._x(value), self.width - half), text)

    @property
    def y_ticks(self) -> list[_Tick]:
        values = ticks(self.low, self.y_max)
        format_value = (
            partial(percent, decimals=_share_decimals(values)) if self.is_share else format_tick
        )
        return [_Tick(self._y(y), format_value(y)) for y in values]

    @property
    def curves(self) -> list[_Curve]:
        """The series in the order of drawing; references are last, so that no curve hides them."""
        in_order = sorted(self.series, key=lambda series: series.style == "reference")
        return [self._curve(series) for series in in_order]

    @property
    def legend(self) -> list[_LegendEntry]:
        """The entries of the legend, with as many in a row as fit."""
        entries: list[_LegendEntry] = []
        x, y = float(LEGEND_LEFT), float(HEIGHT + LEGEND_TOP)
        for series in self.series:
            name = shorten_name(series.name)
            width = LEGEND_LINE_WIDTH + CHAR_WIDTH * _text_width(name)
            if x > LEGEND_LEFT and x + width > self.width:
                x, y = float(LEGEND_LEFT), y + LEGEND_ROW_HEIGHT
            entries.append(_LegendEntry(series, name, x, y))
            x += width + LEGEND_GAP
        return entries

    @property
    def summary(self) -> str:
        """The chart in words, for screen readers."""
        format_value = percent if self.is_share else "{:.2f}".format
        descriptions = []
        for series in self.series:
            if series.style == "points":
                descriptions.append(f"{series.name}: {count_noun(len(series.points), 'point')}")
            elif series.style not in ("reference", "mark") and series.points:
                first, last = (format_value(series.points[index][1]) for index in (0, -1))
                course = first if len(series.points) == 1 else f"from {first} to {last}"
                descriptions.append(f"{series.name}: {course}")
        return f"{self.title}. {'; '.join(descriptions)}."

    def _curve(self, series: Series) -> _Curve:
        """Return the paths and dots of a series, by its style."""
        if not series.points:
            return _Curve(series, "", ())
        if series.style == "reference":
            y = self._y(series.points[0][1])
            return _Curve(series, f"M{self.left} {y:.1f}H{self.right}", ())
        if series.style == "points":
            return _Curve(series, "", [(self._x(x), self._y(y)) for x, y in series.points])
        if series.style == "mark":
            x = self._x(series.points[0][0])
            return _Curve(series, f"M{x:.1f} {self.top}V{self.bottom}", ())
        points = [(self._x(x), self._y(y)) for x, y in average_groups(series.points)]
        dots = points if series.has_dots else ()
        return _Curve(series, _line_path(points), dots, self._band_path(series.band))

    def _band_path(self, band: Sequence[tuple[float, float, float]]) -> str:
        lower = [(self._x(x), self._y(low)) for x, low, _ in band]
        upper = [(self._x(x), self._y(high)) for x, _, high in reversed(band)]
        return _line_path([*lower, *upper]) + "Z" if band else ""

    def _x(self, value: float) -> float:
        """Return the position of a value on the horizontal axis, in the units of `WIDTH`."""
        share = (value - self.x_low) / (self.x_max - self.x_low)
        return self.left + (self.right - self.left) * share

    def _y(self, value: float) -> float:
        """Return the position of a value on the vertical axis, in the units of `HEIGHT`."""
        share = (value - self.low) / (self.y_max - self.low)
        return self.bottom - (self.bottom - self.top) * min(1.0, max(0.0, share))


def write_svg(path: Path, charts: Sequence[Chart]) -> None:
    """Draw charts side by side into an SVG file, with colors for light and dark screens."""
    write_page(path, "pages/charts.svg", charts=charts)


def _line_path(points: Sequence[Point]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def _text_width(text: str) -> int:
    """Return the width of a text in letters; a wide character counts 2.

    >>> _text_width("BERT"), _text_width("词元")
    (4, 4)
    """
    return sum(1 + (unicodedata.east_asian_width(char) in "WF") for char in text)


def shorten_name(name: str) -> str:
    """Cut a name to the width `MAX_NAME`, which includes the sign "…" at its end."""
    if _text_width(name) <= MAX_NAME:
        return name
    while _text_width(name) >= MAX_NAME:
        name = name[:-1]
    return f"{name}…"


def format_tick(value: float) -> str:
    """Format a round value in few characters.

    >>> format_tick(0.25), format_tick(2500), format_tick(30000), format_tick(2e6)
    ('0.25', '2,500', '30k', '2M')
    """
    for unit, sign in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= max(unit, 10_000):
            return f"{value / unit:g}{sign}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}"


def _share_decimals(values: Sequence[float]) -> int:
    """Return the decimals with which no two of these shares are the same percentage.

    >>> _share_decimals([0.0, 0.2, 0.4]), _share_decimals([0.9, 0.905, 0.91])
    (0, 1)
    """
    for decimals in range(10):
        if len({percent(value, decimals) for value in values}) == len(values):
            return decimals
    return 0


def average_groups(points: Sequence[Point], limit: int = MAX_POINTS) -> list[Point]:
    """Reduce points to at most `limit` by taking the means of groups of neighbours.

    >>> average_groups([(1, 2), (3, 4), (5, 6), (7, 8)], limit=2)
    [(2.0, 3.0), (6.0, 7.0)]
    """
    if len(points) <= limit:
        return list(points)
    size = math.ceil(len(points) / limit)
    groups = [points[start : start + size] for start in range(0, len(points), size)]
    return [
        (sum(x for x, _ in group) / len(group), sum(y for _, y in group) / len(group))
        for group in groups
    ]


def round_step(span: float) -> float:
    """Choose a step for ticks, so that a `span` of values has about three to seven steps.

    The step is 1, 2 or 5 times a power of ten.

    >>> round_step(0.7), round_step(9.3)
    (0.1, 2.0)
    """
    if span < MIN_SPAN:
        return 1.0
    power = 10.0 ** math.floor(math.log10(span))
    # `span` is 1 to 10 times `power`: 0.2 times `power` are at least five steps, 2 at most five.
    factor = next(factor for factor in (0.2, 0.5, 1, 2) if span / (factor * power) <= 7)
    return factor * power


def ticks(low: float, high: float) -> list[float]:
    """List the values of ticks, which are round numbers from `low` to `high`.

    >>> ticks(0, 2.5)
    [0.0, 0.5, 1.0, 1.5, 2.0, 2.5]
    """
    step = round_step(high - low)
    # Rounding may have moved an end of the axis a little away from a multiple of the step.
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(number * step, 10) for number in range(first, last + 1)]
