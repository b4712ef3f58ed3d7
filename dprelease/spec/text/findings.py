"""Problems of names and limits as they are found, without those that only follow from a problem already told."""

from __future__ import annotations

from dataclasses import dataclass, field

from dprelease.errors import Problem
from dprelease.spec.text.names import shown
from dprelease.spec.text.nodes import Path, Places
from dprelease.spec.text.prune import Hidden
from dprelease.spec.text.translate import dotted

__all__ = ["Findings"]


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
