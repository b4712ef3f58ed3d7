"""Audits of the example specs: of every draw what was claimed and what attacks proved, in so many runs and seconds.

``python -m bench.audits --seconds 30 --page docs/audits.md`` writes the page that the documentation has. It is no
test: a busy machine gets fewer runs, and proves less.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from dprelease.audit import MISS, AuditReport, DrawAudit, audit_spec
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

{said}
"""


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
    head = _HEAD.format(seconds=given.seconds, shown=_SHOWN, spent=time.process_time() - begun, said=said)
    if given.page:
        given.page.write_text(head + "\n" + "\n".join(parts), encoding="utf-8")


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
