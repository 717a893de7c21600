"""HTML reports in one file without scripts, fonts or network.

Templates are Jinja files beside the code that fills them; they extend `report.html`, which holds
the style for wide and narrow screens, light and dark. All values are escaped, so that a text from a
data set never becomes markup.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from bertsmith.system.files import atomic_write

TEMPLATES_DIR = Path(__file__).parents[1]
MAX_POINTS = 200
"""Most points of a curve; more are averaged in groups, as the page's width shows no more."""

MIN_SPAN = 1e-9
"""Shortest axis with marks that can be told apart."""

# Drawing in these units lets the text of a chart stay readable on a narrow phone.
WIDTH, HEIGHT = 440, 270
LEFT, RIGHT, TOP, BOTTOM = 50, 14, 14, 44

Style = Literal["line", "dots", "reference", "mean"]
Color = Literal[0, 1, 2, 3, 4, 5, 6, 7]
COLORS: tuple[Color, ...] = (0, 1, 3, 4, 5, 6, 7)
"""Colors of curves of equal rank, distinct also for the colour-blind; in the style `mean` each has
dashes of its own. 2 is a soft one for references."""
Point = tuple[float, float]


@dataclass(frozen=True)
class Band:
    """The band around a curve: x, and its bounds there."""

    bounds: Sequence[tuple[float, float, float]]


@dataclass(frozen=True)
class Series:
    """A curve: its name in the legend, points, style and color.

    A `reference` is a dashed level at the height of its first point, across the whole chart. A
    `mean` may have a band.
    """

    name: str
    points: Sequence[Point]
    style: Style = "line"
    color: Color = 0
    band: Band | None = None


@dataclass(frozen=True)
class Tick:
    """A mark on an axis: its position and its text."""

    place: float
    text: str


@dataclass(frozen=True)
class Curve:
    """A series as SVG: `path` of the line, `dots`, `area`."""

    series: Series
    path: str
    dots: Sequence[Point]
    area: str = ""


@dataclass(frozen=True)
class Chart:
    """Several series in one drawing; the vertical axis begins at `low`."""

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    is_share: bool = False
    """Whether heights are fractions from 0 to 1, which are written as percentages."""
    low: float = 0.0

    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    top: int = TOP
    bottom: int = HEIGHT - BOTTOM

    @property
    def x_max(self) -> float:
        """The right end of the horizontal axis."""
        return max(x for series in self.series for x, _ in series.points) or 1.0

    @property
    def y_max(self) -> float:
        """The upper end of the vertical axis, rounded up."""
        points = [y for series in self.series for _, y in series.points]
        bands = [series.band.bounds for series in self.series if series.band is not None]
        highest = max([*points, *(high for bounds in bands for _, _, high in bounds)])
        step = round_step(highest - self.low)
        return max(self.low + step, self.low + step * math.ceil((highest - self.low) / step))

    @property
    def x_ticks(self) -> list[Tick]:
        """The marks of the horizontal axis."""
        return [Tick(self._x(value), f"{value:g}") for value in ticks(0, self.x_max)]

    @property
    def y_ticks(self) -> list[Tick]:
        """The marks of the vertical axis."""
        shown = "{:.0%}" if self.is_share else "{:g}"
        return [Tick(self._y(v), shown.format(v)) for v in ticks(self.low, self.y_max)]

    @property
    def curves(self) -> list[Curve]:
        """The curves in the order of the series."""
        return [self._curve(series) for series in self.series]

    @property
    def summary(self) -> str:
        """The chart in words, for readers who do not see it."""
        shown = "{:.1%}" if self.is_share else "{:.2f}"
        ends = [
            f"{series.name}: from {shown.format(series.points[0][1])} "
            f"to {shown.format(series.points[-1][1])}"
            for series in self.series
            if series.style != "reference"
        ]
        return f"{self.title}. {'; '.join(ends)}."

    def _curve(self, series: Series) -> Curve:
        if series.style == "reference":
            y = self._y(series.points[0][1])
            return Curve(series, f"M{self.left} {y:.1f}H{self.right}", ())
        points = [(self._x(x), self._y(y)) for x, y in thin(series.points)]
        dots = points if series.style == "dots" else ()
        return Curve(series, _outline(points), dots, self._area(series.band))

    def _area(self, band: Band | None) -> str:
        if band is None:
            return ""
        there = [(self._x(x), self._y(low)) for x, low, _ in band.bounds]
        back = [(self._x(x), self._y(high)) for x, _, high in reversed(band.bounds)]
        return _outline([*there, *back]) + "Z"

    def _x(self, value: float) -> float:
        return self.left + (self.right - self.left) * value / self.x_max

    def _y(self, value: float) -> float:
        share = (value - self.low) / (self.y_max - self.low)
        return self.bottom - (self.bottom - self.top) * min(1.0, max(0.0, share))


def _outline(points: Sequence[Point]) -> str:
    """Build an SVG path through points of the drawing."""
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def thin(points: Sequence[Point], limit: int = MAX_POINTS) -> list[Point]:
    """Reduce points to at most `limit`, the means of groups of neighbours.

    >>> thin([(1, 2), (3, 4), (5, 6), (7, 8)], limit=2)
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
    """Choose a round step: 1, 2 or 5 times a power of ten.

    It divides `span` in three to seven parts.

    >>> round_step(0.7), round_step(9.3)
    (0.1, 2.0)
    """
    if span < MIN_SPAN:
        return 1.0
    power = 10.0 ** math.floor(math.log10(span))
    factor = next(factor for factor in (0.1, 0.2, 0.5, 1, 2) if span / (factor * power) <= 7)
    return factor * power


def ticks(low: float, high: float) -> list[float]:
    """List round values from `low` to `high`.

    >>> ticks(0, 2.5)
    [0.0, 0.5, 1.0, 1.5, 2.0, 2.5]
    """
    step = round_step(high - low)
    first = math.ceil(low / step - 1e-9)
    return [round(i * step, 10) for i in range(first, math.floor(high / step + 1e-9) + 1)]


def render(template: str, **values: Any) -> str:
    """Fill a template, named by its path within the package.

    An example is `demo/report.html`.
    """
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES_DIR),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["percent"] = "{:.1%}".format
    environment.filters["count"] = "{:,.0f}".format
    return environment.get_template(template).render(**values)


def write_report(path: Path, template: str, **values: Any) -> None:
    """Render a template into a file, whole or not at all."""
    page = render(template, **values)
    with atomic_write(path, "w") as file:
        file.write(page)
