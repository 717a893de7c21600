"""The engine process, which computes, as the HTTP process sees it: start, send, receive, stop."""

import asyncio
import contextlib
import multiprocessing
import threading
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from queue import SimpleQueue
from typing import Any

from bertsmith.errors import ConfigError
from bertsmith.serving.engine_main import EngineSettings, run_engine
from bertsmith.serving.messages import Failed, Message, Ready, Stop
from bertsmith.system.held_signals import signals_held_back
from bertsmith.system.own_modules import imported_modules
from bertsmith.system.processes import without_script

STOP_SECONDS = 10.0
"""Seconds that the process has to finish its requests and to end; then it is killed."""


class EngineProcess:
    """The process that computes; two threads send and receive, so the event loop need not wait.

    Args:
        receive: gets each message of the engine, in the event loop.
        on_death: is called in the event loop if the process ends without being asked to.
    """

    def __init__(
        self,
        settings: EngineSettings,
        receive: Callable[[Message], None],
        on_death: Callable[[], None],
    ) -> None:
        self.settings = settings
        self._receive = receive
        self._on_death = on_death
        self._outbox: SimpleQueue[Message | None] = SimpleQueue()  # a None ends `_send_all`
        self._process: BaseProcess | None = None
        self._connection: Connection | None = None
        self._is_stopping = False

    async def start(self) -> Ready:
        """Start the process, and wait until its models are loaded and warm.

        Returns:
            The process's first message, which describes the models.

        Raises:
            ConfigError: a model cannot be loaded, or the process ended before all were loaded.
        """
        context = multiprocessing.get_context("spawn")
        self._connection, other_end = context.Pipe()
        # The process must not get a stop signal before it can ignore it, nor run the user's script.
        with signals_held_back(), without_script():
            self._process = context.Process(
                target=run_engine,
                args=(other_end, self.settings, imported_modules()),  # modules of --import
                name="bertsmith-engine",
                daemon=True,
            )
            self._process.start()
        other_end.close()
        loop = asyncio.get_running_loop()
        try:
            first = await loop.run_in_executor(None, self._connection.recv)
        except asyncio.CancelledError:
            self.kill()
            raise
        except (EOFError, OSError):
            self._process.join()
            raise ConfigError(
                f"the process that computes has ended (exit code {self._process.exitcode}) before "
                "its models were loaded. Perhaps the memory was not enough."
            ) from None
        if isinstance(first, Failed):
            self._process.join()
            raise ConfigError(first.message)
        threading.Thread(target=self._send_all, daemon=True).start()
        threading.Thread(target=self._receive_all, args=(loop,), daemon=True).start()
        return first

    def send(self, message: Message) -> None:
        """Send a message; returns at once."""
        self._outbox.put(message)

    async def stop(self) -> None:
        """Let the engine finish its requests, and wait for its end, at most `STOP_SECONDS`."""
        self._is_stopping = True
        if self._process is None:
            return
        self.send(Stop())
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._process.join, STOP_SECONDS)
        self._outbox.put(None)
        self.kill()

    def kill(self) -> None:
        """End the process at once, if it still runs."""
        self._is_stopping = True
        if self._process is not None and self._process.is_alive():
            self._process.kill()
            self._process.join()

    def _send_all(self) -> None:
        """Send the messages of the outbox, until a None ends this thread."""
        assert self._connection is not None and self._process is not None
        while (message := self._outbox.get()) is not None:
            try:
                self._connection.send(message)
            except OSError:
                pass  # the process has ended, which `_receive_all` notices
            except Exception:
                traceback.print_exc()
                self._process.kill()  # `_receive_all` notices this, too

    def _receive_all(self, loop: asyncio.AbstractEventLoop) -> None:
        """Pass on the messages of the engine until it ends; also tell of an unexpected end."""
        assert self._connection is not None and self._process is not None
        while True:
            try:
                message = self._connection.recv()
            except (EOFError, OSError):
                break
            except Exception:
                traceback.print_exc()
                break
            self._call_in_loop(loop, self._receive, message)
        self._outbox.put(None)
        if not self._is_stopping:
            self._process.kill()  # it may still run, if a message could not be read
            self._call_in_loop(loop, self._on_death)

    @staticmethod
    def _call_in_loop(
        loop: asyncio.AbstractEventLoop, function: Callable[..., Any], *args: Any
    ) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(function, *args)
