"""The rules by which a planned release shows its numbers: what the spec says, and bases that go by the noise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from dprelease.estimate import FigureRules
from dprelease.estimate.figures import COMPARED, SYMBOLS, ShareLimits, usual_base
from dprelease.plan.document import Output, PlannedQuery
from dprelease.spec.fields.document import ReleaseSpec
from dprelease.spec.fields.published.figures import CAUTION_ABOVE, UNRELIABLE_ABOVE

__all__ = ["planned_figures", "unreliable_above"]


def unreliable_above(spec: ReleaseSpec) -> Fraction | None:
    """From which part of a number on half its interval makes it unreliable; None: no number is."""
    asked = spec.publish.unreliable
    return asked.relative_error_above if asked is not None else UNRELIABLE_ABOVE


def planned_figures(spec: ReleaseSpec, queries: Sequence[PlannedQuery], outputs: Sequence[Output]) -> FigureRules:
    """The rules of a plan.

    Shares are judged by the width of their interval where the author sets no limit of their own.

    Args:
        spec: What the author wrote.
        queries: As planned.
        outputs: The errors that the plan foresees.
    """
    above, asked = unreliable_above(spec), spec.publish.unreliable
    caution = asked.caution_above if asked is not None else CAUTION_ABOVE
    symbols = spec.publish.symbols
    written = {} if symbols is None else {name: each for name, each in symbols.model_dump().items() if each is not None}
    usual = {**SYMBOLS, **written}
    if not any(query.compare for query in queries):
        usual = {state: sign for state, sign in usual.items() if state not in COMPARED}
    errors = {(each.query, each.measure): each.standard_error for each in outputs}
    bases: dict[str, dict[str, Fraction]] = {}
    for query in queries:
        found = dict(_bases(spec, query, errors))
        if found:
            bases[query.name] = found
    return FigureRules(
        caution_above=None if above is None else caution,
        shares=ShareLimits() if above == UNRELIABLE_ABOVE else None,
        symbols=usual,
        bases=bases,
    )


def _bases(
    spec: ReleaseSpec, query: PlannedQuery, errors: dict[tuple[str, str], str | None]
) -> Iterator[tuple[str, Fraction]]:
    """The base of each measure of a query that is rounded; what is published exactly is not."""
    name = query.workload or query.name
    written = spec.queries[name]
    if any(each.query == name for each in spec.invariants):
        return
    for label, measure in written.measures.items():
        usual = spec.publish.round if measure.is_count else None
        asked = usual if written.round is None else written.round.get(label)
        for published in measure.published(label):
            error = errors.get((query.name, published))
            if asked == "auto":
                base = None if error is None else usual_base(Fraction(error))
            else:
                base = asked if isinstance(asked, Fraction) else None
            if base is not None and published in query.measures:
                yield published, base
    for label, compared in query.compare.items():
        of_count = written.measures[compared.measure].is_count and compared.kind in ("change", "difference")
        asked = (
            (spec.publish.round if of_count else None)
            if written.round is None
            else written.round.get(compared.among or label)
        )
        error = errors.get((query.name, label))
        usual_one = None if error is None or asked != "auto" else usual_base(Fraction(error))
        base = asked if isinstance(asked, Fraction) else usual_one
        if base is not None:
            yield label, base
