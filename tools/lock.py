"""Write requirements.lock and requirements-test.lock: exact versions, no index address.

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
    """Installed packages as `name==version`, sorted."""
    listed = subprocess.run(
        [python, "-m", "pip", "list", "--format=freeze"], check=True, capture_output=True, text=True
    ).stdout.split()
    pins = [line.partition("+")[0] for line in listed if line.partition("==")[0] not in LEFT_OUT]
    return sorted(pins, key=str.lower)


def main() -> None:
    """Resolve in a fresh environment: first what runs the demo, then what the tests add."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin" / "python"

        def install(*what: str) -> None:
            subprocess.run([python, "-m", "pip", "install", "--quiet", *what], check=True, cwd=ROOT)

        install(TORCH)
        install(".[demo]")
        runtime = freeze(python)
        (ROOT / "requirements.lock").write_text("\n".join(runtime) + "\n", encoding="utf-8")
        install(".[test]")
        added = [pin for pin in freeze(python) if pin not in runtime]
        text = "-r requirements.lock\n" + "\n".join(added) + "\n"
        (ROOT / "requirements-test.lock").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
