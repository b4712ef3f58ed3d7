"""What every format gets, and the walk from a plan and its measurements to published tables."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from types import MappingProxyType

from dprelease.canonical import Value
from dprelease.catalog.table import Column, Key
from dprelease.errors import BrokenPromiseError, PublishError
from dprelease.estimate import RANK, PublishedTable, estimate, full_product, ranking
from dprelease.measures import Noisy
from dprelease.noise import Measurement
from dprelease.plan.approved import Signed
from dprelease.plan.document import PlannedQuery, ReleasePlan, Step
from dprelease.privacy.budget import Budget, Loss

__all__ = [
    "NOTICE",
    "AccountFacts",
    "CapChange",
    "Content",
    "Facts",
    "Inputs",
    "Publication",
    "Restated",
    "check_queries",
    "columns",
    "header",
    "inputs_of",
    "key_columns",
    "key_text",
    "measure_names",
    "public_rows",
    "published_tables",
    "queries_as_tables",
    "safe_path",
]

NOTICE = "REHEARSAL ON MADE-UP DATA - NOT A RELEASE"
REHEARSAL_COLUMN = "rehearsal"
TOP_K = "exponential_top_k"
_KEY_TYPES = ("text", "integer", "boolean", "date")
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
# Names that Windows keeps for devices, whatever their extension.
_DEVICE = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)


class AccountFacts(Value):
    """One account as the ledger saw it when the release was charged; losses are read at the cap's delta.

    ``window`` names the stretch of time that the cap is about; empty: for ever.
    """

    name: str
    unit: str
    composition: str
    cap: Budget
    before: Loss
    after: Loss
    window: str = ""


class CapChange(Value):
    """A cap that the data owner changed before the release was charged, and the ledger entry that says so."""

    account: str
    sequence: int
    at: str
    before: Budget
    after: Budget


class Restated(Value):
    """What a release replaces: the plan and the ledger entry of the one before it, and why."""

    plan_fingerprint: str
    sequence: int
    reason: str


class Facts(Value):
    """What a bundle says that is not in the plan; all of it public, none of it read from a clock here.

    Attributes:
        plan_fingerprint: Of the plan that was measured.
        reserved_at: UTC time of the charge, as the ledger has it.
        ledger_sequence: The entry of the charge.
        ledger_hash: Its hash.
        accounts: Every account that was charged.
        windows: The same for each window of an account that the period touches.
        environment: Versions of packages, the sampler, the source of entropy.
        approvals: Who signed the plan.
        restates: What it replaces.
        changed_data: Why it was gone on with after its data had changed, one reason each time.
        cap_changes: Of its accounts, up to its charge.
        rehearsal: The data was made up; every page and table then says so.
    """

    plan_fingerprint: str
    reserved_at: str
    ledger_sequence: int
    ledger_hash: str
    accounts: tuple[AccountFacts, ...]
    windows: tuple[AccountFacts, ...] = ()
    environment: dict[str, str]
    approvals: tuple[Signed, ...] = ()
    restates: Restated | None = None
    changed_data: tuple[str, ...] = ()
    cap_changes: tuple[CapChange, ...] = ()
    rehearsal: bool = False


@dataclass(frozen=True, eq=False)
class Content:
    """What a format turns into files."""

    plan: ReleasePlan
    tables: tuple[PublishedTable, ...]
    facts: Facts


@dataclass(frozen=True)
class Publication:
    """A bundle before it is written: relative path, with forward slashes, to bytes.

    Raises:
        PublishError: If a path could leave the folder (DPR-W201).
    """

    files: Mapping[str, bytes]

    def __post_init__(self) -> None:
        for path in self.files:
            safe_path(path)
        object.__setattr__(self, "files", MappingProxyType(dict(sorted(self.files.items()))))


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


def measure_names(plan: ReleasePlan, query: PlannedQuery) -> tuple[str, ...]:
    """The measures of a query in the author's order, which canonical JSON keeps in ``outputs`` alone."""
    written = [output.measure for output in plan.outputs if output.query == query.name]
    return tuple(dict.fromkeys([name for name in written if name in query.measures] + sorted(query.measures)))


def columns(plan: ReleasePlan, query: PlannedQuery, *, rehearsal: bool = False) -> tuple[str, ...]:
    """The columns of a query's files: its keys, then four for each measure; of a ranking the ranks and the keys."""
    keys = [column.name for column in key_columns(plan, query)]
    return _header(keys, measure_names(plan, query), rehearsal)


def header(table: PublishedTable, *, rehearsal: bool = False) -> tuple[str, ...]:
    """The columns of a table's files."""
    return _header([each.name for each in table.key_columns], [each.name for each in table.measures], rehearsal)


def _header(keys: Sequence[str], measures: Sequence[str], rehearsal: bool) -> tuple[str, ...]:
    found = list(keys)
    for name in measures:
        found += [name, f"{name}_se", f"{name}_margin", f"{name}_status"]
    return (*found, REHEARSAL_COLUMN) if rehearsal else tuple(found)


def key_columns(plan: ReleasePlan, query: PlannedQuery) -> tuple[Column, ...]:
    """The key columns of a query's table: those of its ``by``, and the rank before them where it is a ranking."""
    rank = (Column(name=RANK, type="integer"),) if query.ranking is not None else ()
    return (*rank, *plan.keys(query))


def public_rows(plan: ReleasePlan, query: PlannedQuery) -> tuple[tuple[Key, ...], ...] | None:
    """The keys of each row of a query, where they are declared; None where noise decides them."""
    if query.private or query.ranking is not None:
        return None
    left_out = set(plan.catalog.exclusions[query.excluding]) if query.excluding is not None else set()
    return tuple(row for at, row in enumerate(full_product(plan.keys(query))) if at not in left_out)


def key_text(key: Key) -> str:
    """A key as text: as declared; ``true`` and ``false`` in small letters."""
    return str(key).lower() if isinstance(key, bool) else str(key)


def check_queries(plan: ReleasePlan) -> None:
    """Refuse, before any budget is spent, queries whose tables could not be written.

    Raises:
        PublishError: If a query's name cannot be a file name (DPR-W201) or differs from another one only in
            its capitals (DPR-W103), if two columns of a table have one name (DPR-W104), if a key column has a
            type that cannot be a key (DPR-W105), or if a key cannot be stored in that type (DPR-W106).
    """
    seen: dict[str, str] = {}
    for query in plan.queries:
        safe_path(f"{query.name}.csv")
        other = seen.setdefault(query.name.lower(), query.name)
        if other != query.name:
            raise PublishError(
                f"queries {other!r} and {query.name!r} would be one file where capitals do not count",
                hint="rename one of them",
                code="DPR-W103",
            )
        _check_columns(plan, query)


def _check_columns(plan: ReleasePlan, query: PlannedQuery) -> None:
    names = columns(plan, query, rehearsal=True)
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise PublishError(
            f"query {query.name!r} would publish two columns named {twice!r}",
            detail="a measure m makes m, m_se, m_margin and m_status; `rehearsal` marks a rehearsal",
            hint="rename the measure or the key column",
            code="DPR-W104",
        )
    for column in key_columns(plan, query):
        if column.type not in _KEY_TYPES:
            raise PublishError(
                f"query {query.name!r}: key column {column.name!r} is of type {column.type}",
                hint=f"a key is one of: {', '.join(_KEY_TYPES)}",
                code="DPR-W105",
            )
        bad = next((key for key in column.keys or () if not _storable(key, column)), None)
        if bad is not None:
            raise PublishError(
                f"query {query.name!r}: key {bad!r} of column {column.name!r} is no {column.type} that a file can hold",
                hint="a text key is valid Unicode, an integer has 64 bits, a date is written like 2024-03-07",
                code="DPR-W106",
            )


def _storable(key: Key, column: Column) -> bool:
    if column.type == "integer":
        return isinstance(key, int) and not isinstance(key, bool) and -(2**63) <= key < 2**63
    if column.type == "boolean":
        return isinstance(key, bool)
    if not isinstance(key, str):
        return False
    try:
        key.encode()
        return column.type == "text" or bool(date.fromisoformat(key))
    except ValueError:
        return False


@dataclass(frozen=True, eq=False)
class Inputs:
    """What every step measured, and the keys that were selected.

    Attributes:
        noisy: By step id, one for each quantity of the step; nothing of steps that choose or select keys.
        keys: By the id of a step that selects keys: these, in published order.
        ranked: By the id of a step that ranks keys: their positions, the first rank first.
    """

    noisy: Mapping[str, tuple[Noisy, ...]]
    keys: Mapping[str, tuple[tuple[Key, ...], ...]]
    ranked: Mapping[str, tuple[int, ...]]

    def of(self, query: PlannedQuery) -> dict[str, list[Noisy]]:
        """For each measure of a query what its ``estimate`` takes."""
        return {label: [self.noisy[feed.step][feed.part] for feed in feeds] for label, feeds in query.inputs.items()}


def published_tables(plan: ReleasePlan, measurements: Mapping[str, Measurement]) -> tuple[PublishedTable, ...]:
    """Every query of a plan as a published table, in plan order.

    Args:
        plan: The plan that was measured.
        measurements: By step id.

    Raises:
        PublishError: If a step has no measurement (DPR-W101).
        BrokenPromiseError: If a measurement is of another step or size (DPR-W102).
    """
    return queries_as_tables(plan, inputs_of(plan, measurements))


def queries_as_tables(plan: ReleasePlan, inputs: Inputs) -> tuple[PublishedTable, ...]:
    """Every query of a plan as a published table, from what was measured."""
    return tuple(_as_table(plan, query, inputs) for query in plan.queries)


def _as_table(plan: ReleasePlan, query: PlannedQuery, inputs: Inputs) -> PublishedTable:
    if query.ranking is not None:
        (column,) = plan.keys(query)
        positions = inputs.ranked[query.ranking.step]
        return ranking(query.name, query.title, column, positions, confidence=plan.publish.confidence)
    return estimate(
        query.name,
        query.title,
        plan.keys(query),
        {label: query.measures[label] for label in measure_names(plan, query)},
        inputs.of(query),
        confidence=plan.publish.confidence,
        rows=inputs.keys[query.selection] if query.selection is not None else public_rows(plan, query),
        suppress_below=query.suppress_below,
        unreliable_above=plan.publish.unreliable_above,
        unreliable_show=plan.publish.unreliable_show,
    )


def inputs_of(plan: ReleasePlan, measurements: Mapping[str, Measurement]) -> Inputs:
    """What was measured, held against the plan; errors as of :func:`published_tables`."""
    found = {step.id: _measurement(step, measurements) for step in plan.steps}
    selecting = [step for step in plan.steps if step.selecting is not None]
    keys = {step.id: _selected(found[step.id], len(step.aggregate.by)) for step in selecting}
    # By pass and not by grouping: a query with a budget of its own selects its keys by itself.
    selections = {step.id: batch.selection for batch in plan.batches() for step in batch.steps}
    ranked = {step.id: _ranked(plan, step, found[step.id]) for step in plan.steps if step.mechanism == TOP_K}
    noisy = {}
    for step in plan.steps:
        if step.id not in keys and step.id not in ranked:
            cells = len(keys[selections[step.id] or ""]) if step.cells is None else step.cells
            noisy[step.id] = _noisy(step, found[step.id], cells)
    return Inputs(noisy=noisy, keys=keys, ranked=ranked)


def _measurement(step: Step, measurements: Mapping[str, Measurement]) -> Measurement:
    found = measurements.get(step.id)
    if found is None:
        raise PublishError(
            f"step {step.id!r} has not been measured",
            hint="`dprelease run` with the same spec resumes the release",
            code="DPR-W101",
        )
    if found.step != step.id:
        raise _other(step)
    return found


def _other(step: Step) -> BrokenPromiseError:
    return BrokenPromiseError(
        f"the measurement kept for step {step.id!r} is of another step or size",
        hint="nothing was published; check the ledger with `dprelease ledger check`",
        code="DPR-W102",
    )


def _noisy(step: Step, found: Measurement, cells: int) -> tuple[Noisy, ...]:
    """What the step measured, one for each of its quantities."""
    if found.values.shape != (cells * len(step.parts),):
        raise _other(step)
    return tuple(
        Noisy(quantity=quantity, values=found.values[at * cells : (at + 1) * cells], law=step.law)
        for at, quantity in enumerate(step.parts)
    )


def _selected(found: Measurement, columns: int) -> tuple[tuple[Key, ...], ...]:
    """The selected keys; a text that no file can hold is spelled out, for nothing may fail after the draw."""
    if found.keys is None or any(len(key) != columns for key in found.keys):
        raise BrokenPromiseError(
            f"the measurement kept for step {found.step!r} has no keys of its query",
            hint="nothing was published; check the ledger with `dprelease ledger check`",
            code="DPR-W102",
        )
    return tuple(tuple(_held(part) for part in key) for key in found.keys)


def _held(key: Key) -> Key:
    return key.encode(errors="backslashreplace").decode() if isinstance(key, str) else key


def _ranked(plan: ReleasePlan, step: Step, found: Measurement) -> tuple[int, ...]:
    (name,) = step.aggregate.by
    known = len(plan.catalog.tables[step.aggregate.table].column(name).keys or ())
    positions = tuple(found.values.tolist())
    whole = step.numbers == len(set(positions)) == len(positions)
    if not whole or not all(0 <= position < known for position in positions):
        raise _other(step)
    return positions
