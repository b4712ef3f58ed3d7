"""What a workbook says beside its tables, in the language that is spoken: its cover, and its notes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from dprelease.estimate import PublishedTable
from dprelease.plan.explain.facts import unprotected
from dprelease.publish.accounting.glossary import (
    SAMPLED,
    dictionary,
    not_protected,
    post_processing,
    what_is_hidden,
)
from dprelease.publish.accounting.guide import how_read
from dprelease.publish.base import Content
from dprelease.publish.catalogue.entry import told_of
from dprelease.publish.figure_words import MOVED, MOVED_HELD, judged_words, state_words
from dprelease.publish.html_text import utc
from dprelease.publish.numbers import at_most, percent
from dprelease.words import day_written, marked, phrase, spoken

__all__ = ["CONTENTS", "COVER", "NOTES", "cover", "notes"]

COVER, CONTENTS, NOTES = marked("Cover"), marked("Contents"), marked("Notes")


def _by_chance() -> str:
    return phrase(
        "Where respondents answered by chance, so that nobody could know their true answer, the margin covers that "
        "chance, too: the number is an estimate of the true answers."
    )


def cover(content: Content) -> list[str]:
    """One line each: what this is, of when, by whom, what it cost, how to read it."""
    plan, facts = content.plan, content.facts
    release, loss = plan.release, plan.loss[plan.certified]
    share, unknown = percent(plan.publish.confidence), phrase("not stated")
    use = [phrase("Made for: {use}", use=release.intended_use)] if release.intended_use else []
    told = told_of(plan, facts)
    licence = [phrase("Licence: {licence}", licence=told.licence_name or told.licence)] if told.licence else []
    issued = (
        [
            phrase(
                "Published on {day}, version {version}",
                day=day_written(date.fromisoformat(told.issued)),
                version=told.version,
            )
        ]
        if told.issued
        else []
    )
    return [
        phrase(
            "What this is: statistical tables. Every number is an estimate: random noise was added to it before it was "
            "published, so that the tables describe the population and not any one {unit} in it.",
            unit=plan.unit,
        ),
        phrase("Period: {period}", period=release.period),
        phrase("Published by: {office}", office=release.curator or unknown),
        phrase("Contact: {contact}", contact=release.contact or unknown),
        *issued,
        *licence,
        *use,
        phrase(
            "Privacy loss: ε = {epsilon}{delta} for each {unit}; it limits how well anybody can tell {hidden}.",
            epsilon=at_most(loss.epsilon),
            delta=phrase(" at δ = {delta}", delta=at_most(loss.delta)) if loss.delta else "",
            unit=plan.unit,
            hidden=what_is_hidden(plan),
        ),
        *([unprotected(plan)] if plan.invariants else []),
        phrase(
            "How to read a margin: the number without noise lies between the lower and the upper end beside it. A "
            "statement made like this is right at least {share} % of the time. The margin covers the noise alone, not "
            "mistakes in the data, missing answers or sampling.",
            share=share,
        ),
        *([_by_chance()] if plan.local else []),
        phrase("Charged: {at}, ledger entry {entry}", at=utc(facts.reserved_at), entry=facts.ledger_sequence),
        phrase("Plan: {fingerprint}", fingerprint=facts.plan_fingerprint),
        phrase(
            "In this workbook: sheet {contents} leads to every table, and sheet {notes} says what each number is.",
            contents=phrase(CONTENTS),
            notes=phrase(NOTES),
        ),
    ]


def notes(content: Content) -> list[tuple[str, str]]:
    """What each note is about, and its words: shorthand, columns, measures, then how the numbers were made."""
    return [*_shorthand(content), *_columns(content), *_measures(content), *_made(content)]


def _shorthand(content: Content) -> Iterator[tuple[str, str]]:
    figures = content.plan.publish.figures
    if figures is not None:
        yield from ((figures.symbols[state], words) for state, words in state_words(content.plan.publish).items())
        yield from ((phrase("signs"), words) for words in judged_words(content.plan.publish))
        return
    above = content.plan.publish.unreliable_above
    yield "[x]", phrase("No estimate: the number, or its margin, cannot be made of the noisy measurements.")
    yield (
        "[u]",
        phrase("Unreliable: its margin is large beside it.")
        if above is None
        else phrase("Unreliable: its margin is more than {above} % of it.", above=percent(above)),
    )
    yield (
        "[w]",
        phrase(
            "Withheld after the noise: the number is unreliable and this publication does not show such numbers, or a "
            "noisy number of its row was below a limit. No exact number was looked at for this."
        ),
    )


def _columns(content: Content) -> Iterator[tuple[str, str]]:
    share = percent(content.plan.publish.confidence)
    yield (
        phrase("margin"),
        phrase(
            "Half the width of the {share} % interval about the number, before the interval is cut.",
            share=share,
        ),
    )
    yield (
        phrase("lower, upper"),
        phrase(
            "The number less and plus its margin, cut where numbers are not possible, such as a count below 0. It is "
            "never moved: a noisy number can lie outside."
        ),
    )
    measures = [each for table in content.tables for each in table.measures]
    if any(each.tested for each in measures):
        yield (
            phrase("means, ratios"),
            phrase(
                "Their {share} % intervals are all quotients that the noise does not rule out, often longer on one "
                "side; the margin is the distance of the farther end.",
                share=share,
            ),
        )
    if any(each.sampling_error is not None for each in measures):
        yield phrase("sampling error, total margin"), phrase(SAMPLED)
    if any(each.unadjusted is not None for each in measures):
        words = phrase(MOVED if content.plan.publish.figures is None else MOVED_HELD)
        yield phrase("before adjusting"), words[:1].upper() + words[1:]
    yield phrase("status"), phrase("ok, or why the number needs care or is missing.")
    yield (
        phrase("digits"),
        phrase("Numbers are shown rounded; the cells hold more digits, and the CSV file holds all of them."),
    )
    yield (
        phrase("keys"),
        phrase(
            "Keys that are declared as text are text, so that 06 is not 6. Tabs, line ends and hidden signs in a key "
            "are written out here; the CSV file has every key exactly as it is."
        ),
    )


def _measures(content: Content) -> Iterator[tuple[str, str]]:
    """The dictionary of the queries, and what derived tables are made of."""
    heads = {table.name: _heads(table) for table in content.tables}
    for query, columns in dictionary(content.plan, spoken().tag).items():
        shown = heads.get(query, {})
        for name in sorted(columns, key=lambda name: list(shown).index(name) if name in shown else len(shown)):
            words = columns[name]
            yield f"{query}: {shown.get(name, name)}", f"{words[:1].upper()}{words[1:]}."
    for table in content.tables:
        if table.derived:
            yield (
                table.name,
                phrase("Made of published numbers by SQL, after the noise: {derived}", derived=table.derived),
            )


def _heads(table: PublishedTable) -> dict[str, str]:
    """What its columns are called in its sheet, by their names and in their order."""
    columns = {column.name: column.shown for column in table.key_columns}
    return columns | {measure.name: measure.shown for measure in table.measures}


def _made(content: Content) -> Iterator[tuple[str, str]]:
    plan = content.plan
    for words in how_read(plan):
        yield phrase("how the data was read"), words
    judged = judged_words(plan.publish) if plan.publish.figures is not None else []
    for words in post_processing(plan):
        if words in judged:  # said of the signs already
            continue
        yield phrase("after the noise"), words
    for words in not_protected(plan):
        yield phrase("not protected"), words
