"""``nist-800-226.md``: a self-assessment by the layers of the pyramid of NIST SP 800-226.

The publication (Guidelines for Evaluating Differential Privacy Guarantees, final of March 2025) stacks three layers: at
the top epsilon and the unit of privacy, which measure a guarantee directly; in the middle what can undermine it (the
correctness of the algorithms, utility, bias, the trust model, security and side channels); below, how the data were
collected and who can reach them. One line here is one question of ours within a layer; its words are not NIST's.

Each answer is *yes*, *no* or *unknown*, with the files and fields of the bundle that show it. *Yes* always speaks for
the release. What this tool cannot know is *unknown*, and it says who answers: a blank is no promise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from dprelease.plan.document import ReleasePlan
from dprelease.plan.explain.facts import unprotected
from dprelease.publish.base import NOTICE, Content, Facts
from dprelease.publish.html_text import visible
from dprelease.publish.numbers import at_most

__all__ = ["LAYERS", "NIST_FILE", "Line", "nist_lines", "nist_markdown"]

NIST_FILE = "nist-800-226.md"
Answer = Literal["yes", "no", "unknown"]
TOP = "Top: epsilon and the unit of privacy"
CORRECT, USEFUL, BIAS = "Middle: algorithm correctness", "Middle: utility", "Middle: bias"
TRUST, SECURITY = "Middle: trust model", "Middle: security and side channels"
BOTTOM = "Bottom: data collection exposure"
LAYERS = (TOP, CORRECT, USEFUL, BIAS, TRUST, SECURITY, BOTTOM)
OFFICE = "To be answered by the office."


@dataclass(frozen=True)
class Line:
    """One question.

    Attributes:
        layer: One of ``LAYERS``.
        question: Asked so that *yes* speaks for the release.
        answer: The answer of the three.
        why: In a sentence.
        evidence: Files of the bundle, each with the field after a colon; none where nothing there shows it.
    """

    layer: str
    question: str
    answer: Answer
    why: str
    evidence: tuple[str, ...] = ()


def nist_markdown(content: Content) -> bytes:
    """The self-assessment; the same bytes for the same content."""
    release, lines = content.plan.release, nist_lines(content)
    count = {each: sum(line.answer == each for line in lines) for each in ("yes", "no", "unknown")}
    written = [
        f"# Self-assessment by NIST SP 800-226: {_plain(release.title or release.name)}, {_plain(release.period)}"
    ]
    if content.facts.rehearsal:
        written.append(f"**{NOTICE}**")
    written += [
        "By the layers of the pyramid, the guarantee first and what lies around it last. The questions are asked so "
        "that *yes* speaks for the release. *Unknown* is what the software that made it cannot know: the office "
        "answers it. This is no statement by NIST, and no claim to conform.",
        f"{count['yes']} yes, {count['no']} no, {count['unknown']} unknown.",
    ]
    for layer in LAYERS:
        rows = [line for line in lines if line.layer == layer]
        table = ["| Question | Answer | Why | Evidence |", "|---|---|---|---|", *map(_row, rows)]
        written += [f"## {layer}", "\n".join(table)]
    return ("\n\n".join(written) + "\n").encode()


def _row(line: Line) -> str:
    shown = "; ".join(f"`{each}`" for each in line.evidence) or "none in the bundle"
    return f"| {_plain(line.question)} | **{line.answer}** | {_plain(line.why)} | {shown} |"


def _plain(text: str) -> str:
    """Text that can neither end its cell nor be read as markup: every sign of Markdown or HTML is escaped."""
    escaped = "".join(f"\\{sign}" if sign in "\\`*_[]<>#|&!~" else sign for sign in visible(text))
    return escaped.replace("\\<", "&lt;").replace("\\>", "&gt;").replace("\\&", "&amp;")


def nist_lines(content: Content) -> tuple[Line, ...]:
    """Every line, layer by layer."""
    plan, facts = content.plan, content.facts
    return (
        *_top(plan, facts),
        *_correct(facts),
        *_useful(plan),
        *_bias(plan),
        *_trust(facts),
        *_security(facts),
        *_bottom(plan),
    )


def _top(plan: ReleasePlan, facts: Facts) -> Iterator[Line]:
    certified = plan.loss[plan.certified]
    size = f"ε = {at_most(certified.epsilon, 6)}, δ = {at_most(certified.delta)}"
    yield Line(TOP, "Are ε and δ of the whole release stated, and rounded up?", "yes", f"{size}.",
               ("accounting.json: loss.certified", "accounting.json: totals"))  # fmt: skip
    if plan.invariants:
        yield Line(TOP, "Do they cover every published number?", "no", unprotected(plan),
                   ("accounting.json: invariants",))  # fmt: skip
    yield Line(TOP, "Are ε and δ within the budget that was set before?", "yes",
               "A plan above its budget is refused before any data are read.",
               ("accounting.json: budget", "accounting.json: loss.certified"))  # fmt: skip
    yield Line(TOP, "Is this ε small enough for these data?", "unknown",
               f"No number decides it; what it means for an attacker's odds is worked out. {OFFICE}",
               ("accounting.json: worked_example", "accounting.json: trade_off"))  # fmt: skip
    yield _small_delta(plan)
    yield Line(TOP, "Is the unit of privacy stated, with the relation between data sets?", "yes",
               f"{plan.unit}, {plan.neighboring}.",
               ("accounting.json: unit", "accounting.json: neighboring", "accounting.json: semantics"))  # fmt: skip
    yield Line(TOP, f"Does one {plan.unit} of the plan hold all data of one person?", "unknown",
               f"Whether rows are one per person, or ids are, is a fact about the data. {OFFICE}",
               ("accounting.json: reading",))  # fmt: skip
    yield _accumulates(facts)
    yield Line(TOP, "Is every other publication from the same data charged to the same accounts?", "unknown",
               f"Only what went through this ledger is known. {OFFICE}", ("accounting.json: not_covered",))  # fmt: skip


def _small_delta(plan: ReleasePlan) -> Line:
    question = "Is δ far below one over the number of units?"
    if plan.loss[plan.certified].delta == 0:
        return Line(TOP, question, "yes", "δ is 0.", ("accounting.json: loss.certified",))
    why = f"The number of units is confidential, and no figure of this bundle. {OFFICE}"
    return Line(TOP, question, "unknown", why, ("accounting.json: loss.certified",))


def _accumulates(facts: Facts) -> Line:
    question = "Is the loss over several releases added up and capped?"
    if not facts.accounts:
        return Line(TOP, question, "no", "No account was charged.", ("accounting.json: accounts",))
    names = ", ".join(each.name for each in facts.accounts)
    return Line(TOP, question, "yes", f"Charged to: {names}.", ("accounting.json: accounts", "facts.json: history"))


def _correct(facts: Facts) -> Iterator[Line]:
    yield Line(CORRECT, "Can the loss be derived again from published sensitivities and scales?", "yes",
               "Every draw states both; verifying a bundle derives the loss from them.",
               ("accounting.json: steps", "plan.json: steps"))  # fmt: skip
    yield Line(CORRECT, "Were sensitivities and losses derived twice, by different code?", "yes",
               "A plan that fails the second derivation is refused before any draw.",
               ("accounting.json: loss", "plan.json: steps"))  # fmt: skip
    sampler = facts.environment.get("sampler", "")
    yield Line(CORRECT, "Is the noise drawn exactly, and not in floating point?", "yes" if sampler else "unknown",
               f"Integers; sampler: {sampler}." if sampler else "The sampler was not recorded.",
               ("accounting.json: environment", "accounting.json: side_channels"))  # fmt: skip
    yield _tree(facts)
    yield Line(CORRECT, "Was the release audited by somebody else before it ran?", "unknown",
               f"No audit is recorded here. {OFFICE}", ("accounting.json: approvals",))  # fmt: skip


def _tree(facts: Facts) -> Line:
    question = "Is the source that ran known, and unchanged?"
    tree, commit = facts.environment.get("tree", ""), facts.environment.get("commit", "")
    answer: Answer = "yes" if tree == "clean" else "no" if tree == "modified" else "unknown"
    why = {
        "yes": f"Commit {commit}, with no change.",
        "no": f"Commit {commit}, with changes that were not committed.",
        "unknown": "The package was installed without a record of its commit.",
    }[answer]
    return Line(CORRECT, question, answer, why, ("accounting.json: environment",))


def _useful(plan: ReleasePlan) -> Iterator[Line]:
    blank = sum(each.margin is None for each in plan.outputs)
    why = f"At {float(100 * plan.publish.confidence):g} % confidence, beside each number."
    if blank:
        why += f" For {blank} of {len(plan.outputs)} measures it is known only after the draw."
    yield Line(USEFUL, "Is the error by the noise stated for every number?", "yes", why,
               ("accounting.json: outputs",))  # fmt: skip
    targets = [f"{query.name}.{name}" for query in plan.queries for name in query.goal.targets]
    yield Line(USEFUL, "Were targets for accuracy set before the run, and met?", "yes" if targets else "no",
               f"Met by the law of the noise: {', '.join(targets[:6])}{' and more' if len(targets) > 6 else ''}."
               if targets else "No target was set.",
               ("accounting.json: goals", "accounting.json: outputs"))  # fmt: skip
    yield Line(USEFUL, "Are the numbers accurate enough for their use?", "unknown",
               f"The intended use: {plan.release.intended_use or 'not stated'}. {OFFICE}",
               ("accounting.json: intended_use", "accounting.json: outputs"))  # fmt: skip
    yield Line(USEFUL, "Were the numbers compared with the truth?", "unknown",
               f"The comparison would cost budget or stay confidential; none is made here. {OFFICE}")  # fmt: skip


def _bias(plan: ReleasePlan) -> Iterator[Line]:
    yield Line(BIAS, "Is everything stated that can bias a number: clips, bounds, conditions, suppression?", "yes",
               "In words, beside the noise.",
               ("accounting.json: reading", "accounting.json: post_processing"))  # fmt: skip
    biased = _biasing(plan)
    yield Line(BIAS, "Is every number free of bias by clips, bounds and suppression?", "no" if biased else "yes",
               f"Here act: {', '.join(biased)}." if biased else "None of them acts here.",
               ("accounting.json: reading", "accounting.json: post_processing", "plan.json: queries"))  # fmt: skip
    yield Line(BIAS, "Are the noisy measurements published before any post-processing?", "yes",
               "Each with its variance.", ("measurements/recipe.json: steps",))  # fmt: skip
    yield Line(BIAS, "Are small groups told about as accurately as large ones, in relation to their size?", "no",
               "All cells of a table have the same noise, which is more of a small number than of a large one.",
               ("accounting.json: steps", "accounting.json: outputs"))  # fmt: skip
    yield Line(BIAS, "Was it examined whom these errors harm?", "unknown", OFFICE)


def _biasing(plan: ReleasePlan) -> list[str]:
    """What can move the expectation of a number away from what was asked, by name."""
    parts = [part for step in plan.steps for part in step.parts]
    tables = plan.catalog.tables.values()
    found = {
        "clips of values": any(part.kind in ("sum", "square", "quantile") for part in parts),
        "bounds on rows or groups of a unit": any(table.bounds is not None for table in tables)
        or any(query.max_groups is not None or query.max_rows_per_group is not None for query in plan.queries),
        "joins that keep some matches": any(table.private_joins for table in tables),
        "suppression of rows": any(query.suppress_below is not None for query in plan.queries),
        "selection of keys by noise": any(query.private for query in plan.queries),
        "projection to numbers that are not below zero": any("nonnegative" in each.post for each in plan.workloads),
        "blanks for unreliable numbers": plan.publish.unreliable_above is not None
        and plan.publish.unreliable_show == "blank",
        "quotients of noisy numbers": any(len(feeds) > 1 for query in plan.queries for feeds in query.inputs.values()),
    }
    return [name for name, acts in found.items() if acts]


def _trust(facts: Facts) -> Iterator[Line]:
    yield Line(TRUST, "Is the trust model stated, with every party and what it sees?", "yes",
               "Central: the curator sees the data as they are, and is trusted with them.",
               ("accounting.json: deployment.model", "accounting.json: deployment.actors"))  # fmt: skip
    yield Line(TRUST, "Does the guarantee hold against the curator too?", "no",
               "It does in the local model alone.", ("accounting.json: deployment.actors",))  # fmt: skip
    signed = bool(facts.approvals)
    yield Line(TRUST, "Was the plan approved by named people, before it ran?", "yes" if signed else "no",
               f"Signatures: {len(facts.approvals)}." if signed else "No approval was recorded.",
               ("accounting.json: approvals",))  # fmt: skip
    yield Line(TRUST, "Are those who can reach the data or the machine known, few and bound?", "unknown", OFFICE)


def _security(facts: Facts) -> Iterator[Line]:
    yield Line(SECURITY, "Is the bundle signed, so that a change of it shows?", "yes" if facts.signer else "no",
               f"By the key {facts.signer}." if facts.signer else "Its hashes show accidents, not forgery.",
               ("accounting.json: signature", "facts.json: signer"))  # fmt: skip
    yield Line(SECURITY, "Is the charge recorded in a ledger that shows changes?", "yes",
               f"Entry {facts.ledger_sequence} of a chain of hashes.",
               ("accounting.json: ledger.sequence", "accounting.json: ledger.hash"))  # fmt: skip
    entropy = facts.environment.get("entropy", "")
    yield Line(SECURITY, "Is the source of randomness fit for cryptography?",
               "yes" if entropy == "operating system" else "unknown",
               f"Source: {entropy or 'not recorded'}.", ("accounting.json: environment",))  # fmt: skip
    yield Line(SECURITY, "Do errors, logs, the order of rows and the names of files tell nothing of the data?", "yes",
               "They follow from the plan, or from a selection that is part of the loss.",
               ("accounting.json: side_channels",))  # fmt: skip
    yield Line(SECURITY, "Does the guarantee cover run time, memory and failures of the machine?", "no",
               "Whoever can watch the run may learn more than the tables tell.",
               ("accounting.json: side_channels", "accounting.json: not_covered"))  # fmt: skip
    yield Line(SECURITY, "Is the machine that ran it secure?", "unknown", OFFICE)


def _bottom(plan: ReleasePlan) -> Iterator[Line]:
    yield Line(BOTTOM, "Are the tables and columns listed that were read?", "yes",
               f"Of {len(plan.catalog.tables)} table{'' if len(plan.catalog.tables) == 1 else 's'}.",
               ("plan.json: catalog.tables", "accounting.json: dpia"))  # fmt: skip
    yield Line(BOTTOM, "Is no exact result kept?", "yes",
               "Exact results are never written; noisy ones are, in the ledger and here.",
               ("accounting.json: dpia",))  # fmt: skip
    for question in (
        "Were no more data collected than the purpose needs?",
        "Is there a lawful basis, or consent, for this use?",
        "Are the data protected where they lie and while they move?",
        "Is it fixed when the data are deleted?",
        "Were the data never published, leaked or shared in another form?",
    ):
        yield Line(BOTTOM, question, "unknown", OFFICE)
