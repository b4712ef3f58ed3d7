"""Faults of how it hides: laws, samplers, choices, selections, noise that is used twice, boxes."""

from __future__ import annotations

from tests.faults.fault import Fault
from tests.faults.planting import Edit, Seen

__all__ = ["NOISE_FAULTS"]

_FRESH = Seen("statistical.test_samplers", "test_every_draw_is_fresh")


def _native(check: str) -> Seen:
    return Seen("unit.test_noise_native", "test_native_noise", {"check": check})


NOISE_FAULTS: tuple[Fault, ...] = (
    Fault(
        "noise-3-percent-short",
        "law",
        "epsilon x 1.03: less than an audit can see",
        Seen("statistical.test_native_noise", "test_native_noise_has_the_stated_law_and_a_wrong_scale_is_seen"),
        Edit(
            "noise.native.draws:sampler_of", "if scale <= 0:", "scale = scale * Fraction(97, 100)\n    if scale <= 0:"
        ),
        beyond="3 % of noise: the fit of a million draws sees it, and a loss proved from as many does not",
    ),
    Fault(
        "blocks-of-equal-noise",
        "reuse",
        "exact differences of cells that are 65,536 apart",
        _native("every_word_is_used_once_and_wiped"),
        Edit(
            "noise.native.draws:fill",
            "_block(sampler, out[start : start + BLOCK], source, scratch)",
            "_block(sampler, out[:BLOCK], source, scratch) if not start else np.copyto(\n"
            "                out[start : start + BLOCK], out[: len(out) - start][:BLOCK])",
        ),
        beyond="it shows in cells that are 65,536 apart, of which an audit looks at the few that change",
    ),
    Fault(
        "seeded-words",
        "reuse",
        "all noise, for it can be made again",
        _FRESH,
        Edit(
            "noise.native.source:System.words",
            "os.urandom(8 * count)",
            "__import__('random').Random(8 * count).randbytes(8 * count)",
        ),
        spec="counts",
        audit=True,
    ),
    Fault(
        "noise-kept-for-equal-draws",
        "reuse",
        "exact differences of two draws of one scale and length",
        _FRESH,
        Edit(
            "noise.native.draws:fill",
            "    with System() as source, scratch:",
            "    kept = globals().setdefault('_kept', {})\n"
            "    if (kind, scale, len(out)) in kept:\n"
            "        out[...] = kept[kind, scale, len(out)]\n"
            "        return\n"
            "    kept[kind, scale, len(out)] = out\n"
            "    with System() as source, scratch:",
        ),
        spec="two",
        audit=True,
    ),
    Fault(
        "zero-twice",
        "law",
        "the law of large scales",
        _native("draws_of_any_size_have_their_exact_value"),
        Edit("noise.native.draws:BlockTable.integer", "value = ~value", "value = -value"),
        beyond="one number of very many is drawn too often, at large scales alone",
    ),
    Fault(
        "tie-not-refined",
        "law",
        "the law by 2^-64",
        _native("ties_are_broken_by_as_many_digits_as_it_takes"),
        Edit("noise.native.lookup:Lookup._searched", "values[tie] = self.refined(int(words[tie]), source)", "pass"),
        beyond="it moves a probability by 2^-64",
    ),
    Fault(
        "geometric-without-rejection",
        "law",
        "the law of joint draws",
        Seen("unit.test_noise_knorm_sampler", "test_geometric_by_its_decision_tree"),
        Edit(
            "noise.native.entropy:geometric",
            "while not bernoulli_exp(below, rest, steps):\n        rest = below(steps)",
            "bernoulli_exp(below, rest, steps)",
        ),
        beyond="it moves the law of a joint draw by less than what some ten thousand of them can prove",
    ),
    Fault(
        "joint-radius-short",
        "law",
        "epsilon of joint draws",
        Seen("statistical.test_knorm", "test_the_norm_has_the_stated_law_and_a_wrong_scale_is_seen"),
        Edit("noise.mechanisms.knorm:noise_vector", "range(dimension + 1))", "range(dimension))"),
        beyond="it moves the law of a joint draw by less than what some ten thousand of them can prove",
    ),
    Fault(
        "joint-noise-per-quantity",
        "law",
        "epsilon x 2: two draws for the price of one",
        Seen("statistical.test_knorm", "test_whole_vectors_have_the_stated_law_and_the_other_ball_is_seen"),
        Edit(
            "noise.mechanisms.knorm:draw_noise",
            "return [noise_vector(entropy.below, ball, dimension, scale, shift) for _ in range(cells)]",
            "one = TiltedChoice(lattice_ball.numerator(ball, 1), scale)\n"
            "        return [\n"
            "            [noise_vector(entropy.below, ball, 1, scale, one)[0] for _ in range(dimension)]\n"
            "            for _ in range(cells)\n"
            "        ]",
        ),
        spec="joint",
        audit=True,
    ),
    Fault(
        "quantile-misses-the-right-side",
        "choice",
        "the law of quantiles",
        Seen("unit.test_noise_exponential", "test_pieces_are_the_score_of_every_grid_value"),
        Edit("noise.mechanisms.exponential:pieces", "max(rank, -after, 0)", "max(rank, 0)"),
        beyond="scores of one side alone move no further than is claimed: it is a wrong number",
    ),
    Fault(
        "quantile-shows-held-values-alone",
        "choice",
        "values that somebody has",
        Seen("statistical.test_exponential", "test_a_quantile_has_the_stated_law_and_a_wrong_scale_is_seen"),
        Edit(
            "noise.mechanisms.exponential:ExponentialQuantile.draw",
            "starts[chosen] + entropy.below(widths[chosen])",
            "starts[chosen]",
        ),
        beyond="some audits report it and others do not: a pair is chosen by the claimed law, which this leaves",
    ),
    Fault(
        "list-by-doubled-counts",
        "choice",
        "epsilon of lists x 2",
        Seen("laws.test_bounded_range_draws", "test_the_law_of_top_k_is_rounds_without_replacement"),
        Edit("noise.mechanisms.exponential:ExponentialTopK.draw", "[-value for", "[-2 * value for"),
        spec="list",
        audit=True,
    ),
    Fault(
        "threshold-exceeded-not-reached",
        "keys",
        "the stated half point; with `>= threshold - 1` delta",
        Seen("unit.test_noise_threshold", "test_a_key_is_released_at_the_threshold_and_not_one_below"),
        Edit("noise.mechanisms.threshold:_Threshold.draw", "noisy >= threshold)", "noisy >= threshold - 1)"),
        spec="keys",
        audit=True,
    ),
    Fault(
        "large-keys-without-noise",
        "keys",
        "epsilon infinite at the edge",
        Seen("unit.test_noise_threshold", "test_keys_appear_as_often_as_their_counts_say"),
        Edit(
            "noise.mechanisms.threshold:_Threshold.draw",
            "noisy = add_noise(self.noise, counts, scale, sampler)",
            "noisy = np.where(counts >= threshold, counts, add_noise(self.noise, counts, scale, sampler))",
        ),
        spec="keys",
        audit=True,
    ),
    Fault(
        "keys-in-the-order-of-their-counts",
        "keys",
        "which key has more units",
        Seen("unit.test_noise_threshold", "test_the_order_is_that_of_the_text_whatever_the_order_of_the_box"),
        Edit(
            "noise.mechanisms.threshold:_Threshold.draw",
            "return _selected(held, noisy >= threshold)",
            "return tuple(held[at] for at in np.argsort(-counts, kind='stable') if noisy[at] >= threshold)",
        ),
        spec="keys",
        audit=True,
    ),
    Fault(
        "coin-off-by-one-unit",
        "keys",
        "delta x (1 + e^epsilon)",
        Seen(
            "unit.test_noise_threshold", "test_the_optimal_selection_appears_as_often_as_it_should_and_a_shift_moves_it"
        ),
        Edit("noise.mechanisms.threshold:OptimalSelection.draw", "count - shift)", "count + 1 - shift)"),
        spec="coins",
        audit=True,
    ),
    Fault(
        "contrasts-of-huge-counts-unclamped",
        "workload",
        "a sum that wraps: any change",
        Seen(
            "unit.test_noise_residual", "test_contrasts_of_counts_of_any_size_are_clamped_so_that_no_number_overflows"
        ),
        Edit("noise.mechanisms.residual:draw_residual", "> residual.most_rows:", "> 2**64:"),
        beyond="it takes counts that add up to 2^63, and so more rows than an audit can write",
    ),
    Fault(
        "factor-transposed",
        "workload",
        "another matrix, whose columns have other norms",
        Seen("unit.test_noise_factor", "test_large_matrices_are_multiplied_in_blocks"),
        Edit("noise.mechanisms.factor:_multiplied", "matrix[first", "matrix.T[first"),
        beyond="an audit works its exact numbers out by the same product; conformance and tests by hand do not",
    ),
    Fault(
        "box-prints-its-values",
        "logs",
        "exact totals, wherever a box is printed",
        Seen("unit.test_noise_exact", "test_an_exact_value_prints_as_nothing"),
        Edit("noise.exact:_Box.__repr__", '"<{type(self).__name__}>"', "\"<{getattr(self, '_Exact__values', '')}>\""),
        beyond="what a program prints is no answer of a release",
    ),
)
