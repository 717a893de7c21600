"""Build the documentation as a site without a network: `python tools/build_site.py FOLDER`.

FOLDER/pages gets links to the pages of the repository, in the same places, so that their links to
each other hold. The site is FOLDER/site.
"""

import logging
import os
import sys
from pathlib import Path

from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.exceptions import Abort

ROOT = Path(__file__).resolve().parent.parent
SOURCES = (
    "README.md", "README.zh.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "docs", "benchmarks",
    "bertsmith/recipes",
)  # fmt: skip
"""Files and folders of the repository that have pages, or that pages link to."""


def main() -> None:
    """Build the site in the folder that the command line names."""
    folder = Path(sys.argv[1]).resolve()
    pages, site = folder / "pages", folder / "site"
    for source in SOURCES:
        link = pages / source
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(ROOT / source)
    os.environ["NO_MKDOCS_2_WARNING"] = "1"
    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.WARNING)
    try:
        build_strictly(ROOT / "mkdocs.yml", pages, site)
    except Abort as error:
        sys.exit(str(error))


def build_strictly(config_path: Path, pages: Path, site: Path) -> None:
    """Build the site of a folder of pages.

    Raises:
        Abort: mkdocs warned of something, such as a link to a page that does not exist.
    """
    # mkdocs counts the warnings of this logger, so `--quiet`, which turns them off, hides mistakes.
    logging.getLogger("mkdocs").setLevel(logging.WARNING)
    config = load_config(str(config_path), docs_dir=str(pages), site_dir=str(site), strict=True)
    config.plugins.on_startup(command="build", dirty=False)
    try:
        build(config)
    finally:
        config.plugins.on_shutdown()


if __name__ == "__main__":
    main()
