"""Audits of the example specs: of every draw what was claimed and what attacks proved, in so many runs and seconds.

``python -m bench.audits --seconds 30 --page docs/audits.md`` writes the page that the documentation has. It is no
test: a busy machine gets fewer runs, and proves less.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

from dprelease.audit import MISS, AuditReport, DrawAudit, audit_spec
from dprelease.audit.audit import OF_CANARIES, TINY
from dprelease.audit.bounds import epsilon_of_guesses
from dprelease.errors import DpReleaseError

ROOT = Path(__file__).resolve().parents[1]
_SHOWN = 10  # draws of a spec
_HEAD = """# Audits of the example specs

What `dprelease audit` found of every spec in `specs/` that it can attack, with {seconds:g} seconds for each; `python -m
bench.audits` makes this page. ε is that at the δ of the budget (of canaries at a far smaller one). *Reached* is the
part of the stated sensitivity that the two made-up data sets differ by. Up to {shown} draws of a spec are listed, those
with the largest part of their claim proved. The audits took {spent:.0f} seconds of processor time on a machine that did
other things besides; a quiet one, or more seconds, would prove more. [What an audit is](how-to/audit.md), and [what it
is known to see](planted-faults.md).

{canaries}

{said}
"""
_CANARIES = """Canaries prove little of such claims, and cannot do more in that time: a reading of a table has no more
of them than there are units that move no number together, and each reading writes files and reads them anew. Of a
claim of 1 that every canary shows in full about {some:,} guesses prove a tenth and {half:,} a half, for a breach must
be false as seldom as of all other tests. What they are there for are faults of the reading that betray who is in a
table: {sure} right guesses of {sure} prove 1 and more."""


def main() -> None:
    """Audit and write."""
    asked = argparse.ArgumentParser()
    asked.add_argument("--seconds", type=float, default=30)
    asked.add_argument("--page", type=Path)
    asked.add_argument("specs", nargs="*", help="names in specs/; none: all")
    given = asked.parse_args()
    begun, parts, left_out, breached = time.process_time(), [], [], 0
    for path in sorted((ROOT / "specs").glob("*.yaml")):
        if path.name in ("dprelease.yaml", "policy.yaml") or (given.specs and path.stem not in given.specs):
            continue
        started = time.process_time()
        try:
            report = audit_spec(path, seconds=given.seconds)
        except DpReleaseError as error:
            left_out.append(f"`{path.stem}`: {error.summary}")
            continue
        breached += report.breached
        parts.append(_part(path.stem, report, time.process_time() - started))
        print(parts[-1], flush=True)
    said = (
        f"{len(parts)} specs were audited, and {breached} breaches reported; a right plan is accused with probability "
        f"{MISS:g} at most."
    )
    said += "".join(f" Left out: {each}." for each in left_out)
    canaries = _CANARIES.format(some=guesses_for(0.1), half=guesses_for(0.5), sure=guesses_for(1.0, certain=True))
    head = _HEAD.format(
        canaries=canaries, seconds=given.seconds, shown=_SHOWN, spent=time.process_time() - begun, said=said
    )
    if given.page:
        given.page.write_text(head + "\n" + "\n".join(parts), encoding="utf-8")


def guesses_for(epsilon: float, *, certain: bool = False) -> int:
    """How many guesses prove so much of a claim of 1 whose canaries show it in full, or are told for certain."""
    right = 1.0 if certain else 1 / (1 + math.exp(-1))

    def proves(guesses: int) -> bool:
        delta, miss = float(TINY), MISS * OF_CANARIES
        return epsilon_of_guesses(int(right * guesses), guesses, guesses, delta, miss) >= epsilon

    above = next(guesses for guesses in (2**power for power in range(1, 20)) if proves(guesses))
    return next(guesses for guesses in range(above // 2, above + 1) if proves(guesses))


def _part(name: str, report: AuditReport, spent: float) -> str:
    ranked = sorted(report.draws, key=lambda each: -each.proved / max(each.claimed, 1e-300))
    shown = [each for each in report.draws if each in ranked[:_SHOWN] or not each.mechanism]
    rows = "".join(map(_row, shown))
    more = len(report.draws) - len(shown)
    idle = sum(not each.runs for each in report.draws)
    text = f"## {name}\n\n{len(report.draws)} attacks, {report.tests} events on {report.units_tried} made-up units, "
    text += f"{spent:.0f} s of processor time"
    text += f"; {idle} had no time for enough runs" if idle else ""
    head = "| draw | mechanism | reached | runs a side | seconds | claimed | proved | of it |\n"
    head += "|---|---|---|---|---|---|---|---|\n"
    return f"{text}.\n\n{head}{rows}" + (f"\n{more} further draws.\n" if more else "")


def _row(each: DrawAudit) -> str:
    reached = "" if each.reached is None else f"{each.reached:.0%}"
    part = f"{each.proved / each.claimed:.0%}" if each.claimed else ""
    figures = [f"{each.runs:,}", f"{each.seconds:.1f}", f"{each.claimed:.3f}", f"{each.proved:.3f}"]
    cells = [f"`{each.draw}`", each.mechanism, reached, *figures, part]
    return f"| {' | '.join(cells)} |\n"


if __name__ == "__main__":
    main()
