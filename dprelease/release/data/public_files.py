"""What is read as public is never the confidential file: under no name, link or copy.

A reference is published in clear: its keys stand in every table, and its SHA-256 in the plan. So it is held against
every source that a spec of the project names, of any period, by the file that its path leads to, before a byte of it is
read. A plan reads no data, so that it cannot tell a copy; ``public_content`` does, before anything is charged.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from glob import glob
from pathlib import Path

import yaml

from dprelease.catalog.reference import RefusedFile
from dprelease.errors import SpecError
from dprelease.regular import NotRegular, TooLarge, read_regular
from dprelease.spec.text.nodes import YamlNode, scalars
from dprelease.spec.text.yaml import LARGEST, read_yaml

__all__ = [
    "LARGEST_REFERENCE",
    "NOT_PUBLIC",
    "Confidential",
    "Identity",
    "confidential_files",
    "files_of",
    "identity_of",
    "read_reference_file",
    "source_pattern",
    "spec_files",
]

LARGEST_REFERENCE = 128 << 20  # bytes: a million keys, and what else a line says of each
_SETTINGS = "dprelease.yaml"
_MARK = "\ufeff".encode()
_FAST = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TEMPLATE = re.compile(r"\{\{.*?\}\}")
_NAMING = ("file", "delta", "database")
_VARIABLE = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
NOT_PUBLIC = (
    "what is read as public is published in clear, and its SHA-256 with it: name a public file that was made without "
    "the data, outside of what any `source.file` matches"
)

Identity = tuple[int, int]  # device and inode: one file, whatever leads to it


@dataclass(frozen=True)
class Confidential:
    """A file that a spec names as confidential.

    Attributes:
        path: One of its names.
        source: As the spec has it.
        spec: The spec's file, from the folder of the project.
    """

    path: Path
    source: str
    spec: str


def spec_files(folder: Path, apart: Sequence[Path]) -> Iterator[Path]:
    """Every YAML file of a project, in order; some of them are specs.

    Folders of other projects and of published releases, hidden ones, and those named are not looked into.

    Args:
        folder: The project's folder.
        apart: Folders in it that hold none: of the releases, of Prefect.
    """
    for at, folders, files in os.walk(folder):
        here = Path(at)
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".")
            and here / name not in apart
            and not (here / name / _SETTINGS).is_file()
            and not (here / name / "manifest.json").is_file()  # a bundle
        )
        yield from sorted(here / name for name in files if name.endswith((".yaml", ".yml")))


def confidential_files(
    folder: Path, apart: Sequence[Path], environment: Mapping[str, str]
) -> dict[Identity, Confidential]:
    """The files that are there and that a spec of the project names as a source, of any period.

    A spec that is wrong is read as far as it goes: it stops nobody. A source with a variable that is not set names
    nothing that could be found.

    Args:
        folder: The project's folder.
        apart: See :func:`spec_files`.
        environment: What ``${env:NAME}`` may name.
    """
    files: dict[Identity, Confidential] = {}
    for path in spec_files(folder, apart):
        shown = path.relative_to(folder).as_posix()
        for source in _sources_of(path):
            pattern = source_pattern(source, environment)
            for name in () if pattern is None else files_of(pattern, folder):
                identity = identity_of(name)
                if identity is not None:
                    files.setdefault(identity, Confidential(name, source, shown))
    return files


def _sources_of(path: Path) -> tuple[str, ...]:
    """Every ``source.file`` and ``source.database`` of a spec, as written, and all that a ``source.delta`` holds.

    Nothing of what is no spec.
    """
    try:
        data = read_regular(path, LARGEST)
    except OSError:
        return ()
    return _sources_in(data) if b"source" in data else ()


@lru_cache(100)
def _sources_in(data: bytes) -> tuple[str, ...]:
    root = _tree(data)
    if root is None:
        return ()
    return tuple(
        f"{text}/**/*" if at[3] == "delta" else text
        for at, text, node in scalars(root)
        if isinstance(node, YamlNode)
        and len(at) == 4
        and (at[0], *at[2:3]) == ("tables", "source")
        and at[3] in _NAMING
    )


def _tree(data: bytes) -> YamlNode | None:
    """What a file holds; None where it is no YAML, or none that a spec may have.

    By libyaml where it is there, twenty times as fast as the parser that has the last word on a spec: a folder may
    hold many, and all of them are looked at for each release. Where it reads nothing, that parser has the word; and
    where a byte order mark stands inside, which is a space to one of them and a letter to the other.
    """
    slow = (yaml.SafeLoader,)
    for loader in slow if _MARK in data[1:] else (_FAST, *slow):
        with suppress(SpecError, IndexError):  # libyaml counts bytes where a message is made of letters
            return read_yaml(data, "", loader=loader)[0].root
    return None


def source_pattern(source: str, environment: Mapping[str, str]) -> str | None:
    """What a source matches, of any period; None where a variable is not set."""
    if "\0" in source or any(name not in environment for name in _VARIABLE.findall(source)):
        return None
    whole = _TEMPLATE.sub("*", _VARIABLE.sub(lambda found: environment[found[1]], source))
    return re.sub("^(sqlite|duckdb):///", "", whole)  # a database that is a file; that of a server matches none


def files_of(pattern: str, folder: Path) -> list[Path]:
    """The files that a pattern leads to, as the engine looks for them; a name is also taken as it is."""
    named = [folder / pattern] if (folder / pattern).is_file() else []
    return [*named, *(folder / name for name in sorted(glob(pattern, root_dir=folder, recursive=True)))]


def identity_of(path: Path) -> Identity | None:
    """Which file a path leads to; None: to none."""
    try:
        facts = path.stat()
    except (OSError, ValueError):
        return None
    return None if stat.S_ISDIR(facts.st_mode) else (facts.st_dev, facts.st_ino)


def read_reference_file(path: Path, confidential: Mapping[Identity, Confidential]) -> bytes | RefusedFile | None:
    """The bytes of a reference; why it is refused; None where there is no file that can be read.

    Args:
        path: The file's path.
        confidential: The files that it may not be; such a file is not opened.
    """
    identity = identity_of(path)
    if identity is not None and identity in confidential:
        known = confidential[identity]
        says = f"is a confidential file: {known.spec} reads it as a source, {known.source!r}"
        return RefusedFile("DPR-S690", says, NOT_PUBLIC)
    try:
        return read_regular(path, LARGEST_REFERENCE)
    except (NotRegular, IsADirectoryError):
        return RefusedFile("DPR-S691", "is no file that could be read to its end", "name a regular file, as CSV")
    except TooLarge:
        says = f"has more than {LARGEST_REFERENCE >> 20} MiB, too much for a reference"
        return RefusedFile("DPR-S692", says, "keep the columns and lines that the spec uses, or take coarser keys")
    except (OSError, ValueError):
        return None
