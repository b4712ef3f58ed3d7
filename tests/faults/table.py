"""The table of planted faults, as the page that the documentation has: ``python -m tests.faults.table`` writes it.

Nothing in it is measured here: what it says of a fault is what the tests of ``test_planted.py`` hold it to.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.faults.every_fault import FAULTS
from tests.faults.fault import Fault
from tests.faults.planting import Edit

__all__ = ["PAGE", "page"]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "planted-faults.md"
_HEAD = """# Planted faults

A suite of tests is worth what it would find. These {count} faults of {kinds} kinds are planted one at a time, most of them as
one replacement in one function, and each must be seen: by a test of the suite that was there for another reason, by `verify`
where the fault is in the plan, by `dprelease audit` where it is in what measures. `make faults` plants them all again;
`make test-all` plants them all and shows a few to `audit`, `make test` one of each kind. This page is made from the list of
faults (`python -m tests.faults.table`), and a test holds the two together.

- Seen by a test of `make test-all`: {seen} of {count}; {fast} of these tests are in `make test`, {part} more in part (some of
  their cases), and {plan} faults are in the plan, where it is `verify` that is tested, in `make test`.
- Refused by `verify`, or while planning: {verified}.
- Reported as a breach by `audit`: {audited}, {code} of them in the code of the measuring path.
- A comment in the place of a fault is seen by nobody, and a fault that no longer fits the code is an error, not a find.

Where `audit` is empty, the fault is in the plan (which `verify` refuses before there is anything to attack), in the ledger or
on a page, none of which an audit attacks, or it is one of the {beyond} at the end, with the reason. The {native} faults of the native sampler that
`tests/unit/test_noise_faults.py` plants are not among these.

| kind | faults |
|---|---|
"""
_TABLE = """
| fault | kind | what is then told, or wrong | place | test that fails | `verify` says | `audit` |
|---|---|---|---|---|---|---|
"""

_BEYOND = """
## What reads, totals and hides, and no audit sees

| fault | why |
|---|---|
"""


def page() -> str:
    """The whole page."""
    from tests.unit.test_noise_faults import FAULTS as NATIVE

    kinds = Counter(fault.kind for fault in FAULTS)
    tiers = Counter(fault.seen.tier for fault in FAULTS if fault.seen)
    head = _HEAD.format(
        count=len(FAULTS),
        kinds=len(kinds),
        seen=sum(fault.seen is not None or bool(fault.verify) for fault in FAULTS),
        fast=tiers["fast"],
        part=tiers["part"],
        plan=sum(fault.seen is None for fault in FAULTS),
        verified=sum(bool(fault.verify) for fault in FAULTS),
        audited=sum(fault.audit for fault in FAULTS),
        code=sum(fault.audit and fault.plant is not None for fault in FAULTS),
        native=len(NATIVE),
        beyond=sum(bool(fault.beyond) for fault in FAULTS),
    )
    counts = "".join(f"| {kind} | {number} |\n" for kind, number in sorted(kinds.items()))
    reasons = "".join(f"| `{fault.name}` | {fault.beyond} |\n" for fault in FAULTS if fault.beyond)
    return head + counts + _TABLE + "".join(map(_row, FAULTS)) + _BEYOND + reasons


def _row(fault: Fault) -> str:
    test = (
        f"`{fault.seen.id}`"
        if fault.seen
        else "`faults/test_planted.py::test_verify_refuses_a_plan_that_was_made_with_it`"
    )
    cells = [
        f"`{fault.name}`",
        fault.kind,
        fault.tells,
        _place(fault),
        test,
        f"… {fault.verify}" if fault.verify else "",
        "breach" if fault.audit else "",
    ]
    return f"| {' | '.join(each.replace('|', chr(92) + '|') for each in cells)} |\n"


def _place(fault: Fault) -> str:
    if fault.spoil is not None:
        return "every step of a plan"
    return f"`{fault.plant.place}`" if isinstance(fault.plant, Edit) else "a patch, `tests/faults/path_faults.py`"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
