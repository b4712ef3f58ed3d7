"""The rules of tables: names, units, joins, and every column by itself and by what it is computed from."""

from __future__ import annotations

from dprelease.catalog.table import ColumnType
from dprelease.spec.check_columns import check_column
from dprelease.spec.check_derived import check_derived
from dprelease.spec.check_joins import check_joins
from dprelease.spec.check_time import check_time
from dprelease.spec.check_units import check_unit
from dprelease.spec.document import ReleaseSpec
from dprelease.spec.findings import Findings
from dprelease.spec.names import COLUMN_NAME, NAME_RULE
from dprelease.spec.steps import grid_of, measured

__all__ = ["check_tables"]


def check_tables(spec: ReleaseSpec, findings: Findings) -> None:
    """Every reference's name, and every table.

    Args:
        spec: As written.
        findings: Where problems go.
    """
    for name in spec.references:
        if not COLUMN_NAME.fullmatch(name):
            findings.add("DPR-S502", ("references", name), "is no name", NAME_RULE, key=True)
    for name, table in spec.tables.items():
        if not COLUMN_NAME.fullmatch(name):
            findings.add("DPR-S502", ("tables", name), "is no name", NAME_RULE, key=True)
        check_unit(name, table, findings)
        check_joins(spec, name, table, findings)
        check_time(spec, name, table, findings)
        above: dict[str, ColumnType] = {}
        limits = measured(spec, name)
        for column, described in table.columns.items():
            at = ("tables", name, "columns", column)
            check_column(spec, column, described, grid_of(table, column, limits), at, findings)
            check_derived(column, table, above, at, findings)
            above[column] = described.type
