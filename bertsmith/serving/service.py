"""What every contract asks for: models by name, and the answers to texts.

The service takes places in the queue, sends texts to the engine, and waits for the answers until
the client hangs up or the time is over.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from bertsmith.errors import ConfigError
from bertsmith.model.nested_folder import open_files
from bertsmith.serving.body_bytes import BODIES_AT_A_TIME, BodyBytes
from bertsmith.serving.engine_main import EngineSettings
from bertsmith.serving.engine_process import EngineProcess
from bertsmith.serving.messages import Answers, Cancel, Kind, Message, ModelInfo, Refusal, Work
from bertsmith.serving.metrics import Metrics
from bertsmith.serving.places import Places
from bertsmith.serving.problems import (
    Problem,
    invalid,
    of_refusal,
    too_many_texts,
    unhealthy,
)
from bertsmith.serving.text_field import TextField
from bertsmith.tokenization.auto import read_tokenizer
from bertsmith.tokenization.tokenizer import Tokenizer

WAITING_SHARE = 1 / 3
"""Share of the time-out that texts may wait. If texts wait that take longer, a new one is refused
at once (429), not when its time is over (503)."""
FolderState = tuple[tuple[str, int, int], ...]
RESTARTS = 3
"""Number of times that an engine which died is started again; then the server refuses requests."""


@dataclass(frozen=True)
class Limits:
    """Limits of requests."""

    max_places: int = 2048
    """Texts that wait or are computed at a time."""
    max_texts: int = 1024
    """Texts of one request."""
    max_characters: int = 64_000_000
    """Characters of the texts that wait or are computed at a time."""
    max_body_bytes: int = 2_000_000
    timeout_seconds: float = 60.0


class Service:
    """The models of a server, and the engine that computes them.

    Args:
        tell: shows a line to the operator.
    """

    def __init__(
        self,
        settings: EngineSettings,
        limits: Limits | None = None,
        tell: Callable[[str], None] = print,
    ) -> None:
        self.settings = settings
        self.tell = tell
        self.limits = limits or Limits()
        self.models: dict[str, ModelInfo] = {}
        self.places = Places(
            self.limits.max_places,
            self.limits.max_characters,
            WAITING_SHARE * self.limits.timeout_seconds,
        )
        self.metrics = Metrics(self.places)
        self.bodies = BodyBytes(BODIES_AT_A_TIME * self.limits.max_body_bytes)
        self.max_batch_tokens = 0
        """Number of tokens that the engine computes together."""
        self.is_ready = False
        self.is_stopping = False
        self.num_restarts = 0
        self._numbers = count(1)
        self._tokenizers: dict[str, Tokenizer] = {}
        self._states: dict[str, FolderState] = {}
        self._waiting: dict[int, asyncio.Future[Answers | Refusal]] = {}
        self._engine = self._new_engine()
        self._restart: asyncio.Task[None] | None = None

    def _new_engine(self) -> EngineProcess:
        return EngineProcess(self.settings, self._receive, self._engine_died)

    @property
    def compute_type(self) -> str:
        """The device that computes: cpu, or gpu as text-embeddings-inference calls all others."""
        device = next(iter(self.models.values())).computes_on
        return "cpu" if device.startswith("cpu") else "gpu"

    def tokenizer(self, name: str) -> Tokenizer:
        """Return the tokenizer of a model, as it was when the model was loaded."""
        return self._tokenizers[name]

    def has_changed(self, model: ModelInfo) -> bool:
        """Return whether files of a model's folder have changed since it was loaded.

        The server goes on with the model that it has loaded.
        """
        return self._states[model.name] != folder_state(self.settings.models[model.name])

    async def start(self) -> None:
        """Start the engine and wait until it is warm.

        Raises:
            ConfigError: a model cannot be loaded.
        """
        ready = await self._engine.start()
        self.models = {model.name: model for model in ready.models}
        self.max_batch_tokens = ready.max_batch_tokens
        self._tokenizers = {
            name: read_tokenizer(open_files(path)) for name, path in self.settings.models.items()
        }
        self._states = {name: folder_state(path) for name, path in self.settings.models.items()}
        self.is_ready = True

    async def stop(self) -> None:
        """Refuse new requests, let the engine finish those that run, and stop it."""
        self.is_stopping = True
        self.is_ready = False
        if self._restart is not None:
            self._restart.cancel()
        await self._engine.stop()

    def kill(self) -> None:
        """End the engine at once; for a server that does not stop in order."""
        self._engine.kill()

    def model(self, name: str | None = None) -> ModelInfo:
        """Return a model by its name; without a name, the first one.

        Raises:
            Problem: 404 if there is none of this name, or 503 before the models are loaded.
        """
        if not self.models:
            raise unhealthy("the models are not loaded yet. Send the request again in a moment.")
        if name is None:
            return next(iter(self.models.values()))
        if name not in self.models:
            raise Problem(
                404,
                "Validation",
                f"there is no model '{name}' here; this server has {', '.join(self.models)}.",
            )
        return self.models[name]

    async def compute(
        self,
        model: ModelInfo,
        kind: Kind,
        records: Sequence[Mapping[str, Any]],
        *,
        options: Mapping[str, Any] | None = None,
        may_cut: bool = True,
        field: str | TextField = "inputs",
        wait_for_hang_up: Callable[[], Awaitable[Any]] | None = None,
    ) -> Answers:
        """Compute the texts of a request.

        Args:
            records: one for each text, with the fields of the model's task.
            options: settings of the task for this request alone.
            may_cut: whether a text that is too long is cut.
            field: the field of the request that has the texts, for messages.
            wait_for_hang_up: returns when the client has closed the connection.

        Raises:
            Problem: 413, 422, 424, 429 or 503; 499 if the client has hung up.
        """
        if self.is_stopping or not self.is_ready:
            reason = "is stopping" if self.is_stopping else "is loading its models again"
            raise unhealthy(f"the server {reason}. Send the request again in a moment.")
        if len(records) > self.limits.max_texts:
            raise too_many_texts(len(records), self.limits.max_texts, field)
        num_characters = count_characters(records)
        self.places.take(len(records), num_characters)
        number = next(self._numbers)
        answer: asyncio.Future[Answers | Refusal] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            self._engine.send(
                Work(number, model.name, kind, records, tuple((options or {}).items()), may_cut)
            )
            result = await self._wait(answer, wait_for_hang_up)
        finally:
            self.places.give_back(len(records), num_characters)
            if self._waiting.pop(number, None) is not None and not answer.done():
                answer.cancel()
            if answer.cancelled():
                self._engine.send(Cancel(number))
        if isinstance(result, Refusal):
            raise of_refusal(result, field)
        self.places.waiting_seconds = result.waiting_seconds
        self.metrics.observe_batch(result)
        return result

    async def _wait(
        self,
        answer: "asyncio.Future[Answers | Refusal]",
        wait_for_hang_up: Callable[[], Awaitable[Any]] | None,
    ) -> Answers | Refusal:
        watched: set[asyncio.Future[Any]] = {answer}
        watcher = None
        if wait_for_hang_up is not None:
            watcher = asyncio.ensure_future(wait_for_hang_up())
        if watcher is not None:
            watched.add(watcher)
        try:
            await asyncio.wait(
                watched,
                timeout=self.limits.timeout_seconds,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            if watcher is not None and not watcher.done():
                watcher.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await watcher
        if answer.done():
            return answer.result()
        answer.cancel()
        if watcher is not None and watcher.done() and not watcher.cancelled():
            self.metrics.count_failure("dropped")
            raise Problem(499, "Overloaded", "the client closed the connection")
        raise unhealthy(
            f"the texts were not computed within {self.limits.timeout_seconds:g} seconds. Send "
            "fewer or shorter ones, or try again later."
        )

    def _receive(self, message: Message) -> None:
        if isinstance(message, Answers | Refusal):
            waiting = self._waiting.get(message.number)
            if waiting is not None and not waiting.done():
                waiting.set_result(message)

    def _engine_died(self) -> None:
        """Tell all clients, and start the engine again."""
        self.is_ready = False
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(
                    unhealthy("the process that computes has ended. Send the request again.")
                )
        self._restart = asyncio.ensure_future(self._start_again())

    async def _start_again(self) -> None:
        self.num_restarts += 1
        if self.num_restarts > RESTARTS:
            self.tell(f"the engine has ended {self.num_restarts} times; it is not started again.")
            return
        self.tell("the process that computes has ended; it is started again.")
        self._engine = self._new_engine()
        try:
            await self.start()
        except ConfigError as error:
            self.tell(str(error))


def count_characters(records: Sequence[Mapping[str, Any]]) -> int:
    """Count the characters of all texts in records, also of those in lists."""
    return sum(
        sum(map(len, value)) if isinstance(value, list) else len(value)
        for record in records
        for value in record.values()
        if isinstance(value, str | list)
    )


def with_prompt(model: ModelInfo, texts: Sequence[str], name: str | None) -> Sequence[str]:
    """Put the prompt of this name before each text.

    Raises:
        Problem: 422 if the model has no such prompt.
    """
    if name is None:
        return texts
    if name not in model.prompts:
        if not model.prompts:
            raise invalid(
                f"prompt_name: found '{name}', and '{model.name}' has no prompts. Leave it out."
            )
        names = ", ".join(model.prompts)
        raise invalid(f"prompt_name: found '{name}'; the prompts of '{model.name}' are {names}.")
    return [model.prompts[name] + text for text in texts]


def folder_state(path: Path) -> FolderState:
    """Return name, size and time of change of each file in a model's folder."""
    states = []
    for file in sorted(path.iterdir()) if path.is_dir() else []:
        if file.is_file():
            status = file.stat()
            states.append((file.name, status.st_size, status.st_mtime_ns))
    return tuple(states)
