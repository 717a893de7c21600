"""The worker thread of the HTTP process: it tokenizes while the event loop goes on answering.

There is only one such thread, which takes one request after another. So it takes at most one core
from the model.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")
_THREAD = ThreadPoolExecutor(1, "bertsmith-texts")


async def run_in_worker_thread(function: Callable[..., Result], *args: object) -> Result:
    """Call a function in the worker thread, and wait for its result."""
    return await asyncio.get_running_loop().run_in_executor(_THREAD, function, *args)
