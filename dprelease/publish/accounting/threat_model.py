"""What surrounds the draws: who sees what, what leaks beside the tables, and what officers have to add themselves.

For a parallel account: what its cap is about, and what it does not promise.

Only what this tool knows is stated. Everything else is printed as not stated, or as left to somebody by name.
"""

from __future__ import annotations

from typing import Any

from dprelease.plan.document import Account, ReleasePlan
from dprelease.plan.document.approval import approval_lines
from dprelease.privacy.unit import Neighboring
from dprelease.publish.accounting.semantics import attributes
from dprelease.publish.base import Facts
from dprelease.signature import PublicKey
from dprelease.words import marked, phrase, phrase_many

__all__ = [
    "ACTORS",
    "MODEL",
    "NOT_STATED",
    "SECTIONS",
    "SIDE_CHANNELS",
    "apart",
    "apart_facts",
    "dpia",
    "iso_terms",
    "release_identity",
    "report_fields",
    "series_told",
    "signature_line",
    "surroundings",
]

NOT_STATED = marked("not stated")
MODEL = marked(
    "Central: one party holds the data as they are, adds the noise, and gives out noisy numbers alone. The guarantee "
    "is about what is given out. It holds against readers who know all but one unit's data, and who work together."
)
ACTORS = (
    (
        marked("Curator: runs the release"),
        marked("the data as they are, and everything below"),
        marked("trusted with the data, and to run this software unchanged"),
    ),
    (
        marked("Machine and orchestrator of the run"),
        marked("the data in the memory of one process; elsewhere names, states and noisy numbers"),
        marked("trusted: whoever can look into that process sees the data"),
    ),
    (
        marked("Keeper of the ledger"),
        marked("plans, charges, noisy numbers, and keyed hashes of the data files"),
        marked("trusted to keep every entry; changes show in its chain of hashes"),
    ),
    (
        marked("Approvers and authors"),
        marked("the specification and the plan; planning reads no data"),
        marked("trusted with the choice of budget, keys, bounds and clips"),
    ),
    (
        marked("Readers: everybody else"),
        marked("this bundle"),
        marked("not trusted: they may know anything and do anything with it"),
    ),
)
SIDE_CHANNELS = (
    marked(
        "Outside the guarantee: how long the run took, how much memory it used, whether it ran out of either, and what "
        "can "
        "be seen of the machine while it runs. None of it is in this bundle."
    ),
    marked(
        "Which rows, columns and files there are, and in which order, follows from public keys, or from a selection by "
        "noise that is part of the loss."
    ),
    marked("Values that mean nothing are read as null or moved into their range. No error and no log quotes a value."),
    marked(
        "Noise is drawn as whole numbers, by exact arithmetic, from the operating system's source of entropy; it is "
        "not "
        "floating-point noise, and no seed can repeat it."
    ),
)
_OFFICER = marked("to be filled in by the data protection officer")
_CONTROLLER = marked("to be filled in by the controller")
_MOST_NAMED = 12
SECTIONS = {  # of the accounting page, as its table of what is stated names them
    "release": marked("the release"),
    "guarantee": marked("the guarantee"),
    "example": marked("the example"),
    "semantics": marked("what it means"),
    "losses": marked("losses"),
    "accounts": marked("accounts"),
    "reading": marked("the data"),
    "draws": marked("the draws"),
    "outputs": marked("what was planned"),
    "after": marked("after the noise"),
    "unprotected": marked("not protected"),
    "model": marked("who sees what"),
    "channels": marked("side channels"),
    "limits": marked("limits"),
    "provenance": marked("where it comes from"),
    "dpia": marked("impact assessment"),
    "iso": marked("terms of the standard"),
}


def surroundings(plan: ReleasePlan) -> dict[str, Any]:
    """What ``accounting.json`` says of all this, as far as it follows from the plan alone."""
    return {
        "deployment": {
            "model": MODEL,
            "actors": [{"actor": who, "sees": sees, "trust": trust} for who, sees, trust in ACTORS],
        },
        "side_channels": list(SIDE_CHANNELS),
        "dpia": [{"topic": topic, "answer": answer} for topic, answer in dpia(plan)],
        "iso_20889": [{"here": here, "term": term} for here, term in iso_terms(plan)],
        "fields": [
            {"number": number, "field": field, "where": where, "not_stated": missing}
            for number, field, where, missing in report_fields(plan)
        ],
    }


def release_identity(plan: ReleasePlan, facts: Facts) -> list[tuple[str, str]]:
    """What the release is, and what nobody wrote down of it."""
    release, restates = plan.release, facts.restates
    before = phrase("nothing: no earlier release of this name and period was replaced")
    if restates is not None:
        what = f" ({restates.what})" if restates.what else ""
        before = phrase(
            "ledger entry {sequence}, plan {plan_fingerprint}: {reason}{what}",
            sequence=restates.sequence,
            plan_fingerprint=restates.plan_fingerprint[:12],
            reason=restates.reason,
            what=what,
        )
    known, series = "; ".join(facts.changed_data), " ".join(series_told(plan, facts))
    return [
        (phrase("Product"), release.title or release.name),
        (phrase("Release and period"), f"{release.name}, {release.period}"),
        (phrase("Curator"), release.curator or phrase(NOT_STATED)),
        (phrase("Contact"), release.contact or phrase(NOT_STATED)),
        (phrase("Intended use"), release.intended_use or phrase(NOT_STATED)),
        *([(phrase("Publications of this period"), series)] if series else []),
        (phrase("Product type"), phrase("tables of noisy statistics")),
        (phrase("Supersedes"), before),
        (
            phrase("Errata"),
            phrase("the data changed while it was measured: {known}", known=known)
            if known
            else phrase("none was known when it was charged"),
        ),
        (phrase("Signatories"), "; ".join(approval_lines(facts.approvals)) or _unsigned(facts)),
    ]


def _unsigned(facts: Facts) -> str:
    """Why a release has no approval of its own; a revision has the plan that was approved, or was not, before."""
    if facts.paid_by is None:
        return phrase("none: no approval was recorded")
    return phrase(
        "those of the first publication, of ledger entry {paid_by}: a revision repeats its plan", paid_by=facts.paid_by
    )


def series_told(plan: ReleasePlan, facts: Facts) -> tuple[str, ...]:
    """What a reader must know of a period that is published several times: what is paid, and what the figures are of.

    Empty where no revision is planned.
    """
    number, revisions = plan.release.revision, plan.release.revisions
    if not revisions:
        return ()
    which = phrase("the first publication")
    if facts.paid_by is not None:
        which = phrase(
            "planned revision {number} of {revisions}; it was paid with the first publication, by ledger entry "
            "{entry}, and charged nothing itself",
            number=number,
            revisions=revisions,
            entry=facts.paid_by,
        )
    return (
        phrase_many(
            "The period is published {all} times: once, and in {number} planned revision with the rows that came late. "
            "This is {which}.",
            "The period is published {all} times: once, and in {number} planned revisions with the rows that came "
            "late. This is {which}.",
            revisions,
            all=1 + revisions,
            which=which,
        ),
        phrase(
            "The privacy loss that is stated is that of one of these publications. Whoever has all of them has draws "
            "for each: the accounts were charged for all of them together, at once and before the first one was read."
        ),
    )


def signature_line(signer: str) -> str:
    """Whose key signed the bundle, or that none did."""
    if not signer:
        return phrase("unsigned: the manifest's hashes show accidents, not forgery")
    return phrase(
        "manifest.sig, by key {fingerprint}, {signer}",
        fingerprint=PublicKey.from_text(signer).fingerprint,
        signer=signer,
    )


def dpia(plan: ReleasePlan) -> tuple[tuple[str, str], ...]:
    """What a data protection impact assessment asks (GDPR, Article 35(7)): answered where the plan knows it."""
    read = [phrase("{column} of {table}", column=column, table=table) for table, column in attributes(plan.catalog)]
    more = phrase(" and {count} more", count=len(read) - _MOST_NAMED) if len(read) > _MOST_NAMED else ""
    return (
        (phrase("Purpose of the processing"), plan.release.intended_use or phrase(_CONTROLLER)),
        (phrase("Controller, in the sense of the law"), phrase(_CONTROLLER)),
        (phrase("Curator, as the specification names it"), plan.release.curator or phrase(NOT_STATED)),
        (phrase("Lawful basis"), phrase(_OFFICER)),
        (phrase("Whose data"), phrase("each {unit}; see the guarantee", unit=plan.unit)),
        (phrase("Categories of data that were read"), f"{', '.join(read[:_MOST_NAMED])}{more}"),
        (phrase("Special categories among them"), phrase(_OFFICER)),
        (phrase("Recipients"), phrase("whoever receives this bundle; {who}", who=phrase(_CONTROLLER))),
        (phrase("Necessity and proportionality"), phrase(_OFFICER)),
        (phrase("Retention of the data"), phrase(_CONTROLLER)),
        (phrase("Retention of exact results"), phrase("none: they are never written")),
        (phrase("Retention of noisy results"), phrase("in the ledger and in this bundle")),
        (phrase("Risks before the measures"), phrase(_OFFICER)),
        (phrase("Measures"), phrase("differential privacy, as this page says with its limits")),
        (
            phrase("Residual risk"),
            phrase("bounded by the table of what an attacker can learn; accepted by: {who}", who=phrase(_OFFICER)),
        ),
        (phrase("Advice of the data protection officer, and date of review"), phrase(_OFFICER)),
    )


def iso_terms(plan: ReleasePlan) -> tuple[tuple[str, str], ...]:
    """What was done in the terms of ISO/IEC 20889:2018; only terms that fit without doubt, and no claim to conform."""
    clipped = any(part.kind in ("sum", "square", "quantile") for step in plan.steps for part in step.parts)
    found = [
        (phrase("the guarantee as a whole"), phrase("differential privacy (formal privacy measurement model)")),
        (phrase("noise on every number, or on every choice"), phrase("noise addition (randomization technique)")),
        (phrase("totals of cells in the place of rows"), phrase("aggregation (statistical tool)")),
    ]
    if clipped:
        found.append(
            (
                phrase("values moved into a range before they are added up"),
                phrase("top and bottom coding (generalization)"),
            )
        )
    return tuple(found)


def report_fields(plan: ReleasePlan) -> tuple[tuple[int, str, str, str], ...]:
    """The 26 fields of such a report: number, field, the section of the page that has it, and what is not stated."""
    release = plan.release
    stated = {
        phrase("curator"): release.curator,
        phrase("contact"): release.contact,
        phrase("intended use"): release.intended_use,
    }
    blank = [words for words, text in stated.items() if not text]
    rows = (
        (
            phrase("product, curator, use, region, law, sector"),
            "release",
            ", ".join([*blank, phrase("region"), phrase("law"), phrase("sector")]),
        ),
        (phrase("release, period, what it supersedes, errata"), "release", ""),
        (phrase("approvals and signatories"), "release", phrase("clearance number, audit before the run")),
        (phrase("variant of differential privacy and conversion"), "losses", phrase("why this variant")),
        (
            phrase("data: tables and period"),
            "reading",
            phrase("a hash of the data, which would tell of them; the ledger has keyed ones"),
        ),
        (phrase("unit, relation, bounds, rows without an id"), "guarantee", ""),
        (phrase("total loss, exact and rounded up; before and after"), "guarantee", ""),
        (phrase("refresh, accumulation, exhaustion"), "accounts", phrase("how often the release is refreshed")),
        (phrase("rule of composition"), "losses", ""),
        (phrase("allocation by query and level; every mechanism"), "draws", ""),
        (phrase("partial semantics: attributes and levels"), "semantics", ""),
        (phrase("unprotected quantities and where they come from"), "unprotected", ""),
        (
            phrase("exploration and tuning on the data before"),
            "unprotected",
            phrase("whether any was done but for looks that the ledger knows; none is charged here"),
        ),
        (phrase("post-processing and its bias"), "after", ""),
        (phrase("mechanism, sampler, library, source of entropy"), "provenance", ""),
        (phrase("deployment model, actors, adversaries"), "model", ""),
        (
            phrase("accuracy from the law of the noise"),
            "outputs",
            phrase("errors against the truth, which would cost budget"),
        ),
        (phrase("criteria of acceptance"), "outputs", phrase("criteria other than targets for margins")),
        (phrase("plain words and a worked example"), "example", ""),
        (
            phrase("justification of the budget"),
            "outputs",
            phrase("who chose it and why; alternatives tried by the author"),
        ),
        (phrase("software, commit, state of the tree, resolved settings"), "provenance", ""),
        (phrase("provenance: hashes, signature, ledger"), "provenance", ""),
        (phrase("side channels"), "channels", ""),
        (phrase("limits"), "limits", ""),
        (phrase("impact assessment"), "dpia", phrase("what is left to the officer there")),
        (phrase("terms of ISO/IEC 20889 and 27559"), "iso", "ISO/IEC 27559"),
    )
    return tuple((at, *row) for at, row in enumerate(rows, start=1))


def apart(plan: ReleasePlan) -> tuple[str, ...]:
    """One text for each parallel account of a plan; nothing where all releases of an account add up."""
    return tuple(_said(account) for account in plan.accounts if account.parallel is not None)


def apart_facts(plan: ReleasePlan) -> dict[str, Any]:
    """The same for ``accounting.json``; nothing without such an account, as in older bundles."""
    parallel = {account.name: account.parallel for account in plan.accounts if account.parallel is not None}
    if not parallel:
        return {}
    terms = {name: each.model_dump(mode="json") for name, each in parallel.items()}
    return {"parallel": {"accounts": terms, "says": list(apart(plan))}}


def _said(account: Account) -> str:
    per = account.stretch
    who = account.unit.removesuffix(f"-{per}")
    who = phrase("a {unit}", unit=who) if who != account.unit else phrase("whoever")
    told = {"account": account.name, "unit": account.unit, "per": per, "who": who}
    if account.neighboring is Neighboring.REPLACE_ONE:
        return phrase(
            "Account {account} protects one {unit}. Releases about different {per}s are about different units, so its "
            "cap holds for each {per} by itself, and as a unit of one {per} may be replaced by one of another, the "
            "figures are those of two {per}s together: of one that this release is about, and of the other one that "
            "lost most. It does not promise more: {who} with rows in 12 {per}s loses up to 12 times that.",
            **told,
        )
    return phrase(
        "Account {account} protects one {unit}. Releases about different {per}s are about different units, so its cap "
        "holds for each {per} by itself, and the figures are those of the {per}, of those that this release is about, "
        "that lost most. It does not promise more: {who} with rows in 12 {per}s loses up to 12 times that.",
        **told,
    )
