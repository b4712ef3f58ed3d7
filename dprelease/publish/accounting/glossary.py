"""The sentences that a page and ``accounting.json`` share, so that they cannot say two things."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, Literal

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.table import Table
from dprelease.estimate import RANK
from dprelease.measures import MEASURES, PLANNED, Measure
from dprelease.measures.comparing.comparison import ComparedNumber
from dprelease.plan.document import PlannedQuery, ReleasePlan
from dprelease.plan.explain.facts import unprotected
from dprelease.privacy.budget import Loss
from dprelease.privacy.unit import Neighboring
from dprelease.publish.accounting.guide import after_choices, reconciled
from dprelease.publish.accounting.respondents import local_words
from dprelease.publish.base import NOTICE, AccountFacts, Content
from dprelease.publish.catalogue.linked import as_script, dataset_of
from dprelease.publish.columns import P_VALUE, SAMPLING_ERROR, TOTAL_MARGIN, UNADJUSTED, UNADJUSTED_ERROR, endings_of
from dprelease.publish.comparing.earlier import period_of
from dprelease.publish.figure_words import judged_words
from dprelease.publish.html_text import themed, utc
from dprelease.publish.numbers import at_most, percent
from dprelease.spec.fields.workloads import TOTAL_KEY
from dprelease.words import inside_sentence, marked, phrase

__all__ = [
    "NOT_COVERED",
    "SIGNATURE",
    "compared",
    "described",
    "dictionary",
    "not_protected",
    "other_delta",
    "post_processing",
    "relation",
    "said_everywhere",
    "suspicion",
    "what_is_hidden",
    "who_is_protected",
]

NOT_COVERED = (
    marked("How long the run took, how much memory it used, and whether it ran out of either."),
    marked("Whoever can see the data source, the machine or the orchestrator while it runs."),
    marked("Copies of the data, and anything published from it outside the accounts named here."),
    marked("What the tables say about groups: a fact that holds for many people at once is meant to be visible."),
    marked("A legal opinion: this page is a record of what was done, not a certificate of anonymity."),
)
SIGNATURE = "unsigned"
_ADDED_UP = marked(
    "Sums along a column ({names}) are made of noisy combinations of the cells of each line: the cells follow from "
    "them by "
    "linear equations, and are added up. Such sums are unbiased, so that they need not be whole numbers, and a longer "
    "sum can be less than a shorter one. Sums of one line err together."
)
_DECLARED = marked(
    "that {row} is one {unit} is the declaration of who wrote the specification, and was not checked: a {unit} with "
    "several rows loses what a group of as many loses"
)
SAMPLED = marked(
    "the margin is that of the noise alone. The sampling error comes from a public model of the survey, not from the "
    "data; the total margin is for noise and sampling together."
)
_GIVEN = marked(
    "{table}: weights that are adjusted for those who did not answer, or calibrated to known totals, depend on all who "
    "are in the sample. The guarantee takes the weights of the others as they are, and does not cover what one {unit} "
    "did to these."
)
_BESIDE = {
    SAMPLING_ERROR: marked("sampling error of {number}, by a public model"),
    TOTAL_MARGIN: marked("margin of {number} for noise and sampling together"),
    P_VALUE: marked("probability, at most, that noise alone is as far from 0 as {number}"),
    UNADJUSTED: marked("estimate of {number} before it was adjusted"),
    UNADJUSTED_ERROR: marked("standard error of the estimate of {number} before it was adjusted"),
}
_TYPES = {
    "text": marked("text"),
    "integer": marked("integer"),
    "decimal": marked("decimal"),
    "boolean": marked("boolean"),
    "date": marked("date"),
    "timestamp": marked("timestamp"),
}
_MOST_NAMED = 6
Made = tuple[str, str, tuple[Quantity, ...]]  # query.measure, its kind, and the quantities that it is made of


def said_everywhere(content: Content) -> dict[str, Any]:
    """What every page of a release says, and its certificate."""
    plan, facts = content.plan, content.facts
    return {
        "release": plan.release,
        "title": plan.release.title or plan.release.name,
        "facts": facts,
        "charged": utc(facts.reserved_at),
        "notice": phrase(NOTICE) if facts.rehearsal else "",
        "confidence": percent(plan.publish.confidence),
        "unit": str(plan.unit),
        "unprotected": unprotected(plan),
        "relation": relation(plan),
        "linked": as_script(dataset_of(content)),
        **themed(facts.theme),
    }


def _has_several_rows(plan: ReleasePlan) -> bool:
    """Whether a unit has as many rows in the data as a table's unit id gives it; else it is one row."""
    return any(table.unit_id is not None for table in plan.catalog.tables.values())


def who_is_protected(plan: ReleasePlan) -> str:
    """Who a unit is, in the data."""
    told = {name: table.unit_id for name, table in plan.catalog.tables.items() if table.unit_id is not None}
    if not told:
        return phrase(
            "each {unit}; {declared}",
            unit=plan.unit,
            declared=phrase(_DECLARED, row=phrase("a row of a table"), unit=plan.unit),
        )
    ids = ", ".join(phrase("{column} of {name}", column=column, name=name) for name, column in told.items())
    other = f"{phrase(';')} " + phrase(_DECLARED, row=phrase("a row of another table"), unit=plan.unit)
    rest = other if len(told) < len(plan.catalog.tables) else ""
    return phrase(
        "each {unit}, with all of its rows: those that have one value of {ids}{rest}",
        unit=plan.unit,
        ids=ids,
        rest=rest,
    )


def relation(plan: ReleasePlan) -> str:
    """The neighbouring relation in words."""
    unit, several = str(plan.unit), _has_several_rows(plan)
    if plan.neighboring is Neighboring.ADD_REMOVE and several:
        return phrase(
            "Two data sets are neighbours when one has the rows of one {unit} more than the other.", unit=unit
        )
    if plan.neighboring is Neighboring.ADD_REMOVE:
        return phrase("Two data sets are neighbours when one has the row of one {unit} more than the other.", unit=unit)
    if several:
        return phrase(
            "Two data sets are neighbours when they have as many units and differ in the rows of one {unit}.", unit=unit
        )
    return phrase(
        "Two data sets are neighbours when they have the same size and differ in the row of one {unit}.", unit=unit
    )


def what_is_hidden(plan: ReleasePlan) -> str:
    """What an attacker cannot tell well, as the end of a sentence."""
    unit, several = str(plan.unit), _has_several_rows(plan)
    given = phrase(", given the weights of the others") if _calibrated(plan) else ""
    if plan.neighboring is Neighboring.ADD_REMOVE and several:
        return phrase("whether the rows of one {unit} are in the data at all{given}", unit=unit, given=given)
    if plan.neighboring is Neighboring.ADD_REMOVE:
        return phrase("whether the row of one {unit} is in the data at all{given}", unit=unit, given=given)
    if several:
        return phrase("which of two possible sets of rows one {unit} has in the data{given}", unit=unit, given=given)
    return phrase("which of two possible rows one {unit} has in the data{given}", unit=unit, given=given)


def _calibrated(plan: ReleasePlan) -> list[str]:
    """The tables with weights in which a record's weight may depend on the other records."""
    used = dict.fromkeys(query.table for query in plan.queries)
    weights = {name: plan.catalog.tables[name].weight for name in used}
    return [name for name, weight in weights.items() if weight is not None and weight.calibrated]


def compared(plan: ReleasePlan, *, by: Literal["as", "than"] = "as") -> str:
    """Between which two data sets the factor is, as the end of a sentence: one step of the relation, and no other.

    Args:
        plan: The plan.
        by: What stands between the two: ``as`` (likely), or ``than`` (likelier).
    """
    unit = str(plan.unit)
    if plan.neighboring is Neighboring.ADD_REMOVE:
        if by == "than":
            return phrase("with one {unit} than without, or the other way round", unit=unit)
        return phrase("with one {unit} as without, or the other way round", unit=unit)
    if by == "than":
        return phrase("with one {unit} than with another one in its place", unit=unit)
    return phrase("with one {unit} as with another one in its place", unit=unit)


def other_delta(loss: Loss, accounts: Sequence[AccountFacts]) -> str:
    """Why the total of an account can be below what one release cost; empty where all are read at one delta."""
    if all(each.after.delta == loss.delta for each in accounts):
        return ""
    return phrase(
        "The ε of an account is read at the δ of its cap, and that of this release at δ = {delta}. The same draws "
        "have a smaller ε at a larger δ, so that a total can be below a part of it; only figures at one δ can be "
        "compared.",
        delta=at_most(loss.delta),
    )


def suspicion(plan: ReleasePlan) -> str:
    """What an attacker may suspect of one unit, as the end of a sentence: the two sides of the relation."""
    if plan.neighboring is Neighboring.ADD_REMOVE:
        return phrase("it is in the data")
    return phrase("its data are one thing, and not a certain other")


def described(measure: Measure, table: Table, unit: str) -> str:
    """What a measure's numbers are, from its own fields and the declared range of its column."""
    only = phrase("; only rows where {condition}", condition=measure.where) if measure.where is not None else ""
    return measure.described(table, unit) + only


def dictionary(plan: ReleasePlan, language: str = "") -> dict[str, dict[str, str]]:
    """For every query what each of its keys and measures is; a measure m also has m_se, m_margin and m_status.

    One that is moved after it is estimated has m_unadjusted as well, which files of the first layout do not have.

    Args:
        plan: The plan.
        language: Of the author's own words on columns; empty: the first one of the release.
    """
    found = {}
    for query in plan.queries:
        table = plan.catalog.tables[query.table]
        keys = {
            column.name: phrase("key: {type}", type=phrase(_TYPES[column.type]))
            + _end(query, column.name)
            + _in_own_words(plan, query, column.name, language)
            for column in plan.keys(query)
        }
        rank = {RANK: phrase("rank, from 1")} if query.ranking is not None else {}
        along = "" if query.ranges is None else phrase(", added up along {column}", column=query.ranges.of)
        told = {name: described(measure, table, str(plan.unit)) + along for name, measure in query.measures.items()}
        told |= {name: compared_in_words(plan, asked) for name, asked in query.compare.items()}
        for name in (*query.measures, *query.compare):
            beside = [ending for ending in endings_of(plan, query, name) if ending in _BESIDE]
            told |= {name + ending: phrase(_BESIDE[ending], number=name) for ending in beside}
        found[query.name] = {**rank, **keys, **told}
    return found


def compared_in_words(plan: ReleasePlan, asked: ComparedNumber) -> str:
    """A column that compares, with the name of the period that it looks back to."""
    period = period_of(plan, asked)
    return (asked if period is None else asked.at(period)).described()


def _in_own_words(plan: ReleasePlan, query: PlannedQuery, column: str, language: str) -> str:
    """What the author says of a column, in a language, or in the first one; empty: nothing."""
    names = plan.catalog.names
    if names is None:
        return ""
    told = names.said("tables", query.table, "columns", column, "description", language=language or names.languages[0])
    return f"; {told}" if told else ""


def _end(query: PlannedQuery, column: str) -> str:
    """Which end of a sum along a column a key is; what the key of totals stands for."""
    if query.totals is not None and any(column not in table.by for table in query.totals.tables):
        return phrase("; {key}: all of them", key=TOTAL_KEY)
    if query.ranges is None or column in query.by:
        return ""
    first = column == f"{query.ranges.of}_from"
    return phrase(", the first that is added up") if first else phrase(", the last that is added up")


def post_processing(plan: ReleasePlan) -> tuple[str, ...]:
    """What happened after the noise: how each kind of number was made of the noisy measurements."""
    made = tuple(_made(plan))
    exact = [f"{each.query}.{each.measure}" for each in plan.invariants]
    kinds = {kind for _, kind, _ in made}
    found = [phrase("Invariants are the exact counts: {exact}.", exact=_named(exact))] if exact else []
    summed = [query.name for query in plan.queries if query.ranges is not None]
    totals = any(query.totals is not None for query in plan.queries)
    found += _counts_and_sums(made, bool(plan.workloads or summed or totals))
    found += [phrase(_ADDED_UP, names=_named(summed))] if summed else []
    found += _methods(MEASURES, kinds)
    if any(quantity.kind == "square" and quantity.grain > 1 for _, _, fed in made for quantity in fed):
        found.append(phrase("Squares were rounded to their grid before they were added up; the margin covers that."))
    if any(len(step.answers) > 1 for step in plan.steps):
        found.append(phrase("One draw may serve several numbers, which then err together: the steps say which."))
    found += reconciled(plan)
    found += _methods(PLANNED, kinds)
    found += after_choices(plan)
    found += judged_words(plan.publish)
    found.append(phrase("Numbers on the page are rounded for reading; the files hold them in full."))
    return tuple(found)


def _made(plan: ReleasePlan) -> Iterator[Made]:
    """Every measure that noise hides, in published order; ``outputs`` keeps the author's through canonical JSON."""
    parts = {step.id: step.parts for step in plan.steps}
    queries = {query.name: query for query in plan.queries}
    exact = {each.query for each in plan.invariants}
    for output in (each for each in plan.outputs if each.query not in exact):
        query = queries[output.query]
        if query.ranges is not None or output.measure in query.compare:  # told by themselves
            continue
        fed = tuple(parts[feed.step][feed.part] for feed in query.inputs[output.measure])
        told = () if query.totals is not None and query.totals.drawn else fed  # by themselves: they are reconciled
        yield f"{output.query}.{output.measure}", query.measures[output.measure].kind, told


def _methods(models: Mapping[str, type[Measure]], kinds: Set[str]) -> list[str]:
    """What the kinds of measures that a plan has say of how they are made, each sentence once."""
    return list(dict.fromkeys(phrase(line) for each in models.values() if each.kind in kinds for line in each.method))


def _counts_and_sums(made: Sequence[Made], workloads: bool) -> Iterator[str]:
    """Which of them are measurements as they stand, and what the others are made of."""
    models = [each for each in MEASURES.values() if each.direct]
    fed = {each.kind: [(name, parts) for name, kind, parts in made if kind == each.kind] for each in models}
    single = [each.plural for each in models if any(len(parts) == 1 for _, parts in fed[each.kind])]
    joined = {
        sentence: [name for name, parts in fed[each.kind] if len(parts) == 2 and parts[0].kind == first]
        for each in models
        for first, sentence in each.joined.items()
    }
    if single:
        names = phrase(" and ").join([phrase(single[0]), *(inside_sentence(phrase(each)) for each in single[1:])])
        but = phrase(", but for those named next,") if any(joined.values()) or workloads else ""
        yield phrase("{names}{but} are the noisy measurements themselves.", names=names, but=but)
    yield from (phrase(sentence, names=_named(names)) for sentence, names in joined.items() if names)
    if any(fed.values()):
        yield (
            phrase("No other count or sum was rounded, made positive or made to add up with others.")
            if workloads
            else phrase("No count or sum was rounded, made positive or made to add up with others.")
        )


def _named(names: Sequence[str]) -> str:
    more = phrase(" and {count} more", count=len(names) - _MOST_NAMED) if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def not_protected(plan: ReleasePlan) -> tuple[str, ...]:
    """Public facts that the guarantee does not cover, because they were never measured."""
    chosen = [query.name for query in plan.queries if query.private]
    every = (
        phrase("Every combination of the keys is published, so which rows a table has says nothing about the data.")
        if not chosen
        else phrase(
            "Which rows these tables have was decided by noise, and is covered by the guarantee: {chosen}. Every other "
            "table has a row for every combination of its keys.",
            chosen=_named(chosen),
        )
    )
    left_out = [query.name for query in plan.queries if query.excluding is not None]
    more = (
        (
            phrase(
                "Combinations that a public reference lists as impossible are left out of: {left_out}.",
                left_out=_named(left_out),
            ),
        )
        if left_out
        else ()
    )
    listed = (
        phrase(
            "{name}: the combinations of {columns} that reference {reference} lists are declared impossible. Rows with "
            "one of them are left out of all tables of {name}. The list is a public fact: nothing of it was measured, "
            "and no noise protects it.",
            name=name,
            columns=phrase(" and ").join(zeros.columns),
            reference=zeros.reference,
        )
        for name, zeros in plan.catalog.zeros.items()
    )
    return (
        unprotected(plan) or phrase("No number was published exactly: there are no invariants."),
        phrase(
            "Keys, labels, ranges, clips, bounds and guesses are taken from the author's specification and public "
            "references; the guarantee holds for them only if they were not themselves taken from the confidential "
            "data."
        ),
        every,
        *more,
        *listed,
        *(phrase(_GIVEN, table=name, unit=plan.unit) for name in _calibrated(plan)),
        *local_words(plan),
    )
