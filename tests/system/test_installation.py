"""An installation from a checkout is one that editors and type checkers can see."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_an_editable_install_is_a_path_that_type_checkers_read(tmp_path):
    pytest.importorskip("setuptools", reason="pip brings it where it builds")
    project, wheels = tmp_path / "project", tmp_path / "wheels"
    package = project / "bertsmith"
    package.mkdir(parents=True)
    wheels.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        (project / name).write_text((ROOT / name).read_text(encoding="utf-8"), encoding="utf-8")
    (package / "__init__.py").write_text("")
    (package / "py.typed").write_text("")
    build = f"from setuptools.build_meta import build_editable; build_editable({str(wheels)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=project, check=True, capture_output=True)
    with zipfile.ZipFile(next(wheels.glob("*.whl"))) as wheel:
        code = [name for name in wheel.namelist() if name.endswith((".py", ".pth"))]
        assert len(code) == 1  # no import hook beside it
        [line] = wheel.read(code[0]).decode().split()
    assert (Path(line) / "bertsmith" / "py.typed").is_file()
