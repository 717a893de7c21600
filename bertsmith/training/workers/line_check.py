"""Ranks tell each other whether their command lines were accepted, before they join.

Ranks are the machines or GPUs that train together; a command is launched on each of them. They find
each other by a *store*: a table of keys and values that rank 0, or torchrun, serves in the network.
In the store each rank tells rank 0 whether its command line was accepted. Rank 0 waits for all
lines, or for the first that was refused, and answers whether the ranks can join. So a mistake in
the line of one rank ends all ranks.
"""

import atexit
import contextlib
import os
import socket
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from bertsmith.errors import ConfigError
from bertsmith.system.launch import Launch
from bertsmith.training.workers.rank_errors import print_on_rank

JOIN_SECONDS = 600.0
"""Longest time that ranks wait for all others when they start, as in torchrun."""
NOTICE_SECONDS = 30.0
"""Time after which a waiting rank says for what it waits."""
TRY_SECONDS = 5.0
"""Time limit of one attempt to connect to rank 0."""
STAY_SECONDS = 30.0
"""Longest time that rank 0 stays after a refusal, to answer ranks that start a little later."""
POLL_SECONDS = 0.1
ACCEPTED = "accepted"
"""State of a line, and answer of rank 0; any other text is the message of a refusal."""
ANSWER = "answer"
"""Key of rank 0's answer in the store. The key of a line's state is the number of its rank."""
NUM_ANSWERED = "answered"
"""Key of the number of ranks that have read the answer."""


def open_store(launch: Launch) -> Any:
    """Connect to the store of a launch, which rank 0 or torchrun serves.

    Raises:
        DistError or RuntimeError: nobody serves a store at the address of the launch.
    """
    os.environ |= {
        "RANK": str(launch.rank),
        "WORLD_SIZE": str(launch.num_ranks),
        "MASTER_ADDR": launch.address,
        "MASTER_PORT": str(launch.port),
    }
    # -1 ranks means an unknown number, so that rank 0 does not wait here until all ranks have
    # connected.
    url = "env://?world_size=-1"
    limit = timedelta(seconds=JOIN_SECONDS)
    with _telling_wait(launch):
        _await_server(launch)
        store, _, _ = next(iter(dist.rendezvous(url, timeout=limit)))  # type: ignore[attr-defined]
    # When torchrun restarts all ranks, its store still has the ports of the ended ones.
    return prefixed(f"attempt-{launch.num_restarts}", store)


def _await_server(launch: Launch) -> None:
    """Wait until a program listens at the address of a launch.

    torch would wait, too, but Python handles no signal meanwhile, so Ctrl-C would end nothing.
    Rank 0 does not wait, since it is the program that listens. Under torchrun no rank waits, since
    torchrun has begun to serve the store before.

    Raises:
        DistError: nobody listens there within `JOIN_SECONDS`, or it is no address.
    """
    has_torchruns_store = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    if launch.rank == 0 or has_torchruns_store:
        return
    deadline = time.monotonic() + JOIN_SECONDS
    while True:
        try:
            socket.create_connection((launch.address, launch.port), TRY_SECONDS).close()
            return
        except OSError as error:
            if time.monotonic() > deadline:
                raise dist.DistNetworkError(str(error)) from error
        except (OverflowError, ValueError) as error:
            raise dist.DistNetworkError(str(error)) from error
        time.sleep(POLL_SECONDS)


@contextlib.contextmanager
def _telling_wait(launch: Launch) -> Iterator[None]:
    """Say, if the block takes long, that nobody answers at the address of the launch."""
    message = (
        f"rank {launch.rank} does not reach rank 0 at {launch.address}:{launch.port}, and tries "
        f"again for {JOIN_SECONDS / 60:.0f} minutes. Is it running, and is that its address?"
    )
    timer = threading.Timer(NOTICE_SECONDS, print_on_rank, (message,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def prefixed(prefix: str, store: Any) -> Any:
    """Return a view of a store in which all keys have a prefix."""
    return dist.PrefixStore(prefix, store)  # type: ignore[attr-defined]


def check_lines(launch: Launch, store: Any) -> None:
    """Check that the lines of all ranks were accepted, as this rank's was.

    Raises:
        ConfigError: the line of a rank was refused; the message has the rank, and its own message.
        DistError or RuntimeError: a rank has not started, or rank 0 has ended.
    """
    store = prefixed("lines", store)
    if launch.rank == 0:
        answer = _first_refusal(launch, store)
        _answer(launch, store, answer)
    else:
        answer = _tell(launch, store, ACCEPTED)
    if answer != ACCEPTED:
        raise ConfigError(answer)


def tell_refusal(launch: Launch, message: str) -> None:
    """Tell the other ranks that this rank's line was refused, unless they have ended.

    Args:
        message: the reason, with options spelled as flags.
    """
    if not dist.is_available():
        return
    refusal = f"rank {launch.rank} on {socket.gethostname()}: {message}"
    # The words of a line that are not UTF-8 cannot be sent as they are.
    refusal = refusal.encode(errors="backslashreplace").decode()
    with contextlib.suppress(dist.DistError, RuntimeError, ValueError):  # the last for a wrong port
        store = prefixed("lines", open_store(launch))
        if launch.rank == 0:
            _answer(launch, store, refusal)
        else:
            _tell(launch, store, refusal)


def _tell(launch: Launch, store: Any, state: str) -> str:
    """Tell rank 0 the state of this rank's line; return its answer."""
    store.set(str(launch.rank), state)
    deadline = time.monotonic() + JOIN_SECONDS
    while True:  # not one long wait, since Python handles no signal within it
        try:
            store.wait([ANSWER], timedelta(seconds=1))
            break
        except dist.DistStoreError:
            if time.monotonic() > deadline:
                raise
    answer: str = store.get(ANSWER).decode()
    store.add(NUM_ANSWERED, 1)
    return answer


def _first_refusal(launch: Launch, store: Any) -> str:
    """Wait until a line was refused, and return its message; `ACCEPTED` if all were accepted."""
    missing = set(range(1, launch.num_ranks))
    began = time.monotonic()
    is_told = False
    while missing:
        for rank in sorted(missing):
            if store.check([str(rank)]):
                missing.remove(rank)
                if (state := store.get(str(rank)).decode()) != ACCEPTED:
                    return state
        seconds = time.monotonic() - began
        if missing and seconds > NOTICE_SECONDS and not is_told:
            is_told = True
            more = f" and {len(missing) - 1:,} more" if len(missing) > 1 else ""
            print_on_rank(
                f"waiting for rank {min(missing)}{more} of {launch.num_ranks:,} to start, for up "
                f"to {JOIN_SECONDS / 60:.0f} minutes"
            )
        if missing and seconds > JOIN_SECONDS:
            raise dist.DistStoreError(f"rank {min(missing)} has not started")
        time.sleep(POLL_SECONDS if missing else 0)
    return ACCEPTED


def _answer(launch: Launch, store: Any, answer: str) -> None:
    """Answer all ranks. After a refusal, this process stays until they have read the answer.

    It stays for at most `STAY_SECONDS`.
    """
    store.set(ANSWER, answer)
    if answer != ACCEPTED:
        # This process waits when it exits, after it has printed the error.
        atexit.register(_wait_for_others, store, launch.num_ranks - 1)


def _wait_for_others(store: Any, num_others: int) -> None:
    deadline = time.monotonic() + STAY_SECONDS
    with contextlib.suppress(dist.DistError, RuntimeError, KeyboardInterrupt):
        while store.add(NUM_ANSWERED, 0) < num_others and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
