"""`schedule: revisions`: how often a period is released again; how many there are is part of the spec, when is not."""

from __future__ import annotations

from datetime import date

import pytest

from dprelease.errors import Problem, SpecError
from dprelease.spec.fields.schedule import read_schedule
from dprelease.spec.load import load

from .spec_example import SPEC, swapped
from .test_spec_schedule import SCHEDULE, WHOLE, problems_of, schedule


def planned(text: str, base: str = WHOLE) -> str:
    """The spec with these lines in its schedule."""
    return swapped("retention: 90d", f"retention: 2y, {text}", base)


def test_how_many_there_are_changes_the_fingerprint_and_their_times_do_not() -> None:
    none, one, other, two = (
        load(planned(f"revisions: {text}"), "spec.yaml") for text in ("[]", "[1m]", "[6m]", "[1m, 12m]")
    )

    assert none.fingerprint == load(SPEC, "spec.yaml").fingerprint  # as it was before there were revisions
    assert one.fingerprint == other.fingerprint != none.fingerprint
    assert two.fingerprint not in (one.fingerprint, none.fingerprint)
    assert (none.spec.revisions, one.spec.revisions, two.spec.revisions) == (0, 1, 2)


def test_a_revision_is_due_so_long_after_the_end_of_the_period_in_both_time_zones() -> None:
    found = schedule(timezone="America/New_York", revisions=("1m", "12m"))

    # The end of January; a month later midnight comes five hours later in New York than in UTC.
    assert found.revised(date(2024, 2, 1), 1).isoformat() == "2024-03-01T05:00:00+00:00"
    assert found.revised(date(2024, 2, 1), 2).isoformat() == "2025-02-01T05:00:00+00:00"
    assert schedule(timezone="Asia/Tokyo", revisions=("30d",)).revised(date(2024, 2, 1), 1).day == 2


def test_late_rows_go_into_the_next_revision_where_there_is_one_and_are_never_published_else() -> None:
    assert schedule(revisions=("1m",)).takes_late_rows
    assert schedule(revisions=("1m",), late_rows="next_revision").takes_late_rows
    assert not schedule().takes_late_rows
    assert not schedule(late_rows="never").takes_late_rows


@pytest.mark.parametrize(
    ("text", "code", "at", "hint"),
    [
        ("revisions: [4d]", "DPR-S640", "schedule.revisions[0]", "period's end"),  # the data are complete after 4d
        ("revisions: [96h]", "DPR-S640", "schedule.revisions[0]", "period's end"),
        ("revisions: [1m, 1m]", "DPR-S641", "schedule.revisions[1]", "in order"),
        ("revisions: [1m, 30d]", "DPR-S641", "schedule.revisions[1]", "in order"),  # a month has 28 days, or 31
        ("revisions: [6m, 1m]", "DPR-S641", "schedule.revisions[1]", "in order"),
        ("revisions: [1m, 24m]", "DPR-S642", "schedule.revisions[1]", "retention"),
        (f"revisions: [{', '.join(f'{m}m' for m in range(1, 14))}]", "DPR-S643", "schedule.revisions", "fewer"),
        ("revisions: [1w]", "DPR-S632", "schedule.revisions[0]", "1m"),
        ("late_rows: next_revision", "DPR-S644", "schedule.late_rows", "revisions: [1m]"),
        ("revisions: [1m], late_rows: never", "DPR-S644", "schedule.late_rows", "leave out"),
        ("late_rows: always", "DPR-S202", "schedule.late_rows", "next_revision"),
    ],
)
def test_what_cannot_be_is_told_at_its_place(text: str, code: str, at: str, hint: str) -> None:
    whole = planned(text)
    (problem,) = problems_of(whole)

    assert (problem.code, f"`{at}`" in problem.summary) == (code, True), problem
    assert hint in problem.hint
    assert problem.where is not None
    line = whole.splitlines()[problem.where.line - 1]
    assert line[problem.where.column - 1 :].startswith(written(text, at)), problem.where
    assert problem in alone(SPEC + planned(text, SCHEDULE))


def written(text: str, at: str) -> str:
    """What stands at the place that is named."""
    if at.endswith("late_rows"):
        return text.rpartition("late_rows: ")[2]
    return text.partition("revisions: ")[2].strip("[]").split(", ")[int(at[-2])] if at.endswith("]") else text


def alone(text: str) -> tuple[Problem, ...]:
    """What `due` says, which reads the schedule and nothing else."""
    with pytest.raises(SpecError) as caught:
        read_schedule(text, "spec.yaml")
    return caught.value.problems
