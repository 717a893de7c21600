"""Work on texts that needs no model, such as tokenizing them, in a thread beside the event loop.

There is one thread, which takes one request after another. So this work takes at most one core from
the model, and the event loop goes on answering.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")
_THREAD = ThreadPoolExecutor(1, "bertsmith-texts")


async def run_beside_loop(function: Callable[..., Result], *args: object) -> Result:
    """Call a function in the thread for texts, and wait for its result."""
    return await asyncio.get_running_loop().run_in_executor(_THREAD, function, *args)
