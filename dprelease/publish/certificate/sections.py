"""What the certificate says, section by section; a pure function of plan and facts.

The order is that of the certificates of disclosure avoidance of the 2020 Census: what was released and who answers for
it, the framework and the total, the allocation, the meaning of the loss, the draws, and what surrounds them.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from dprelease.plan.document import ReleasePlan
from dprelease.privacy.accountants import ACCOUNTANTS
from dprelease.publish.accounting.choices import draw_row, laws_of_loss, other_ways
from dprelease.publish.accounting.glossary import (
    NOT_COVERED,
    not_protected,
    post_processing,
    said_everywhere,
    what_is_hidden,
    who_is_protected,
)
from dprelease.publish.accounting.guarantee import loss_row, loss_totals, meanings
from dprelease.publish.accounting.levels import NONE, AttributeChange, Level, attribute_changes, levels
from dprelease.publish.accounting.report import account_row
from dprelease.publish.accounting.threat_model import MODEL, apart, release_identity
from dprelease.publish.base import Content, Facts
from dprelease.publish.certificate.blocks import (
    Block,
    BlockColumn,
    BlockHeading,
    BlockList,
    BlockText,
    CertificateTable,
)
from dprelease.publish.certificate.office import office_statements, sign_off, unsaid
from dprelease.publish.html_text import utc
from dprelease.publish.numbers import at_most, percent

__all__ = ["MOST_ALLOCATED", "MOST_CHANGES", "MOST_STEPS", "certificate_blocks", "rational_text"]

MOST_STEPS = 40
MOST_ALLOCATED = 120
MOST_CHANGES = 30
_LONGEST = 48  # signs of an exact rational
_DIGITS = 9  # of a rational in the place of one that is longer
_SEE = "see accounting.json"
_LOSS = (BlockColumn("ε", 0, "number"), BlockColumn("δ", 0, "number"), BlockColumn("Factor", 0, "number"))
_PAIRS = (BlockColumn("What"), BlockColumn("Statement", 3))


def certificate_blocks(content: Content) -> tuple[Block, ...]:
    """Every block of the certificate of a release, in reading order."""
    plan, facts = content.plan, content.facts
    parts = (
        _opening(content),
        _release(plan, facts),
        sign_off(plan, facts),
        office_statements(plan),
        _guarantee(content),
        _allocation(plan),
        _meaning(plan),
        _draws(plan),
        _alternatives(plan),
        _unprotected(plan),
        _after(plan),
        _accounts(plan, facts),
        _provenance(plan, facts),
        _limits(),
    )
    blocks: list[Block] = []
    number = 0
    for each in (block for part in parts for block in part):
        if isinstance(each, BlockHeading):
            number += 1
            blocks.append(BlockHeading(f"{number}. {each.text}"))
        else:
            blocks.append(each)
    return tuple(blocks)


def _opening(content: Content) -> Iterator[Block]:
    told, facts = said_everywhere(content), content.facts
    release, total = content.plan.release, _total(content.plan)
    if told["notice"]:
        yield BlockText(told["notice"], "notice")
    yield BlockText(f"Release {release.name}, period {release.period}", "lead")
    alone = ", of the noisy measurements alone" if told["unprotected"] else ""
    yield BlockText(f"ε = {total[0][2]}, δ = {total[1][2]} for each {told['unit']}{alone}", "claim")
    if told["unprotected"]:
        yield BlockText(f"{told['unprotected']} No figure of loss in this certificate covers them.", "strong")
    if facts.signer:
        yield BlockText(
            "Not valid unless signed. The bundle that holds this certificate is signed in manifest.sig by the key with "
            f"the fingerprint {facts.key_fingerprint}. Whoever holds a copy compares that fingerprint with one from "
            "the curator."
        )
        yield BlockText(f"Public key: {facts.signer}", "small")
    else:
        yield BlockText(
            "Unsigned. Not valid unless signed. No key signed the bundle that holds this certificate: its hashes show "
            "accidents, not forgery."
        )


def _release(plan: ReleasePlan, facts: Facts) -> Iterator[Block]:
    """Who and what; the signatories have a place of their own."""
    found = [each for each in release_identity(plan, facts) if each[0] != "Signatories"]
    paid = f"; paid by entry {facts.paid_by}" if facts.paid_by else ""
    charged = ("Charged", f"{utc(facts.reserved_at)}, ledger entry {facts.ledger_sequence}{paid}")
    yield BlockHeading("The release")
    yield CertificateTable("Identity of the release", _PAIRS, (*found, charged, *unsaid(plan)))


def _guarantee(content: Content) -> Iterator[Block]:
    plan = content.plan
    words, total = ACCOUNTANTS[plan.certified].words, _total(plan)
    told = said_everywhere(content)
    yield BlockHeading("The guarantee")
    rows = (
        ("Who is protected", who_is_protected(plan)),
        ("Relation", f"{plan.neighboring}: {told['relation']}"),
        ("What is hidden", what_is_hidden(plan)),
        ("Framework", f"{words.framework} (accountant {plan.certified})"),
        ("Conversion theorem", words.theorem),
    )
    yield CertificateTable("Unit, relation and framework", _PAIRS, rows)
    heads = (BlockColumn("Figure", 2), BlockColumn("Rational", 2, "exact"), BlockColumn("Rounded up", 0, "number"))
    yield CertificateTable("Total loss, as a rational and rounded up", heads, tuple(total))
    cut = "“≤” stands before a rational that was rounded up because the exact one is too long to print. "
    yield BlockText(
        f"{cut if any(each[1].startswith('≤') for each in total) else ''}ρ is what the draws cost under "
        "zero-concentrated differential privacy, whichever accountant certifies the release.",
        "small",
    )


def _total(plan: ReleasePlan) -> list[tuple[str, str, str]]:
    """What, as a rational, and rounded up."""
    found, budget = loss_totals(plan), plan.budget
    rows = [
        ("ε, certified loss of this release", Fraction(found["epsilon"])),
        ("δ, certified with it", Fraction(found["delta"])),
        ("ρ, sum over the draws", Fraction(found["rho"])),
    ]
    asked = (("ε", budget.epsilon), ("ρ", budget.rho), ("δ", budget.delta))
    rows += [(f"{sign} of the budget, as asked for", value) for sign, value in asked if value is not None]
    return [(what, rational_text(value), at_most(value, 6)) for what, value in rows]


def rational_text(value: Fraction) -> str:
    """The exact rational; where it is too long to read, the next one above with nine digits, marked.

    >>> rational_text(Fraction(293764, 114921)), rational_text(Fraction(10**60 + 1, 3 * 10**60))
    ('293764/114921', '≤ 166666667/500000000')
    """
    text = str(value)
    if len(text) <= _LONGEST:
        return text
    unit = Fraction(1)
    while value / unit < 10 ** (_DIGITS - 1):
        unit /= 10
    while value / unit >= 10**_DIGITS:
        unit *= 10
    return f"≤ {-(-value // unit) * unit}"


def _part(value: Fraction) -> tuple[str, str]:
    """A share as an exact rational, or where it is found if that is too long, and in percent."""
    text = str(value)
    return (text if len(text) <= _LONGEST else _SEE, f"{percent(value)} %")


def _allocation(plan: ReleasePlan) -> Iterator[Block]:
    every = levels(plan)
    levelled = any(level.name != NONE for level in every)
    yield BlockHeading("Allocation")
    yield BlockText(
        "The share is the part of the budget by which the noise was scaled; the shares are exact and add up to one."
        + (
            " The levels are those of a workload, or first key columns that are nested in one another by the "
            "specification."
            if levelled
            else ""
        )
        + " What a query costs, ρ, is computed from the scales of its draws, which are 64-bit numbers, and rounded up; "
        "it is of all draws that the query needs, so that these do not add up where draws are shared."
    )
    if len(every) > 1:
        heads = (
            BlockColumn("Level"),
            BlockColumn("Share of the release", 1, "exact"),
            BlockColumn("Percent", 0, "number"),
            BlockColumn("Queries", 0, "number"),
        )
        rows = [(level.name, *_part(level.share), str(len(level.queries))) for level in every[:MOST_ALLOCATED]]
        yield CertificateTable("Shares of the levels", heads, tuple(rows))
    yield _by_query(every, levelled)


def _by_query(every: tuple[Level, ...], levelled: bool) -> CertificateTable:
    own = any(each.reveals for level in every for each in level.queries)
    heads = [BlockColumn("Query", 2)]
    if levelled:
        heads += [BlockColumn("Level", 1), BlockColumn("Share of the level", 1, "exact")]
    heads += [
        BlockColumn("Share of the release", 1, "exact"),
        BlockColumn("Percent", 0, "number"),
        BlockColumn("ρ", 0, "number"),
    ]
    if own:
        heads += [BlockColumn("Own δ", 0, "number")]
    rows = []
    for level, each in [(one, each) for one in every for each in one.queries]:
        within = (level.name, _part(each.within)[0]) if levelled else ()
        more = (at_most(each.reveals),) if own else ()
        rows.append((each.query, *within, *_part(each.share), at_most(each.rho, 5), *more))
    caption = f"Allocation by {'level and ' if levelled else ''}query"
    return _cut(caption, tuple(heads), rows, MOST_ALLOCATED, "allocation")


def _cut(
    caption: str, heads: tuple[BlockColumn, ...], rows: list[tuple[str, ...]], most: int, where: str
) -> CertificateTable:
    """A table of the first rows; its caption says how many there are, and where all of them are."""
    if len(rows) > most:
        all_of_them = f", all of them are in accounting.json, under “{where}”" if where else ""
        caption = f"{caption}: the first {most} of {len(rows)}{all_of_them}"
    return CertificateTable(caption, heads, tuple(rows[:most]))


def _meaning(plan: ReleasePlan) -> Iterator[Block]:
    rows, _ = meanings(plan)
    yield BlockHeading("What the loss means")
    yield BlockText(
        "Each line is about two data sets that differ in what the line says and in nothing else: the probability of "
        "any set of outcomes with the one is at most the factor times that with the other, plus δ."
    )
    heads = (BlockColumn("What differs"), BlockColumn("Draws", 0, "number"), *_LOSS)
    told = [tuple(each[name] for name in ("what", "draws", "epsilon", "delta", "factor")) for each in rows]
    yield CertificateTable("Loss by what may differ", heads, tuple(told))
    found = attribute_changes(plan)
    if not found:
        return
    spoken = f"; all figures by {plan.certified}" if plan.accounting != "auto" else ""
    heads = (BlockColumn("Attribute"), BlockColumn("Draws that depend on it", 0, "number"), *_LOSS)
    caption = f"One attribute of one {plan.unit} changed, all else equal{spoken}"
    yield _cut(caption, heads, [_changed(each) for each in found], MOST_CHANGES, "")
    notes = []
    if any(each.within is not None for each in found[:MOST_CHANGES]):
        notes.append(
            "“Within” says that the change stays inside one key of a column that is recoded from the attribute."
        )
    if len(found) <= MOST_CHANGES:
        notes.append("An attribute that is not listed is read by no draw.")
    if notes:
        yield BlockText(" ".join(notes), "small")


def _changed(each: AttributeChange) -> tuple[str, ...]:
    table, column = each.attribute
    what = f"{column} of {table}" if each.within is None else f"{column} of {table}, within one {each.within}"
    loss = loss_row(each.loss)
    return (what, f"{each.draws:,}", loss["epsilon"], loss["delta"], loss["factor"])


def _draws(plan: ReleasePlan) -> Iterator[Block]:
    laws = laws_of_loss(plan)
    yield BlockHeading("Draws of noise")
    yield BlockText(
        f"Sensitivity is how far one {plan.unit} can move a step, and scale the size of its noise, both in steps of "
        f"its grid{f'; the loss follows: {laws}' if laws else ''}."
    )
    heads = (
        BlockColumn("Step", 2),
        BlockColumn("What is added up", 2),
        BlockColumn("Noise", 2),
        BlockColumn("Cells", 0, "number"),
        BlockColumn("Sensitivity", 0, "number"),
        BlockColumn("Scale", 0, "number"),
        BlockColumn("Loss", 0, "number"),
    )
    names = ("id", "measured", "mechanism", "cells", "sensitivity", "scale", "loss")
    rows = [tuple(row[name] for name in names) for row in map(draw_row, plan.steps[:MOST_STEPS])]
    caption = "Steps in the order in which they ran"
    if len(plan.steps) > MOST_STEPS:
        caption += f": the first {MOST_STEPS} of {len(plan.steps)}, all of them are in accounting.json, under “steps”"
    yield CertificateTable(caption, heads, tuple(rows))


def _alternatives(plan: ReleasePlan) -> Iterator[Block]:
    """What else was considered: by the office in its words, by the planner in figures."""
    said = plan.office.alternatives if plan.office is not None else ()
    planned = other_ways(plan)
    yield BlockHeading("Alternatives considered")
    heads = (BlockColumn("Budget"), BlockColumn("Accuracy", 2), BlockColumn("Why it was not taken", 2))
    rows = tuple((each.budget, each.accuracy, each.why_not) for each in said) or (("", "", ""),)
    yield CertificateTable("By the office, in its own words", heads, rows)
    if planned:
        heads = (BlockColumn("Way"), BlockColumn("Noise, this plan's being 1", 0, "number"), BlockColumn("Why not"))
        rows = tuple((each["name"], each["noise"], each["why_not"]) for each in planned)
        yield CertificateTable("By the planner, at this budget", heads, rows)


def _unprotected(plan: ReleasePlan) -> Iterator[Block]:
    yield BlockHeading("What is not protected")
    yield BlockList(tuple(not_protected(plan)))
    references = sorted(plan.catalog.references.items())
    if references:
        heads = (BlockColumn("Reference"), BlockColumn("File"), BlockColumn("SHA-256", 3, "exact"))
        rows = tuple((name, each.file, each.sha256) for name, each in references)
        yield CertificateTable("Public references that were used", heads, rows)


def _after(plan: ReleasePlan) -> Iterator[Block]:
    yield BlockHeading("After the noise")
    yield BlockList(tuple(post_processing(plan)))


def _accounts(plan: ReleasePlan, facts: Facts) -> Iterator[Block]:
    yield BlockHeading("Accounts")
    if plan.release.revisions:
        yield BlockText(f"Here “this release” is all {1 + plan.release.revisions} publications of the period.")
    every = [account_row(plan, each) for each in (*facts.accounts, *facts.windows)]
    if not every:
        yield BlockText("No account was charged.")
        return
    names = ("name", "unit", "composition", "before", "alone", "after", "delta", "cap")
    numbers = ("Before", "This release alone", "After", "At δ", "Cap")
    heads = (
        *map(BlockColumn, ("Account", "Unit", "Adds up by")),
        *(BlockColumn(each, 0, "number") for each in numbers),
    )
    yield CertificateTable(
        "ε of each account at its δ, rounded up", heads, tuple(tuple(row[name] for name in names) for row in every)
    )
    for text in apart(plan):
        yield BlockText(text)


def _provenance(plan: ReleasePlan, facts: Facts) -> Iterator[Block]:
    yield BlockHeading("Software and provenance")
    rows = (
        ("Plan", facts.plan_fingerprint),
        ("Specification", plan.spec_fingerprint),
        ("Ledger entry", f"{facts.ledger_sequence}, charged {utc(facts.reserved_at)}"),
        ("Ledger hash", facts.ledger_hash),
    )
    yield CertificateTable("Where it comes from", (BlockColumn("What"), BlockColumn("Fingerprint", 3, "exact")), rows)
    software = tuple(sorted(facts.environment.items())) or (("none", "not stated"),)
    yield CertificateTable(
        "Software, sampler and source of randomness", (BlockColumn("Name"), BlockColumn("Version or kind", 3)), software
    )


def _limits() -> Iterator[Block]:
    yield BlockHeading("Limits")
    yield BlockText(f"{MODEL} Not covered:")
    yield BlockList(tuple(NOT_COVERED))
