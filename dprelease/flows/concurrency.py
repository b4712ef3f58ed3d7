"""One run at a time for each ledger account: a courtesy on which nothing rests.

The ledger lets any number of releases charge an account at once, and each step is drawn once whoever runs beside it.
To wait in line only saves work and memory. Prefect forgets who holds a slot when its server is killed (its leases are
in memory, the count of taken slots is in its database), and the slot stays taken for ever. So a run waits for a
bounded time, then sets the count back and goes on: a stuck slot delays a schedule by that time, once.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence

from prefect import get_client
from prefect.concurrency.sync import concurrency
from prefect.exceptions import ObjectNotFound

from dprelease.flows.pages import LOST

__all__ = ["ACCOUNT", "PATIENCE", "limit_names", "make_limits", "one_at_a_time"]

ACCOUNT = "account:"
"""What a tag begins with that names an account."""

PATIENCE = 30.0
"""Seconds that a run waits for its accounts."""

_LEASE = 60.0  # seconds; the least that Prefect takes. A killed run's slots are free a little after that.


def limit_names(tags: Sequence[str]) -> list[str]:
    """The limits of the accounts that a run's tags name.

    >>> limit_names(["dprelease", "account:acs"])
    ['dprelease-account-acs']
    """
    return sorted(f"dprelease-account-{tag.removeprefix(ACCOUNT)}" for tag in tags if tag.startswith(ACCOUNT))


def make_limits(names: Sequence[str]) -> None:
    """Make sure that there is a limit of one for each name."""
    with get_client(sync_client=True) as client:
        for name in names:
            try:
                client.read_global_concurrency_limit_by_name(name)
            except ObjectNotFound:
                client.upsert_global_concurrency_limit_by_name(name, 1)


@contextlib.contextmanager
def one_at_a_time(names: Sequence[str]) -> Iterator[None]:
    """Hold the limits of some accounts together, if they can be had; go on without them if not."""
    if not names:
        yield
        return
    held = contextlib.ExitStack()
    quiet = logging.getLogger("prefect.concurrency")
    before, quiet.disabled = quiet.disabled, True  # a lease that cannot be renewed is nothing to tell
    try:
        held.enter_context(
            concurrency(
                list(names), timeout_seconds=PATIENCE, lease_duration=_LEASE, raise_on_lease_renewal_failure=False
            )
        )
    except TimeoutError:
        _set_back(names)
    except Exception:  # noqa: S110  (whatever Prefect raises of it: to wait is all that was asked)
        pass
    try:
        yield
    finally:
        with contextlib.suppress(Exception):
            held.close()
        quiet.disabled = before


def _set_back(names: Sequence[str]) -> None:
    """Free slots that nobody freed for as long as we waited: whoever held them is gone, or does without."""
    from prefect.client.schemas.actions import GlobalConcurrencyLimitUpdate

    with contextlib.suppress(*LOST), get_client(sync_client=True) as client:
        for name in names:
            client.update_global_concurrency_limit(name, GlobalConcurrencyLimitUpdate(active_slots=0))
