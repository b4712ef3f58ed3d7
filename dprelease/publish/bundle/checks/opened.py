"""A bundle as a stranger finds it: its manifest, the files that are what the manifest says, and its plan."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from dprelease.canonical import Value, sha256
from dprelease.errors import CheckFailed, DpReleaseError, PublishError
from dprelease.noise import Measurement
from dprelease.plan.document import ReleasePlan
from dprelease.plan.explain.presentation import Presentation, presented
from dprelease.publish.base import Facts, safe_path
from dprelease.publish.bundle.measurements import measurements_in
from dprelease.publish.bundle.package import LOOK_FILE
from dprelease.publish.comparing.earlier import EarlierRelease, earlier_in
from dprelease.publish.manifest import MANIFEST_FILE, SIGNATURE_FILE, SUMS_FILE, SUMS_SIGNATURE_FILE, Manifest
from dprelease.publish.measured import inputs_of
from dprelease.publish.packed import Data, Files, Packed
from dprelease.regular import LARGEST_MANIFEST, LARGEST_PLAN, TooLarge, read_regular, regular_blocks

__all__ = ["Check", "OpenedBundle", "largest", "read_bundle", "say_which"]

Model = TypeVar("Model", bound=Value)
_SMALL = 32_000_000  # bytes of a file that is kept
_LARGEST = 4 << 30  # of one that is read as a whole: Parquet of a hundred million rows is a quarter of it
_LARGEST_STREAMED = 64 << 30  # of a CSV file, of which some rows are read after the others
_PARSED = frozenset(("accounting.json", "facts.json", "plan.json", LOOK_FILE))


@dataclass(frozen=True)
class Check:
    """One thing that was checked, or could not be.

    Attributes:
        name: Stable words for it.
        passed: Whether it holds; None: it was not looked at, which is neither.
        detail: What differs and where; why it was not looked at; or what holds, where that is worth a word. Lines after
            the first one are a list.
    """

    name: str
    passed: bool | None
    detail: str = ""


@dataclass(frozen=True)
class OpenedBundle:
    """What there is to check.

    Attributes:
        folder: The bundle.
        manifest: Its manifest.
        sound: The files whose size and hash are the manifest's.
        signature: The bytes of the signature file; None: there is none.
        sums: Those of ``SHA256SUMS``, likewise.
        sums_signature: Those of its own signature, likewise.
    """

    folder: Path
    manifest: Manifest
    sound: Files
    signature: bytes | None
    sums: bytes | None = None
    sums_signature: bytes | None = None

    @cached_property
    def plan(self) -> ReleasePlan | None:
        """The plan, where the file is sound and in its canonical form."""
        return _value(ReleasePlan, self.sound.get("plan.json"))

    @cached_property
    def look(self) -> Presentation | None:
        """How the release is shown, where that is not how the plan says; None too where the file is not sound."""
        return _value(Presentation, self.sound.get(LOOK_FILE))

    @cached_property
    def shown(self) -> ReleasePlan | None:
        """The plan as it is shown; None where that cannot be told."""
        if self.plan is None or LOOK_FILE not in self.manifest.files:
            return self.plan
        return None if self.look is None else presented(self.plan, self.look)

    @cached_property
    def facts(self) -> Facts | None:
        """The facts of the ledger, likewise."""
        return _value(Facts, self.sound.get("facts.json"))

    @cached_property
    def earlier(self) -> Mapping[str, EarlierRelease]:
        """What it has taken of earlier releases, by period.

        Raises:
            ValueError: A file of it is missing, changed, or not what it says.
        """
        return earlier_in(self.sound, list(self.manifest.files))

    @cached_property
    def measured(self) -> tuple[Mapping[str, Measurement] | None, str]:
        """The measurements, held against the plan; or why there are none."""
        if self.plan is None:
            return None, "plan.json cannot be read"
        try:
            found = measurements_in(self.shown or self.plan, self.sound)  # how keys are written is how it is shown
            inputs_of(self.plan, found)
        except CheckFailed as error:
            return None, error.summary
        except DpReleaseError as error:
            return None, f"measurements/: {error.summary}"
        except Exception as error:  # a forged plan can be well formed and still name what it does not hold
            return None, f"plan.json makes no sense ({type(error).__name__})"
        return found, ""


def _value(model: type[Model], data: bytes | None) -> Model | None:
    """A value from a file that holds its canonical JSON, each name once and nothing else."""
    try:
        found = model.from_canonical(data) if data is not None else None
    except (ValueError, RecursionError, MemoryError):
        return None
    return found if found is not None and (found.canonical() + "\n").encode() == data else None


def read_bundle(folder: Path) -> tuple[OpenedBundle | None, str]:
    """What there is to check in a folder; or None, and why its manifest cannot be read."""
    manifest, why = _manifest_of(folder)
    if manifest is None:
        return None, why
    beside = []
    for name in (SIGNATURE_FILE, SUMS_FILE, SUMS_SIGNATURE_FILE):
        try:
            beside.append(_plain(folder, name, LARGEST_MANIFEST))
        except TooLarge:
            beside.append(b"")  # there is one, and it says nothing
    return OpenedBundle(folder, manifest, _sound_files(folder, manifest), *beside), ""


@dataclass(frozen=True, eq=False)
class _OnDisk(Packed):
    """A large file of a bundle; it is read, and hashed, again whenever it is wanted.

    Raises:
        KeyError: From ``blocks``, once all were read: it is not the file that it was.
    """

    file: Path = field(kw_only=True)

    def blocks(self) -> Iterator[bytes]:
        """Its bytes, some at a time; nothing is sure of them before the last has come."""
        digest, size = hashlib.sha256(), 0
        try:
            for block in regular_blocks(self.file, self.size, links=False):
                digest.update(block)
                size += len(block)
                yield block
        except OSError:
            raise KeyError(self.file.name) from None
        if size != self.size or digest.hexdigest() != self.sha256:  # it was changed meanwhile
            raise KeyError(self.file.name)


def _sound_files(folder: Path, manifest: Manifest) -> Files:
    """The files whose size and hash are the manifest's; every file is read once."""
    found: dict[str, Data] = {}
    for path, facts in manifest.files.items():
        if facts.bytes <= _SMALL:
            if (data := _sound(folder, manifest, path)) is not None:
                found[path] = data
        elif facts.bytes <= largest(path) and not _through_link(folder, path):
            there = _OnDisk(facts.bytes, facts.sha256, (), file=folder / path)
            with suppress(KeyError):
                for _ in there.blocks():
                    pass
                found[path] = there
    return Files(found)


def _manifest_of(folder: Path) -> tuple[Manifest | None, str]:
    """The manifest of a folder, or None and why there is none."""
    try:
        data = _plain(folder, MANIFEST_FILE, LARGEST_MANIFEST)
    except TooLarge:
        return None, f"{MANIFEST_FILE} has more than {LARGEST_MANIFEST >> 20} MiB: it is not read"
    if data is None:
        return None, f"there is no {MANIFEST_FILE} in {folder}"
    try:
        found = Manifest.from_canonical(data)
        for name in found.files:
            safe_path(name)
    except (ValueError, RecursionError, MemoryError, PublishError):
        return None, f"{MANIFEST_FILE} is not a manifest of this format"
    if found.to_bytes() != data:
        return None, f"{MANIFEST_FILE} is not in its canonical form"
    names = [MANIFEST_FILE, SIGNATURE_FILE, SUMS_FILE, SUMS_SIGNATURE_FILE, *found.files]
    if len({name.lower() for name in names}) < len(names):
        return None, f"{MANIFEST_FILE} names files that are one where capitals do not count"
    return found, ""


def _sound(folder: Path, manifest: Manifest, name: str) -> bytes | None:
    """The bytes of a file, where they are what the manifest says."""
    facts = manifest.files[name]
    if facts.bytes > largest(name):
        return None
    try:
        data = _plain(folder, name, facts.bytes)
    except (TooLarge, MemoryError):
        return None
    return data if data is not None and len(data) == facts.bytes and sha256(data) == facts.sha256 else None


def largest(name: str) -> int:
    """How many bytes a file of a bundle may have that is read."""
    if name in _PARSED:
        return LARGEST_PLAN
    return _LARGEST_STREAMED if name.endswith(".csv") else _LARGEST


def _plain(folder: Path, name: str, most: int) -> bytes | None:
    """The bytes of a file, or None where there is none; no link is followed out of the folder.

    Raises:
        TooLarge: If it has more bytes than it may have.
    """
    try:
        if _through_link(folder, name):
            return None
        return read_regular(folder / name, most, links=False)
    except TooLarge:
        raise
    except (OSError, ValueError):
        return None


def _through_link(folder: Path, name: str) -> bool:
    return any((folder / part).is_symlink() for part in (name, *map(str, Path(name).parents)) if part != ".")


def say_which(names: Sequence[str], what: str) -> str:
    """What is wrong with some files; empty for none."""
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"{what}: {', '.join(names[:5])}{more}" if names else ""
