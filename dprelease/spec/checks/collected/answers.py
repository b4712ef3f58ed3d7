"""What a column of randomized answers says of itself, and that the bits of one question say the same."""

from __future__ import annotations

from collections.abc import Mapping

from dprelease.spec.checks.columns import sound_keys
from dprelease.spec.fields.columns import label_text
from dprelease.spec.fields.document import ColumnSpec, TableSpec
from dprelease.spec.text.findings import Findings
from dprelease.spec.text.names import did_you_mean, shown
from dprelease.spec.text.nodes import Path

__all__ = ["check_answers", "collected_columns"]

_TYPES = ("text", "integer")
_MOST_KEYS = 1000


def collected_columns(table: TableSpec) -> Mapping[str, ColumnSpec]:
    """The columns of a table whose values were randomized before they were collected."""
    return {name: column for name, column in table.columns.items() if column.collect is not None}


def check_answers(name: str, table: TableSpec, findings: Findings) -> None:
    """Every column of randomized answers of one table."""
    for label, column in collected_columns(table).items():
        _check_column(label, table, column, ("tables", name, "columns", label), findings)
    _check_questions(name, table, findings)


def _check_column(name: str, table: TableSpec, column: ColumnSpec, at: Path, findings: Findings) -> None:
    here = (*at, "collect")
    assert column.collect is not None  # noqa: S101 - asked for by the caller
    asked = column.collect.randomized_response
    joined = any(name in join.add for join in table.join)
    if column.is_derived or joined or column.partition or name == table.unit_id:
        hint = "write it of the column that the collector has, and no other one"
        findings.add("DPR-S252", here, "is for answers as they lie in the source", hint, at)
        return
    keys = sound_keys(column)
    if column.type not in _TYPES or keys is None or not 2 <= len(keys) <= _MOST_KEYS:
        says = f"needs a text or integer column whose {2} to {_MOST_KEYS:,} answers are listed as `keys`"
        findings.add("DPR-S253", here, says, "write `keys: [no, yes]`: all answers that could be given", at)
        return
    if column.null is not None:
        hint = "leave it out; `silence: KEY` under `randomized_response` says which answer stood for none"
        findings.add("DPR-S253", (*at, "null"), "gives an answer to rows that have none, which no coin has made", hint)
    known = [label_text(key) for key in keys]
    if asked.silence is not None and asked.silence not in known:
        says = f"is none of the answers: {shown(asked.silence)!r}"
        findings.add(
            "DPR-S254", (*here, "randomized_response", "silence"), says, did_you_mean(asked.silence, known), at
        )
    if asked.unary is not None and (column.type != "integer" or keys != (0, 1) or asked.silence is not None):
        says = "is for integer columns with the keys [0, 1], without `silence`: one bit each"
        hint = "write `{type: integer, keys: [0, 1]}`; whoever does not answer gives an answer of its own"
        findings.add("DPR-S255", (*here, "randomized_response", "unary"), says, hint, at)
    if table.unit_id is not None and "answers" not in asked.model_fields_set:
        says = "does not say how many answers one unit gave, and `unit_id` lets a unit have several rows"
        hint = "write `answers: 1`, or how many at most: what one unit loses to the collector is that often epsilon"
        findings.add("DPR-S256", (*here, "randomized_response"), says, hint, ("tables", at[1], "unit_id"))
    if table.weight is not None:
        says = "stands beside `weight`: the law of an estimate from weighted randomized answers is not known here"
        findings.add("DPR-S252", here, says, "leave the weights out, or publish the table from another spec", at)


def _check_questions(name: str, table: TableSpec, findings: Findings) -> None:
    """The bits of a question are of different answers, two or more, and drawn by one law."""
    bits: dict[str, list[str]] = {}
    for label, column in collected_columns(table).items():
        unary = column.collect.randomized_response.unary if column.collect is not None else None
        if unary is not None:
            bits.setdefault(unary.question, []).append(label)
    for question, labels in bits.items():
        laws = [each.collect.law(2) for label in labels if (each := table.columns[label]).collect is not None]
        told = {(law.weights, law.answers) for law in laws}
        answers = {law.unary.answer for law in laws if law.unary is not None}
        at = ("tables", name, "columns", labels[-1], "collect", "randomized_response")
        if len(told) > 1 or len(answers) < len(labels) or len(labels) < 2:
            says = f"is one of {len(labels)} bits of {shown(question)!r} that do not belong together"
            hint = "give every bit of a question the same epsilon and `answers`, and an answer of its own; two at least"
            findings.add("DPR-S257", at, says, hint, *(("tables", name, "columns", each) for each in labels))
        elif question in table.columns:
            says = f"has a question with the name of a column: {shown(question)!r}"
            findings.add("DPR-S257", (*at, "unary", "question"), says, "give the question a name of its own")
