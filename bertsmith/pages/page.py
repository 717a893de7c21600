"""HTML pages, each a single file that needs no fonts or network, and no scripts but its own.

Templates are Jinja files beside the code that fills them; they extend `base.html`, which holds the
style for wide and narrow screens, light and dark. All values are escaped, so that a text from a
data set never becomes markup.
"""

import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertsmith._version import __version__
from bertsmith.pages.made_by import command_of_pages
from bertsmith.system.counts import format_number, percent
from bertsmith.system.files import atomic_write

if TYPE_CHECKING:
    import jinja2

TEMPLATES_DIR = Path(__file__).parents[1]


def unbroken_percent(share: float) -> str:
    """Format a share in percent, with a space at which a browser does not break the line.

    >>> unbroken_percent(0.0274)
    '2.7\\xa0%'
    """
    return percent(share).replace(" ", "\N{NO-BREAK SPACE}")


@cache
def _environment(folder: Path) -> "jinja2.Environment":
    """Return Jinja's environment for the templates of a folder, with the filters of our pages.

    The environment is kept, so that a template is compiled once: a run writes its page many times.
    """
    import jinja2  # only here, as few commands write a page

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["percent"] = unbroken_percent
    environment.filters["count"] = "{:,.0f}".format
    environment.filters["number"] = format_number
    return environment


def render_page(template: str, **values: Any) -> str:
    """Fill the template at a path in the package, such as `demo/page.html`, with `values`."""
    return _environment(TEMPLATES_DIR).get_template(template).render(**values)


def write_page(path: Path, template: str, **values: Any) -> None:
    """Fill a template with `values` as `render_page` does, and write the page to `path`.

    An HTML page ends with the date, the version, and the command of `made_by`.
    """
    page = render_page(template, footer=page_footer(), **values)
    with atomic_write(path, "w") as file:
        file.write(page)


def page_footer() -> dict[str, str]:
    """Return the values of a page's footer: the time, the version, and the command of `made_by`."""
    return {
        "time": time.strftime("%Y-%m-%d, %H:%M"),
        "version": __version__,
        "command": command_of_pages(),
    }
