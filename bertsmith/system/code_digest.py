"""Digest of this package's code, by which the ranks of a run find that their copies differ.

Ranks are the processes of one run, often on several machines.
"""

import functools
import hashlib
from pathlib import Path

CODE_FOLDER = Path(__file__).parents[1]


@functools.cache
def digest_code() -> str:
    """Compute twelve digits of the SHA-256 of all modules of the package, as they are on disk.

    Ranks compare the digest instead of the version: while code is being changed, two copies of the
    package may have one version and differ.
    """
    digest = hashlib.sha256()
    for path in sorted(CODE_FOLDER.rglob("*.py")):
        digest.update(path.relative_to(CODE_FOLDER).as_posix().encode() + b"\0")
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:12]
