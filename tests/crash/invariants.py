"""What must hold of a project after whatever happened to its processes."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from fractions import Fraction
from pathlib import Path

from dprelease.canonical import sha256
from dprelease.errors import DpReleaseError
from dprelease.ledger import Ledger, Reservation, StepKey
from dprelease.plan.document import ReleaseInfo, ReleasePlan
from dprelease.privacy.filters import account_loss
from dprelease.publish import check_bundle, folder_for
from dprelease.release.check import check_release
from dprelease.release.project import Project
from dprelease.release.records.status import accounts_of, policy_accounts
from tests.crash.child import append
from tests.crash.victim import Handed, Victim, anchor_files, opened

__all__ = ["Inspector"]

# `accounts_of` prints epsilon rounded up to six digits.
_PRINTED = Fraction(1, 10**4)


class Inspector:
    """Looks for what is broken. Keeps the plans whose loss it has re-derived, and what the bytes of sound bundles were:
    the same bytes are as sound when they are looked at again.
    """

    def __init__(self) -> None:
        self._derived: set[str] = set()
        self._sound: set[str] = set()

    def glimpse(self, victim: Victim, *periods: str) -> None:
        """Note the bundles that can be seen now: they are handed on."""
        for period in periods:
            manifest = victim.bundle(period) / "manifest.json"
            if manifest.exists():
                handed = Handed("crash", period, "", "", sha256(manifest.read_bytes()))
                append(str(victim.note), handed._asdict())

    def problems(self, victim: Victim, *finished: str) -> list[str]:
        """Every broken invariant, one line each.

        Args:
            victim: The project; none of its processes runs.
            finished: The periods that must be released by now.
        """
        project, ledger = opened(victim.folder)
        found: list[str] = []
        try:
            found += [f"ledger check: {each}" for each in ledger.check()]
            found += self._look(victim, project, ledger, finished)
        except DpReleaseError as error:
            found.append(f"the ledger cannot be read: {error}")
        ledger.disconnect()
        return found

    def _look(self, victim: Victim, project: Project, ledger: Ledger, finished: Iterable[str]) -> Iterator[str]:
        listed = [ledger.find(each.release, each.period) for each in ledger.reservations()]
        known = {(each.release, each.period): each for each in listed if each is not None}
        for period in finished:
            reservation = known.get(("crash", period))
            if reservation is None or reservation.state != "closed":
                yield f"{period} is not closed"
            else:
                yield from self._bundle(project, reservation)
        yield from _steps(ledger, known.values())
        yield from _answers(ledger, known, victim.handed())
        yield from _charged(project, ledger, known.values())
        yield from _anchored(project, ledger)

    def _bundle(self, project: Project, of: Reservation) -> Iterator[str]:
        folder = folder_for(project.releases, of.release, of.period)
        plan = ReleasePlan.from_canonical(of.plan)
        # Plans of two periods differ in nothing that their loss is derived from.
        priced = plan.model_copy(
            update={"release": ReleaseInfo(name="", period=""), "spec_fingerprint": ""}
        ).canonical()
        if (bytes_ := _bytes_of(folder)) not in self._sound:
            checks = check_bundle(folder) if priced in self._derived else check_release(folder)
            wrong = [
                f"the bundle of {of.period}: {each.name}: {each.detail}" for each in checks if each.passed is False
            ]
            self._sound.update([] if wrong else [bytes_])
            yield from wrong
        if not folder.is_dir() or sha256((folder / "manifest.json").read_bytes()) != of.manifest:
            yield f"the bundle of {of.period} is not the one that the ledger was closed with"
        yield from _retold(folder)
        self._derived.add(priced)


def _retold(folder: Path) -> Iterator[str]:
    """What a bundle says was drawn for earlier periods, whose noise it shares, is what their own bundles say."""
    for path in sorted((folder / "earlier").glob("*.json")):
        told = json.loads(path.read_text(encoding="utf-8"))
        for step, values in told["measurements"].items():
            with (folder.parent / told["period"] / "measurements" / f"{step}.csv").open(encoding="utf-8") as file:
                if [int(row["value"]) for row in csv.DictReader(file)] != values:
                    yield f"{folder.name} is made of another draw of {told['period']} than was published"


def _bytes_of(folder: Path) -> str:
    """One digest of the names and bytes of all files."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return sha256("".join(f"{path.relative_to(folder)} {sha256(path.read_bytes())}\n" for path in files).encode())


def _steps(ledger: Ledger, reservations: Iterable[Reservation]) -> Iterator[str]:
    """One committed value of every step, and of a closed release every step has one."""
    told: Counter[tuple[str, ...]] = Counter()
    reserved: Counter[tuple[str, str]] = Counter()
    for entry in ledger.entries():
        body = entry.body
        if entry.kind == "measure":
            told[(body["release"], body["period"], body["plan"], body["step"])] += 1
        reserved[(body.get("release", ""), body.get("period", ""))] += entry.kind == "reserve"
    yield from (f"{'/'.join(key[1:])} is measured {n} times" for key, n in told.items() if n > 1)
    yield from (f"{'/'.join(key)} is charged {n} times" for key, n in reserved.items() if n > 1)
    for each in reservations:
        steps = {step.id for step in ReleasePlan.from_canonical(each.plan).steps}
        done = {key[3] for key in told if key[:3] == (each.release, each.period, each.plan_fingerprint)}
        if done - steps or (each.state == "closed" and steps - done):
            yield f"{each.period} is {each.state}, planned {sorted(steps)} and measured {sorted(done)}"


def _answers(ledger: Ledger, known: dict[tuple[str, str], Reservation], handed: list[Handed]) -> Iterator[str]:
    """What was ever handed on is what is kept, and is charged."""
    for each in dict.fromkeys(handed):
        reservation = known.get((each.release, each.period))
        if reservation is None or (each.plan and each.plan != reservation.plan_fingerprint):
            yield f"{each.period}/{each.step} was handed on, and no such plan is charged"
        elif not each.step:
            if reservation.manifest not in (None, each.digest):
                yield f"{each.period} could be seen as another bundle than it was closed with"
        else:
            kept = ledger.stored(StepKey(each.release, each.period, each.plan, each.step))
            if kept is None or kept.digest != each.digest:
                yield f"{each.period}/{each.step} was handed on, and the ledger has {'another' if kept else 'no'} value"


def _charged(project: Project, ledger: Ledger, reservations: Iterable[Reservation]) -> Iterator[str]:
    """The accounts stand at what all reserved plans cost together: priced here from the plans alone."""
    plans = [ReleasePlan.from_canonical(each.plan) for each in reservations]
    for status in accounts_of(ledger.tally(), policy_accounts(project)):
        name = status["name"]
        account = project.policy.accounts[name]
        events = [plan.event_of(name) for plan in plans if any(each.name == name for each in plan.accounts)]
        cap = account.lifetime
        owed = account_loss(account.composition, events, cap.delta, kept=cap.selecting).epsilon
        stands = Fraction(status["spent"])
        if stands < owed * (1 - Fraction(1, 10**12)):
            yield f"account {name} is under-charged: it stands at {float(stands)}, and {float(owed)} was drawn"
        if stands > owed * (1 + _PRINTED):
            yield f"account {name} stands at {float(stands)}, and its releases cost {float(owed)}"


def _anchored(project: Project, ledger: Ledger) -> Iterator[str]:
    """Every head that an anchor file names is an entry of the ledger.

    It names one before anything is read or measured; a reservation that was just committed is anchored a moment later.
    """
    kept = list(ledger.entries())
    entries, used = {(each.sequence, each.hash) for each in kept}, {each.kind for each in kept} & {"source", "measure"}
    for file in anchor_files(project):
        if not file.exists():
            if entries:
                yield f"there is no anchor {file.name} beside a ledger with entries"
            continue
        heads = list(_heads(file))
        if used and not heads:
            yield f"the anchor {file.name} names no head"
        yield from (f"the anchor names {head}, which the ledger lacks" for head in heads if head not in entries)


def _heads(file: Path) -> Iterator[tuple[int, str]]:
    """Sequence number and hash of every line, which is JSON behind a check sum; half a last line is none."""
    for line in file.read_text(encoding="utf-8").splitlines(keepends=True):
        if line.endswith("\n"):
            told = json.loads(line[line.index("{") :])
            if told["sequence"]:  # 0: the ledger was about to be made
                yield told["sequence"], told["hash"]
