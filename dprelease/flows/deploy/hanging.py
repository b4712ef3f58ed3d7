"""Runs that Prefect shows as begun for ever: their process was killed, and nobody is left to end them. Pure.

They are named and not ended. Prefect does not know whether a process is alive, and a live run that is marked as crashed
has its next tasks refused. The ledger knows better than both; nothing of a release depends on these states.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

__all__ = ["UNFINISHED", "hanging"]

UNFINISHED = ("Submitting", "Pending", "Running", "Retrying", "AwaitingRetry", "Cancelling")
_LONG = timedelta(minutes=10)


def hanging(release: str, runs: Sequence[tuple[str, str, datetime]], now: datetime) -> Iterator[str]:
    """What to tell of the runs that have been in a state of `UNFINISHED` for long; nothing: there are none.

    Args:
        release: The deployment's release.
        runs: Prefect's id, the name of the state, and since when, with a time zone.
        now: With a time zone.
    """
    old = sorted((since, name, state) for name, state, since in runs if state in UNFINISHED and now - since > _LONG)
    if not old:
        return
    yield (
        f"{release}: {len(old)} run(s) are begun in Prefect for more than {int(_LONG.total_seconds() // 60)} minutes; "
        "where nobody works on them (`dprelease ledger status` names the locks), they were killed, and nothing waits "
        "for them:"
    )
    for since, name, state in old:
        yield f"  {state} since {since:%Y-%m-%dT%H:%M:%SZ}; to remove it from the pages: prefect flow-run delete {name}"
