"""The service behind all routes: models by name, and answers to texts.

It checks the limits on waiting texts, and sends the texts to the engine, the process that computes.
Then it waits for their answers, until the client closes the connection or the time-out is over. A
request that gets no answer raises a `Problem`, which has a status of HTTP and a sentence.
"""

import asyncio
import contextlib
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from bertsmith.errors import BertsmithError
from bertsmith.serving.admission import AdmissionControl, fit_into_free_memory
from bertsmith.serving.arriving_bytes import BODIES_AT_A_TIME, ArrivingBytes
from bertsmith.serving.characters import count_characters, estimate_tokens
from bertsmith.serving.client_text import clip_text
from bertsmith.serving.engine_main import EngineSettings
from bertsmith.serving.engine_process import EngineProcess
from bertsmith.serving.folder_state import FolderState, folder_state
from bertsmith.serving.messages import (
    Answers,
    Cancel,
    Cancelled,
    ComputedBatch,
    ComputeRequest,
    Message,
    ModelInfo,
    QueueState,
    Ready,
    Refusal,
    ResultKind,
)
from bertsmith.serving.metrics import Metrics
from bertsmith.serving.problems import (
    Problem,
    hung_up,
    invalid,
    problem_of_refusal,
    too_many_texts,
    unhealthy,
)
from bertsmith.serving.text_field import TextField
from bertsmith.serving.waiting_time import WaitingTime
from bertsmith.system.nested_folder import open_files
from bertsmith.tokenization.auto import read_tokenizer
from bertsmith.tokenization.tokenizer import Tokenizer

WAITING_SHARE = 1 / 3
"""Share of the time-out that a request may wait for its turn. A request that would wait longer is
refused at once (429), instead of after the time-out (503)."""
MAX_LOADS = 3
"""Largest number of times that the models are loaded if files of their folders change meanwhile.
Then the server starts anyway: the changing file may be none of a model's, such as a journal."""
RESTART_PAUSES = (0.0, 2.0, 8.0, 30.0)
"""Seconds before each new start of an engine that ended or failed to start. There are at most this
many starts within `COUNTED_SECONDS`; then the server gives up."""
COUNTED_SECONDS = 600.0


@dataclass(frozen=True)
class Limits:
    """Limits of requests."""

    max_queue: int = 2048
    """Texts that wait or are computed at a time."""
    max_texts: int = 1024
    """Texts of one request."""
    max_characters: int = 2_000_000
    """Characters of the texts of one request, as many as fit into a body of `max_body_bytes`. So a
    request exceeds this limit only if its texts are read several times, such as a zero-shot
    request, which reads a text with each label."""
    max_held_characters: int = 64_000_000
    """Characters of the texts that wait or are computed at a time; fewer if memory is short."""
    max_body_bytes: int = 2_000_000
    timeout_seconds: float = 60.0


class Service:
    """The models of a server, and the engine that computes them.

    Args:
        log: shows a line to the operator.
    """

    def __init__(
        self,
        settings: EngineSettings,
        limits: Limits | None = None,
        log: Callable[[str], None] = print,
    ) -> None:
        self.settings = settings
        self.log = log
        self.limits = limits or Limits()
        self.models: dict[str, ModelInfo] = {}
        self.admission = AdmissionControl(
            self.limits.max_queue,
            self.limits.max_held_characters,
            WAITING_SHARE * self.limits.timeout_seconds,
        )
        self.metrics = Metrics(self.admission)
        self.arriving_bytes = ArrivingBytes(BODIES_AT_A_TIME * self.limits.max_body_bytes)
        """Counter of the bytes of bodies that are still arriving; it refuses too many."""
        self.max_batch_tokens = 0
        """Number of tokens that the engine computes together."""
        self.is_ready = False
        self.is_stopping = False
        self.why_not_ready = "the models are not loaded yet. Send the request again in a moment."
        """The message for clients while the server does not compute."""
        self.on_give_up: Callable[[str], None] = log
        """Called with a sentence when the engine has ended and is not started again."""
        self._request_ids = count(1)
        self._tokenizers: dict[str, Tokenizer] = {}
        self._folder_states: dict[str, FolderState] = {}
        self._futures: dict[int, asyncio.Future[Answers | Refusal]] = {}
        """The answers that requests wait for, by request id."""
        self._held: dict[int, tuple[int, int]] = {}
        """The numbers of texts and characters of each request that the engine has, by request id.
        They count against the limits even if the client has gone, until the engine is done."""
        self._ended_at: list[float] = []
        """The times at which engines ended or failed to start, within `COUNTED_SECONDS`."""
        self._engine = self._new_engine()
        self._restart: asyncio.Task[None] | None = None

    def _new_engine(self) -> EngineProcess:
        return EngineProcess(self.settings, self._receive, on_death=self._restart_engine)

    @property
    def compute_type(self) -> str:
        """The device that computes: "cpu", or "gpu" for all others, as in
        text-embeddings-inference."""
        device = next(iter(self.models.values())).device_name
        return "cpu" if device.startswith("cpu") else "gpu"

    def tokenizer(self, name: str) -> Tokenizer:
        """Return the tokenizer of a model, as it was when the model was loaded."""
        return self._tokenizers[name]

    def has_changed(self, model: ModelInfo) -> bool:
        """Return whether files of a model's folder have changed since its loading began.

        The server still answers with the model that it has loaded.
        """
        return self._folder_states[model.name] != folder_state(Path(model.folder))

    async def start(self) -> None:
        """Start the engine and wait until it is warm.

        Raises:
            BertsmithError: a model cannot be loaded.
        """
        ready = await self._load()
        self.models = {model.name: model for model in ready.models}
        self.max_batch_tokens = ready.max_batch_tokens
        states = {model.name: model.folder_state for model in ready.models}
        for name in self._folder_states.keys() & states.keys():
            if self._folder_states[name] != states[name]:
                self.log(
                    f"{name}: the files of {self.models[name].folder} have changed since the model "
                    "was loaded; from now on the server answers with the new ones."
                )
        self._folder_states = states
        self.admission.max_held_characters = fit_into_free_memory(self.limits.max_held_characters)
        self.is_ready = True

    async def _load(self) -> Ready:
        """Start the engine and read the tokenizers, both from the same files.

        If files change meanwhile, this is done again, at most `MAX_LOADS` times.
        """
        num_loads = 0
        while True:
            num_loads += 1
            ready = await self._engine.start()
            # For /tokenize, /decode and masks, this process has tokenizers of its own.
            self._tokenizers = {
                model.name: read_tokenizer(open_files(Path(model.folder))) for model in ready.models
            }
            changed = [
                model
                for model in ready.models
                if folder_state(Path(model.folder)) != model.folder_state
            ]
            is_last = num_loads >= MAX_LOADS or self.is_stopping
            next_step = "it is loaded again."
            if is_last:
                next_step = (
                    "the server may answer with a mixture of old and new files. Start it again "
                    "when they change no more."
                )
            for model in changed:
                self.log(
                    f"{model.name}: files of {model.folder} changed while the model was loaded; "
                    f"{next_step}"
                )
            if not changed or is_last:
                return ready
            self._engine.kill()  # on purpose, so `_restart_engine` is not called
            self._engine = self._new_engine()

    async def stop(self) -> None:
        """Refuse new requests, let the engine finish those that run, and stop it."""
        self.is_stopping = True
        self.is_ready = False
        self.why_not_ready = "the server is stopping. Send the request again in a moment."
        if self._restart is not None:
            self._restart.cancel()
        await self._engine.stop()

    def kill(self) -> None:
        """End the engine at once, for a server that does not stop cleanly."""
        self._engine.kill()

    def model(self, name: str | None = None) -> ModelInfo:
        """Return a model by its name; without a name, the first one.

        Raises:
            Problem: 404 if there is none of this name, or 503 before the models are loaded.
        """
        if not self.models:
            raise unhealthy(self.why_not_ready)
        if name is None:
            return next(iter(self.models.values()))
        if name not in self.models:
            raise Problem(
                404,
                "Validation",
                f"there is no model '{clip_text(name)}' here; this server has "
                f"{', '.join(self.models)}.",
            )
        return self.models[name]

    async def compute(
        self,
        model: ModelInfo,
        kind: ResultKind,
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
            field: the field of the request that has the texts, for messages; a `TextField` also
                has the path of each text in it, such as `inputs[1]`.
            wait_for_hang_up: returns when the client has closed the connection.

        Raises:
            Problem: 413, 422, 424, 429 or 503; 499 if the client has closed the connection.
        """
        if not self.is_ready:
            raise unhealthy(self.why_not_ready)
        num_characters = count_characters(records)
        self.check_size(len(records), num_characters, field)
        self.admission.admit(len(records), num_characters)
        request_id = next(self._request_ids)
        self._held[request_id] = len(records), num_characters
        answer: asyncio.Future[Answers | Refusal] = asyncio.get_running_loop().create_future()
        self._futures[request_id] = answer
        num_tokens = estimate_tokens(num_characters, max_tokens=self.max_batch_tokens)
        self.admission.waiting_time.add(request_id, num_tokens)
        try:
            # A tuple can be hashed: the engine computes requests with equal options together.
            option_items = tuple((options or {}).items())
            self._engine.send(
                ComputeRequest(request_id, model.name, kind, records, option_items, may_cut)
            )
            result = await self._wait(answer, wait_for_hang_up)
        finally:
            del self._futures[request_id]
            # Without an answer, the client has gone or the time is over: nobody waits any more.
            if not answer.done() or answer.cancelled():
                self._engine.send(Cancel(request_id))
        if isinstance(result, Refusal):
            raise problem_of_refusal(result, field)
        self.metrics.observe_request(result)
        return result

    def check_size(self, num_texts: int, num_characters: int, field: str | TextField) -> None:
        """Check the texts of one request against the limits on a request.

        Args:
            field: the field of the request that has the texts, for messages.

        Raises:
            Problem: 413 if there are too many texts or characters.
        """
        if num_texts > self.limits.max_texts:
            raise too_many_texts(num_texts, self.limits.max_texts, field)
        if num_characters > self.limits.max_characters:
            raise invalid(
                f"{field}: the texts have {num_characters:,} characters, where a text counts once "
                "for each query, label or choice that it is read with; this server takes at most "
                f"{self.limits.max_characters:,} in one request. Divide the request.",
                status=413,
            )

    async def _wait(
        self,
        answer: "asyncio.Future[Answers | Refusal]",
        wait_for_hang_up: Callable[[], Awaitable[Any]] | None,
    ) -> Answers | Refusal:
        """Wait for the answer, the client's hang-up or the time-out, whichever comes first."""
        awaited: set[asyncio.Future[Any]] = {answer}
        watcher = None
        if wait_for_hang_up is not None:
            watcher = asyncio.ensure_future(wait_for_hang_up())
            awaited.add(watcher)
        try:
            await asyncio.wait(
                awaited,
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
            raise hung_up()
        # Neither came, so the time-out is over.
        raise unhealthy(
            f"the texts were not computed within {self.limits.timeout_seconds:g} seconds. Send "
            "fewer or shorter ones, or try again later."
        )

    def _receive(self, message: Message) -> None:
        """Take a message of the engine: pass on an answer, and update counts and estimates."""
        if isinstance(message, QueueState):
            self.admission.waiting_time.update(message)
        if isinstance(message, ComputedBatch):
            self.metrics.observe_batch(message)
        if isinstance(message, Answers | Refusal | Cancelled):
            self._release(message.request_id)
        if isinstance(message, Answers | Refusal):
            answer = self._futures.get(message.request_id)
            if answer is not None and not answer.done():
                answer.set_result(message)

    def _release(self, request_id: int) -> None:
        """Count a request that has left the engine as held no longer."""
        self.admission.waiting_time.remove(request_id)
        held = self._held.pop(request_id, None)
        if held is not None:
            self.admission.release(*held)

    def _restart_engine(self) -> None:
        """Answer all waiting requests with an error, and start the engine again.

        A server that is stopping does not start it.
        """
        self.is_ready = False
        if not self.is_stopping:
            self.why_not_ready = (
                "the process that computes has ended and is started again. Send the request again "
                "in a moment."
            )
        for answer in self._futures.values():
            if not answer.done():
                answer.set_exception(unhealthy(self.why_not_ready))
        for request_id in list(self._held):
            self._release(request_id)
        self.admission.waiting_time = WaitingTime()  # a new engine counts requests from none on
        if self.is_stopping:
            return
        self._restart = asyncio.ensure_future(self._start_again())

    async def _start_again(self) -> None:
        """Start the engine until that succeeds, or give up."""
        reason = "the process that computes has ended"
        while True:
            now = time.monotonic()
            self._ended_at = [at for at in self._ended_at if now - at < COUNTED_SECONDS]
            if len(self._ended_at) >= len(RESTART_PAUSES):
                self.why_not_ready = (
                    "the process that computes has ended too often, and is not started again."
                )
                self.on_give_up(
                    f"{reason}, as it did {len(RESTART_PAUSES)} times in the last "
                    f"{COUNTED_SECONDS / 60:.0f} minutes; it is not started again."
                )
                return
            pause = RESTART_PAUSES[len(self._ended_at)]
            self._ended_at.append(now)
            when = f" in {pause:.0f} seconds" if pause else ""
            self.log(f"{reason}; it is started again{when}.")
            await asyncio.sleep(pause)
            self._engine = self._new_engine()
            try:
                await self.start()
                return
            except Exception as error:
                if not isinstance(error, BertsmithError | OSError):  # such as: no new thread
                    traceback.print_exc()
                self._engine.kill()
                reason = f"the process that computes could not start ({error})"


def with_prompt(model: ModelInfo, texts: Sequence[str], name: str | None) -> Sequence[str]:
    """Put the model's prompt `name` before each text.

    Raises:
        Problem: 422 if the model has no such prompt.
    """
    if name is None:
        return texts
    if name not in model.prompts:
        where = f"prompt_name: found '{clip_text(name)}'"
        if not model.prompts:
            raise invalid(f"{where}, and '{model.name}' has no prompts. Leave it out.")
        names = ", ".join(model.prompts)
        raise invalid(f"{where}; the prompts of '{model.name}' are {names}.")
    return [model.prompts[name] + text for text in texts]
