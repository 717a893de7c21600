"""The requests that a server with a key answers without it."""

OPEN_PATHS = frozenset(
    {
        "/",
        "/health",
        "/ping",
        "/metrics",
        "/docs",
        "/openapi.json",
        "/v2/health/live",
        "/v2/health/ready",
    }
)
"""Paths that can be read without the key. Probes and Prometheus have no key, the page asks the user
for it, and the description of the routes says nothing about the models."""


def needs_key(method: str, path: str) -> bool:
    """Return whether a request needs the key of a server that has one.

    Args:
        path: of a request, or of a route, such as `/models/{model}`.
    """
    is_page_of_model = path.startswith("/models/") and path.count("/") == 2
    is_open = path in OPEN_PATHS or is_page_of_model
    return not (method in ("GET", "HEAD") and is_open)
