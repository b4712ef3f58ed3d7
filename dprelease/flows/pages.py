"""What a run leaves beside it on Prefect's pages: the plan, how far it is, the accounts, and where the release is.

Artifacts lie in Prefect's database in clear. The plan reads no data, and an outcome is published: both are public.
A page that cannot be written stops nothing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast
from uuid import UUID

import httpx
from prefect import get_client, runtime
from prefect.artifacts import (
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.client.schemas.actions import LogCreate
from prefect.context import FlowRunContext
from prefect.exceptions import PrefectException

if TYPE_CHECKING:
    from dprelease.flows.run_context import RunContext
    from dprelease.plan.document import ReleasePlan
    from dprelease.release.publishing.rendering import Outcome

__all__ = ["LOST", "Listener", "Pages", "plan_rows", "rename_run"]

LOST = (httpx.HTTPError, PrefectException, OSError, RuntimeError)
"""What Prefect raises when its server does not answer."""

_EVERY = 2.0  # seconds between two updates of the progress

Result = TypeVar("Result")


class Listener:
    """The server, as long as it takes what it is told; each call that it does not answer costs many seconds."""

    def __init__(self) -> None:
        self.gone = False

    def tell(self, do: Callable[[], Result]) -> Result | None:
        """Tell it something, unless it is gone; None if it was not told."""
        if self.gone:
            return None
        try:
            return do()
        except LOST:
            self.gone = True
            return None

    def say(self, text: str, level: int = logging.INFO) -> None:
        """A line in the log of the run, at this level; written by us alone, whatever is logged around it."""
        if self.gone:
            return
        line = LogCreate(
            name="dprelease",
            level=level,
            message=text,
            timestamp=datetime.now(UTC),
            flow_run_id=UUID(str(runtime.flow_run.id)),
        )

        def write() -> None:
            with get_client(sync_client=True) as client:
                client.create_logs([line])

        self.tell(write)


class Pages:
    """The artifacts of one release."""

    def __init__(self, context: RunContext, listener: Listener) -> None:
        self._work, self._tell, self._say = context, listener.tell, listener.say
        self._name = f"{context.run.plan.release.name}/{context.run.plan.release.period}"
        self._key = context.run.plan.release.name
        self._bar: UUID | None = None
        self._shown = time.monotonic()

    def begin(self) -> None:
        """The plan, and a bar at its beginning."""
        plan = self._work.run.plan
        self._say(f"{self._name}: {len(plan.steps)} steps; {self._work.total} measurements are to be made")
        about = f"What {self._name} asks, how it is hidden, and its margins of error. Plan `{plan.fingerprint()[:12]}`"
        self._tell(lambda: create_table_artifact(key=f"{self._key}-plan", table=plan_rows(plan), description=about))
        self._bar = self._tell(self._begin_bar)

    def advance(self) -> None:
        """Move the bar, at most every two seconds; its end is told with the rest."""
        if self._work.done < self._work.total and time.monotonic() - self._shown >= _EVERY:
            self._move()

    def end(self, outcome: Outcome) -> None:
        """The bar at its end, the accounts, and where the release is."""
        self._say(f"{self._name}: {outcome.state}, {outcome.drawn} steps drawn, {outcome.reused} reused")
        self._move()
        accounts = [account.model_dump(mode="json") for account in outcome.accounts]
        about = f"Accounts before and after {self._name}"
        self._tell(lambda: create_table_artifact(key=f"{self._key}-accounting", table=accounts, description=about))
        about = f"{self._name} ({outcome.state})"
        text = _where(self._name, outcome)
        self._tell(lambda: create_markdown_artifact(key=f"{self._key}-release", markdown=text, description=about))

    def _begin_bar(self) -> UUID:
        artifact = create_progress_artifact(0.0, f"{self._key}-progress", self._told())
        return cast(UUID, artifact)  # and not its coroutine, for no loop runs here

    def _move(self) -> None:
        bar, total = self._bar, self._work.total
        if bar is None:
            return
        share = 100.0 * self._work.done / total if total else 100.0
        self._tell(lambda: update_progress_artifact(bar, share, self._told()))
        self._shown = time.monotonic()

    def _told(self) -> str:
        return f"{self._name}: {self._work.done} of {self._work.total} steps measured"


def plan_rows(plan: ReleasePlan) -> list[dict[str, str]]:
    """One row for every published number: what it is, how it is hidden, and its margin of error."""
    wholes = {(query.name, label): each.whole for query in plan.queries for label, each in query.measures.items()}
    wholes |= {(query.name, label): each.whole for query in plan.queries for label, each in query.compare.items()}
    return [
        {
            "query": output.query,
            "measure": output.measure,
            "mechanism": ", ".join(dict.fromkeys(_mechanism(plan, step) for step in output.steps)),
            "margin": _margin(output.margin, wholes[output.query, output.measure]),
        }
        for output in plan.outputs
    ]


def _mechanism(plan: ReleasePlan, step: str) -> str:
    exact = {each.id for each in plan.invariants}
    return "none: exact" if step in exact else plan.step(step).mechanism.replace("_", " ")


def _margin(text: str | None, whole: int = 1) -> str:
    """To four digits, and whole from a thousand on; empty where the law cannot say."""
    if text is None:
        return ""
    margin = float(text)
    sign = " %" if whole == 100 else ""
    return f"± {margin:,.0f}{sign}" if margin >= 1000 else f"± {margin:.4g}{sign}"


def _where(name: str, outcome: Outcome) -> str:
    folder = Path(outcome.folder)
    page = folder / "index.html"
    link = page if page.exists() else folder
    beside = f"- {outcome.unprotected}\n" if outcome.unprotected else ""
    return (
        f"# {name}\n\n"
        f"[{link.name}]({link.as_uri()}) in `{folder}`\n\n"
        f"- {outcome.drawn} steps drawn, {outcome.reused} reused\n"
        f"- epsilon {outcome.epsilon} at delta {outcome.delta}\n"
        f"{beside}"
        f"- plan `{outcome.plan_fingerprint}`\n\n"
        f"`dprelease verify {folder}` checks it.\n"
    )


def rename_run(name: str, listener: Listener) -> None:
    """Call the run that is under way by what it turned out to be about."""
    if (context := FlowRunContext.get()) is not None and context.flow_run is not None:
        context.flow_run.name = name  # a hook is handed this one

    def rename() -> None:
        with get_client(sync_client=True) as client:
            client.update_flow_run(UUID(str(runtime.flow_run.id)), name=name)

    listener.tell(rename)
