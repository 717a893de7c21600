"""Arrays that are streamed as a list in JSON."""

import asyncio
import json

import numpy as np
import pytest

from bertsmith.serving.call import stream_arrays


@pytest.mark.parametrize("num_arrays", [0, 1, 3])
def test_streamed_arrays_are_one_list(num_arrays):
    arrays = [np.full((2, 3), index, dtype=np.float32) for index in range(num_arrays)]

    async def read():
        return b"".join([part async for part in stream_arrays(arrays).body_iterator])

    assert json.loads(asyncio.run(read())) == [array.tolist() for array in arrays]
