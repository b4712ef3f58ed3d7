"""The plan as a value: canonical JSON, a fingerprint, and the ledger head pinned beside it."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from dprelease.canonical import Value
from dprelease.catalog.aggregate import BoundedAggregate, Grouping, Quantity
from dprelease.catalog.table import Catalog, Column
from dprelease.measures import AnyMeasure
from dprelease.noise import Law
from dprelease.plan.account import Account, Composition, Parallel, Window
from dprelease.plan.approved import Approval
from dprelease.plan.draws import Choosing, event_of, law_of
from dprelease.plan.info import ReleaseInfo
from dprelease.plan.standing import AccountStanding, Head, Standing
from dprelease.privacy.budget import Budget, Loss
from dprelease.privacy.convert import converted, factor
from dprelease.privacy.event import Composed, Event, Repeated, Sensitivity
from dprelease.privacy.unit import Neighboring, PrivacyUnit

__all__ = [
    "Account",
    "AccountStanding",
    "Answer",
    "Batch",
    "Choosing",
    "Composition",
    "Considered",
    "Derived",
    "Feed",
    "FormatName",
    "FrozenPlan",
    "Goal",
    "Head",
    "Naive",
    "Output",
    "Parallel",
    "PlannedQuery",
    "Publish",
    "Ranking",
    "ReleaseInfo",
    "ReleasePlan",
    "Selecting",
    "Standing",
    "Step",
    "Window",
]

AccountantName = Literal["basic", "advanced", "zcdp", "rdp", "pld"]


class Answer(Value):
    """One measure of one query."""

    query: str
    measure: str


class Selecting(Value):
    """Of a step that decides which keys appear: those whose noisy number of units reaches the threshold.

    Attributes:
        threshold: At least so many, noise included; where a coin decides (``optimal_selection``), the least number of
            units with which a key appears as likely as not.
        delta: At least the probability that a key shows which one unit alone has.
        left_out: Of a coin: so many units of every key do not count, so that the threshold is the author's.
    """

    threshold: int
    left_out: int = Field(default=0, ge=0)
    delta: Fraction = Field(gt=0, lt=1)


class Step(Value):
    """One draw: a bounded aggregate, the mechanism that hides it, and what that costs.

    A joint step hides several quantities of the same cells with one vector of noise per cell.

    Attributes:
        id: Unique in the plan; letters, digits, ``.``, ``-`` and ``_``.
        answers: The measures that it serves.
        aggregate: What the engine computes: the first quantity, and the only one but for a joint step.
        joined: The further quantities of a joint step, over the same cells.
        mechanism: A name in ``MECHANISMS``; in ``JOINT_MECHANISMS`` for a joint step, in ``CHOICES`` for one that
            chooses, in ``SELECTIONS`` for one that selects keys.
        sensitivity: In grid steps (in scores, where it chooses), of all quantities together; ``verify`` derives it
            again.
        gauge: Of a joint step: the largest sum over cells of the norms by which one unit moves it.
        scale: Of the noise, in grid steps; exactly a 64-bit float.
        share: Of the release's budget; the shares of a plan add up to exactly one.
        cells: The number of cells; None where a noisy selection decides.
        choosing: Where it chooses.
        selecting: Where it selects keys.
    """

    id: str
    answers: tuple[Answer, ...]
    aggregate: BoundedAggregate
    joined: tuple[Quantity, ...] = ()
    mechanism: str
    sensitivity: Sensitivity
    gauge: Fraction | None = None
    scale: Fraction = Field(gt=0)
    share: Fraction = Field(gt=0)
    cells: int | None = Field(ge=1)
    choosing: Choosing | None = None
    selecting: Selecting | None = None

    @property
    def parts(self) -> tuple[Quantity, ...]:
        """Its quantities, in the order in which a measurement holds them, ``cells`` numbers each."""
        return (self.aggregate.quantity, *self.joined)

    @property
    def numbers(self) -> int | None:
        """How many numbers a measurement of it holds; None where a noisy selection decides."""
        if self.mechanism == "exponential_top_k" and self.choosing is not None:
            return self.choosing.rounds
        return None if self.cells is None else self.cells * len(self.parts)

    @property
    def event(self) -> Event:
        """What the step costs."""
        return event_of(
            self.mechanism,
            self.scale,
            self.sensitivity,
            dimension=len(self.parts),
            gauge=self.gauge,
            choosing=self.choosing,
            delta=None if self.selecting is None else self.selecting.delta,
        )

    @property
    def law(self) -> Law:
        """The public distribution of the noise on one number, in grid steps; of a choice, on its score."""
        return law_of(self.mechanism, self.scale, dimension=len(self.parts), gauge=self.gauge, choosing=self.choosing)


class Feed(Value):
    """Where a measure gets one of its quantities from: a step, and which of its parts."""

    step: str
    part: int = Field(default=0, ge=0)


def _feed(value: Any) -> Any:
    return {"step": value} if isinstance(value, str) else value


class Goal(Value):
    """What the author asked of a query's accuracy or price; everything left out: its share of the rest.

    Attributes:
        share: Relative to the other queries that share.
        budget: What the query alone costs, at the release's delta; it then has steps of its own.
        targets: For a measure the largest margin of error that is allowed, in units of the measure.
    """

    share: Fraction | None = None
    budget: Budget | None = None
    targets: dict[str, Fraction] = {}


class Ranking(Value):
    """A list of the keys that occur most often; it has ranks instead of cells.

    Attributes:
        k: Its length.
        step: That chooses it; its answer holds the positions of the keys, the first rank first.
    """

    k: int = Field(ge=1)
    step: str


class PlannedQuery(Grouping):
    """One published table.

    Attributes:
        name: Of the query.
        title: What a reader sees.
        measures: By name, in published order; none for a ranking.
        inputs: For each measure the steps that feed it, in the order its ``estimate`` takes them.
        selection: The step that selects the keys, where they are private.
        ranking: Where the query is a list of the most frequent keys of its one column.
        suppress_below: A measure of the query, and the number below which a row is withheld after the noise.
        expect: Guessed counts per cell.
        goal: What the author asked of its accuracy or price.
    """

    name: str
    title: str
    measures: dict[str, AnyMeasure]
    inputs: dict[str, tuple[Annotated[Feed, BeforeValidator(_feed)], ...]]
    selection: str | None = None
    ranking: Ranking | None = None
    suppress_below: tuple[str, Fraction] | None = None
    expect: dict[str, int] = {}
    goal: Goal = Goal(share=Fraction(1))


class Output(Value):
    """Accuracy of one measure before any draw, as decimal text in units of the column; or why it cannot be said."""

    query: str
    table: str
    measure: str
    steps: tuple[str, ...]
    standard_error: str | None
    margin: str | None
    why_null: str | None = None


class Considered(Value):
    """Another way to hide the shared queries, and how it compares.

    Attributes:
        name: For people.
        noise: How many times this plan's standard errors it would have (decimal text, the geometric mean).
        why_not: Why it was passed over although its noise may be less; empty where its noise decided.
    """

    name: str
    noise: str
    why_not: str = ""


class Naive(Value):
    """The plan that a careful beginner makes: every measure by itself, the budget cut into equal parts.

    Attributes:
        accounts_for: Words for how it adds up.
        noise: How many times this plan's standard errors it would have (decimal text, the geometric mean).
        charged: The epsilon that the dearest account would be charged for it, in its own composition.
    """

    accounts_for: str
    noise: str
    charged: str


FormatName = Literal["csv", "parquet", "xlsx", "json", "sdmx", "html", "pdf"]


class Publish(Value):
    """How the tables are shown."""

    formats: tuple[FormatName, ...] = ("csv", "parquet", "xlsx", "html")
    confidence: Fraction = Fraction(95, 100)
    unreliable_above: Fraction | None = None
    unreliable_show: Literal["flag", "blank"] = "flag"


class Derived(Value):
    """A further table, made from the published ones by SQL: it costs nothing."""

    name: str
    title: str
    sql: str


class ReleasePlan(Value):
    """Everything that will happen, complete enough to run, publish and verify without the spec.

    The order of ``steps`` is the order in which they run; ``certified`` is the smallest total loss that an
    accountant in ``loss`` can prove at ``budget.delta``. ``unspent`` says why more than a thousandth of the
    budget is left, where it is.
    """

    format: Literal[1] = 1
    release: ReleaseInfo
    spec_fingerprint: str
    unit: PrivacyUnit
    neighboring: Neighboring
    budget: Budget
    accounting: Literal["auto", "basic", "advanced", "zcdp", "rdp", "pld"]
    accounts: tuple[Account, ...]
    catalog: Catalog
    queries: tuple[PlannedQuery, ...]
    steps: tuple[Step, ...]
    loss: dict[AccountantName, Loss]
    certified: AccountantName
    outputs: tuple[Output, ...]
    considered: tuple[Considered, ...] = ()
    naive: Naive | None = None
    unspent: str | None = None
    derive: tuple[Derived, ...] = ()
    publish: Publish

    @property
    def event(self) -> Composed:
        """The whole release as one event."""
        return Composed(events=tuple(step.event for step in self.steps))

    def event_of(self, account: str) -> Composed:
        """What the release costs one account: the steps on its tables."""
        tables = {name for name, table in self.catalog.tables.items() if table.account == account}
        return Composed(events=tuple(step.event for step in self.steps if step.aggregate.table in tables))

    def cost_of(self, account: Account) -> Composed:
        """What the release costs an account, for one step of the account's own relation between data sets.

        A first publication with n planned revisions costs 1 + n times its draws, at once; a revision costs nothing
        more. Proof: let M be all draws of the plan, every parameter fixed before the first read. What is published of
        the period is M(D_0), ..., M(D_n), where D_k are the data as they are at revision k; two neighbouring histories
        D and D' differ, at every k, in the rows of one and the same unit at most. Whatever was seen before, M(D_k)
        against M(D'_k) loses what M loses. So these are 1 + n mechanisms, chosen before the first answer, on
        neighbouring data: their adaptive composition, which ``Repeated`` says to every accountant and filter (``pld``:
        independent pairs, Zhu, Dong and Wang 2022, Theorem 10). Whoever stops earlier loses no more.

        Raises:
            PlanError: If the spec's unit or relation says nothing about the account's (``privacy.convert``).
            UnsupportedEvent: If a draw proves nothing for so many units at once.
        """
        steps = factor(str(self.unit), self.neighboring, account.unit, account.neighboring, account.nests)
        events = tuple(converted(event, steps) for event in self.event_of(account.name).events)
        if self.release.revision:
            return Composed()
        copies = 1 + self.release.revisions
        return Composed(events=tuple(Repeated(event=each, count=copies) for each in events) if copies > 1 else events)

    def at_revision(self, number: int) -> ReleasePlan:
        """The plan of a planned revision, 0 for that of the first publication: all else is the same.

        Raises:
            ValueError: No such revision is planned.
        """
        release = {**self.release.model_dump(), "revision": number}
        return self.model_copy(update={"release": ReleaseInfo(**release)})

    def step(self, step_id: str) -> Step:
        """The step of that id."""
        return next(step for step in self.steps if step.id == step_id)

    def keys(self, query: PlannedQuery) -> tuple[Column, ...]:
        """The key columns of a query, in published order."""
        table = self.catalog.tables[query.table]
        return tuple(table.column(name) for name in query.by)

    def batches(self) -> tuple[Batch, ...]:
        """Steps that share one pass over a table, in plan order; at most 50 steps each.

        Where keys are selected, the selection is the first step of its pass, and the pass is not cut.
        """
        selections = {query.name: query.selection for query in self.queries}
        passes: dict[tuple[Grouping, str | None], list[Step]] = {}
        for step in self.steps:
            served = step.answers[0].query if step.answers else ""
            key = (step.aggregate.grouping, selections.get(served))
            passes.setdefault(key, []).append(step)
        return tuple(
            Batch(grouping=grouping, selection=selection, steps=tuple(steps[start : start + size]))
            for (grouping, selection), steps in passes.items()
            for size in (len(steps) if selection else 50,)
            for start in range(0, len(steps), size)
        )


class Batch(Value):
    """Steps that share one pass over a table.

    Attributes:
        grouping: What they share.
        selection: The step that selects the keys of all others, the first one; None: keys are public.
        steps: In the order in which they are drawn.
    """

    grouping: Grouping
    selection: str | None = None
    steps: tuple[Step, ...]

    @property
    def table(self) -> str:
        """The name of the table."""
        return self.grouping.table

    @property
    def by(self) -> tuple[str, ...]:
        """Its key columns."""
        return self.grouping.by


class FrozenPlan(Value):
    """A plan kept for review: the plan, its fingerprint, and what it was made against.

    ``spec_file`` is relative to the project's folder, with forward slashes. ``approvals`` are no part of the plan.
    """

    kind: Literal["dprelease-plan"] = "dprelease-plan"
    plan: ReleasePlan
    plan_fingerprint: str
    spec_file: str
    heads: dict[str, Head]
    approvals: tuple[Approval, ...] = ()
