"""``dprelease ledger``: what is spent, by account; the entries; whether the book is sound; the same for strangers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from dprelease.cli.ledger.acts import create_ledger, incident, open_account, recover, unlock
from dprelease.cli.options import Folder, Json, open_project
from dprelease.cli.views import as_decimal, complain_of, json_text, say, say_json, text_table
from dprelease.errors import CheckFailed, LedgerError

__all__ = ["ledger_app"]

ledger_app = typer.Typer(
    help="What is spent, by account; the log; the check; and what is done by hand.", no_args_is_help=True
)
ledger_app.command("open")(open_account)
ledger_app.command()(unlock)
ledger_app.command("recover")(recover)
ledger_app.command("create")(create_ledger)
ledger_app.command()(incident)

_KINDS = ("open", "reserve", "source", "measure", "close", "void", "refuse", "anchor", "recover", "incident")

# What to do about a finding of the check, by words in it; the first that fits.
_HINTS = (
    (
        "was published and charged by entry",
        "restore the newest backup, then `dprelease ledger recover --why TEXT`, which charges what a bundle proves; "
        "move a bundle of another project out of `releases:`",
    ),
    ("restored or failed over", "type `dprelease ledger recover --why TEXT` on every host that it names, and here"),
    ("rolled back", "restore the newest backup, then `dprelease ledger recover --why TEXT`: it only adds spend"),
    ("is gone", "restore the newest backup, then `dprelease ledger recover --why TEXT`"),
    ("is a copy", "use the ledger in its own place; if it was moved, `dprelease ledger recover --why moved`"),
    ("anchor", "put the anchor file back, or name the right one in dprelease.yaml"),
    ("measurement of step", "put back the ledger from a backup that has it; it is never drawn again"),
    ("is kept as", "put back the ledger from a backup that has it"),
    ("its row in the table", "an index was changed by hand or damaged: restore the newest backup"),
    ("altered", "somebody or something changed the file: restore the newest backup that passes this check"),
    ("chain is broken", "an entry was removed or put in: restore the newest backup that passes this check"),
    ("add up", "sums and entries differ: do not release; restore the newest backup that passes this check"),
    ("is a confidential file", "no reference may be the confidential file: give the next release a public one"),
    ("cap", "an account was charged above its cap by another program than this one: read `dprelease ledger log`"),
    ("cannot be read", "read it with the version of dprelease that wrote it"),
)
_HINT = "do not release from it; restore the newest backup that passes this check"


@ledger_app.command()
def status(folder: Folder = Path(), as_json: Json = False) -> None:
    """Spent, reserved and left per account and window, open releases, locks and incidents."""
    from dprelease.release.records.status import policy_accounts, status_facts

    project, ledger = open_project(folder)
    facts = status_facts(ledger, policy_accounts(project))
    if as_json:
        say_json(facts)
        return
    for account in facts["accounts"]:
        for line in _account_lines(account):
            say(line)
    for each in facts["incidents"]:
        say(f"incident, entry {each['entry']}: {each['why']}; {each['corrected']} release(s) corrected")
    if facts["open"]:
        rows = [[each["release"], _publication(each), each["since"], each["plan"]] for each in facts["open"]]
        say("\nopen releases")
        say(text_table(["release", "period", "since", "plan"], rows))
    if facts["locks"]:
        rows = [_lock_row(each) for each in facts["locks"]]
        say("\nlocks")
        say(text_table(["release", "period", "held by", "since", "doing"], rows))


def _publication(release: Mapping[str, Any]) -> str:
    """Its period, and which planned revision of it."""
    return str(release["period"]) + (f" revision {release['revision']}" if release["revision"] else "")


def _lock_row(lock: Mapping[str, Any]) -> list[str]:
    gone = "" if lock["alive"] else " (gone: the lock is free)"
    who = f"process {lock['process']} on {lock['host']}{gone}"
    return [lock["release"], lock["period"], who, lock["since"], lock["doing"]]


def _account_lines(account: Mapping[str, Any]) -> list[str]:
    from dprelease.release.records.status import APART

    order = f" at order {account['order']}" if account["order"] else ""
    known = "" if account["in_policy"] else "; not in the policy any more"
    lines = [
        f"account {account['name']}: protects one {account['unit']} ({account['neighboring']}), "
        f"composition {account['composition']}{order}, {account['releases']} release(s){known}",
        f"  {_about(account)}: {_amounts(account)}",
    ]
    lines += [f"  {each['per']} {each['window']}: {_amounts(each)}" for each in account["windows"]]
    if account["fits"] is not None:
        where = f" into its {account['parallel']}" if account["parallel"] else ""
        lines.append(f"  {account['fits']} more release(s) like the last one fit{where}")
    if account["parallel"]:
        lines.append(f"  {APART.format(per=account['parallel'])}")
    for each in account["raised"]:
        lines.append(f"  the {each['cap']} cap was raised by entry {each['entry']}, {each['at']}: {each['why']}")
    for each in account["recovered"]:
        lines.append(
            f"  recovered: epsilon {each['epsilon']} at delta {each['delta']} has no draws, entry {each['entry']}, "
            f"{each['at']}: {each['why']}"
        )
    for each in account["incidents"]:
        lines.append(f"  incident, entry {each['entry']}: {each['corrected']} release(s) cost more than was claimed")
    if account["hypothetical"]:
        plain = account["plain_sum"]
        together = f"all {account['parallel']}s together, " if account["parallel"] else ""
        lines.append(
            f"  {together}had it been fixed in advance (grants nothing), at delta {account['delta']}; the plain sum of "
            f"the plans is epsilon {plain['epsilon']} at delta {plain['delta']}:"
        )
        table = text_table(["accountant", "epsilon"], list(map(list, account["hypothetical"].items())), frozenset({1}))
        lines += [f"    {line}" for line in table.splitlines()]
    return lines


def _about(account: Mapping[str, Any]) -> str:
    """What the cap is about; of a parallel account the stretch that lost most, or two under ``replace_one``."""
    if not account["parallel"]:
        return "lifetime"
    of = f" ({' and '.join(account['counts'])} lost most)" if account["counts"] else ""
    return f"lifetime of each {account['parallel']}{of}"


def _amounts(facts: Mapping[str, Any]) -> str:
    over = "; OVER THE CAP: nothing more is granted" if facts["over_cap"] else ""
    reserved = f", of it reserved for open releases {facts['reserved']}" if facts["reserved"] != "0" else ""
    cap = as_decimal(facts["cap"])
    return (
        f"spent {facts['currency']} {facts['spent']} of {cap} at delta {facts['delta']}{reserved}; "
        f"left {facts['left']}{over}"
    )


@ledger_app.command()
def log(
    folder: Folder = Path(),
    account: Annotated[str, typer.Option(help="Only entries that open, charge or correct it.")] = "",
    release: Annotated[str, typer.Option(help="Only entries of NAME, or of NAME/PERIOD.")] = "",
    kind: Annotated[str, typer.Option(help=f"Only entries of one kind: {', '.join(_KINDS)}.")] = "",
    since: Annotated[int, typer.Option(metavar="ENTRY", help="Only from this entry on.")] = 0,
    last: Annotated[int, typer.Option(metavar="N", min=0, help="Only the last N of them.")] = 0,
    as_json: Json = False,
) -> None:
    """Entries in order; with --json their full bodies."""
    from dprelease.release.records.status import log_lines

    if kind and kind not in _KINDS:
        raise typer.BadParameter(f"there are: {', '.join(_KINDS)}", param_hint="--kind")
    lines = log_lines(open_project(folder)[1], account, release, kind, since, last)
    if as_json:
        say_json({"entries": lines})
        return
    rows = [[str(each["sequence"]), each["at"], each["kind"], each["what"], each["hash"][:12]] for each in lines]
    say(text_table(["entry", "at", "kind", "what", "hash"], rows, right=frozenset({0})))


@ledger_app.command("check")
def check_ledger(folder: Folder = Path(), as_json: Json = False) -> None:
    """Chain, anchors, published bundles, measurements and sums; exits with 7 where something does not hold."""
    from dprelease.release.check import rounded_releases
    from dprelease.release.data.public_content import published_sources
    from dprelease.release.publishing.published import bundle_findings

    project, ledger = open_project(folder)
    findings = [*ledger.check(), *bundle_findings(ledger, project.releases)]
    if not findings:  # of a ledger that is not sound nothing can be read with certainty
        releases = project.settings.releases
        findings = [*published_sources(ledger, project.folder, project.confidential, project.source_key, releases)]
    hints = advice(findings)
    warnings = ledger.warnings(every=True) if not findings else ()
    rounded = () if findings else rounded_releases(ledger)
    if as_json:
        facts = {"sound": not findings, "findings": findings, "hints": hints}
        say_json({**facts, "warnings": list(warnings), "rounded_in_silence": list(rounded)})
    elif not findings:
        say("the ledger is sound: chain, anchors, published bundles, measurements and sums hold")
    for warning in () if as_json else warnings:
        complain_of(warning)
    if rounded and not as_json:
        say("\nmade of values that were rounded to whole numbers first, which their pages do not say:")
        say("\n".join(f"  {each}" for each in rounded))
        say("release these again with `--restate REASON`; a decimal without a `step` is no longer rounded so")
    if findings:
        raise CheckFailed(
            f"the ledger, or what was released, is not sound: {len(findings)} finding(s)",
            detail="; ".join(findings),
            hint="\n         ".join(hints),
            code="DPR-C101",
        )


def advice(findings: Sequence[str]) -> list[str]:
    """What to do about these findings: one line for each kind of them."""
    hints = [next((hint for words, hint in _HINTS if words in finding), _HINT) for finding in findings]
    return list(dict.fromkeys(hints))


@ledger_app.command("export")
def export_ledger(
    folder: Folder = Path(),
    account: Annotated[str, typer.Option(help="Only this account.")] = "",
    out: Annotated[Path | None, typer.Option(help="Write it there, and not on standard output.")] = None,
) -> None:
    """Everything charged, as JSON with the events in dp_accounting's form, so that strangers can recompute it."""
    from dprelease.release.records.export import export

    facts = export(open_project(folder)[1], account)
    if out is None:
        say_json(facts)
        return
    try:
        out.write_text(json_text(facts), encoding="utf-8")
    except OSError as error:
        raise LedgerError(
            f"cannot write {out}: {error.strerror or type(error).__name__}",
            hint="give --out a file in a folder that you may write to",
            code="DPR-L117",
        ) from error
    say(
        f"{out}: {len(facts['accounts'])} account(s), {sum(len(a['releases']) for a in facts['accounts'].values())} "
        "charge(s)"
    )
