"""The words of a workbook: its cover and its notes."""

from __future__ import annotations

from collections.abc import Iterator

from dprelease.plan.explain.facts import unprotected
from dprelease.publish.accounting.glossary import MOVED, dictionary, not_protected, post_processing, what_is_hidden
from dprelease.publish.accounting.guide import how_read
from dprelease.publish.base import Content
from dprelease.publish.html_text import utc
from dprelease.publish.numbers import at_most, percent

__all__ = ["cover", "notes"]


def cover(content: Content) -> list[str]:
    """One line each: what this is, of when, by whom, what it cost, how to read it."""
    plan, facts = content.plan, content.facts
    release, loss = plan.release, plan.loss[plan.certified]
    share = percent(plan.publish.confidence)
    delta = f" at δ = {at_most(loss.delta)}" if loss.delta else ""
    use = [f"Made for: {release.intended_use}"] if release.intended_use else []
    return [
        "What this is: statistical tables. Every number is an estimate: random noise was added to it before it was "
        f"published, so that the tables describe the population and not any one {plan.unit} in it.",
        f"Period: {release.period}",
        f"Published by: {release.curator or 'not stated'}",
        f"Contact: {release.contact or 'not stated'}",
        *use,
        f"Privacy loss: ε = {at_most(loss.epsilon)}{delta} for each {plan.unit}; it limits how well anybody can tell "
        f"{what_is_hidden(plan)}.",
        *([unprotected(plan)] if plan.invariants else []),
        f"How to read a margin: the number without noise lies between the lower and the upper end beside it. A "
        f"statement made like this is right at least {share} % of the time. The margin covers the noise alone, not "
        "mistakes in the data, missing answers or sampling.",
        f"Charged: {utc(facts.reserved_at)}, ledger entry {facts.ledger_sequence}",
        f"Plan: {facts.plan_fingerprint}",
        "In this workbook: sheet Contents leads to every table, and sheet Notes says what each number is.",
    ]


def notes(content: Content) -> list[tuple[str, str]]:
    """What each note is about, and its words: shorthand, columns, measures, then how the numbers were made."""
    return [*_shorthand(content), *_columns(content), *_measures(content), *_made(content)]


def _shorthand(content: Content) -> Iterator[tuple[str, str]]:
    above = content.plan.publish.unreliable_above
    limit = (
        f"its margin is more than {percent(above)} % of it" if above is not None else "its margin is large beside it"
    )
    yield "[x]", "No estimate: the number, or its margin, cannot be made of the noisy measurements."
    yield "[u]", f"Unreliable: {limit}."
    yield (
        "[w]",
        "Withheld after the noise: the number is unreliable and this publication does not show such numbers, or a "
        "noisy number of its row was below a limit. No exact number was looked at for this.",
    )


def _columns(content: Content) -> Iterator[tuple[str, str]]:
    share = percent(content.plan.publish.confidence)
    yield "margin", f"Half the width of the {share} % interval about the number, before the interval is cut."
    yield (
        "lower, upper",
        "The number less and plus its margin, cut where numbers are not possible, such as a count below 0. It is never "
        "moved: a noisy number can lie outside.",
    )
    if any(each.unadjusted is not None for table in content.tables for each in table.measures):
        yield "before adjusting", MOVED[:1].upper() + MOVED[1:]
    yield "status", "ok, or why the number needs care or is missing."
    yield "digits", "Numbers are shown rounded; the cells hold more digits, and the CSV file holds all of them."
    yield (
        "keys",
        "Keys are text, so that 06 is not 6. Tabs, line ends and hidden signs in a key are written out here; the CSV "
        "file has every key exactly as it is.",
    )


def _measures(content: Content) -> Iterator[tuple[str, str]]:
    """The dictionary of the queries, and what derived tables are made of."""
    for query, columns in dictionary(content.plan).items():
        for name, words in columns.items():
            yield f"{query}: {name}", f"{words[:1].upper()}{words[1:]}."
    for table in content.tables:
        if table.derived:
            yield table.name, f"Made of published numbers by SQL, after the noise: {table.derived}"


def _made(content: Content) -> Iterator[tuple[str, str]]:
    plan = content.plan
    for words in how_read(plan):
        yield "how the data was read", words
    for words in post_processing(plan):
        yield "after the noise", words
    for words in not_protected(plan):
        yield "not protected", words
