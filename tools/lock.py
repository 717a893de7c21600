"""Write requirements.lock, -test.lock and -bench.lock: exact versions, no index address.

torch is installed first and exactly, so that no other package's range can pull another build
of it. Local build tags such as `+cpu` are dropped: they exist on some indexes only.
"""

import subprocess
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TORCH = "torch==2.13.0"
NOT_LOCKED = {"pip", "setuptools", "wheel", "bertsmith"}
"""Packages of a new environment, and the project itself."""


def freeze(python: Path) -> list[str]:
    """List installed packages as `name==version`, sorted."""
    listed = subprocess.run(
        [python, "-m", "pip", "list", "--format=freeze"], check=True, capture_output=True, text=True
    ).stdout.split()
    pins = [line.partition("+")[0] for line in listed if line.partition("==")[0] not in NOT_LOCKED]
    return sorted(pins, key=str.lower)


def main() -> None:
    """Lock the packages of the demo, then those that tests add, and those that comparisons add."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin" / "python"

        def install(requirement: str) -> None:
            command = [python, "-m", "pip", "install", "--quiet", requirement]
            subprocess.run(command, check=True, cwd=ROOT)

        install(TORCH)
        install(".[demo]")
        runtime = freeze(python)
        (ROOT / "requirements.lock").write_text("\n".join(runtime) + "\n", encoding="utf-8")
        locked = runtime
        base = "requirements.lock"
        for extra in ("test", "bench"):
            install(f".[{extra}]")
            installed = freeze(python)
            added = [pin for pin in installed if pin not in locked]
            text = "\n".join([f"-r {base}", *added, ""])
            locked = installed
            base = f"requirements-{extra}.lock"
            (ROOT / base).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
