"""Problems of names and limits as they are found, without those that only follow from a problem already told.

What is left of a file without its wrong parts (:func:`remainder`) is checked in the same go.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from dprelease.errors import Problem
from dprelease.spec.text.names import shown
from dprelease.spec.text.nodes import Path, Places
from dprelease.spec.text.translate import dotted, path_of

__all__ = ["Findings", "Hidden", "remainder"]


@dataclass
class Findings:
    """Collects problems of one file."""

    places: Places
    hidden: Hidden
    problems: list[Problem] = field(default_factory=list)

    def add(self, code: str, at: Path, says: str, hint: str, *about: Path, key: bool = False) -> None:
        """One problem, unless something that it depends on was wrong in itself.

        Args:
            code: Its stable code.
            at: The path of what is wrong.
            says: Completes "`at` ...".
            hint: What to write.
            about: Other paths that it depends on.
            key: Whether the name itself is wrong, not what it holds.
        """
        if any(self.hidden.touches(path) for path in (at, *about)):
            return
        where = self.places.key(*at) if key else self.places.value(*at)
        self.problems.append(Problem(code, f"`{dotted(at)}` {says}", hint, where))

    def same_file_name(self, level: str, names: list[str]) -> None:
        """Refuse names that differ in capitals alone: they become names of files."""
        seen: dict[str, str] = {}
        for name in names:
            other = seen.setdefault(name.lower(), name)
            if other != name:
                says = f"differs from {shown(other)!r} in capitals alone, and both would be one file"
                self.add("DPR-S524", (level, name), says, "rename one of them", key=True)


Model = TypeVar("Model", bound=BaseModel)


_GONE = object()


_ROUNDS = 12  # a wrong part takes at most its parents with it, and no path is longer


class Hidden:
    """Paths that were left out; what depends on one of them cannot be judged."""

    def __init__(self, paths: Collection[Path] = ()) -> None:
        self._paths = set(paths)
        self._above = {path[:depth] for path in paths for depth in range(len(path) + 1)}

    def touches(self, path: Path) -> bool:
        """Whether the path, something above it or something below it was left out."""
        return path in self._above or any(path[:depth] in self._paths for depth in range(len(path)))


def remainder(model: type[Model], data: Any, stand_ins: Mapping[str, Any]) -> tuple[Model | None, Hidden]:
    """The file without what is wrong, and what was left out; None where too little is left.

    Args:
        model: The model of the whole file.
        data: As written.
        stand_ins: What takes the place of a required part of the top that is wrong or missing.
    """
    hidden: set[Path] = set()
    for _ in range(_ROUNDS):
        try:
            return model.model_validate(data), Hidden(hidden)
        except ValidationError as error:
            wrong = [path_of(each["loc"]) for each in error.errors(include_url=False, include_input=False)]
        missing = {path[0] for path in wrong if path and path[0] not in data}
        if () in wrong or not missing <= set(stand_ins):
            return None, Hidden(hidden)
        hidden |= {(name,) for name in missing}
        data = {**data, **{name: stand_ins[name] for name in missing if isinstance(name, str)}}
        data = _without(data, [path for path in wrong if path[0] not in missing], (), hidden.add)
    return None, Hidden(hidden)


def _without(value: Any, paths: Iterable[Path], here: Path, leave_out: Callable[[Path], None]) -> Any:
    """A copy without these paths; what lacks the next step of a path goes as a whole."""
    below: defaultdict[Any, list[Path]] = defaultdict(list)
    for path in paths:
        if not path:
            leave_out(here)
            return _GONE
        below[path[0]].append(path[1:])
    known = value if isinstance(value, dict) else dict(enumerate(value)) if isinstance(value, tuple) else {}
    if not set(below) <= set(known) and here:
        leave_out(here)
        return _GONE
    kept = {}
    for name, item in known.items():
        left = _without(item, below[name], (*here, name), leave_out) if name in below else item
        if left is not _GONE:
            kept[name] = left
    return kept if isinstance(value, dict) else tuple(kept.values())
