"""The bundles of a project, held against its ledger: what was published and is not in it was lost from it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from dprelease.canonical import sha256
from dprelease.errors import Corrupt, LedgerError
from dprelease.ledger import Ledger, PublishedBundle
from dprelease.plan.document import Head
from dprelease.publish import folder_for, set_aside
from dprelease.publish.manifest import MANIFEST_FILE
from dprelease.regular import LARGEST_MANIFEST, read_regular

__all__ = ["Shelf", "bundle_findings", "make_way", "manifests_in", "require_accounted", "shelf_of"]


@dataclass(frozen=True)
class Shelf:
    """The bundles in a folder of releases, but for rehearsals.

    Attributes:
        bundles: What their manifests say, by folder.
        unreadable: Folders whose manifest cannot be read.
    """

    bundles: tuple[PublishedBundle, ...] = ()
    unreadable: tuple[str, ...] = ()


def shelf_of(releases: Path) -> Shelf:
    """Every bundle that lies in a folder of releases, also those that were set aside; not those being written.

    One look at a file for each bundle, and its manifest is read once in the life of a process. Bundles that lie
    elsewhere, on another host or taken away, cannot be asked.
    """
    bundles, unreadable = [], []
    for path in manifests_in(releases):
        try:
            said = _read(path)
        except (OSError, ValueError, RecursionError):
            unreadable.append(str(path.parent))
            continue
        if said is not None:
            bundles.append(said)
    return Shelf(tuple(bundles), tuple(unreadable))


def manifests_in(releases: Path) -> list[Path]:
    """The manifests in a folder of releases, sorted; not those of folders that are being written."""
    paths = sorted(releases.glob(f"*/*/{MANIFEST_FILE}"))
    return [each for each in paths if not any(part.startswith(".") for part in each.relative_to(releases).parts)]


def _read(path: Path) -> PublishedBundle | None:
    facts = path.stat()
    return _said(str(path), facts.st_ino, facts.st_mtime_ns, facts.st_size)


@lru_cache(1 << 17)
def _said(path: str, inode: int, changed: int, size: int) -> PublishedBundle | None:
    """What a manifest says; None: of a rehearsal. The further arguments are those by which it is known again.

    Raises:
        OSError: It is no regular file, too large, or cannot be read.
        ValueError: It is no manifest.
    """
    data = read_regular(Path(path), LARGEST_MANIFEST)
    manifest = json.loads(data)
    if not isinstance(manifest, dict):
        raise ValueError("no manifest")
    if manifest.get("rehearsal") is True:
        return None
    ledger: Any = manifest.get("ledger")
    if not isinstance(ledger, dict):
        raise ValueError("no manifest")
    try:
        return PublishedBundle(
            folder=os.path.dirname(path),
            release=manifest["release"],
            period=manifest["period"],
            plan=manifest["plan_fingerprint"],
            entry=Head(sequence=ledger["sequence"], hash=ledger["hash"]),
            ledger=ledger.get("id", ""),
            manifest=sha256(data),
        )
    except KeyError as error:
        raise ValueError("no manifest") from error


def require_accounted(ledger: Ledger, releases: Path, release: str, period: str) -> tuple[str, ...]:
    """Refuse to begin where something was published that the ledger was never charged for.

    Args:
        ledger: The project's ledger.
        releases: Its folder of releases.
        release: What is to be released.
        period: Its period.

    Returns:
        What the user should know: what this host could not notice.

    Raises:
        LedgerError: A bundle's entry is not in the ledger: that is gone (DPR-L307), was rolled back (DPR-L320), or is
            another one (DPR-L321); or it cannot be told what was released there (DPR-L323).
    """
    shelf = shelf_of(releases)  # before the ledger: what is published meanwhile has its entry already
    if not ledger.exists:
        _require_none(shelf)
    missing = ledger.lacks(shelf.bundles)
    if missing:
        raise _charge_missing(missing, ledger.id)
    folder = str(folder_for(releases, release, period))
    if folder in shelf.unreadable and ledger.find(release, period) is None:
        raise LedgerError(
            f"{folder} holds a bundle whose manifest cannot be read, and this ledger has no such release",
            detail="it may be an answer that the ledger has lost",
            hint="put it back from a copy that `dprelease verify` finds whole; or, if it is none, move it away",
            code="DPR-L323",
        )
    return ledger.warnings()


def _require_none(shelf: Shelf) -> None:
    """Refuse to begin a ledger where releases were published: the one that charged them must be somewhere."""
    for each in shelf.bundles:
        raise LedgerError(
            f"{each.folder} was released, and the ledger that was charged for it is not there",
            detail="a new ledger would spend again what that one has spent",
            hint="put the ledger back, or name the right one under `ledger:` in dprelease.yaml; if it is lost for "
            "good, `dprelease ledger recover --why TEXT` charges a new one what the bundles cost",
            code="DPR-L307",
        )


def make_way(ledger: Ledger, folder: Path, entry: str, plan: str) -> None:
    """Before a bundle is written: keep one of another entry of the ledger aside, and refuse to touch one of no entry.

    Args:
        ledger: The project's ledger.
        folder: The bundle's folder.
        entry: The hash of the entry that charged what is to be written.
        plan: The fingerprint of its plan.

    Raises:
        LedgerError: What lies there was charged nowhere in this ledger (DPR-L320, DPR-L321), or is another answer to
            the same plan (DPR-L328).
        PublishError: It cannot be moved.
    """
    try:
        there = _read(folder / MANIFEST_FILE)
    except (OSError, ValueError, RecursionError):
        return  # whoever writes looks at it
    missing = ledger.lacks([there]) if there is not None else ()
    if missing:
        raise _charge_missing(missing, ledger.id)
    if there is not None and there.plan == plan and there.entry.hash != entry:
        raise LedgerError(
            f"{folder} holds another answer to this very plan, charged by entry {there.entry.sequence}",
            detail="a ledger that was rolled back has drawn a second one; the first is known, and stays the only one",
            hint="leave it; correct the spec and `dprelease run SPEC --restate REASON` to release other numbers",
            code="DPR-L328",
        )
    set_aside(folder, entry)


def _charge_missing(missing: Iterable[PublishedBundle], ledger: str) -> LedgerError:
    """The error for bundles whose charge is not in a ledger.

    Args:
        missing: At least one.
        ledger: The id of the ledger.
    """
    every = tuple(missing)
    ours = [each for each in every if each.ledger in ("", ledger)]
    first = (ours or every)[0]
    more = f", and {len(every) - 1} more" if len(every) > 1 else ""
    if not ours:
        return LedgerError(
            f"{first.folder}{more} was charged in another ledger, {first.ledger[:12]}, and this one is {ledger[:12]}",
            detail="where this ledger was begun in place of that one, what that one has spent would be spent again",
            hint="put that ledger back; or move what another project has published out of `releases:`; or, if it is "
            "lost for good, `dprelease ledger recover --why TEXT` charges this one what the bundles cost",
            code="DPR-L321",
        )
    return LedgerError(
        f"{first.folder}{more} was published and charged by entry {first.entry.sequence}, which this ledger lacks",
        detail="the ledger was rolled back, with its anchors or on another host: a second answer would be drawn"
        + ("" if first.ledger else "; or the bundle is of another ledger, which older bundles do not say"),
        hint="restore the newest backup, then `dprelease ledger recover --why TEXT`, which charges what is missing; a "
        "bundle of another project does not belong into `releases:`",
        code="DPR-L320",
    )


def bundle_findings(ledger: Ledger, releases: Path) -> list[str]:
    """One finding for each bundle whose charge is not in a ledger, as the check of a ledger prints them.

    It names the erratum that a recovery would write beside the bundle.
    """
    shelf = shelf_of(releases)
    try:
        missing, known = ledger.lacks(shelf.bundles, admitted=False), _id(ledger)
    except Corrupt:
        return []  # the check of the ledger has said so
    return [
        f"{each.folder} was published and charged by entry {each.entry.sequence} "
        + (
            f"of another ledger, {each.ledger[:12]}"
            if known and each.ledger not in ("", known)
            else "which this ledger lacks"
        )
        + f"; a recovery charges it and writes {os.path.basename(each.folder)}.erratum-ENTRY.md beside it"
        for each in missing
    ] + [
        f"{folder} has a manifest that cannot be read: which entry charged it cannot be told"
        for folder in shelf.unreadable
    ]


def _id(ledger: Ledger) -> str:
    try:
        return ledger.id
    except LedgerError:  # which the check has said
        return ""
