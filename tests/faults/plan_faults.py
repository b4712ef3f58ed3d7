"""Faults of what is claimed: sensitivity, workloads, composition, conversion, groups, filters, periods, verify itself."""

from __future__ import annotations

from tests.faults.fault import Fault
from tests.faults.planting import Edit, Seen

__all__ = ["PLAN_FAULTS"]

_ROWS = Seen("laws.test_sensitivity", "test_no_neighbour_moves_an_aggregate_further_than_claimed")
_REACH = "claims another sensitivity than its extreme rows have"

PLAN_FAULTS: tuple[Fault, ...] = (
    Fault(
        "replaced-as-added",
        "sensitivity",
        "under `replace_one` half of the cells that change",
        _ROWS,
        Edit(
            "catalog.sensitivity:_of",
            "2 * groups if cells is None else min(cells, 2 * groups)",
            "groups if cells is None else min(cells, groups)",
        ),
        spec="replaced",
        verify=_REACH,
    ),
    Fault(
        "lower-clip-forgotten",
        "sensitivity",
        "epsilon of sums with negative values",
        _ROWS,
        Edit(
            "catalog.aggregate:Quantity._unweighted", "return (min(0, self.low - self.centre), max(", "return (0, max("
        ),
        spec="negative",
        verify=_REACH,
    ),
    Fault(
        "rest-of-a-unit-forgotten",
        "sensitivity",
        "the L2 norm of a unit with uneven cells",
        Seen("laws.test_sensitivity_units", "test_no_two_units_differ_by_more_than_claimed_and_some_by_that_much"),
        Edit("catalog.sensitivity:_of", "full * per_group**2 + rest**2", "full * per_group**2"),
        spec="uneven",
        verify=_REACH,
    ),
    Fault(
        "values-counted-once",
        "sensitivity",
        "numbers of different values of a unit with many rows",
        Seen("laws.test_sensitivity_distinct", "test_numbers_of_different_values_move_by_at_most_a_units_rows"),
        Edit("catalog.sensitivity:_counted", 'quantity.kind == "units":', 'quantity.kind in ("units", "distinct"):'),
        spec="distinct",
        verify=_REACH,
    ),
    Fault(
        "joins-multiply-nothing",
        "joins",
        "epsilon x matches of a private join",
        Seen("laws.test_sensitivity_units", "test_cells_that_are_left_out_and_joined_rows_count"),
        Edit(
            "catalog.table:Table.most_rows",
            "self.bounds.max_rows * prod(join.max_matches for join in self.private_joins)",
            "self.bounds.max_rows",
        ),
        spec="joined",
        verify=_REACH,
    ),
    Fault(
        "contrast-of-one-column-short",
        "sensitivity",
        "mu of contrasts",
        Seen(
            "laws.test_residual_sensitivity",
            "test_no_neighbour_moves_a_residual_further_than_claimed_and_one_moves_it_as_far",
        ),
        Edit("catalog.residual:_norms", "prod(n * (n - 1) for n in sizes)", "prod((n - 1) ** 2 for n in sizes)"),
        spec="marginals",
        verify="claims",
    ),
    Fault(
        "spread-of-quantiles-halved",
        "sensitivity",
        "epsilon of quantiles x 2",
        Seen("laws.test_choice_reach", "test_the_scores_of_one_cell_move_apart_by_exactly_the_spread"),
        Edit("catalog.sensitivity:_quantile", "rate = 2 * max(at, 1 - at)", "rate = max(at, 1 - at)"),
        spec="quantile",
        verify="claims",
    ),
    Fault(
        "gauge-of-one-side",
        "sensitivity",
        "under `replace_one` epsilon of joint draws x 2",
        Seen("laws.test_knorm_epsilon", "test_gauges_of_the_two_relations"),
        Edit("noise.mechanisms.knorm:gauge", "Fraction(sides * rows)", "Fraction(rows)"),
        spec="joint-replaced",
        verify="gauge",
    ),
    Fault(
        "largest-row-for-column",
        "sensitivity",
        "the L2 norm of running sums",
        Seen(
            "laws.test_factor_sensitivity",
            "test_no_neighbour_moves_a_factor_further_than_claimed_and_one_moves_it_as_far",
        ),
        Edit("catalog.factor:_norms", "_largest(matrix.T)\n", "_largest(matrix)\n"),
    ),
    Fault(
        "list-replaced-as-added",
        "sensitivity",
        "under `replace_one` epsilon of lists x 2",
        Seen("laws.test_choice_reach", "test_every_round_of_a_list_moves_by_exactly_the_spread"),
        Edit(
            "catalog.sensitivity:choice_reach",
            "Fraction(2 * per_group if replace else per_group)",
            "Fraction(per_group)",
        ),
        spec="list-replaced",
        verify="claims",
    ),
    Fault(
        "verify-copies-the-claim",
        "verify",
        "nothing: the second derivation derives nothing",
        Seen("laws.test_sensitivity", "test_the_verifier_finds_the_same_and_refuses_any_other_claim"),
        Edit("plan.verify.reach:check_norms", "require(norms[0] == norms[1],", "require(norms[1] == norms[1],"),
    ),
    Fault(
        "verify-forgets-delta",
        "verify",
        "a delta above the budget's",
        Seen("unit.test_plan", "test_a_plan_that_lies_is_refused"),
        Edit(
            "plan.verify.whole_plan:_derived",
            'require(certified.delta <= plan.budget.delta, "delta above the budget\'s")',
            "pass",
        ),
    ),
    Fault(
        "rho-of-a-quarter",
        "composition",
        "rho x 2",
        Seen("unit.test_zcdp", "test_rho_is_exact_and_adds_up"),
        Edit(
            "privacy.accountants.rho:plain_rho",
            "2 * square.denominator * scale.numerator**2",
            "4 * square.denominator * scale.numerator**2",
        ),
        spec="gaussian",
        verify="loss",
    ),
    Fault(
        "repeated-once",
        "composition",
        "losses of lists, quantiles and revisions",
        Seen("laws.test_accountants", "test_what_these_laws_have_found"),
        Edit("privacy.accountants.base:atoms", "n * event.count for atom", "n for atom"),
        spec="list",
        verify="loss",
    ),
    Fault(
        "range-by-sixteen",
        "composition",
        "rho of quantiles and lists x 2",
        Seen("laws.test_verify_events", "test_both_sides_find_the_same_rho"),
        Edit(
            "privacy.accountants.rho:plain_rho", "atom.epsilon * atom.epsilon / 8", "atom.epsilon * atom.epsilon / 16"
        ),
        spec="quantiles",
        verify="loss",
    ),
    Fault(
        "covering-vector-too-short",
        "composition",
        "pld of changes of which the norms alone are known",
        Seen("laws.test_reveals_and_ranges", "test_norms_alone_bound_every_vector_that_has_them"),
        Edit("privacy.accountants.pld:_covering", "min(largest, l1 // i, isqrt", "min(largest, l1 // (i * i), isqrt"),
    ),
    Fault(
        "continuous-law-for-integers",
        "composition",
        "pld below the truth at small scales",
        Seen("unit.test_pld", "test_discrete_gaussian_without_one_worst_vector"),
        Edit(
            "privacy.accountants.pld:_dominating",
            "return _discrete_gaussian(atom)",
            "return ComposedLoss(squared=atom.sensitivity.l2_squared / atom.scale**2)",
        ),
    ),
    Fault(
        "own-deltas-overwritten",
        "composition",
        "the deltas of equal selections but one",
        Seen("laws.test_reveals_and_ranges", "test_what_is_taken_apart_and_what_is_left"),
        Edit("privacy.accountants.reveals:peeled", "reveals[delta] += n", "reveals[delta] = 1"),
    ),
    Fault(
        "conversion-with-a-log-too-much",
        "conversion",
        "epsilon too small",
        Seen("unit.test_zcdp", "test_epsilon_of_other_tools"),
        Edit("privacy.theorems.conversion:epsilon_at", "renyi + log(x / (1 + x))", "renyi + 2 * log(x / (1 + x))"),
        spec="gaussian",
        verify="loss",
    ),
    Fault(
        "replaced-unit-is-one-step",
        "conversion",
        "accounts of `replace_one` pay half",
        Seen("laws.test_filters_units", "test_nested_units_take_as_many_steps_as_the_factor_says_and_no_fewer"),
        Edit("privacy.convert:factor", "else 2 * inside", "else inside"),
    ),
    Fault(
        "squares-of-a-group-grow-once",
        "group privacy",
        "rho of k units / k",
        Seen("unit.test_group", "test_the_formulas"),
        Edit("privacy.group:concentrated", "_size(k) ** 2 * rho", "_size(k) * rho"),
    ),
    Fault(
        "deltas-of-a-group-add-up",
        "group privacy",
        "delta of k units with an epsilon of their own",
        Seen("unit.test_group", "test_deltas_grow_with_every_step"),
        Edit(
            "privacy.group:approximate",
            "upper(real(delta) * CONTEXT.expm1(k * one) / CONTEXT.expm1(one))",
            "k * delta",
        ),
    ),
    Fault(
        "group-in-one-village-by-k-deltas",
        "group privacy",
        "a key that a household alone holds, with 24 times the delta that is charged (found in review)",
        Seen("laws.test_selection_groups", "test_a_household_of_five_in_a_village_of_its_own"),
        Edit("privacy.group:_selection", "max(event.delta, shown)", "k * event.delta"),
    ),
    Fault(
        "parallel-parts-replaced-as-added",
        "composition",
        "under `replace_one` the second part",
        Seen("unit.test_zcdp", "test_parallel_parts"),
        Edit(
            "privacy.accountants.base:parts_of_one_unit",
            "is Neighboring.ADD_REMOVE else 2]",
            "is Neighboring.ADD_REMOVE else 1]",
        ),
    ),
    Fault(
        "threshold-one-too-low",
        "thresholds",
        "delta of selections x e^(1 / scale)",
        Seen("unit.test_noise_threshold", "test_the_threshold_is_the_least_one"),
        Edit("privacy.theorems.threshold:least_threshold", "return least(", "return -1 + least("),
        spec="keys",
        verify="threshold",
    ),
    Fault(
        "scales-rounded-down",
        "calibration",
        "nothing in a plan, for what is certified is the scale as it is drawn",
        Seen("unit.test_privacy_rounding", "test_a_dyadic_scale_is_a_float_not_below_the_value"),
        Edit("privacy.rounding:_dyadic_up", "-(-above // below)", "above // below"),
        spec="gaussian",
    ),
    Fault(
        "a-thousandth-less-noise",
        "calibration",
        "nothing in a plan, for what is certified is the scale as it is drawn",
        Seen("unit.test_calibrate", "test_the_budget_is_used_up_and_never_exceeded"),
        Edit("privacy.calibrate:_certify", "return best", "return best * Fraction(1001, 1000)"),
        spec="counts",
        verify="the pinned queries together need epsilon",
    ),
)
