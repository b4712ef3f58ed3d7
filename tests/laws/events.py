"""Events of every kind, for laws that hold whatever is drawn.

``KINDS`` has one strategy per kind of event and per way in which its sensitivity can be known; ``events`` is any of
them. What is generated costs something, and not absurdly much: an epsilon between about a thousandth and twenty.
"""

from __future__ import annotations

from fractions import Fraction

from hypothesis import strategies as st

from dprelease.noise.mechanisms.random_scale import RandomScaleMechanism
from dprelease.privacy.event import (
    Approximate,
    BoundedRange,
    Composed,
    Concentrated,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Gaussian,
    KeySelection,
    KNorm,
    Laplace,
    Parallel,
    Repeated,
    Sensitivity,
    TotalResidual,
)
from dprelease.privacy.unit import Neighboring

__all__ = ["KINDS", "SENSITIVITIES", "atoms", "events", "on_a_lattice", "pure_atoms", "refusable", "with_exact_pair"]

scales = st.fractions(min_value=Fraction(1, 2), max_value=500, max_denominator=16)
epsilons = st.integers(1, 3000).map(lambda n: Fraction(n, 1000))
cells = st.integers(1, 5)
vectors = st.lists(st.integers(1, 4), min_size=2, max_size=4).map(tuple)


def _unknown(known: Sensitivity) -> Sensitivity:
    return known.model_copy(update={"shifts": ()})


SENSITIVITIES: dict[str, st.SearchStrategy[Sensitivity]] = {
    "one cell": cells.map(Sensitivity.of_one_cell),
    "one vector": vectors.map(Sensitivity.of_shifts),
    # the second one has more cells and a smaller largest change, so that neither covers the other
    "several vectors": vectors.map(lambda v: Sensitivity.of_shifts((max(v) + 1, *v[1:]), (1,) * (len(v) + 1))),
    # a unit of k rows that are replaced: a row moves, or changes within its cell
    "replaced rows": st.builds(
        lambda g, r: Sensitivity.of_shifts(*((2 * r - 1,) * k + (r,) * (2 * (g - k)) for k in range(g + 1))),
        st.integers(2, 3),
        st.integers(1, 3),
    ),
    "unknown": vectors.map(lambda v: _unknown(Sensitivity.of_shifts((max(v) + 1, *v[1:]), (1,) * (len(v) + 1)))),
}


def _noise(kind: type[Event]) -> dict[str, st.SearchStrategy[Event]]:
    name = kind.model_fields["kind"].default
    return {f"{name}, {how}": st.builds(kind, scale=scales, sensitivity=s) for how, s in SENSITIVITIES.items()}


_PURE: dict[str, st.SearchStrategy[Event]] = {
    **_noise(DiscreteLaplace),
    **_noise(Laplace),
    "knorm": st.builds(
        KNorm,
        ball=st.sampled_from(["count", "linf"]),
        dimension=st.integers(1, 4),
        scale=scales,
        gauge=st.fractions(min_value=Fraction(1, 3), max_value=4, max_denominator=3),
    ),
    "total_residual": st.builds(
        TotalResidual,
        dimension=st.integers(2, 40),
        share=st.integers(1, 15).map(lambda n: Fraction(n, 32)),
        scale=scales,
        rows=st.sampled_from((1, 1, 1, 2)),
    ),
    "approximate, pure": st.builds(Approximate, epsilon=epsilons),
    "bounded_range": st.builds(BoundedRange, epsilon=epsilons),
}
_ATOMS: dict[str, st.SearchStrategy[Event]] = {
    **_PURE,
    **_noise(DiscreteGaussian),
    **_noise(Gaussian),
    "random_scale": st.builds(
        lambda dimension, scale, rows: RandomScaleMechanism().event(scale, dimension, Fraction(rows)),
        st.sampled_from((20, 20, 40)),
        scales,
        st.sampled_from((1, 1, 1, 2)),
    ),
    "approximate, with a delta": st.builds(
        Approximate, epsilon=epsilons, delta=st.integers(30, 60).map(lambda n: Fraction(1, 2**n))
    ),
    "approximate, reveal alone": st.builds(
        Approximate, epsilon=st.just(Fraction(0)), delta=st.integers(30, 60).map(lambda n: Fraction(1, 2**n))
    ),
    "concentrated": st.builds(Concentrated, rho=epsilons.map(lambda e: e * e / 2)),
}

pure_atoms = st.one_of(*_PURE.values())
atoms = st.one_of(*_ATOMS.values())
_some = st.lists(atoms, min_size=1, max_size=3).map(tuple)


def _parallel(relation: Neighboring, parts: st.SearchStrategy[Event]) -> st.SearchStrategy[Event]:
    several = st.lists(parts, min_size=1, max_size=3).map(tuple)
    return st.builds(Parallel, events=several, neighboring=st.just(relation))


_repeated = st.builds(Repeated, event=atoms, count=st.integers(1, 20))
_composed = st.builds(Composed, events=_some)
# What a noisy selection of keys costs: counts of one each, and a delta of its own.
_selection = st.builds(
    lambda noise, scale, cells, delta: Composed(
        events=(noise(scale=scale, sensitivity=Sensitivity.of_shifts((1,) * cells)), delta)
    ),
    st.sampled_from([DiscreteLaplace, DiscreteGaussian]),
    scales,
    cells,
    _ATOMS["approximate, reveal alone"],
)
_whole_selection = st.builds(
    lambda noise, scale, cells, threshold, delta: KeySelection(
        noise=noise(scale=scale, sensitivity=Sensitivity.of_shifts((1,) * cells)),
        threshold=threshold,
        keys=cells,
        delta=delta.delta,
    ),
    st.sampled_from([DiscreteLaplace, DiscreteGaussian]),
    scales,
    cells,
    st.integers(2, 200),
    _ATOMS["approximate, reveal alone"],
)
KINDS: dict[str, st.SearchStrategy[Event]] = {
    **_ATOMS,
    "repeated": _repeated,
    "composed": _composed,
    "selection": _selection,
    "selection, whole": _whole_selection,
    "choices": st.builds(Repeated, event=_PURE["bounded_range"], count=st.integers(1, 20)),
    "composed, nested": st.builds(Composed, events=st.tuples(_composed, _repeated)),
    "parallel, pure": _parallel(Neighboring.ADD_REMOVE, pure_atoms),
    "parallel, pure, replaced": _parallel(Neighboring.REPLACE_ONE, pure_atoms),
    "parallel, any": _parallel(Neighboring.ADD_REMOVE, atoms | _composed),
    "parallel, any, replaced": _parallel(Neighboring.REPLACE_ONE, atoms | _repeated),
}

events = st.one_of(*KINDS.values())

# What one accountant or another refuses, alone and beside others.
_refusable = st.one_of(
    *(
        _ATOMS[name]
        for name in ("approximate, with a delta", "concentrated", "discrete_gaussian, unknown", "laplace, one cell")
    ),
    KINDS["parallel, any"],
    KINDS["parallel, any, replaced"],
)
refusable = _refusable | st.builds(Composed, events=st.lists(_refusable, min_size=2, max_size=2).map(tuple))

# Draws of which the privacy loss distribution has the exact worst-case pair, or as good a one as moments know; the
# losses of the first are whole multiples of one number.
_LATTICE = ("discrete_laplace, one cell", "discrete_gaussian, one cell", "approximate, pure", "knorm", "total_residual")
on_a_lattice = st.one_of(*(_ATOMS[name] for name in _LATTICE))
with_exact_pair = st.one_of(
    *(
        strategy
        for name, strategy in _ATOMS.items()
        if name.endswith(("one cell", "one vector"))
        or name.startswith("gaussian")
        or name in ("approximate, pure", "total_residual")
    )
)
