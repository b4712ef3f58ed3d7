"""How do I begin? A project folder that plans and runs as it is, with made-up data.

Floor 6: writes files, knows nothing of ledgers or engines. ``FILES`` is everything that it writes, beside the
made-up population.

>>> sorted(FILES)[:3]
['.gitignore', 'README.md', 'dprelease.yaml']
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from dprelease.errors import Problem, SpecError, Where
from dprelease.regular import is_utf8
from dprelease.spec.text.names import shown

__all__ = ["FILES", "create_project"]

# Path in the new project to the template; none ends in .py or begins with a dot, so that no tool takes it for its own.
FILES: dict[str, str] = {
    "dprelease.yaml": "dprelease.yaml",
    "policy.yaml": "policy.yaml",
    "quickstart.yaml": "quickstart.yaml",
    "reference/districts.csv": "reference/districts.csv",
    "pipeline.py": "pipeline.py.txt",
    ".gitignore": "gitignore.txt",
    "README.md": "README.md",
}
_POPULATION = "data/people.csv"


def create_project(folder: Path) -> list[Path]:
    """Write a project to start from: settings, policy, spec, reference table, pipeline and made-up people.

    Args:
        folder: New, or empty; its parents are made.

    Returns:
        The files written, in the order in which a newcomer should read them, the data last.

    Raises:
        SpecError: If the folder is not empty, is a file, or cannot be written. Nothing is overwritten.
    """
    _must_be_empty(folder)
    templates = files("dprelease.starter") / "project"
    written = []
    try:
        for name, template in FILES.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(templates.joinpath(*template.split("/")).read_bytes())
            written.append(path)
    except OSError as error:
        raise _refusal("DPR-S902", f"cannot write in {folder}: {error.strerror}", folder) from error
    from dprelease.starter.population import write_population  # here, so that it can be run as a module of its own

    write_population(folder / _POPULATION)
    return [*written, folder / _POPULATION]


def _must_be_empty(folder: Path) -> None:
    if not is_utf8(folder):
        raise _refusal("DPR-S922", f"the name {shown(str(folder), 200)} is no UTF-8 text", folder)
    try:
        empty = not folder.exists() or not any(folder.iterdir())
    except NotADirectoryError as error:
        raise _refusal("DPR-S901", f"{folder} is a file, not a folder", folder) from error
    except OSError as error:
        raise _refusal("DPR-S902", f"cannot read {folder}: {error.strerror}", folder) from error
    if not empty:
        raise _refusal("DPR-S901", f"{folder} is not empty", folder)


def _refusal(code: str, summary: str, folder: Path) -> SpecError:
    hint = "name a new folder, such as `dprelease init my-release`; nothing is ever overwritten"
    return SpecError([Problem(code, summary, hint, Where(shown(str(folder), 500)))])
