"""A YAML document as a tree that remembers where everything stands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dprelease.errors import Where
from dprelease.spec.text.numbers import Constant, Numeral

__all__ = ["MappingEntry", "Path", "Places", "Scalar", "YamlNode", "plain", "scalars"]

Path = tuple[str | int, ...]
Scalar = str | Numeral | Constant


@dataclass(frozen=True, eq=False)
class YamlNode:
    """A scalar, a list or a mapping; line and column count from 1."""

    line: int
    column: int
    value: Scalar | Sequence[YamlNode] | Mapping[str, MappingEntry]


@dataclass(frozen=True, eq=False)
class MappingEntry:
    """One ``key: value`` of a mapping, with the place of its key."""

    line: int
    column: int
    node: YamlNode


def plain(node: YamlNode) -> Any:
    """The tree as dicts, tuples and scalars. At most 32 levels deep, as the reader sees to."""
    if isinstance(node.value, Mapping):
        return {key: plain(entry.node) for key, entry in node.value.items()}
    if isinstance(node.value, str | Numeral | Constant):
        return node.value
    return tuple(plain(item) for item in node.value)


def scalars(node: YamlNode, path: Path = ()) -> Iterator[tuple[Path, str, YamlNode | MappingEntry]]:
    """Every scalar's own text with its path and place; a key comes with the path of its value."""
    if isinstance(node.value, Mapping):
        for key, entry in node.value.items():
            yield (*path, key), key, entry
            yield from scalars(entry.node, (*path, key))
    elif isinstance(node.value, str):
        yield path, node.value, node
    elif isinstance(node.value, Numeral | Constant):
        yield path, node.value.text, node
    else:
        for at, item in enumerate(node.value):
            yield from scalars(item, (*path, at))


@dataclass(frozen=True)
class Places:
    """Where the parts of one file are."""

    file: str
    root: YamlNode = field(compare=False, repr=False)

    def value(self, *path: str | int) -> Where:
        """The place of a scalar, or of the key of a list or mapping; the nearest one above where there is none."""
        return self._find(path, keys=False)

    def key(self, *path: str | int) -> Where:
        """The place of a key; the nearest one above where there is none."""
        return self._find(path, keys=True)

    def has(self, *path: str) -> bool:
        """Whether something is written at a path of names."""
        node = self.root
        for step in path:
            entry = node.value.get(step) if isinstance(node.value, Mapping) else None
            if entry is None:
                return False
            node = entry.node
        return True

    def _find(self, path: Path, *, keys: bool) -> Where:
        node, line, column = self.root, self.root.line, self.root.column
        for depth, step in enumerate(path, start=1):
            value = node.value
            if isinstance(value, Mapping):
                entry = value.get(str(step))
                if entry is None:
                    break
                node, line, column = entry.node, entry.line, entry.column
                if isinstance(node.value, str | Numeral | Constant) and not (keys and depth == len(path)):
                    line, column = node.line, node.column
            elif isinstance(value, Sequence) and not isinstance(value, str) and isinstance(step, int):
                if not 0 <= step < len(value):
                    break
                node = value[step]
                line, column = node.line, node.column
            else:
                break
        return Where(self.file, line, column)
