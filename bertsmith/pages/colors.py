"""Colors of charts and of marked texts, by number; charts.css has the class `c3` for color 3."""

from typing import Literal

Color = Literal[0, 1, 2, 3, 4, 5, 6, 7]
COLORS: tuple[Color, ...] = (0, 1, 3, 4, 5, 6, 7)
"""Colors for the curves of a chart, distinct also for the color-blind. In the style `mean`, each
color has its own pattern of dashes. Color 2 is pale, for references only."""
