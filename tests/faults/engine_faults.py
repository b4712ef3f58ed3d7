"""Faults of what is counted before the noise: joins, bounds, clips, the order of conditions, keyed samples, values."""

from __future__ import annotations

from tests.faults.fault import Fault
from tests.faults.planting import Edit, Seen

__all__ = ["ENGINE_FAULTS"]

_DUCK = {"kind": lambda _: "duckdb"}
_BOUNDS = Seen("conformance.test_engines_units", "test_every_quantity_under_every_bound", {"null_id": "unit"}, _DUCK)

ENGINE_FAULTS: tuple[Fault, ...] = (
    Fault(
        "nobody-meets-nobody",
        "joins",
        "rows without an id are joined to all others without: L1 of any size",
        Seen(
            "conformance.test_private_joins", "test_rows_without_an_id_meet_no_rows_without_an_id", {"kind": "duckdb"}
        ),
        Edit("engines.duck.pipeline:privately_joined", "left == lent[place])", "left.identical_to(lent[place]))"),
        spec="joined_nobody",
        audit=True,
    ),
    Fault(
        "order-without-lent-columns",
        "keyed sampling",
        "which rows of a unit stay depends on the engine, and so on other units",
        Seen(
            "conformance.test_private_joins",
            "test_matches_that_alone_differ_are_chosen_by_their_own_content",
            {},
            _DUCK,
        ),
        Edit("engines.duck.units:row_content", "column.in_source or column.lent_by is not None", "column.in_source"),
        spec="matches",
        audit=True,
    ),
    Fault(
        "sample-drawn-at-every-reading",
        "keyed sampling",
        "which rows stay is another choice at every reading",
        Seen(
            "unit.test_engines_bounding", "test_the_order_of_rows_and_their_files_play_no_part", {"truncate": "sample"}
        ),
        Edit(
            "engines.duck.bounding:_sampled",
            "return [ibis.asc(keyed(some, table, secret, item)), *_last(some)]",
            "return [ibis.asc(ibis.random())]",
        ),
        spec="sums_within",
        audit=True,
    ),
    Fault(
        "sample-without-the-secret",
        "keyed sampling",
        "whoever writes rows can choose which of them count",
        Seen("unit.test_engines_bounding", "test_a_sample_is_the_secrets_and_the_units_own"),
        Edit("engines.duck.units:keyed", "ibis.literal(secret.hex())", "ibis.literal('')"),
        beyond="which rows of a unit stay tells its own rows apart, and the loss of a whole unit is as claimed",
    ),
    Fault(
        "nobody-is-one-unit",
        "bounds",
        "rows without an id are bounded as one: one more lets another one in or out",
        _BOUNDS,
        Edit("engines.duck.units:unit_columns", '*([ALONE] if table.null_id == "unit" else [])', ""),
        spec="nobody_sums",
        audit=True,
    ),
    Fault(
        "units-counted-as-rows",
        "count",
        "a unit counts once for each of its rows",
        Seen(
            "conformance.test_private_joins", "test_rows_without_an_id_meet_no_rows_without_an_id", {"kind": "duckdb"}
        ),
        Edit(
            "engines.duck.pipeline:_once",
            'quantity.per == "unit_cell" or quantity.kind == "units"',
            'quantity.per == "unit_cell"',
        ),
        spec="units",
        audit=True,
    ),
    Fault(
        "unit-sum-not-clipped",
        "clip",
        "sums of any size",
        _BOUNDS,
        Edit("engines.duck.query:_clipped_once", "clip(whole, quantity.low, quantity.high)", "whole"),
        spec="per_unit",
        audit=True,
    ),
    Fault(
        "integers-not-clipped",
        "clip",
        "values of any size",
        _BOUNDS,
        Edit(
            "engines.duck.columns.grid_steps:steps",
            "quantity.step == 1:\n        return clip(value, low, high)",
            "quantity.step == 1:\n        return value",
        ),
        spec="sums",
        audit=True,
    ),
    Fault(
        "integers-not-clipped-in-arrays",
        "clip",
        "values of any size",
        Seen(
            "conformance.test_array_totals",
            "test_several_questions_are_answered_from_one_reading_and_from_shared_cubes",
        ),
        Edit("engines.duck.array_totals:_Block._steps", "steps.clip(low, high), present", "steps, present"),
        spec="sums_of_rows",
        audit=True,
    ),
    Fault(
        "rows-without-a-key-are-of-the-first",
        "keys",
        "one row more of no key moves a number that is not of it",
        Seen(
            "conformance.test_array_totals",
            "test_several_questions_are_answered_from_one_reading_and_from_shared_cubes",
        ),
        Edit(
            "engines.duck.array_totals:_Block._places_of",
            "self._table.column(name).cells\n",
            "0\n",
        ),
        beyond="a row is counted where it is not, and moves no number by more than a row may",
    ),
    Fault(
        "row-groups-of-two-runs",
        "rows",
        "rows at the end of a run, which count twice",
        Seen("conformance.test_array_totals", "test_they_are_the_same_by_runs_of_row_groups", {"files": "2"}),
        Edit(
            "engines.files.parquet:_piece", "(at + 1) * len(groups) // pieces", "(at + 1) * len(groups) // pieces + 1"
        ),
        beyond="what an audit asks is of few rows, which are read in one go",
    ),
    Fault(
        "huge-values-are-an-error",
        "values",
        "that there is one: a failure that depends on the data",
        Seen("conformance.test_engines_numbers", "test_the_grid_holds_for_every_double", {}, _DUCK),
        Edit(
            "engines.duck.columns.grid_steps:steps",
            "nearest = ibis.greatest(ibis.least(scaled, _double(high)), _double(low)).round()\n    return clip(nearest, low, high)",
            "return scaled.round()",
        ),
        beyond="values end at the range of their column first, and no spec may declare one of more than 2^53 steps",
    ),
    Fault(
        "infinity-is-a-number",
        "values",
        "one row spoils a total, or an error tells of it",
        Seen("unit.test_engines_rows", "test_stored_floats"),
        Edit("engines.files.rows:_stored_numbers", "values = pc.if_else(pc.is_finite(values), values, None)", "pass"),
        beyond="a stored infinity; an audit writes CSV files, whose numbers are text",
    ),
    Fault(
        "last-day-of-a-period-in-two",
        "periods",
        "one row in two periods, for the price of one",
        Seen("conformance.test_engines_time", "test_days_at_both_ends_nulls_and_garbage", {}, _DUCK),
        Edit("engines.files.rows:in_period", "pc.less(moments,", "pc.less_equal(moments,"),
        beyond="one release of one period is as claimed; two of them together are not",
    ),
    Fault(
        "keys-before-max_groups",
        "bounds",
        "a unit in any number of private keys",
        Seen("unit.test_engines_bounding", "test_private_keys_are_bounded_before_they_are_looked_up"),
        Edit(
            "engines.duck.pipeline:part_keys",
            "_, rows = _bounded(stage, asked, rows, {})",
            "rows = rows.select(*unit_columns(asked.table), *cell_columns(asked.grouping)).distinct()",
        ),
        spec="bounded_keys",
        audit=True,
    ),
    Fault(
        "cells-before-where",
        "order of conditions",
        "rows that `where` leaves out take the places of others of their unit: a wrong number",
        Seen("conformance.test_engines_units", "test_keys_that_occur_and_what_is_in_them", {}, _DUCK),
        Edit("engines.duck.pipeline:looked_at", "if grouping.where is not None:", "if False:"),
        beyond="in whatever order a unit's rows are left out, it keeps no more of them than is stated: no loss changes",
    ),
    Fault(
        "total-not-clamped",
        "values",
        "a huge total is an error: a failure that depends on the data",
        Seen("conformance.test_engines_numbers", "test_totals_beyond_64_bits_are_clamped", {}, _DUCK),
        Edit(
            "engines.duck.temp_tables:Stage.read_totals",
            'f"LEAST(GREATEST(COALESCE({_quoted(name)}, 0), {-MOST}), {MOST})"',
            'f"COALESCE({_quoted(name)}, 0)"',
        ),
        beyond="it takes totals of 2^63, and so more rows than an audit can write",
    ),
    Fault(
        "a-drivers-words",
        "logs",
        "a row, in the words of the driver",
        Seen("unit.test_engines_duckdb", "test_a_drivers_words_are_withheld", {}, {"folder": lambda folder: folder}),
        Edit("engines.base:scrubbed", "type(error).__name__, isinstance", "str(error), isinstance"),
        beyond="the words of an error; it is told by tests that plant a row in one",
    ),
    Fault(
        "any-number-of-matches",
        "joins",
        "one row becomes as many as the other table has of its unit",
        Seen("conformance.test_engines_units", "test_a_private_join_never_gives_more_matches_than_it_says", {}, _DUCK),
        Edit("engines.duck.bounding:_first", "< _capped(limit)", "< _capped(limit) + 1"),
        spec="joined",
        audit=True,
    ),
)
