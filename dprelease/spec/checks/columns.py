"""The rules of one column: limits that can be kept, keys that exist, labels that name keys."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import pairwise

from dprelease.catalog.table import ColumnType, Key
from dprelease.spec.fields.columns import MOST_KEYS, label_key, label_text, span_size, spelled_out, type_of
from dprelease.spec.fields.document import ColumnSpec, KeySpan, ReferenceKeys, ReleaseSpec, TableSpec
from dprelease.spec.steps import Grid
from dprelease.spec.text.findings import Findings
from dprelease.spec.text.names import COLUMN_NAME, NAME_RULE, did_you_mean, shown
from dprelease.spec.text.nodes import Path

__all__ = [
    "FINEST",
    "NUMBERS",
    "check_column",
    "check_grid",
    "check_labels",
    "check_partition",
    "check_reference",
    "edges_are_sound",
    "keys_are_sound",
    "sound_keys",
    "step_is_sound",
]

NUMBERS = ("integer", "decimal")
FINEST = 2**53  # steps up to here are exact in a double


def check_column(
    spec: ReleaseSpec, name: str, column: ColumnSpec, grid: Grid | None, at: Path, findings: Findings
) -> None:
    """What one column says of itself: its name, its limits, its keys.

    Args:
        spec: Has the references.
        name: The name of the column.
        column: As written.
        grid: To which its values are rounded; None: there is none, and none was written.
        at: Its path.
        findings: Where problems go.
    """
    _check_name(name, at, findings)
    _check_number(column, grid, at, findings)
    _check_keys(spec, name, column, at, findings)


def _check_name(name: str, at: Path, findings: Findings) -> None:
    if not COLUMN_NAME.fullmatch(name):
        findings.add("DPR-S502", at, "is no name", f"{NAME_RULE}; rename the column in the data", key=True)
    elif name in ("rows", "units"):
        findings.add("DPR-S534", at, "has a name that `count:` reads as its own word", "rename the column", key=True)


def check_partition(name: str, table: TableSpec, at: Path, findings: Findings) -> None:
    """A column whose values stand in paths is of the source, and the source has paths."""
    column = table.columns[name]
    if not column.partition:
        return
    here = (*at, "partition")
    if column.is_derived or any(name in join.add for join in table.join):
        says = f"is for columns of the source, and this one is {'computed' if column.is_derived else 'joined'}"
        findings.add("DPR-S549", here, says, "leave it out", at)
    elif table.source.database is not None:
        says, about = "is for files and Delta tables, and this source is a database", (*at[:2], "source")
        findings.add("DPR-S549", here, says, "leave it out", about)


def _check_number(column: ColumnSpec, grid: Grid | None, at: Path, findings: Findings) -> None:
    given = column.model_fields_set
    if column.type not in NUMBERS:
        for name in ("range", "step", "outside"):
            if name in given:
                says = f"is for integer and decimal columns, and this one is {column.type}"
                hint = "leave it out; a date takes `keys: {from: ..., to: ...}`"
                findings.add("DPR-S514", (*at, name), says, hint)
        return
    if "outside" in given and column.range is None:
        findings.add("DPR-S514", (*at, "outside"), "has no range to be outside of", "declare `range: [low, high]`", at)
    step = column.step
    if step is not None and column.type == "integer" and step.denominator != 1:
        findings.add("DPR-S510", (*at, "step"), "is no whole number, and the column is integer", "write `step: 1`")
    elif step is not None and not step_is_sound(column, step):
        findings.add("DPR-S511", (*at, "step"), "is finer or coarser than 2^53", "write a step such as 0.01")
    elif column.range is not None and (grid is None or not step_is_sound(column, grid.step)):
        says = "has no `step`, and no power of ten fits the ends of its range and its clips, and is fine enough"
        findings.add("DPR-S676", at, says, "write the `step` to which values are rounded, or limits such as 0.333")
    elif column.range is not None and grid is not None:
        check_grid(column.range, grid.step, (*at, "range"), ("DPR-S509", "DPR-S510"), findings, at)


def step_is_sound(column: ColumnSpec, step: Fraction) -> bool:
    """Whether limits can be held against a step of a column."""
    whole = column.type != "integer" or step.denominator == 1
    return whole and max(step.numerator, step.denominator) <= FINEST


def check_grid(
    limits: tuple[Fraction, Fraction],
    step: Fraction,
    at: Path,
    codes: tuple[str, str],
    findings: Findings,
    column: Path,
) -> None:
    """Limits in order, on the grid of the step, and within 2^53 steps of zero.

    Args:
        limits: Low and high.
        step: The step of the column.
        at: Path of the limits.
        codes: For limits out of order, and for limits off the grid.
        findings: Where problems go.
        column: Path of the column that the step comes from.
    """
    low, high = limits
    if low >= high:
        says = "is upside down" if low > high else "has no width"
        findings.add(codes[0], at, says, "write [low, high], the smaller one first", column)
    elif any((limit / step).denominator != 1 for limit in limits):
        hint = "round the limits outward, or declare the column's `step`, such as 0.01"
        findings.add(codes[1], at, f"is off the grid: both ends are multiples of the step {step}", hint, column)
    elif any(abs(limit / step) > FINEST for limit in limits):
        findings.add("DPR-S511", at, "is more than 2^53 steps wide", "narrow it, or take a larger `step`", column)


def _check_keys(spec: ReleaseSpec, name: str, column: ColumnSpec, at: Path, findings: Findings) -> None:
    keys_at = (*at, "keys")
    if not column.has_keys:
        for field in ("labels", "null"):
            if field in column.model_fields_set:
                findings.add("DPR-S526", (*at, field), "belongs to keys, and there are none", "declare `keys`")
        return
    if column.keys is None:
        pass  # bands and maps are checked where they are computed
    elif column.type in ("decimal", "timestamp"):
        hint = "count by bands of it: `{bin: COLUMN, edges: [...]}`, or by days"
        findings.add("DPR-S531", keys_at, f"is for columns of few values, and this one is {column.type}", hint)
    elif isinstance(column.keys, ReferenceKeys):
        source = column.keys.column or name
        where = "column" if column.keys.column else "reference"
        check_reference(spec, column.keys.reference, source, column.type, (*keys_at, where), findings)
    elif isinstance(column.keys, KeySpan):
        _check_span(column.keys, column.type, keys_at, findings)
    else:
        _check_list(column.keys, keys_at, findings)
    if (keys := sound_keys(column)) is not None:
        check_labels(column, {label_text(key) for key in keys}, at, findings)


def _check_span(span: KeySpan, kind: ColumnType, at: Path, findings: Findings) -> None:
    if type_of(span) != kind:
        says = f"is no span of {kind} keys"
        hint = "from and to are two whole numbers of an integer column, or two days of a date column"
        findings.add("DPR-S529", at, says, hint)
    elif span_size(span) < 1:
        findings.add("DPR-S529", at, "is upside down", "write the smaller one after `from`")
    elif span_size(span) > MOST_KEYS:
        findings.add("DPR-S530", at, f"has {span_size(span)} keys, more than a million", "take fewer, wider keys")


def _check_list(keys: tuple[bool | int | str, ...], at: Path, findings: Findings) -> None:
    if not keys:
        findings.add("DPR-S532", at, "is empty", "list the values that may be published")
    seen = set()
    for number, key in enumerate(keys):
        if key in seen:
            findings.add("DPR-S525", (*at, number), f"repeats the key {shown(str(key))}", "list every key once")
        seen.add(key)


def keys_are_sound(column: ColumnSpec) -> bool:
    """Whether the spec itself gives keys that can be counted."""
    if column.bin is not None:
        return edges_are_sound(column)
    if column.map is not None:
        return bool(column.to)
    if isinstance(column.keys, KeySpan):
        return type_of(column.keys) == column.type and 1 <= span_size(column.keys) <= MOST_KEYS
    return isinstance(column.keys, tuple)


def sound_keys(column: ColumnSpec) -> tuple[Key, ...] | None:
    """The keys that the spec spells out; None where it spells out none, or wrong ones."""
    return spelled_out(column) if keys_are_sound(column) else None


def edges_are_sound(column: ColumnSpec) -> bool:
    """Whether the edges of bands rise, and there are two or more."""
    edges = column.edges or ()
    return len(edges) > 1 and all(low < high for low, high in pairwise(edges))


def check_labels(column: ColumnSpec, keys: set[str], at: Path, findings: Findings) -> None:
    """Labels and the key of nulls are for keys that exist; ``keys`` are all of the column, as text."""
    named: set[str] = set()
    for label in column.labels if isinstance(column.labels, Mapping) else ():
        key = label_key(label, column.type)
        if key not in keys:
            says, hint = "labels no key of the column", did_you_mean(label, sorted(keys))
            findings.add("DPR-S526", (*at, "labels", label), says, hint, *_said(at), key=True)
        elif key in named:
            says, hint = "labels a key that has a label already", "keep one of the two"
            findings.add("DPR-S526", (*at, "labels", label), says, hint, key=True)
        named.add(key)
    if column.null is not None and label_text(column.null) not in keys:
        near = did_you_mean(label_text(column.null), sorted(keys))
        hint = f"add it to `keys`; {near}" if column.keys is not None else near
        findings.add("DPR-S527", (*at, "null"), "is none of the keys", hint, *_said(at))


def _said(column: Path) -> tuple[Path, ...]:
    """Everything in a column that decides its keys."""
    return tuple((*column, field) for field in ("keys", "bin", "edges", "map", "to", "otherwise"))


def check_reference(
    spec: ReleaseSpec, reference: str, column: str, kind: ColumnType | None, at: Path, findings: Findings
) -> bool:
    """Whether a reference exists, declares a column and gives it this type (None: whatever type)."""
    known = spec.references.get(reference)
    if known is None:
        hint = did_you_mean(reference, spec.references, "declare it under `references`")
        findings.add("DPR-S517", at, f"means no reference: {shown(reference)!r}", hint, ("references", reference))
        return False
    about = ("references", reference, "columns", column)
    if column not in known.columns:
        hint = did_you_mean(column, known.columns)
        says = f"means a column that reference {reference!r} does not declare: {shown(column)!r}"
        findings.add("DPR-S518", at, says, hint, about)
        return False
    if kind is not None and known.columns[column] != kind:
        says = f"joins types that differ: {shown(column)!r} is {kind} here, {known.columns[column]} in {reference!r}"
        findings.add("DPR-S519", at, says, "declare one type in both places", about)
        return False
    return True
