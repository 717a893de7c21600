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
# What pip itself brings, and the project.
LEFT_OUT = {"pip", "setuptools", "wheel", "bertsmith"}


def freeze(python: Path) -> list[str]:
    """List installed packages as `name==version`, sorted."""
    listed = subprocess.run(
        [python, "-m", "pip", "list", "--format=freeze"], check=True, capture_output=True, text=True
    ).stdout.split()
    pins = [line.partition("+")[0] for line in listed if line.partition("==")[0] not in LEFT_OUT]
    return sorted(pins, key=str.lower)


def main() -> None:
    """Resolve in a fresh environment: what the demo needs, what tests add, what the peers add."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin" / "python"

        def install(*what: str) -> None:
            subprocess.run([python, "-m", "pip", "install", "--quiet", *what], check=True, cwd=ROOT)

        install(TORCH)
        install(".[demo]")
        runtime = freeze(python)
        (ROOT / "requirements.lock").write_text("\n".join(runtime) + "\n", encoding="utf-8")
        known, before = runtime, "requirements.lock"
        for extra in ("test", "bench"):
            install(f".[{extra}]")
            found = freeze(python)
            added = [pin for pin in found if pin not in known]
            text = "\n".join([f"-r {before}", *added, ""])
            known, before = found, f"requirements-{extra}.lock"
            (ROOT / before).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
