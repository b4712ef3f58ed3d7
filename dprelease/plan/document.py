"""The plan as a value: canonical JSON, a fingerprint, and the ledger head pinned beside it."""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

from pydantic import Field

from dprelease.canonical import Value
from dprelease.catalog.aggregate import BoundedAggregate
from dprelease.catalog.table import Catalog, Column
from dprelease.measures import AnyMeasure
from dprelease.noise import MECHANISMS, Law
from dprelease.privacy.budget import Budget, Loss
from dprelease.privacy.event import Composed, Event, Sensitivity
from dprelease.privacy.unit import Neighboring, PrivacyUnit

__all__ = [
    "Account",
    "AccountStanding",
    "Answer",
    "Batch",
    "FrozenPlan",
    "Head",
    "Output",
    "PlannedQuery",
    "Publish",
    "ReleaseInfo",
    "ReleasePlan",
    "Standing",
    "Step",
]

AccountantName = Literal["basic", "advanced", "zcdp", "rdp"]
Composition = Literal["basic", "zcdp"]


class ReleaseInfo(Value):
    """What is released: its identity in the ledger is (name, period)."""

    name: str
    period: str
    title: str = ""
    curator: str = ""
    contact: str = ""
    intended_use: str = ""


class Answer(Value):
    """One measure of one query."""

    query: str
    measure: str


class Step(Value):
    """One draw: a bounded aggregate, the mechanism that hides it, and what that costs.

    Attributes:
        id: Unique in the plan; letters, digits, ``.``, ``-`` and ``_``.
        answers: The measures that it serves.
        aggregate: What the engine computes.
        mechanism: A name in ``MECHANISMS``.
        sensitivity: In grid steps; re-derived by ``verify``.
        scale: Of the noise, in grid steps; exactly a 64-bit float.
        share: Of the release's budget; the shares of a plan add up to exactly one.
        cells: The number of cells.
    """

    id: str
    answers: tuple[Answer, ...]
    aggregate: BoundedAggregate
    mechanism: str
    sensitivity: Sensitivity
    scale: Fraction = Field(gt=0)
    share: Fraction = Field(gt=0)
    cells: int = Field(ge=1)

    @property
    def event(self) -> Event:
        """What the step costs."""
        return MECHANISMS[self.mechanism].event(self.scale, self.sensitivity)

    @property
    def law(self) -> Law:
        """The public distribution of its noise, in grid steps."""
        return MECHANISMS[self.mechanism].law(self.scale)


class PlannedQuery(Value):
    """One published table.

    ``inputs`` names, for each measure, the steps that feed it in the order its ``estimate`` takes them.
    """

    name: str
    title: str
    table: str
    by: tuple[str, ...]
    measures: dict[str, AnyMeasure]
    inputs: dict[str, tuple[str, ...]]
    expect: dict[str, int] = {}


class Output(Value):
    """Accuracy of one measure before any draw, as decimal text in units of the column; or why it cannot be said."""

    query: str
    table: str
    measure: str
    steps: tuple[str, ...]
    standard_error: str | None
    margin: str | None
    why_null: str | None = None


class Account(Value):
    """What the data owner's policy says of an account."""

    name: str
    unit: str
    neighboring: Neighboring
    composition: Composition
    lifetime: Budget


class Publish(Value):
    """How the tables are shown."""

    formats: tuple[Literal["csv", "parquet", "html"], ...] = ("csv", "parquet", "html")
    confidence: Fraction = Fraction(95, 100)
    unreliable_above: Fraction | None = None
    unreliable_show: Literal["flag", "blank"] = "flag"


class ReleasePlan(Value):
    """Everything that will happen, complete enough to run, publish and verify without the spec.

    The order of ``steps`` is the order in which they run; ``certified`` is the smallest total loss that an
    accountant in ``loss`` can prove at ``budget.delta``.
    """

    format: Literal[1] = 1
    release: ReleaseInfo
    spec_fingerprint: str
    unit: PrivacyUnit
    neighboring: Neighboring
    budget: Budget
    accounting: Literal["auto", "basic", "advanced", "zcdp", "rdp"]
    accounts: tuple[Account, ...]
    catalog: Catalog
    queries: tuple[PlannedQuery, ...]
    steps: tuple[Step, ...]
    loss: dict[AccountantName, Loss]
    certified: AccountantName
    outputs: tuple[Output, ...]
    publish: Publish

    @property
    def event(self) -> Composed:
        """The whole release as one event."""
        return Composed(events=tuple(step.event for step in self.steps))

    def event_of(self, account: str) -> Composed:
        """What the release costs one account: the steps on its tables."""
        tables = {name for name, table in self.catalog.tables.items() if table.account == account}
        return Composed(events=tuple(step.event for step in self.steps if step.aggregate.table in tables))

    def step(self, step_id: str) -> Step:
        """The step of that id."""
        return next(step for step in self.steps if step.id == step_id)

    def keys(self, query: PlannedQuery) -> tuple[Column, ...]:
        """The key columns of a query, in published order."""
        table = self.catalog.tables[query.table]
        return tuple(table.column(name) for name in query.by)

    def batches(self) -> tuple[Batch, ...]:
        """Steps that share one pass over a table, in plan order; at most 50 steps each."""
        passes: dict[tuple[str, tuple[str, ...]], list[Step]] = {}
        for step in self.steps:
            passes.setdefault((step.aggregate.table, step.aggregate.by), []).append(step)
        return tuple(
            Batch(table=table, by=by, steps=tuple(steps[start : start + 50]))
            for (table, by), steps in passes.items()
            for start in range(0, len(steps), 50)
        )


class Batch(Value):
    """Steps that share one pass over a table."""

    table: str
    by: tuple[str, ...]
    steps: tuple[Step, ...]


class Head(Value):
    """The last ledger entry of an account: sequence number (0: none yet) and hash."""

    sequence: int = 0
    hash: str = ""


class AccountStanding(Value):
    """One account as the ledger has it: its head, and every event ever charged to it."""

    head: Head = Head()
    charged: tuple[Event, ...] = ()


class Standing(Value):
    """What has been spent, as a value; an account that the ledger does not know has the empty standing."""

    accounts: dict[str, AccountStanding] = {}

    def of(self, account: str) -> AccountStanding:
        """The standing of one account."""
        return self.accounts.get(account, AccountStanding())


class FrozenPlan(Value):
    """A plan kept for review: the plan, its fingerprint, and what it was made against.

    ``spec_file`` is relative to the project's folder, with forward slashes.
    """

    kind: Literal["dprelease-plan"] = "dprelease-plan"
    plan: ReleasePlan
    plan_fingerprint: str
    spec_file: str
    heads: dict[str, Head]
