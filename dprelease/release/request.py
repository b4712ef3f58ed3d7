"""What somebody asks to be released."""

from __future__ import annotations

from pydantic import Field

from dprelease.canonical import Value
from dprelease.noise import Sampler

__all__ = ["Request"]


class Request(Value):
    """What to release. Public: an orchestrator stores it in clear.

    Attributes:
        target: Path of a spec or of a frozen plan.
        synthetic: Rehearse on made-up rows, with a ledger that is thrown away.
        restate: Why it replaces what was released for the same name and period; empty: it does not.
        accept_changed_data: Why a release that was begun goes on although its data have changed; empty: it does not.
        period: Takes the place of the spec's own; None: that one.
        as_planned: Finish a release that was begun with its stored plan, although the spec has changed since.
        revision: Which planned revision of the period; 0: the first publication.
        early: Why it is begun although the data of its period are not complete yet, by the schedule; empty: it is not.
        audit: Path of what ``dprelease audit`` found of the plan, for a page of the bundle; empty: there is none.
        sampler: What draws the noise of a release that is reserved now; one that is resumed keeps its own.
    """

    target: str
    synthetic: bool = False
    restate: str = ""
    accept_changed_data: str = ""
    period: str | None = None
    as_planned: bool = False
    revision: int = Field(default=0, ge=0)
    early: str = ""
    audit: str = ""
    sampler: Sampler = "native"
