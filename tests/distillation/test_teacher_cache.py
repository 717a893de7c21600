"""Files of a teacher's outputs: which of them are open, and how often they are read."""

import pickle
import zlib

import numpy as np

from bertsmith.distillation import teacher_cache
from bertsmith.distillation.teacher_cache import StoredRows


def test_a_file_that_is_opened_again_is_not_checked_again(tmp_path, monkeypatch):
    monkeypatch.setattr(teacher_cache, "PART_ROWS", 2)
    monkeypatch.setattr(teacher_cache, "MAX_OPEN", 1)
    rows = StoredRows(tmp_path, "outputs", np.ones(5, dtype=np.int64))
    for part in range(rows.num_parts):
        rows.write(part, [np.full((1, 3), row, np.float32) for row in rows.rows_of(part)])
    checked = []
    crc32 = zlib.crc32
    monkeypatch.setattr(zlib, "crc32", lambda content: checked.append(1) or crc32(content))
    for store, expected in ((rows, 3), (pickle.loads(pickle.dumps(rows)), 6)):
        for _ in range(2):
            assert store.take([4, 0, 3]).tolist() == [[4.0] * 3, [0.0] * 3, [3.0] * 3]
        assert len(checked) == expected
