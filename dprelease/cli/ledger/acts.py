"""What people do to a ledger by hand: open an account, end a lock, recover, make the tables, record an incident.

Each says what it will do, asks, and does it; without a terminal it wants ``--yes``.
"""

from __future__ import annotations

import os
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dprelease.cli.options import Folder, Json, Why, Yes, open_project, require_yes
from dprelease.cli.views import say, say_json
from dprelease.errors import LedgerError, UnsupportedEvent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dprelease.ledger.model.fault import Fault
    from dprelease.ledger.tables.incident import Correction, IncidentOutcome
    from dprelease.plan.document import Account
    from dprelease.privacy.event import Composed

__all__ = ["create_ledger", "incident", "open_account", "recover", "unlock"]

_UNCONFIRMED = "DPR-L118"
_RECOVERY = """\
what recovery does: it raises every balance to what the anchors know, charges what the published bundles cost that the
ledger lacks, ends every release that is open or lost (what it cost stays charged; it can be released again with
--restate), and records where the ledger and its anchors are now; spend is never taken away, and what was altered is not
mended"""


def _said(why: str) -> str:
    if not why.strip():
        raise LedgerError("a reason is missing", hint="say it with --why TEXT; it is kept for ever", code="DPR-L119")
    return why.strip()


def open_account(
    account: Annotated[str, typer.Argument(help="An account of the policy.")],
    folder: Folder = Path(),
    why: Why = "",
    series: Annotated[
        list[Path] | None, typer.Option(help="Of a pld account: a frozen plan; once for each kind of release.")
    ] = None,
    releases: Annotated[
        list[int] | None, typer.Option(min=1, help="How often the plan of each --series will be released.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Record an account as policy.yaml has it; a pld account with every release that it will ever have."""
    from dprelease.release.records.status import policy_accounts

    plans, times = series or [], releases or []
    if len(plans) != len(times):
        raise typer.BadParameter("give --releases N once for each --series PLAN", param_hint="--series")
    project, ledger = open_project(folder)
    accounts = policy_accounts(project)
    if account not in accounts:
        known = ", ".join(sorted(accounts)) or "none"
        raise LedgerError(
            f"the policy has no account {account}",
            hint=f"it has: {known}; whoever keeps {project.settings.policy} can add one",
            code="DPR-L115",
        )
    kinds = _series(accounts[account], plans, times)
    ledger.open_account(accounts[account], _said(why), kinds, "dprelease ledger open")
    body = next(entry for entry in reversed(list(ledger.entries())) if entry.kind == "open")
    if as_json:
        say_json({"account": account, "entry": body.sequence, "body": body.body})
        return
    shown = ", ".join(f"{n} x {path}" for path, n in zip(plans, times, strict=True))
    say(f"account {account} is recorded in entry {body.sequence}" + (f"; its series: {shown}" if shown else ""))


def _series(account: Account, plans: Sequence[Path], times: Sequence[int]) -> list[tuple[Composed, int]]:
    """What each of these frozen plans costs the account, and how often."""
    from dprelease.release.planning import open_target

    kinds = []
    for path, n in zip(plans, times, strict=True):
        frozen = open_target(path).frozen
        if frozen is None:
            raise typer.BadParameter(f"{path} is no frozen plan: `dprelease plan SPEC --out plan.json`")
        events = frozen.plan.cost_of(account)
        if not events.events:
            raise LedgerError(
                f"the plan in {path} costs account {account.name} nothing",
                hint="give the frozen plan of a release from this account",
                code="DPR-L122",
            )
        kinds.append((events, n))
    return kinds


def unlock(
    release: Annotated[str, typer.Argument(help="NAME/PERIOD.")],
    folder: Folder = Path(),
    yes: Yes = False,
) -> None:
    """Show who holds the lock of a release, ask, and end that."""
    _, ledger = open_project(folder)
    name, _, period = release.partition("/")
    held = [each for each in ledger.holders() if (each.release, each.period) == (name, period)]
    if not held:
        others = ", ".join(f"{each.release}/{each.period}" for each in ledger.holders()) or "none"
        raise LedgerError(f"nobody holds the lock of {release}", hint=f"locks: {others}", code="DPR-L116")
    for holder in held:
        state = "runs" if holder.alive else "is gone, so that the lock is free"
        say(
            f"{release}: held by process {holder.process} on {holder.host} since {holder.since}, doing "
            f"{holder.doing}; it {state}"
        )
        if holder.alive:
            say("ending it is safe: what it has measured is kept, and `dprelease run` goes on from there")
        require_yes("End it?", LedgerError, _UNCONFIRMED, yes=yes)
        ledger.break_lock(holder)
        say(f"the lock of {release} is free")


def recover(
    folder: Folder = Path(),
    why: Why = "",
    gone: Annotated[
        list[str] | None, typer.Option("--gone", metavar="HOST", help="Is gone for good, with its anchors.")
    ] = None,
    yes: Yes = False,
) -> None:
    """Make a ledger usable that its anchors or bundles contradict, or that was moved; it only ever adds spend."""
    from dprelease.release.publishing.published import bundle_findings
    from dprelease.release.records.recovering import recover_from_bundles

    reason = _said(why)
    project, ledger = open_project(folder)
    wrong = [*ledger.check(), *bundle_findings(ledger, project.releases)]
    if not wrong:
        say("nothing is wrong; nothing was written")
        return
    say("what is wrong:")
    for line in wrong:
        say(f"  {line}")
    say(_RECOVERY)
    require_yes("Recover?", LedgerError, _UNCONFIRMED, yes=yes)
    done, errata = recover_from_bundles(ledger, project.releases, reason, gone or (), "dprelease ledger recover")
    for line in done or ("nothing that recovery is for; nothing was written",):
        say(f"  {line}")
    for path in errata:
        say(f"  erratum {path}")


def create_ledger(
    folder: Folder = Path(),
    role: Annotated[str, typer.Option(help="The role that releases with it: it may only read and add.")] = "",
) -> None:
    """Make the tables of a ledger on PostgreSQL; run it as their owner, once."""
    from dprelease.release.project import Project

    project = Project.find(folder)
    url = project.ledger_url(os.environ)
    if not url.startswith("postgresql:"):
        raise LedgerError(
            "this ledger is a file, which the first reservation makes",
            hint="`ledger create` is for `ledger: postgresql://...` in dprelease.yaml",
            code="DPR-L143",
        )
    from dprelease.ledger.stores.postgres import create_postgres_ledger

    create_postgres_ledger(url, role or None)
    say("the tables are there" + (f"; role {role} may read them and add to them" if role else ""))


def _factor(text: str, *, unprotected: bool, erratum: str) -> Fraction:
    if [bool(text), unprotected, bool(erratum)].count(True) != 1:
        raise typer.BadParameter("give --factor F, --unprotected, or --erratum NAME", param_hint="--factor")
    if erratum:
        return Fraction(1)
    try:
        factor = Fraction(text or 0)
    except (ValueError, ZeroDivisionError):
        factor = Fraction(1)
    if not unprotected and factor <= 1:
        raise typer.BadParameter("write a number above 1, such as 2 or 1.5", param_hint="--factor")
    return factor


def incident(
    folder: Folder = Path(),
    why: Why = "",
    mechanism: Annotated[str, typer.Option(help="Only draws of this mechanism, as plans name it.")] = "",
    package: Annotated[str, typer.Option(help="Only releases that ran with this package, such as numpy.")] = "",
    version: Annotated[str, typer.Option(help="Of the package; left out: any.")] = "",
    release: Annotated[str, typer.Option(help="Only NAME, or NAME/PERIOD.")] = "",
    factor: Annotated[str, typer.Option(metavar="F", help="The noise was too small by this factor, above 1.")] = "",
    unprotected: Annotated[bool, typer.Option("--unprotected", help="These draws protected nothing.")] = False,
    erratum: Annotated[str, typer.Option(metavar="NAME", help="Charge prices that were too small; a known name.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Record that draws were faulty: charge what they really cost, and write errata beside their bundles."""
    from dprelease.ledger.model.fault import ERRATA, Fault

    if version and not package:
        raise typer.BadParameter("--version is of a --package", param_hint="--version")
    if erratum and erratum not in ERRATA:
        raise typer.BadParameter(f"known errata: {', '.join(ERRATA)}", param_hint="--erratum")
    name, _, period = release.partition("/")
    fault = Fault(
        why=ERRATA[erratum] if erratum and not why else _said(why),
        mechanism=mechanism,
        package=package,
        version=version,
        release=name,
        period=period,
        factor=_factor(factor, unprotected=unprotected, erratum=erratum),
        erratum=erratum,
    )
    _record(folder, fault, dry_run=dry_run, yes=yes, as_json=as_json)


def _record(folder: Path, fault: Fault, *, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Show what would change, ask, record it, and write the errata."""
    from dprelease.release.records.errata import errata, write_errata

    project, ledger = open_project(folder)
    outcome = ledger.incident(fault, dry=True)
    if not as_json:
        for line in _change_lines(outcome):
            say(line)
    if dry_run:
        if as_json:
            say_json({"dry_run": True, **_facts(outcome)})
        return
    if outcome.changed:
        require_yes("Record it? It cannot be taken back.", LedgerError, _UNCONFIRMED, yes=yes, nobody=as_json)
        outcome = ledger.incident(fault, command="dprelease ledger incident")
    paths = write_errata(project.releases, errata(outcome.recorded))
    if as_json:
        say_json({"dry_run": False, **_facts(outcome), "errata": [str(path) for path in paths]})
        return
    for path in paths:
        say(f"  erratum {path}")


def _change_lines(outcome: IncidentOutcome) -> list[str]:
    if not outcome.changed:
        entries = sorted({each.entry.sequence for each in outcome.recorded})
        known = f"; entry {', '.join(map(str, entries))} has it" if entries else ""
        return [f"no release is affected that was not corrected for it before{known}"]
    return [
        f"{facts['release']}/{facts['period']}, account {facts['account']}: {facts['before']} becomes {facts['after']}"
        for facts in map(_change_facts, outcome.changed)
    ]


def _change_facts(change: Correction) -> dict[str, Any]:
    delta = change.taken.claimed.delta if change.taken.claimed else Fraction(0)
    return {
        "release": change.taken.release,
        "period": change.taken.period,
        "account": change.account,
        "before": _cost(change.before, delta),
        "after": _cost(change.after, delta),
    }


def _cost(events: Any, delta: Fraction) -> str:
    """By the best accountant, for people."""
    from dprelease.ledger.model.fault import is_unprotected
    from dprelease.privacy.accountants import smallest
    from dprelease.privacy.accountants.reveals import total_reveal
    from dprelease.privacy.budget import round_up

    # Of several units the draws' own deltas may be more than delta: then at a delta that has room for both.
    for at in () if is_unprotected(events) else (delta, delta + 2 * total_reveal(events)):
        with suppress(UnsupportedEvent):
            if at < 1:
                return f"epsilon {round_up(smallest(events, at)[1])} at delta {round_up(at)}"
    return "no bound at all"


def _facts(outcome: IncidentOutcome) -> dict[str, Any]:
    return {
        "changed": [_change_facts(change) for change in outcome.changed],
        "entries": sorted({each.entry.sequence for each in outcome.recorded}),
    }
