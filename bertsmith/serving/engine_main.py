"""The engine process: loads the models, and computes until the HTTP process stops it or dies.

Nothing here may import torch at the top: threads and memory have to be set first, and the HTTP
process, which does without torch, imports this file, too.
"""

import contextlib
import signal
import threading
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from bertsmith.errors import BertsmithError
from bertsmith.serving.messages import Failed, Message, Ready, Stop
from bertsmith.system.compute import InferenceCompute
from bertsmith.system.own_modules import import_modules
from bertsmith.system.process_options import configure_process
from bertsmith.system.stop_signal import SIGNALS
from bertsmith.system.streams import shown_warnings
from bertsmith.tasks.sentence_folder import Pooling


@dataclass(frozen=True, kw_only=True)
class EngineSettings(InferenceCompute):
    """Models and limits of an engine, with the device and precision that it computes in."""

    models: Mapping[str, Path]
    """Model folders by the names under which they are served."""
    threads: int | None = None
    """Number of threads; None means one for each core that this process may use."""
    max_length: int | None = None
    """Maximum number of tokens that a model reads at once; None means the model's own."""
    pooling: Pooling | None = None
    """Pooling of vectors; all models then give only vectors. None to use each model's head, and the
    pooling of its folder."""
    max_batch_tokens: int | None = None
    """Number of tokens computed together; None for one forward pass for each thread."""
    max_text_tokens: int = 16_384
    """Maximum number of tokens of one text, over all the windows in which it is read."""


def run_engine(
    connection: Connection, settings: EngineSettings, modules: Sequence[str] = ()
) -> None:
    """Load the models, send `Ready`, and compute until a `Stop` or until the HTTP process dies.

    Args:
        modules: names of the user's modules, which are imported before the models are loaded.
    """
    for number in SIGNALS:  # the HTTP process decides, even if the whole group gets a signal
        signal.signal(number, signal.SIG_IGN)
    configure_process(has_one_heap=True)  # all threads share one heap, which takes less memory
    # A lost connection means that the HTTP process is gone, so there is nobody to report it to.
    ignoring_lost_connection = contextlib.suppress(BrokenPipeError, ConnectionResetError)
    with shown_warnings(program="bertsmith"), ignoring_lost_connection:
        import_modules(modules)
        _run(connection, settings)


def _run(connection: Connection, settings: EngineSettings) -> None:
    """Load the models, send `Ready` or `Failed`, and let the engine compute what arrives."""
    # torch, and the modules that import it, are imported only here: the process is configured now.
    if settings.threads is not None:
        import_module("torch").set_num_threads(settings.threads)
    served_model = import_module("bertsmith.serving.served_model")
    engine_module = import_module("bertsmith.serving.engine")
    try:
        models = {
            name: served_model.ServedModel.load(
                name,
                path,
                device=settings.device,
                precision=settings.precision,
                max_length=settings.max_length,
                pooling=settings.pooling,
            )
            for name, path in settings.models.items()
        }
    except BertsmithError as error:
        connection.send(Failed(error.message))
        return
    max_batch_tokens = settings.max_batch_tokens or served_model.tokens_of_all_threads()
    engine = engine_module.Engine(
        models,
        connection,
        max_batch_tokens=max_batch_tokens,
        max_text_tokens=settings.max_text_tokens,
    )
    engine.warm_up()
    inbox: SimpleQueue[Message] = SimpleQueue()
    threading.Thread(target=_receive, args=(connection, inbox), daemon=True).start()
    connection.send(Ready([model.info for model in models.values()], max_batch_tokens))
    engine.run(inbox)


def _receive(connection: Connection, inbox: "SimpleQueue[Any]") -> None:
    """Put each message that arrives into `inbox`.

    At the end of the connection a `Stop` is put there, and also if a message cannot be read: the
    HTTP process then starts the engine again.
    """
    try:
        while True:
            inbox.put(connection.recv())
    except (EOFError, OSError):
        pass  # the HTTP process is gone
    except Exception:
        traceback.print_exc()  # here, since the process may end as soon as it has the `Stop`
    finally:
        inbox.put(Stop())
