"""``dprelease audit``: attack a plan by the product's own path on made-up rows, before it is released."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dprelease.cli.options import Json, Period
from dprelease.cli.views import json_text, say, say_json, text_table
from dprelease.errors import CheckFailed

if TYPE_CHECKING:
    from dprelease.audit import AuditReport

__all__ = ["audit_command"]

_HEAD = ["draw", "mechanism", "reached", "runs a side", "seconds", "claimed", "proved", "of it", ""]


def audit_command(
    spec: Annotated[Path, typer.Argument(help="A spec file, or a frozen plan.")],
    seconds: Annotated[
        float, typer.Option("--budget-seconds", min=1, max=86400, help="About how long it attacks.")
    ] = 60,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write what it found: audit.json.")] = None,
    period: Period = None,
    as_json: Json = False,
) -> None:
    """Attack a plan on made-up neighbouring data sets, by what measures a release; reads no data, charges nothing."""
    from dprelease.audit import audit_spec
    from dprelease.regular import replace_file

    if out is not None and not out.parent.is_dir():
        raise typer.BadParameter(f"{out.parent} is no folder; make it first", param_hint="--out")
    report = audit_spec(spec, seconds=seconds, period=period, show=_progress)
    facts = _facts(report)
    if out is not None:
        replace_file(out, json_text(facts).encode(), 0o644)
    if as_json:
        say_json(facts)
    else:
        _show(report)
    if report.breached:
        wrong = [(each.draw, says) for each in report.draws for says in each.breaches]
        raise CheckFailed(
            f"the plan tells more than it claims, in {len({draw for draw, _ in wrong})} of {len(report.draws)} attacks",
            detail="\n".join(f"{draw}: {says}" for draw, says in wrong),
            hint="release nothing with this version; please report it, with the spec and audit.json",
            code="DPR-C140",
        )


def _progress(label: str, done: int, total: int) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{label}: {done} of {total}" + "\n" * (done == total))


def _facts(report: AuditReport) -> dict[str, Any]:
    from dprelease.audit import MISS

    facts = asdict(report)
    return {**facts, "chance_of_a_false_breach": MISS, "breached": report.breached}


def _show(report: AuditReport) -> None:
    from dprelease.audit import CANARIES, MISS

    rows = [
        [
            each.draw,
            each.mechanism,
            "" if each.reached is None else f"{each.reached:.0%}",
            f"{each.runs:,}",
            f"{each.seconds:.1f}",
            f"{each.claimed:.4f}",
            f"{each.proved:.4f}",
            f"{each.proved / each.claimed:.0%}" if each.claimed else "",
            "BREACH" if each.breaches else "",
        ]
        for each in report.draws
    ]
    say(f"{report.release}/{report.period}: epsilon at the delta of the budget, claimed, and proved by attacks")
    if any(each.draw == CANARIES for each in report.draws):
        say("(of canaries: at a far smaller delta)")
    say()
    say(text_table(_HEAD, rows, frozenset(range(2, 8))))
    say()
    say(
        f"{report.tests} tests on {report.units_tried} made-up units in {report.seconds:.0f} s; a plan that keeps its "
        f"promise is accused with probability {MISS:g} at most"
    )
    if not report.breached:
        say("no attack proved more than is claimed; that is no proof that none can")
