"""Vectors come back from the file as they went in, and no file is ever half there."""

import numpy as np
import pytest

from bertsmith.data.examples import Example
from bertsmith.data.vectors import vector_writer
from bertsmith.errors import ConfigError, InputError

VECTORS = np.random.default_rng(0).standard_normal((13, 7)).astype(np.float32)
EXAMPLES = [
    Example(f"text {row}\u2028é", "a pair" if row % 2 else None, row=row) for row in range(13)
]


def write(path, *stops):
    """Write the vectors in pieces that end at `stops`."""
    with vector_writer(path, VECTORS.shape[1]) as writer:
        for start, stop in zip((0, *stops), (*stops, 13), strict=True):
            writer.write(EXAMPLES[start:stop], VECTORS[start:stop])


@pytest.mark.parametrize("stops", [(), (5,), (1, 2, 12)])
def test_npy_is_one_array_whatever_the_pieces(tmp_path, stops):
    write(tmp_path / "v.npy", *stops)
    found = np.load(tmp_path / "v.npy", allow_pickle=False)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, VECTORS)
    np.testing.assert_array_equal(np.load(tmp_path / "v.npy", mmap_mode="r"), VECTORS)


@pytest.mark.parametrize("name", ["v.npy", "v.jsonl"])
def test_an_error_on_the_way_leaves_what_was_there(tmp_path, name):
    (tmp_path / name).write_text("earlier")
    with pytest.raises(InputError, match="bad row"), vector_writer(tmp_path / name, 7) as writer:
        writer.write(EXAMPLES, VECTORS)
        raise InputError("bad row")
    assert (tmp_path / name).read_text() == "earlier"
    assert [path.name for path in tmp_path.iterdir()] == [name]
    with pytest.raises(ConfigError, match=r"'v\.txt'.*\.npy.*\.jsonl"):
        vector_writer(tmp_path / "v.txt", 7).__enter__()
