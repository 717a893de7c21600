"""The script or notebook that runs, as new processes see it."""

import re
import sys
from pathlib import Path

MAIN_GUARD = re.compile(r"""__name__\s*==\s*['"]__main__""")


def is_script_guarded() -> bool:
    """Return whether new processes may import the script that runs, without starting it again.

    Python imports a script in each new process, so one without `if __name__ == "__main__"` would
    start again there. A notebook and a script from standard input have no file to import: False.
    """
    path = Path(getattr(sys.modules["__main__"], "__file__", None) or "")
    return path.is_file() and bool(MAIN_GUARD.search(path.read_text("utf-8", errors="replace")))
