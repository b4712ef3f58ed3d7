"""Faults of places that came later: joint noise of many counts, chosen clips, weights, ids, series, answers, and the audit itself."""

from __future__ import annotations

from pathlib import Path

import duckdb

from tests.faults.fault import Fault
from tests.faults.planting import Edit, Seen

__all__ = ["JOINT_FAULTS"]


__all__ = ["JOINT_FAULTS"]


def _connection(folder: Path) -> duckdb.DuckDBPyConnection:
    return duckdb.connect(str(folder / "rows.db"))


JOINT_FAULTS: tuple[Fault, ...] = (
    Fault(
        "ids-of-other-bytes-are-one",
        "bounds",
        "units whose ids differ in bytes that are no UTF-8 are bounded as one",
        Seen("conformance.test_engines_ids", "test_ids_that_differ_in_any_byte_are_two_units", {"kind": "duckdb"}),
        Edit("engines.files.rows:_identified", "id_text(item)", 'item.decode("utf-8", "replace")'),
        beyond="ids that are no UTF-8; an audit writes text",
    ),
    Fault(
        "weights-not-clipped",
        "clip",
        "a record counts as often as its weight says, however large",
        Seen(
            "conformance.test_engines_weights",
            "test_one_record_more_of_the_largest_weight_moves_its_cell_by_the_clip",
            {"weight": "501"},  # it is seen by the first engine, and no other one is started
        ),
        Edit("engines.duck.columns.grid_steps:weight_steps", "high=weight.clip)", "high=2**40)"),
        spec="weights",
        audit=True,
    ),
    Fault(
        "clip-by-half-scale",
        "choice",
        "epsilon of a chosen clip times 2",
        Seen("unit.test_chosen_clips", "test_the_choice_has_the_stated_law"),
        Edit("noise.mechanisms.clip:ExponentialClip.draw", "Powers(scale)", "Powers(scale / 2)"),
        beyond="26,000 choices proved no more than is claimed; the tests of the mechanism audit it by 10^5 and more",
    ),
    Fault(
        "scale-that-is-no-secret",
        "law",
        "noise of one random scale has the smallest one, always",
        Seen("unit.test_noise_random_scale", "test_a_draw_takes_a_secret_place_and_its_scale_and_rounds"),
        Edit("noise.mechanisms.random_scale:scale_noise", "bisect_right(ends, entropy.below(_WHOLE))", "0"),
        beyond="no spec of these is planned with it; it takes accounts of rho and many counts of one row",
    ),
    Fault(
        "residual-total-half-as-wide",
        "law",
        "less noise on a total with residuals than was charged",
        Seen("unit.test_noise_total_residual", "test_a_vector_by_its_decision_tree"),
        Edit(
            "noise.mechanisms.total_residual:TotalResidualSampler.vector",
            "2 * term.sign * geometric",
            "term.sign * geometric",
        ),
        beyond="the tests of the mechanism audit it by its own law: they see a third of the noise, and not a half",
    ),
    Fault(
        "periods-not-clamped",
        "values",
        "a huge number of one period wraps the sum over periods: any change",
        Seen("unit.test_noise_shared", "test_each_number_is_clamped_before_they_are_added_up"),
        Edit("noise.mechanisms.shared:_weighted", "np.clip(table, -most, most)", "table"),
        beyond="series are not audited, and it takes counts that add up to 2^63",
    ),
    Fault(
        "answers-kept-too-often",
        "local",
        "a respondent's answer is true more often than its weights say",
        Seen("laws.test_randomized_response", "test_an_answer_loses_ln_of_its_weights_and_the_code_draws_by_them"),
        Edit(
            "release.data.respond:given",
            "right, wrong = law.weights",
            "right, wrong = 2 * law.weights[0], law.weights[1]",
        ),
        beyond="answers are perturbed where they are collected, before there is a release",
    ),
    Fault(
        "bits-by-a-fair-coin",
        "local",
        "a bit is set more often where it is not the true one: an estimate that is wrong",
        Seen("laws.test_randomized_response", "test_bits_lose_it_together_and_a_bit_that_is_fair_for_all_is_seen"),
        Edit("release.data.respond:bits_given", "below(right + wrong) < wrong", "below(2) < 1"),
        beyond="answers are perturbed where they are collected, before there is a release",
    ),
    Fault(
        "audit-forgets-delta",
        "audit",
        "an audit accuses a plan that is right",
        Seen("unit.test_audit", "test_an_event_proves_what_its_definition_says"),
        Edit("audit.bounds:epsilon_of_event", "(above - delta) / below", "above / below"),
    ),
    Fault(
        "audit-tests-what-it-learned-from",
        "audit",
        "an audit chooses and counts on the same runs: it accuses a plan that is right",
        Seen("unit.test_audit", "test_what_is_learned_is_counted_on_other_runs"),
        Edit("audit.evidence:evidence", "(slice(half), slice(half, None))", "(slice(None), slice(None))"),
    ),
    Fault(
        "earlier-rows-are-its-own",
        "periods",
        "rows of one month stand for those of every month: a unit of it loses more than all draws were charged",
        Seen("unit.test_draw_of_series", "test_a_draw_of_a_series_weights_the_rows_of_every_month_by_its_own_number"),
        Edit(
            "release.draw:_Run._of_earlier_periods",
            "at_period(self.source.catalog, self.batch.table, period)",
            "self.source.catalog",
        ),
    ),
    Fault(
        "earlier-periods-the-wrong-way-round",
        "periods",
        "a month is weighted by the number of another one: other noise on what it published than was charged",
        Seen("unit.test_draw_of_series", "test_a_draw_of_a_series_weights_the_rows_of_every_month_by_its_own_number"),
        Edit("release.draw:_Run._of_earlier_periods", "in read[1:]", "in reversed(read[1:])"),
    ),
    Fault(
        "earlier-period-of-a-day-more",
        "periods",
        "the first day of a month is in the month before it, too",
        Seen("unit.test_draw_of_series", "test_a_draw_of_a_series_weights_the_rows_of_every_month_by_its_own_number"),
        Edit("release.data.earlier_periods:at_period", "end=days[1]", "end=days[1] + (days[1] - days[0]) / 28"),
    ),
    Fault(
        "texts-run-together",
        "fingerprints",
        "other rows of an earlier month have the hash of the charged ones",
        Seen(
            "unit.test_row_digests",
            "test_other_rows_have_other_sums_wherever_one_text_ends",
            made={"connection": _connection},
        ),
        Edit("engines.row_digests:digest_query", "length(v{at}) || ':' || v{at}", "v{at}"),
    ),
    Fault(
        "rows-hashed-without-the-key",
        "fingerprints",
        "whoever has a hash tries out which rows it is of",
        Seen(
            "unit.test_row_digests",
            "test_a_hash_is_of_the_key_and_of_every_part_of_it",
            made={"connection": _connection},
        ),
        Edit("engines.row_digests:digest_query", '["?", *texts]', '["substr(?, 1, 0)", *texts]'),
    ),
    Fault(
        "split-not-compared-after-the-read",
        "sources",
        "a task that is done again reads other rows: two states of the data in one answer",
        Seen("unit.test_spark_splits", "test_a_file_that_is_written_to_while_a_task_reads_it_is_refused"),
        Edit(
            "engines.spark.splits:stored_rows",
            "split.values, split.piece)\n    _require_same(split, table)",
            "split.values, split.piece)",
        ),
    ),
)
