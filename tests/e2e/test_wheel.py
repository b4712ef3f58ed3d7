"""The wheel by itself: it has what a user needs, and a release from it, far from the repository, verifies."""

from __future__ import annotations

import json
import os
import re
import shlex
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
def test_the_bill_of_materials_has_every_pinned_package_with_its_hashes(tmp_path: Path) -> None:
    """By the line of `make dist`, for which a package is what pip would be told to install."""
    (line,) = (each for each in (ROOT / "Makefile").read_text(encoding="utf-8").splitlines() if "cyclonedx-py" in each)
    made = [tmp_path / "once.json", tmp_path / "again.json"]
    for path in made:
        words = shlex.split(
            line.replace("$(BIN)", str(Path(sys.executable).parent)).replace("dist/sbom.cdx.json", str(path))
        )
        subprocess.run(
            words, cwd=ROOT, check=True, capture_output=True, env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
        )
    assert made[0].read_bytes() == made[1].read_bytes()
    said = json.loads(made[0].read_bytes())
    assert (said["bomFormat"], said["metadata"]["component"]["name"]) == ("CycloneDX", "dprelease")
    hashes = {
        (each["name"], each["version"]): {
            found["content"] for link in each["externalReferences"] for found in link["hashes"]
        }
        for each in said["components"]
    }
    pins = re.split(r"\n(?=\S)", (ROOT / "constraints.txt").read_text(encoding="utf-8").strip())
    pinned = {
        (name, version): set(re.findall(r"sha256:(\w+)", pin))
        for pin in pins
        for name, version in re.findall(r"^([^=]+)==([^ ;]+)", pin)
    }
    assert hashes == pinned


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
