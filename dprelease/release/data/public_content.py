"""No reference is a copy of a confidential file: told before a reservation, and of the releases of the past.

By content a reference is held against the sources that are there, of every spec of the project, and by keyed hash
against every file that the ledger knows. Content is told byte by byte: an edited copy is another file, and is not
recognised.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

from dprelease.canonical import sha256
from dprelease.catalog.boundaries import Geography
from dprelease.catalog.table import Reference
from dprelease.engines.files.fingerprint import fingerprint_of
from dprelease.errors import EngineError, LedgerError
from dprelease.ledger import Ledger, Reservation
from dprelease.plan.document import ReleasePlan
from dprelease.publish import folder_for
from dprelease.regular import read_regular
from dprelease.release.data.public_files import LARGEST_REFERENCE, NOT_PUBLIC, Confidential, Identity, identity_of
from dprelease.release.data.sources import SourceKey

__all__ = ["published_sources", "require_public"]


def require_public(
    plan: ReleasePlan,
    folder: Path,
    confidential: Mapping[Identity, Confidential],
    ledger: Ledger,
    key_file: Path,
) -> None:
    """Refuse a plan with a reference that is a confidential file by content, before anything is charged.

    Of the sources only files of a reference's own length are read, and what a refusal tells is that one of them is a
    file that the author calls public.

    Args:
        plan: With references that are pinned, and were read.
        folder: The project's folder.
        confidential: The files that the project's specs name.
        ledger: That knows files of the past.
        key_file: The file of the key of their hashes.

    Raises:
        EngineError: If it is one of those files, or a copy of one (DPR-E320).
        LedgerError: If a release was measured from it, or it was looked at for one (DPR-L175).
    """
    references: dict[str, tuple[Reference | Geography, bytes]] = {
        name: (reference, data)
        for name, reference in plan.catalog.references.items()
        if (data := _pinned(folder, reference)) is not None
    }
    for each in plan.geography:
        if (data := _pinned(folder, each)) is not None:
            references[f"geography of {each.column}"] = each, data
    if not references:
        return
    for name, (reference, data) in references.items():
        for identity, known in confidential.items():
            if identity == identity_of(folder / reference.file) or _same(known.path, data):
                raise EngineError(
                    f"reference {name!r} ({reference.file}) is, byte for byte, a confidential file: "
                    f"{known.spec} reads it as a source, {known.source!r}",
                    hint=f"nothing more was charged; {NOT_PUBLIC}",
                    code="DPR-E320",
                )
    known_files = _Known(ledger, key_file)
    for name, (reference, data) in references.items():
        if known_as := known_files.as_what(data):
            raise LedgerError(
                f"reference {name!r} ({reference.file}) is a confidential file: {known_as}",
                hint=f"nothing more was charged; {NOT_PUBLIC}",
                code="DPR-L175",
            )


def _pinned(folder: Path, reference: Reference | Geography) -> bytes | None:
    """The bytes of a reference or of boundaries, where they are there and still those of the plan; None otherwise."""
    try:
        data = read_regular(folder / reference.file, LARGEST_REFERENCE)
    except (OSError, ValueError):
        return None
    return data if sha256(data) == reference.sha256 else None


def _same(path: Path, data: bytes) -> bool:
    """Whether a file holds these bytes; one of another length is not opened."""
    try:
        return path.stat().st_size == len(data) and read_regular(path, len(data)) == data
    except OSError:  # of the run's own sources the engine tells
        return False


class _Known:
    """The files that the ledger knows, by keyed hash; without the key, which is then not made, it recognises none."""

    def __init__(self, ledger: Ledger, key_file: Path) -> None:
        self._key = SourceKey.of(key_file) if key_file.exists() else None
        self._known: dict[str, str] = {}
        for body in () if self._key is None else ledger.files_read():
            if self._key is not None and body.key == self._key.id:
                for file in (file for files in body.tables.values() for file in files):
                    name = f"{body.release}/{body.period}"
                    how = f"{name} was measured from it" if body.reservation else f"it was looked at for {name}"
                    self._known.setdefault(file, how)

    def as_what(self, data: bytes) -> str:
        """Where the ledger has these bytes from; empty: it does not know them."""
        if self._key is None:
            return ""
        return self._known.get(fingerprint_of(io.BytesIO(data), self._key.secret), "")


def published_sources(
    ledger: Ledger, folder: Path, confidential: Mapping[Identity, Confidential], key_file: Path, releases: str
) -> tuple[str, ...]:
    """Releases of the past whose plan pins a reference that is a confidential file, one line each.

    A reference that is still there is held against the hashes of the ledger and against the sources that are there.
    Where it is gone, or another one now, the sources that are no longer than a reference are hashed, and held against
    what the plan has pinned.

    Args:
        ledger: The project's ledger.
        folder: The project's folder.
        confidential: The files that its specs name.
        key_file: The file of the key of the ledger's hashes.
        releases: The folder of the bundles, as the project has it.
    """
    known, hashes, findings = _Known(ledger, key_file), _Hashes(confidential), []
    confidential_marks: dict[tuple[str, str], bool] = {}  # those of a series share their references
    for each in ledger.reservations():
        plan = ledger.plan_of(each) if each.state in ("open", "closed") else None
        for _, reference in () if plan is None else sorted(plan.catalog.references.items()):
            mark = reference.file, reference.sha256
            if mark not in confidential_marks:
                data = _pinned(folder, reference)
                confidential_marks[mark] = (
                    hashes.has(reference.sha256)
                    if data is None
                    else any(_same(file.path, data) for file in confidential.values()) or bool(known.as_what(data))
                )
            if confidential_marks[mark]:
                findings.append(_finding(each, reference, releases))
    return tuple(findings)


def _finding(taken: Reservation, reference: Reference, releases: str) -> str:
    name, bundle = f"{taken.release}/{taken.period}", folder_for(Path(releases), taken.release, taken.period)
    was, stand = "begun", "would stand"
    if taken.state == "closed":
        was, stand = "published", "stand"
    return (
        f"entry {taken.sequence}: {name} was {was} with reference {reference.name!r} ({reference.file}), which is a "
        f"confidential file: its keys and its SHA-256 {stand} in {bundle}; take that down, and "
        f"`dprelease ledger incident --unprotected --release {name} --why TEXT` says what it cost, with an erratum"
    )


class _Hashes:
    """The SHA-256 of every source that is no longer than a reference; worked out where one is asked for."""

    def __init__(self, confidential: Mapping[Identity, Confidential]) -> None:
        self._files, self._known = [known.path for known in confidential.values()], set[str]()

    def has(self, digest: str) -> bool:
        """Whether one of them has this hash."""
        while self._files:
            try:
                self._known.add(sha256(read_regular(self._files.pop(), LARGEST_REFERENCE)))
            except OSError:  # gone, too long or closed to this user: no reference was made of it
                continue
        return digest in self._known
