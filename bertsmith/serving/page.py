"""The page at `/`, for people: type a text, see the model's answer.

The page is the same for all models. Its script asks the server for their names, so that nobody
learns about them without the key.
"""

import base64
import hashlib
import re
from functools import cache, lru_cache

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from bertsmith._version import __version__
from bertsmith.pages.page import render_page


async def answer_page(request: Request) -> Response:
    """Answer with the page."""
    return page_response(page_html())


@cache
def page_html() -> str:
    return render_page("serving/page.html", version=__version__)


def page_response(html: str) -> Response:
    """Build the response of an HTML page that may load nothing and may ask only this server."""
    return HTMLResponse(
        html,
        headers={
            "Content-Security-Policy": content_policy(html),
            "Cache-Control": "no-cache",
            "X-Content-Type-Options": "nosniff",
        },
    )


# Few are kept: /docs contains the address by which the client called, which may be any.
@lru_cache(maxsize=4)
def content_policy(html: str) -> str:
    """Return the policy that allows only the scripts and styles of a page, by their hashes."""
    return (
        f"default-src 'none'; script-src {_hashes_of('script', html)}; "
        f"style-src {_hashes_of('style', html)}; img-src data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'"
    )


def _hashes_of(tag: str, html: str) -> str:
    texts = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
    digests = [hashlib.sha256(text.encode()).digest() for text in texts]
    hashes = [f"'sha256-{base64.b64encode(digest).decode('ascii')}'" for digest in digests]
    return " ".join(hashes) or "'none'"
