"""The requests that are answered without the key of a server."""

OPEN_PATHS = frozenset(
    {"/", "/health", "/ping", "/metrics", "/docs", "/openapi.json", "/v2/health/live",
     "/v2/health/ready"}
)  # fmt: skip
"""Paths that can be read without the key: probes and Prometheus have none, the page asks for it,
and the description tells of routes, not of models."""


def needs_key(method: str, path: str) -> bool:
    """Return whether a request needs the key of a server that has one.

    Args:
        path: of a request, or of a route, such as `/models/{model}`.
    """
    is_page_of_model = path.startswith("/models/") and path.count("/") == 2
    is_open = path in OPEN_PATHS or is_page_of_model
    return not (method in ("GET", "HEAD") and is_open)
