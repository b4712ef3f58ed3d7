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
from dprelease.publish.accounting.levels import AttributeChange, attribute_changes
from dprelease.publish.accounting.report import account_row
from dprelease.publish.accounting.threat_model import MODEL, apart, release_identity
from dprelease.publish.base import Content, Facts
from dprelease.publish.certificate.allocated import LONGEST, allocated, cut_off
from dprelease.publish.certificate.blocks import (
    Block,
    BlockColumn,
    BlockHeading,
    BlockList,
    BlockText,
    CertificateTable,
)
from dprelease.publish.certificate.office import identified, office_statements, sign_off
from dprelease.publish.comparing.words import shared_words
from dprelease.publish.html_text import utc
from dprelease.publish.numbers import at_most
from dprelease.words import amount, phrase

__all__ = ["MOST_CHANGES", "MOST_STEPS", "certificate_blocks", "rational_text"]

MOST_STEPS = 40
MOST_CHANGES = 30
_DIGITS = 9  # of a rational in the place of one that is longer


def certificate_blocks(content: Content) -> tuple[Block, ...]:
    """Every block of the certificate of a release, in reading order."""
    plan, facts = content.plan, content.facts
    parts = (
        _opening(content),
        _release(plan, facts),
        sign_off(plan, facts),
        office_statements(plan),
        _guarantee(content),
        allocated(plan),
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


def _pairs() -> tuple[BlockColumn, ...]:
    return (BlockColumn(phrase("What")), BlockColumn(phrase("Statement"), 3))


def _loss() -> tuple[BlockColumn, ...]:
    factor = BlockColumn(phrase("Factor"), 0, "number")
    return (BlockColumn("ε", 0, "number"), BlockColumn("δ", 0, "number"), factor)


def _opening(content: Content) -> Iterator[Block]:
    told, facts = said_everywhere(content), content.facts
    release, total = content.plan.release, _total(content.plan)
    if told["notice"]:
        yield BlockText(told["notice"], "notice")
    yield BlockText(phrase("Release {name}, period {period}", name=release.name, period=release.period), "lead")
    alone = phrase(", of the noisy measurements alone") if told["unprotected"] else ""
    yield BlockText(
        phrase(
            "ε = {epsilon}, δ = {delta} for each {unit}{alone}",
            epsilon=total[0][2],
            delta=total[1][2],
            unit=told["unit"],
            alone=alone,
        ),
        "claim",
    )
    if told["unprotected"]:
        yield BlockText(
            phrase("{sentence} No figure of loss in this certificate covers them.", sentence=told["unprotected"]),
            "strong",
        )
    if facts.signer:
        yield BlockText(
            phrase(
                "Not valid unless signed. The bundle that holds this certificate is signed in manifest.sig by the key "
                "with the fingerprint {key_fingerprint}. Whoever holds a copy compares that fingerprint with one from "
                "the curator.",
                key_fingerprint=facts.key_fingerprint,
            )
        )
        yield BlockText(phrase("Public key: {signer}", signer=facts.signer), "small")
    else:
        yield BlockText(
            phrase(
                "Unsigned. Not valid unless signed. No key signed the bundle that holds this certificate: its hashes "
                "show accidents, not forgery."
            )
        )


def _release(plan: ReleasePlan, facts: Facts) -> Iterator[Block]:
    """Who and what; the signatories have a place of their own."""
    found = [each for each in release_identity(plan, facts) if each[0] != phrase("Signatories")]
    paid = phrase("; paid by entry {paid_by}", paid_by=facts.paid_by) if facts.paid_by else ""
    charged = (
        phrase("Charged"),
        phrase(
            "{reserved_at}, ledger entry {ledger_sequence}{paid}",
            reserved_at=utc(facts.reserved_at),
            ledger_sequence=facts.ledger_sequence,
            paid=paid,
        ),
    )
    yield BlockHeading(phrase("The release"))
    yield CertificateTable(phrase("Identity of the release"), _pairs(), (*found, charged, *identified(plan, facts)))


def _guarantee(content: Content) -> Iterator[Block]:
    plan = content.plan
    words, total = ACCOUNTANTS[plan.certified].words, _total(plan)
    told = said_everywhere(content)
    yield BlockHeading(phrase("The guarantee"))
    rows = (
        (phrase("Who is protected"), who_is_protected(plan)),
        (phrase("Relation"), f"{plan.neighboring}{phrase(':')} {told['relation']}"),
        (phrase("What is hidden"), what_is_hidden(plan)),
        (
            phrase("Framework"),
            phrase("{framework} (accountant {certified})", framework=phrase(words.framework), certified=plan.certified),
        ),
        (phrase("Conversion theorem"), phrase(words.theorem)),
    )
    yield CertificateTable(phrase("Unit, relation and framework"), _pairs(), rows)
    heads = (
        BlockColumn(phrase("Figure"), 2),
        BlockColumn(phrase("Rational"), 2, "exact"),
        BlockColumn(phrase("Rounded up"), 0, "number"),
    )
    yield CertificateTable(phrase("Total loss, as a rational and rounded up"), heads, tuple(total))
    cut = phrase("“≤” stands before a rational that was rounded up because the exact one is too long to print. ")
    yield BlockText(
        phrase(
            "{cut}ρ is what the draws cost under zero-concentrated differential privacy, whichever accountant "
            "certifies the release.",
            cut=cut if any(each[1].startswith("≤") for each in total) else "",
        ),
        "small",
    )


def _total(plan: ReleasePlan) -> list[tuple[str, str, str]]:
    """What, as a rational, and rounded up."""
    found, budget = loss_totals(plan), plan.budget
    rows = [
        (phrase("ε, certified loss of this release"), Fraction(found["epsilon"])),
        (phrase("δ, certified with it"), Fraction(found["delta"])),
        (phrase("ρ, sum over the draws"), Fraction(found["rho"])),
    ]
    asked = (("ε", budget.epsilon), ("ρ", budget.rho), ("δ", budget.delta))
    rows += [
        (phrase("{sign} of the budget, as asked for", sign=sign), value) for sign, value in asked if value is not None
    ]
    return [(what, rational_text(value), at_most(value, 6)) for what, value in rows]


def rational_text(value: Fraction) -> str:
    """The exact rational; where it is too long to read, the next one above with nine digits, marked.

    >>> rational_text(Fraction(293764, 114921)), rational_text(Fraction(10**60 + 1, 3 * 10**60))
    ('293764/114921', '≤ 166666667/500000000')
    """
    text = str(value)
    if len(text) <= LONGEST:
        return text
    unit = Fraction(1)
    while value / unit < 10 ** (_DIGITS - 1):
        unit /= 10
    while value / unit >= 10**_DIGITS:
        unit *= 10
    return f"≤ {-(-value // unit) * unit}"


def _meaning(plan: ReleasePlan) -> Iterator[Block]:
    rows, _ = meanings(plan)
    yield BlockHeading(phrase("What the loss means"))
    yield BlockText(
        phrase(
            "Each line is about two data sets that differ in what the line says and in nothing else: the probability "
            "of any set of outcomes with the one is at most the factor times that with the other, plus δ."
        )
    )
    heads = (BlockColumn(phrase("What differs")), BlockColumn(phrase("Draws"), 0, "number"), *_loss())
    told = [tuple(each[name] for name in ("what", "draws", "epsilon", "delta", "factor")) for each in rows]
    yield CertificateTable(phrase("Loss by what may differ"), heads, tuple(told))
    found = attribute_changes(plan)
    if not found:
        return
    spoken = phrase("; all figures by {certified}", certified=plan.certified) if plan.accounting != "auto" else ""
    heads = (BlockColumn(phrase("Attribute")), BlockColumn(phrase("Draws that depend on it"), 0, "number"), *_loss())
    caption = phrase("One attribute of one {unit} changed, all else equal{spoken}", unit=plan.unit, spoken=spoken)
    yield cut_off(caption, heads, [_changed(each) for each in found], MOST_CHANGES, "")
    notes = []
    if any(each.within is not None for each in found[:MOST_CHANGES]):
        notes.append(
            phrase("“Within” says that the change stays inside one key of a column that is recoded from the attribute.")
        )
    if len(found) <= MOST_CHANGES:
        notes.append(phrase("An attribute that is not listed is read by no draw."))
    if notes:
        yield BlockText(" ".join(notes), "small")


def _changed(each: AttributeChange) -> tuple[str, ...]:
    table, column = each.attribute
    what = (
        phrase("{column} of {table}", column=column, table=table)
        if each.within is None
        else phrase("{column} of {table}, within one {within}", column=column, table=table, within=each.within)
    )
    loss = loss_row(each.loss)
    return (what, amount(each.draws), loss["epsilon"], loss["delta"], loss["factor"])


def _draws(plan: ReleasePlan) -> Iterator[Block]:
    laws = laws_of_loss(plan)
    yield BlockHeading(phrase("Draws of noise"))
    yield BlockText(
        phrase(
            "Sensitivity is how far one {unit} can move a step, and scale the size of its noise, both in steps of its "
            "grid{more}.",
            unit=plan.unit,
            more=phrase("; the loss follows: {laws}", laws=laws) if laws else "",
        )
    )
    heads = (
        BlockColumn(phrase("Step"), 3),
        BlockColumn(phrase("What is added up"), 3),
        BlockColumn(phrase("Noise"), 2),
        BlockColumn(phrase("Cells"), 0, "number"),
        BlockColumn(phrase("Sensitivity"), 0, "number"),
        BlockColumn(phrase("Scale"), 0, "number"),
        BlockColumn(phrase("Loss"), 0, "number"),
    )
    names = ("id", "measured", "mechanism", "cells", "sensitivity", "scale", "loss")
    rows = [tuple(row[name] for name in names) for row in map(draw_row, plan.steps[:MOST_STEPS])]
    caption = phrase("Steps in the order in which they ran")
    if len(plan.steps) > MOST_STEPS:
        caption += phrase(
            ": the first {most} of {count}, all of them are in accounting.json, under “steps”",
            most=MOST_STEPS,
            count=len(plan.steps),
        )
    yield CertificateTable(caption, heads, tuple(rows))


def _alternatives(plan: ReleasePlan) -> Iterator[Block]:
    """What else was considered: by the office in its words, by the planner in figures."""
    said = plan.office.alternatives if plan.office is not None else ()
    planned = other_ways(plan)
    yield BlockHeading(phrase("Alternatives considered"))
    heads = (
        BlockColumn(phrase("Budget")),
        BlockColumn(phrase("Accuracy"), 2),
        BlockColumn(phrase("Why it was not taken"), 2),
    )
    rows = tuple((each.budget, each.accuracy, each.why_not) for each in said) or (("", "", ""),)
    yield CertificateTable(phrase("By the office, in its own words"), heads, rows)
    if planned:
        heads = (
            BlockColumn(phrase("Way")),
            BlockColumn(phrase("Noise, this plan's being 1"), 0, "number"),
            BlockColumn(phrase("Why not")),
        )
        rows = tuple((each["name"], each["noise"], each["why_not"]) for each in planned)
        yield CertificateTable(phrase("By the planner, at this budget"), heads, rows)


def _unprotected(plan: ReleasePlan) -> Iterator[Block]:
    yield BlockHeading(phrase("What is not protected"))
    yield BlockList(tuple(not_protected(plan)))
    references = sorted(plan.catalog.references.items())
    if references:
        heads = (BlockColumn(phrase("Reference")), BlockColumn(phrase("File")), BlockColumn("SHA-256", 3, "exact"))
        rows = tuple((name, each.file, each.sha256) for name, each in references)
        yield CertificateTable(phrase("Public references that were used"), heads, rows)


def _after(plan: ReleasePlan) -> Iterator[Block]:
    yield BlockHeading(phrase("After the noise"))
    yield BlockList(tuple(post_processing(plan)))


def _accounts(plan: ReleasePlan, facts: Facts) -> Iterator[Block]:
    yield BlockHeading(phrase("Accounts"))
    if plan.release.revisions:
        yield BlockText(
            phrase("Here “this release” is all {number} publications of the period.", number=1 + plan.release.revisions)
        )
    every = [account_row(plan, each) for each in (*facts.accounts, *facts.windows)]
    if not every:
        yield BlockText(phrase("No account was charged."))
        return
    names = ("name", "unit", "composition", "before", "alone", "after", "delta", "cap")
    numbers = (phrase("Before"), phrase("This release alone"), phrase("After"), phrase("At δ"), phrase("Cap"))
    heads = (
        *map(BlockColumn, (phrase("Account"), phrase("Unit"), phrase("Adds up by"))),
        *(BlockColumn(each, 0, "number") for each in numbers),
    )
    yield CertificateTable(
        phrase("ε of each account at its δ, rounded up"),
        heads,
        tuple(tuple(row[name] for name in names) for row in every),
    )
    for text in (*apart(plan), *shared_words(plan, replaces=facts.restates is not None)):
        yield BlockText(text)


def _provenance(plan: ReleasePlan, facts: Facts) -> Iterator[Block]:
    yield BlockHeading(phrase("Software and provenance"))
    rows = (
        (phrase("Plan"), facts.plan_fingerprint),
        (phrase("Specification"), plan.spec_fingerprint),
        (
            phrase("Ledger entry"),
            phrase(
                "{ledger_sequence}, charged {reserved_at}",
                ledger_sequence=facts.ledger_sequence,
                reserved_at=utc(facts.reserved_at),
            ),
        ),
        (phrase("Ledger hash"), facts.ledger_hash),
    )
    yield CertificateTable(
        phrase("Where it comes from"),
        (BlockColumn(phrase("What")), BlockColumn(phrase("Fingerprint"), 3, "exact")),
        rows,
    )
    software = tuple(sorted(facts.environment.items())) or ((phrase("none"), phrase("not stated")),)
    yield CertificateTable(
        phrase("Software, sampler and source of randomness"),
        (BlockColumn(phrase("Name")), BlockColumn(phrase("Version or kind"), 3)),
        software,
    )


def _limits() -> Iterator[Block]:
    yield BlockHeading(phrase("Limits"))
    yield BlockText(phrase("{model} Not covered:", model=phrase(MODEL)))
    yield BlockList(tuple(map(phrase, NOT_COVERED)))
