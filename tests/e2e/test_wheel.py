"""The wheel by itself: it has what a user needs, and a release from it, far from the repository, verifies."""

from __future__ import annotations

import os
import site
import subprocess
import sys
import venv
import zipfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp

import pytest

from tests.repo.documents import ROOT

pytestmark = pytest.mark.skipif(find_spec("hatchling") is None, reason="hatchling is not installed: make setup")
_MOST_BYTES = 4 << 20


@cache
def wheel(folder: str = "dist") -> Path:
    """The wheel, made from the repository without any network."""
    target = Path(mkdtemp(prefix="dprelease-wheel-")) / folder
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"},
    )
    (found,) = target.glob("*.whl")
    return found


def test_it_has_every_module_the_templates_the_starter_and_nothing_else() -> None:
    with zipfile.ZipFile(wheel()) as file:
        names = set(file.namelist())
    inside = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "dprelease").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    missing = {name for name in inside - names if not name.endswith((".pyc", ".csv"))}
    assert missing == set()
    assert "dprelease/py.typed" in names
    assert not [name for name in names if name.startswith(("tests/", "bench/", "specs/", "docs/"))]
    assert wheel().stat().st_size < _MOST_BYTES


@pytest.mark.slow
def test_two_wheels_of_one_source_are_the_same_bytes() -> None:
    assert wheel().read_bytes() == wheel("again").read_bytes()


@pytest.mark.slow
def test_installed_in_an_environment_of_its_own_it_starts_releases_and_verifies(tmp_path: Path) -> None:
    """The packages that it needs are lent by a path file; dprelease itself comes from the wheel alone."""
    made = tmp_path / "environment"
    venv.EnvBuilder(with_pip=False, symlinks=True).create(made)
    python = made / "bin" / "python"
    (packages,) = made.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel()) as file:
        file.extractall(packages)
    lent = [each for each in (*site.getsitepackages(), *sys.path) if "site-packages" in each]
    (packages / "lent.pth").write_text("\n".join(dict.fromkeys(lent)) + "\n")
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "LANG": "C.UTF-8"}

    def run(*words: str, folder: Path = tmp_path) -> str:
        done = subprocess.run(
            [str(python), "-m", "dprelease", *words],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    where = subprocess.run(
        [str(python), "-c", "import dprelease; print(dprelease.__file__)"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert where.startswith(str(packages))
    run("init", "project")
    project = tmp_path / "project"
    run("run", "quickstart.yaml", "--direct", folder=project)
    assert "FAIL" not in run("verify", "quickstart/2024", folder=project)
    run("schema", folder=project)
