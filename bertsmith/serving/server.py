"""The HTTP server of `bertsmith serve`: its socket, and uvicorn, which runs the ASGI application.

The application answers by a `Service`, which has the models and starts the process that computes.
"""

import asyncio
import contextlib
import errno
import math
import signal
import socket
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import uvicorn

from bertsmith.errors import BertsmithError, ConfigError, option
from bertsmith.serving.app import create_app
from bertsmith.serving.http_protocol import BoundedHttpProtocol, close_unread_connections
from bertsmith.serving.service import Service
from bertsmith.system.open_files import allow_open_files
from bertsmith.system.stop_signal import HANG_UP, REPEAT_SECONDS

BACKLOG = 2048
"""Connections that may wait to be accepted, as many as uvicorn lets wait by default."""
MAX_CONNECTIONS = 8192
"""Connections that may be open; the system may allow fewer."""
KEEP_ALIVE_SECONDS = 75
"""Seconds after which a connection without a request is closed. It is the default of nginx; with
the 5 seconds of uvicorn, a client that pauses would have to connect again."""


def bind(host: str, port: int) -> socket.socket:
    """Bind a socket to the address, but do not listen yet: the models have to be loaded first.

    Raises:
        ConfigError: another program has the port, or this computer has no such address.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named because asyncio turns Nagle's algorithm, which delays answers, off only
    # for sockets that name it.
    try:
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    except OSError as error:
        if error.errno == errno.EAFNOSUPPORT:  # a computer without IPv6
            raise _no_address(host, error) from None
        raise
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    close_unread_connections(listener)
    try:
        listener.bind((host, port))
    except (TypeError, UnicodeError):  # a name that cannot be encoded for the internet (IDNA)
        listener.close()
        raise ConfigError(
            f"{option('host')}: found '{host}', which is no name of a computer. Give an address "
            "such as 127.0.0.1."
        ) from None
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise _port_in_use(host, port) from None
        if error.errno == errno.EACCES:
            raise ConfigError(
                f"The system does not let you listen on port {port}. Choose one from 1024 on with "
                f"{option('port')}."
            ) from None
        raise _no_address(host, error) from None
    return listener


def _no_address(host: str, error: OSError) -> ConfigError:
    return ConfigError(
        f"{option('host')}: found '{host}'; this computer has no such address "
        f"({error.strerror or error})."
    )


def _port_in_use(host: str, port: int) -> ConfigError:
    return ConfigError(
        f"Another program listens on {host}:{port}. Choose another port with {option('port')}; "
        f"{option('port', 0)} takes a free one."
    )


def _listen(listener: socket.socket) -> None:
    """Let connections wait in the system's queue until uvicorn accepts them.

    Raises:
        ConfigError: another program that took the same address has begun to listen first.
    """
    try:
        listener.listen(BACKLOG)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        raise _port_in_use(*listener.getsockname()[:2]) from None


class _Server(uvicorn.Server):
    """A server that SIGHUP stops as SIGTERM does, and that a key pressed twice stops only once."""

    _asked_at = -math.inf
    """Time on the clock of `time.monotonic` at which a signal first asked the server to stop."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Let the server stop; by a later second Ctrl-C, without finishing its requests."""
        now = time.monotonic()
        if not self.should_exit:
            self._asked_at = now
        elif now - self._asked_at < REPEAT_SECONDS:
            return
        super().handle_exit(sig, frame)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        with super().capture_signals(), contextlib.ExitStack() as stack:
            # Windows has no SIGHUP (None), and a server that nohup started ignores it. After the
            # block uvicorn raises the signal again, and the previous handler ends the program.
            if HANG_UP is not None and signal.getsignal(HANG_UP) is not signal.SIG_IGN:
                previous = signal.signal(HANG_UP, self.handle_exit)
                stack.callback(signal.signal, HANG_UP, previous)
            yield


def run_server(*args: Any, **options: Any) -> None:
    """Run `serve` in the fastest event loop that is installed (uvloop, where the system has it).

    Args:
        args, options: the arguments of `serve`.
    """
    allow_open_files(MAX_CONNECTIONS)
    loop_factory = uvicorn.Config(_no_app).get_loop_factory()
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(serve(*args, **options))


async def _no_app(scope: Any, receive: Any, send: Any) -> None:
    """Do nothing; uvicorn's configuration needs an application, even to choose the event loop."""


async def serve(
    service: Service,
    listener: socket.socket,
    *,
    api_key: str | None,
    timeout_seconds: float,
    on_ready: Callable[[], None],
) -> None:
    """Load the models and serve until a signal asks to stop; requests that run are finished.

    Raises:
        BertsmithError: a model cannot be loaded, the address is taken, or the process that
            computes has ended too often.
    """
    give_up_reason: str | None = None

    def give_up(reason: str) -> None:
        """Stop the server, since the process that computes is not started again."""
        nonlocal give_up_reason
        give_up_reason = reason
        server.should_exit = True

    try:
        await service.start()
        config = uvicorn.Config(
            create_app(service, api_key=api_key),
            http=BoundedHttpProtocol,
            log_level="error",  # a warning for each broken request would flood the log
            access_log=False,
            backlog=BACKLOG,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            # uvicorn takes whole seconds. Requests have reached their own time-out by then.
            timeout_graceful_shutdown=int(timeout_seconds) + 1,
            server_header=False,
            date_header=True,
        )
        server = _Server(config)
        service.on_give_up = give_up
        _listen(listener)
        on_ready()
        await server.serve(sockets=[listener])
    finally:
        service.kill()
    if give_up_reason is not None:
        raise BertsmithError(give_up_reason)


def address_of(listener: socket.socket) -> str:
    """Return the address that a browser opens."""
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}"
