"""What every format gets: the plan, the tables and the facts of a release, and the names that all files share."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from dprelease.canonical import GrownValue, Value
from dprelease.catalog.aggregate import left_out_of
from dprelease.catalog.reference import key_as_text
from dprelease.catalog.table import Column
from dprelease.errors import PublishError
from dprelease.estimate import RANK, PublishedTable, Rows, full_product
from dprelease.estimate.ranges import range_rows
from dprelease.measures import Noisy
from dprelease.noise import Measurement
from dprelease.plan.document import PlannedQuery, ReleasePlan
from dprelease.plan.document.account import AccountLosses
from dprelease.plan.document.approval import Signed
from dprelease.plan.resolve.grouping import expected_rows
from dprelease.privacy.budget import Budget, Loss
from dprelease.publish.packed import Files
from dprelease.signature import PublicKey
from dprelease.spec.fields.published.theme import Theme
from dprelease.words import in_a_row, marked, phrase

__all__ = [
    "NOTICE",
    "AccountFacts",
    "AccountPoint",
    "AuditFacts",
    "AuditedDraw",
    "CapChange",
    "ComparedWith",
    "Content",
    "Facts",
    "Looked",
    "Publication",
    "Restated",
    "key_as_text",
    "keys_of_query",
    "measure_names",
    "number_names",
    "public_rows",
    "safe_path",
    "table_names",
    "tested_measures",
    "with_period",
]

NOTICE = marked("REHEARSAL ON MADE-UP DATA - NOT A RELEASE")

_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
# Names that Windows keeps for devices, whatever their extension.
_DEVICE = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)


class AccountFacts(AccountLosses):
    """One account as the ledger saw it when the release was charged, with the unit that it protects."""

    unit: str

    @property
    def label(self) -> str:
        """Its name, and which stretch of time its figures are about, where they are about one."""
        return f"{self.name}, {self.window}" if self.window else self.name


class AccountPoint(Value):
    """What an account had lost behind one charge; ``sequence`` is the ledger entry of the charge."""

    account: str
    release: str
    period: str
    sequence: int
    after: Loss


class CapChange(Value):
    """A cap that the data owner changed before the release was charged, and the ledger entry that says so."""

    account: str
    sequence: int
    at: str
    before: Budget
    after: Budget


class Restated(GrownValue):
    """What a release replaces: the plan and the ledger entry of the one before it, and why.

    ``data`` says whether the files are others than those that the one before was measured from, ``measured`` whether
    something else is measured; empty where the ledger cannot tell.
    """

    LATER: ClassVar[tuple[str, ...]] = ("data", "measured")
    plan_fingerprint: str
    sequence: int
    reason: str
    data: Literal["", "corrected", "same"] = ""
    measured: Literal["", "changed", "same"] = ""

    @property
    def what(self) -> str:
        """What was wrong, as far as it can be told."""
        wrong = [phrase("the data were corrected")] if self.data == "corrected" else []
        wrong += [phrase("what is measured was changed")] if self.measured == "changed" else []
        return in_a_row(wrong)


class Looked(GrownValue):
    """The very files that the release was measured from had been looked at before.

    Attributes:
        at: When.
        tables: Which tables they are.
        command: How: a plan was compared with the truth (``dprelease utility``), or odd values and rows were counted.
    """

    LATER: ClassVar[tuple[str, ...]] = ("command",)
    at: str
    tables: tuple[str, ...]
    command: str = "dprelease utility"

    @property
    def tuned(self) -> bool:
        """Whether a plan was compared with the truth."""
        return self.command == "dprelease utility"


class ComparedWith(GrownValue):
    """An earlier release with which some columns compare.

    Attributes:
        period: Its period.
        plan_fingerprint: Of its plan.
        manifest: The SHA-256 of the manifest that it was published with, as the ledger has it.
        sequence: The ledger entry that charged it.
        revision: Which planned revision it is; 0: the first publication.
        restatement: How many publications of the same question it replaced.
    """

    LATER: ClassVar[tuple[str, ...]] = ("revision", "restatement")
    period: str
    plan_fingerprint: str
    manifest: str
    sequence: int
    revision: int = 0
    restatement: int = 0


class AuditedDraw(Value):
    """One attack of an audit: how often, a delta, and the epsilon claimed and proved at it; decimal texts."""

    draw: str
    mechanism: str
    runs: int
    delta: str
    claimed: str
    proved: str


class AuditFacts(Value):
    """What an audit of the plan found before it was released.

    Attributes:
        tests: Events that were tested.
        units_tried: Made-up units.
        miss: The chance that a plan that is right is accused, as a decimal text.
        draws: Every attack.
    """

    tests: int
    units_tried: int
    miss: str
    draws: tuple[AuditedDraw, ...]


class Facts(GrownValue):
    """What a bundle says that is not in the plan; all of it public, none of it read from a clock here.

    Attributes:
        plan_fingerprint: The plan fingerprint of the plan that was measured.
        reserved_at: UTC time of the charge, as the ledger has it.
        ledger_sequence: The entry of the charge.
        ledger_hash: Its hash.
        ledger_id: Which ledger that is; empty in bundles from before it was said, and in rehearsals.
        accounts: Every account that was charged.
        windows: The same for each window of an account that the period touches.
        environment: Versions of packages, the sampler, the source of entropy.
        approvals: Who signed the plan.
        restates: What it replaces.
        paid_by: Of a planned revision, which is charged nothing: the entry of the first publication, which was charged
            for it. ``accounts``, ``windows``, ``cap_changes`` and ``history`` are then as they were there.
        changed_data: Why it was gone on with after its data had changed, one reason each time.
        looks: When its data were looked at before, and how.
        cap_changes: The cap changes of its accounts, up to its charge.
        history: Every charge of its accounts up to and with its own, the oldest first.
        signer: The public key that the bundle is signed with; empty: it is not.
        rehearsal: The data was made up; every page and table then says so.
        earlier: The releases of earlier periods with which columns compare.
        theme: Colours and logo of the office; None: the usual colours, and no logo.
        audit: What attacks on the plan proved before it was released; None: none was taken along.
    """

    LATER: ClassVar[tuple[str, ...]] = ("paid_by", "looks", "ledger_id", "earlier", "theme", "audit")
    plan_fingerprint: str
    reserved_at: str
    ledger_sequence: int
    ledger_hash: str
    accounts: tuple[AccountFacts, ...]
    windows: tuple[AccountFacts, ...] = ()
    environment: dict[str, str]
    approvals: tuple[Signed, ...] = ()
    restates: Restated | None = None
    paid_by: int | None = None
    changed_data: tuple[str, ...] = ()
    looks: tuple[Looked, ...] = ()
    cap_changes: tuple[CapChange, ...] = ()
    history: tuple[AccountPoint, ...] = ()
    signer: str = ""
    rehearsal: bool = False
    ledger_id: str = ""
    earlier: tuple[ComparedWith, ...] = ()
    theme: Theme | None = None
    audit: AuditFacts | None = None

    @property
    def key_fingerprint(self) -> str:
        """The fingerprint of the key that the bundle is signed with; empty: it is not signed."""
        return PublicKey.from_text(self.signer).fingerprint if self.signer else ""

    @property
    def ledger(self) -> dict[str, Any]:
        """The entry that charged it, as manifest and accounting.json say it."""
        entry = {"sequence": self.ledger_sequence, "hash": self.ledger_hash, "reserved_at": self.reserved_at}
        return {**entry, **({"id": self.ledger_id} if self.ledger_id else {})}


@dataclass(frozen=True, eq=False)
class Content:
    """What a format turns into files.

    Attributes:
        plan: That was measured.
        tables: Its queries, then the derived tables.
        facts: What the ledger and the environment say.
        measurements: What the tables were made of, by step id.
    """

    plan: ReleasePlan
    tables: tuple[PublishedTable, ...]
    facts: Facts
    measurements: Mapping[str, Measurement] = field(default_factory=dict)


@dataclass(frozen=True)
class Publication:
    """A bundle before it is written: relative path, with forward slashes, to bytes; large files are kept packed.

    Raises:
        PublishError: If a path could leave the folder (DPR-W201).
    """

    files: Mapping[str, bytes]

    def __post_init__(self) -> None:
        for path in self.files:
            safe_path(path)
        object.__setattr__(self, "files", Files(self.files).sorted())


def safe_path(path: str) -> str:
    """The path itself, when each of its parts is a plain name.

    Raises:
        PublishError: For ``..``, an absolute path, a device name, or a sign that some file system refuses.
    """
    for part in path.split("/"):
        if not _PART.fullmatch(part) or part.endswith(".") or _DEVICE.fullmatch(part):
            raise PublishError(
                f"{path!r} cannot be a file of a bundle",
                hint="each part begins with a letter, a digit or _ and has only letters, digits, '.', '_' and '-'",
                code="DPR-W201",
            )
    return path


def table_names(plan: ReleasePlan) -> tuple[str, ...]:
    """The published tables of a plan: its queries, then the derived ones."""
    return (*(query.name for query in plan.queries), *(derived.name for derived in plan.derive))


def measure_names(plan: ReleasePlan, query: PlannedQuery) -> tuple[str, ...]:
    """The measures of a query in the author's order, which canonical JSON keeps in ``outputs`` alone."""
    if len(query.measures) < 2:  # of ten thousand queries with one each nothing has to be looked for
        return tuple(query.measures)
    written = [output.measure for output in plan.outputs if output.query == query.name]
    return tuple(dict.fromkeys([name for name in written if name in query.measures] + sorted(query.measures)))


def tested_measures(plan: ReleasePlan, query: PlannedQuery, fed: Mapping[str, Sequence[Noisy]]) -> frozenset[str]:
    """The measures whose intervals an exact test of the noise tells: where the plan says so, and where that pays."""
    found, confidence = set[str](), plan.publish.confidence
    for label, measure in query.measures.items():
        rows = expected_rows(query.expect, query.measures, label)
        if plan.publish.tests(measure) and measure.test_pays([part.law for part in fed[label]], rows, confidence):
            found.add(label)
    return frozenset(found)


def sql_names(plan: ReleasePlan, query: PlannedQuery) -> tuple[str, ...]:
    """The numbers of a query that SQL can name: its measures, and of a series its sums, too."""
    return measure_names(plan, query) if query.series is None else number_names(plan, query)


def number_names(plan: ReleasePlan, query: PlannedQuery) -> tuple[str, ...]:
    """Its measures, and behind them the columns that compare them, in the author's order."""
    if not query.compare:
        return measure_names(plan, query)
    written = [output.measure for output in plan.outputs if output.query == query.name]
    compared = [name for name in written if name in query.compare]
    return (*measure_names(plan, query), *dict.fromkeys((*compared, *sorted(query.compare))))


def keys_of_query(plan: ReleasePlan, query: PlannedQuery) -> tuple[Column, ...]:
    """The key columns of a query's table: those of its ``by``, and the rank before them where it is a ranking."""
    rank = (Column(name=RANK, type="integer"),) if query.ranking is not None else ()
    return (*rank, *plan.keys(query))


def public_rows(plan: ReleasePlan, query: PlannedQuery) -> Rows | None:
    """The keys of each row of a query, where they are declared; None where noise decides them."""
    if query.private or query.ranking is not None:
        return None
    if query.ranges is not None:
        return range_rows(plan.keys(query), query.ranges.which)
    if query.totals is not None:
        declared = map(plan.catalog.tables[query.table].column, query.by)
        return full_product(plan.keys(query)).without(query.totals.left_out(tuple(declared)))
    return full_product(plan.keys(query)).without(left_out_of(query, plan.catalog))


def with_period(title: str, period: str) -> str:
    """A title with its period, which an author may have written at its end.

    >>> [with_period(title, "2013-12") for title in ("Departures", "Departures in 2013-12")]
    ['Departures, 2013-12', 'Departures in 2013-12']
    """
    return title if title.endswith(period) else f"{title}, {period}"
