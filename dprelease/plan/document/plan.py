"""The plan as a value: canonical JSON, a fingerprint, and the ledger head pinned beside it."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from dprelease.canonical import GrownValue, Value
from dprelease.catalog.aggregate import Grouping
from dprelease.catalog.boundaries import Geography
from dprelease.catalog.table import Catalog, Column
from dprelease.errors import UnsupportedEvent
from dprelease.measures import AnyMeasure
from dprelease.measures.comparing.comparison import ComparedNumber
from dprelease.plan.document.account import Account
from dprelease.plan.document.approval import Approval, Head
from dprelease.plan.document.batch import Batch, in_one_piece, in_their_pieces
from dprelease.plan.document.cubes import with_cubes
from dprelease.plan.document.entry import CatalogueEntry
from dprelease.plan.document.goal import Goal
from dprelease.plan.document.invariant import Invariant, Measured
from dprelease.plan.document.pieces import Piece, pieces_of
from dprelease.plan.document.publish import Derived, Publish
from dprelease.plan.document.ranges import PlannedRanges
from dprelease.plan.document.series import PlannedSeries
from dprelease.plan.document.step import Feed, Step
from dprelease.plan.document.totals import PlannedTotals
from dprelease.plan.document.workload import Workload
from dprelease.privacy.accountants import ACCOUNTANTS, AccountantName, AccountingName
from dprelease.privacy.budget import Budget, Loss
from dprelease.privacy.convert import converted, factor
from dprelease.privacy.event import Composed, Event, Repeated
from dprelease.privacy.randomized import LocalLoss
from dprelease.privacy.unit import Neighboring, PrivacyUnit
from dprelease.spec.fields.published.office import Office

__all__ = [
    "Considered",
    "FrozenPlan",
    "Naive",
    "Output",
    "PlannedQuery",
    "Ranking",
    "ReleaseInfo",
    "ReleasePlan",
]


def _feed(value: Any) -> Any:
    return {"step": value} if isinstance(value, str) else value


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
        name: The name of the query.
        title: What a reader sees.
        measures: By name, in published order; none for a ranking.
        inputs: For each measure the steps that feed it, in the order its ``estimate`` takes them.
        selection: The step that selects the keys, where they are private.
        ranking: Where the query is a list of the most frequent keys of its one column.
        suppress_below: A measure of the query, and the number below which a row is withheld after the noise.
        expect: Guessed counts per cell.
        goal: What the author asked of its accuracy or price.
        workload: The workload that it is one table of; it then has no inputs of its own, and no goal.
        ranges: Which sums along an ordered column it has instead of the counts of the cells.
        totals: Which totals it has beside its cells; ``inputs`` are of the cells.
        compare: Further columns that are made of the published numbers, by name, behind the measures.
        series: Which series over periods it is a period of; its sums are in ``compare``.
    """

    LATER: ClassVar[tuple[str, ...]] = (*Grouping.LATER, "workload", "ranges", "totals", "compare", "series")
    name: str
    title: str
    measures: dict[str, AnyMeasure]
    inputs: dict[str, tuple[Annotated[Feed, BeforeValidator(_feed)], ...]]
    selection: str | None = None
    ranking: Ranking | None = None
    suppress_below: tuple[str, Fraction] | None = None
    expect: dict[str, int] = {}
    goal: Goal = Goal(share=Fraction(1))
    workload: str | None = None
    ranges: PlannedRanges | None = None
    totals: PlannedTotals | None = None
    compare: dict[str, ComparedNumber] = {}
    series: PlannedSeries | None = None


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
        noise: How many times this plan's standard errors it would have (decimal text): the geometric mean over the
            published numbers, a query by its share and the numbers of a query alike; or with ``least_error`` the root
            of the total error.
        why_not: Why it was passed over although its noise, or that of one query, may be less; empty where its noise
            decided.
    """

    name: str
    noise: str
    why_not: str = ""


class Naive(Value):
    """The plan that a careful beginner makes: every measure by itself, the budget cut into equal parts.

    Attributes:
        accounts_for: Words for how it adds up.
        noise: How many times this plan's standard errors it would have (decimal text): the geometric mean over the
            published numbers, a query by its share (1 where it has none) and the numbers of a query alike. Plans from
            before the objective was one for all took each number alike.
        charged: The epsilon that the dearest account would be charged for it, in its own composition.
    """

    accounts_for: str
    noise: str
    charged: str


class ReleasePlan(GrownValue):
    """Everything that will happen, complete enough to run, publish and verify without the spec.

    The order of ``steps`` is the order in which they run; ``certified`` is the smallest total loss that an accountant
    in ``loss`` can prove at ``budget.delta``. ``unspent`` says why more than a thousandth of the budget is left.
    ``allocation`` says what the shares of the goals weigh: errors, or (None) the budget; ``guarded_least_error`` that
    nobody asked for it, and that every query has a least part. ``office`` is what the office states of the release;
    ``geography`` is what maps are drawn of; ``local`` is what the collector of randomized answers learned.
    """

    LATER: ClassVar[tuple[str, ...]] = ("workloads", "invariants", "allocation", "office", "geography", "local")
    format: Literal[1] = 1
    release: ReleaseInfo
    spec_fingerprint: str
    unit: PrivacyUnit
    neighboring: Neighboring
    budget: Budget
    accounting: AccountingName
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
    workloads: tuple[Workload, ...] = ()
    invariants: tuple[Invariant, ...] = ()
    allocation: Literal["least_error", "guarded_least_error"] | None = None
    office: Office | None = None
    geography: tuple[Geography, ...] = ()
    local: LocalLoss | None = None

    def canonical(self) -> str:
        """Canonical JSON text, written once: it is reserved, told by its hash and published."""
        return self.once(GrownValue.canonical)

    @property
    def measured(self) -> tuple[Measured, ...]:
        """All that has a measurement: the steps, then the invariants."""
        return (*self.steps, *self.invariants)

    @property
    def events(self) -> tuple[Event, ...]:
        """What each step costs, with all that prices a group of units; worked out once."""
        return self.event.events

    @property
    def event(self) -> Composed:
        """The whole release as one event; the same value each time, which knows what was made of it."""
        return self.once(_event)

    def event_of(self, account: str) -> Composed:
        """What the release costs one account, for one unit: the steps on its tables."""
        return Composed(events=tuple(converted(event, 1) for event in self._events_of(account)))

    def _events_of(self, account: str) -> tuple[Event, ...]:
        tables = {name for name, table in self.catalog.tables.items() if table.account == account}
        return tuple(e for step, e in zip(self.steps, self.events, strict=True) if step.aggregate.table in tables)

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
        events = tuple(converted(event, steps) for event in self._events_of(account.name))
        if self.release.revision:
            return Composed()
        copies = 1 + self.release.revisions
        return Composed(events=tuple(Repeated(event=each, count=copies) for each in events) if copies > 1 else events)

    def at_revision(self, number: int) -> ReleasePlan:
        """The plan of a planned revision, 0: of the first publication; all else is the same. `ValueError`: none is."""
        return self.model_copy(update={"release": ReleaseInfo(**{**self.release.model_dump(), "revision": number})})

    def workload(self, name: str) -> Workload:
        """The workload of that name."""
        return next(each for each in self.workloads if each.name == name)

    def query(self, name: str) -> PlannedQuery | None:
        """The query of that name; None: there is none."""
        return self.once(_queries_by_name).get(name)

    def step(self, step_id: str) -> Step:
        """The step of that id; a `KeyError` where there is none."""
        return self.once(_steps_by_id)[step_id]

    def find_step(self, step_id: str) -> Step | None:
        """The step of that id; None: there is none."""
        return self.once(_steps_by_id).get(step_id)

    def taken(self, step_id: str) -> Measured:
        """The step or the invariant of that id."""
        return self.find_step(step_id) or next(each for each in self.invariants if each.id == step_id)

    @property
    def series(self) -> dict[str, PlannedSeries]:
        """By the id of every draw of a series: the series."""
        return {step: each.series for each in self.queries if each.series for step in self.fed_by(each)}

    def fed_by(self, query: PlannedQuery) -> tuple[str, ...]:
        """The ids of the draws that a query is made of; of a table of a workload those of all of its tables."""
        takes = self.workload(query.workload).takes if query.workload else ()
        fed = (feed.step for feeds in query.inputs.values() for feed in feeds)
        return tuple(dict.fromkeys((*(take.step for take in takes), *fed)))

    def keys(self, query: PlannedQuery) -> tuple[Column, ...]:
        """The key columns of a query, in published order."""
        table = self.catalog.tables[query.table]
        columns = tuple(table.column(name) for name in query.by)
        shown = query.ranges or query.totals
        return columns if shown is None else shown.columns(columns)

    @property
    def pieces(self) -> dict[str, tuple[Piece, ...]]:
        """The pieces of every step that is measured in some, by its id."""
        return pieces_of(self.workloads, self.catalog, self.steps)

    @property
    def numbers(self) -> dict[str, int | None]:
        """By the id of every measurement that the ledger is to have how many numbers it holds.

        The id is that of the step or invariant; a step in pieces has one measurement for each of them, under ids of
        their own. None where a noisy selection decides.
        """
        pieces = self.pieces
        return {
            name: numbers
            for step in self.measured
            for name, numbers in (
                [(piece.id(step.id), piece.numbers(step)) for piece in pieces[step.id]]
                if step.id in pieces
                else [(step.id, step.numbers)]
            )
        }

    @property
    def is_older(self) -> bool | None:
        """Whether it was made before the losses of pure noise were read exactly; None: no figure of it says so."""
        told = self.loss.get("zcdp")
        if told is None:
            return None
        try:
            today = ACCOUNTANTS["zcdp"].epsilon(self.event, told.delta)
        except UnsupportedEvent:  # a figure that no theorem gives says nothing of when it was made
            return None
        return told.epsilon > today * (1 + Fraction(1, 10**9))

    @property
    def selections(self) -> dict[str, str]:
        """By the id of every step whose keys were selected, itself or with others: the step that selected them.

        By pass and not by grouping: a query with a budget of its own selects its keys by itself.
        """
        if not any(step.selecting is not None for step in self.steps):
            return {}
        return {step.id: found for batch in self.batches() for step in batch.steps if (found := batch.selection)}

    def batches(self, *, whole: bool = False) -> tuple[Batch, ...]:
        """Steps and invariants that share one pass over a table; at most 50 of them each.

        First those in pieces, for they are the longest: unit by unit, each with the pieces of all steps that it has a
        piece of. Then the others, in plan order. Where keys are selected, the selection is the first step of its pass.

        Args:
            whole: Leave every step in one piece, whatever the plan says: for what commits nothing.
        """
        pieces = {} if whole else self.pieces
        others = [each for each in self.measured if each.id not in pieces]
        selections = {query.name: query.selection for query in self.queries}
        whole_steps = with_cubes(tuple(in_one_piece(others, selections, self.catalog)), self.catalog)
        return (*in_their_pieces(self.steps, pieces), *whole_steps)


def _event(plan: ReleasePlan) -> Composed:
    return Composed.of(step.event_under(plan.neighboring) for step in plan.steps)


def _queries_by_name(plan: ReleasePlan) -> Mapping[str, PlannedQuery]:
    return {each.name: each for each in reversed(plan.queries)}  # of equal names the first


def _steps_by_id(plan: ReleasePlan) -> Mapping[str, Step]:
    return {each.id: each for each in reversed(plan.steps)}


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


class ReleaseInfo(GrownValue):
    """What is released: its identity in the ledger is (name, period).

    Attributes:
        name: The name of the release.
        period: That it is about.
        title: What a reader sees.
        curator: The office that answers for it.
        contact: Where readers may ask.
        intended_use: What it is made for.
        next: The day on which the period after this one is to be released; empty: nobody says.
        revisions: How often the period is to be released again, with the rows that came late.
        revision: Which of these revisions this is; 0: the first publication.
        restatement: How many publications of the same question this one replaces; 0: it is the first one.
        entry: What catalogues are told of it; None: the author says nothing to them.
    """

    LATER: ClassVar[tuple[str, ...]] = ("next", "revisions", "revision", "restatement", "entry")
    name: str
    period: str
    title: str = ""
    curator: str = ""
    contact: str = ""
    intended_use: str = ""
    next: str = ""
    revisions: int = Field(default=0, ge=0)
    revision: int = Field(default=0, ge=0)
    restatement: int = Field(default=0, ge=0)
    entry: CatalogueEntry | None = None

    @model_validator(mode="after")
    def _planned(self) -> Self:
        if self.revision > self.revisions:
            raise ValueError("a revision that was not planned")
        return self
