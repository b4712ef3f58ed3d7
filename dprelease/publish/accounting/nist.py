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
from dprelease.publish.numbers import at_most, so_many

__all__ = ["LAYERS", "nist_lines", "nist_markdown"]

Answer = Literal["yes", "no", "unknown"]
Asked = tuple[str, Answer, str, str]  # question, answer, why, and the fields that show it (``_field``)
TOP = "Top: epsilon and the unit of privacy"
CORRECT, USEFUL, BIAS = "Middle: algorithm correctness", "Middle: utility", "Middle: bias"
TRUST, SECURITY = "Middle: trust model", "Middle: security and side channels"
BOTTOM = "Bottom: data collection exposure"
LAYERS = (TOP, CORRECT, USEFUL, BIAS, TRUST, SECURITY, BOTTOM)
OFFICE = "To be answered by the office."


@dataclass(frozen=True)
class AssessmentLine:
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


def _row(line: AssessmentLine) -> str:
    shown = "; ".join(f"`{each}`" for each in line.evidence) or "none in the bundle"
    return f"| {_plain(line.question)} | **{line.answer}** | {_plain(line.why)} | {shown} |"


def _plain(text: str) -> str:
    """Text that can neither end its cell nor be read as markup: every sign of Markdown or HTML is escaped."""
    escaped = "".join(f"\\{sign}" if sign in "\\`*_[]<>#|&!~" else sign for sign in visible(text))
    return escaped.replace("\\<", "&lt;").replace("\\>", "&gt;").replace("\\&", "&amp;")


def nist_lines(content: Content) -> tuple[AssessmentLine, ...]:
    """Every line, layer by layer."""
    plan, facts = content.plan, content.facts
    of_layer = {
        TOP: _top(plan, facts),
        CORRECT: _correct(facts),
        USEFUL: _useful(plan),
        BIAS: _bias(plan),
        TRUST: _trust(facts),
        SECURITY: _security(facts),
        BOTTOM: _bottom(plan),
    }
    return tuple(
        AssessmentLine(layer, question, answer, why, tuple(map(_field, evidence.split())))
        for layer, asked in of_layer.items()
        for question, answer, why, evidence in asked
    )


def _field(name: str) -> str:
    """A field by its file, which is ``accounting.json`` where none is named before a colon."""
    file, _, field = name.rpartition(":")
    return f"{file or 'accounting.json'}: {field}"


def _top(plan: ReleasePlan, facts: Facts) -> Iterator[Asked]:
    certified = plan.loss[plan.certified]
    size = f"ε = {at_most(certified.epsilon, 6)}, δ = {at_most(certified.delta)}"
    yield ("Are ε and δ of the whole release stated, and rounded up?", "yes", f"{size}.",
           "loss.certified totals")  # fmt: skip
    if plan.invariants:
        yield "Do they cover every published number?", "no", unprotected(plan), "invariants"
    yield ("Are ε and δ within the budget that was set before?", "yes",
           "A plan above its budget is refused before any data are read.", "budget loss.certified")  # fmt: skip
    yield ("Is this ε small enough for these data?", "unknown",
           f"No number decides it; what it means for an attacker's odds is worked out. {OFFICE}",
           "worked_example trade_off")  # fmt: skip
    unknown = f"The number of units is confidential, and no figure of this bundle. {OFFICE}"
    yield ("Is δ far below one over the number of units?", "unknown" if certified.delta else "yes",
           unknown if certified.delta else "δ is 0.", "loss.certified")  # fmt: skip
    yield ("Is the unit of privacy stated, with the relation between data sets?", "yes",
           f"{plan.unit}, {plan.neighboring}.", "unit neighboring semantics")  # fmt: skip
    yield (f"Does one {plan.unit} of the plan hold all data of one person?", "unknown",
           f"Whether rows are one per person, or ids are, is a fact about the data. {OFFICE}", "reading")  # fmt: skip
    charged = f"Charged to: {', '.join(each.name for each in facts.accounts)}."
    yield ("Is the loss over several releases added up and capped?", "yes" if facts.accounts else "no",
           charged if facts.accounts else "No account was charged.",
           "accounts facts.json:history" if facts.accounts else "accounts")  # fmt: skip
    yield ("Is every other publication from the same data charged to the same accounts?", "unknown",
           f"Only what went through this ledger is known. {OFFICE}", "not_covered")  # fmt: skip


def _correct(facts: Facts) -> Iterator[Asked]:
    yield ("Can the loss be derived again from published sensitivities and scales?", "yes",
           "Every draw states both; verifying a bundle derives the loss from them.",
           "steps plan.json:steps")  # fmt: skip
    yield ("Were sensitivities and losses derived twice, by different code?", "yes",
           "A plan that fails the second derivation is refused before any draw.", "loss plan.json:steps")  # fmt: skip
    sampler = facts.environment.get("sampler", "")
    yield ("Is the noise drawn exactly, and not in floating point?", "yes" if sampler else "unknown",
           f"Integers; sampler: {sampler}." if sampler else "The sampler was not recorded.",
           "environment side_channels")  # fmt: skip
    commit = facts.environment.get("commit", "")
    known: dict[str, tuple[Answer, str]] = {
        "clean": ("yes", f"Commit {commit}, with no change."),
        "modified": ("no", f"Commit {commit}, with changes that were not committed."),
    }
    installed: tuple[Answer, str] = ("unknown", "The package was installed without a record of its commit.")
    answer, why = known.get(facts.environment.get("tree", ""), installed)
    yield "Is the source that ran known, and unchanged?", answer, why, "environment"
    yield ("Was the release audited by somebody else before it ran?", "unknown",
           f"No audit is recorded here. {OFFICE}", "approvals")  # fmt: skip


def _useful(plan: ReleasePlan) -> Iterator[Asked]:
    blank = sum(each.margin is None for each in plan.outputs)
    why = f"At {float(100 * plan.publish.confidence):g} % confidence, beside each number."
    if blank:
        why += f" For {blank} of {len(plan.outputs)} measures it is known only after the draw."
    yield "Is the error by the noise stated for every number?", "yes", why, "outputs"
    targets = [f"{query.name}.{name}" for query in plan.queries for name in query.goal.targets]
    yield ("Were targets for accuracy set before the run, and met?", "yes" if targets else "no",
           f"Met by the law of the noise: {', '.join(targets[:6])}{' and more' if len(targets) > 6 else ''}."
           if targets else "No target was set.", "goals outputs")  # fmt: skip
    yield ("Are the numbers accurate enough for their use?", "unknown",
           f"The intended use: {plan.release.intended_use or 'not stated'}. {OFFICE}",
           "intended_use outputs")  # fmt: skip
    yield ("Were the numbers compared with the truth?", "unknown",
           f"The comparison would cost budget or stay confidential; none is made here. {OFFICE}", "")  # fmt: skip


def _bias(plan: ReleasePlan) -> Iterator[Asked]:
    yield ("Is everything stated that can bias a number: clips, bounds, conditions, suppression?", "yes",
           "In words, beside the noise.", "reading post_processing")  # fmt: skip
    biased = _biasing(plan)
    yield ("Is every number free of bias by clips, bounds and suppression?", "no" if biased else "yes",
           f"Here act: {', '.join(biased)}." if biased else "None of them acts here.",
           "reading post_processing plan.json:queries")  # fmt: skip
    yield ("Are the noisy measurements published before any post-processing?", "yes", "Each with its variance.",
           "measurements/recipe.json:steps")  # fmt: skip
    yield ("Are small groups told about as accurately as large ones, in relation to their size?", "no",
           "All cells of a table have the same noise, which is more of a small number than of a large one.",
           "steps outputs")  # fmt: skip
    yield "Was it examined whom these errors harm?", "unknown", OFFICE, ""


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


def _trust(facts: Facts) -> Iterator[Asked]:
    yield ("Is the trust model stated, with every party and what it sees?", "yes",
           "Central: the curator sees the data as they are, and is trusted with them.",
           "deployment.model deployment.actors")  # fmt: skip
    yield ("Does the guarantee hold against the curator too?", "no", "It does in the local model alone.",
           "deployment.actors")  # fmt: skip
    signed = bool(facts.approvals)
    yield ("Was the plan approved by named people, before it ran?", "yes" if signed else "no",
           f"Signatures: {len(facts.approvals)}." if signed else "No approval was recorded.", "approvals")  # fmt: skip
    yield "Are those who can reach the data or the machine known, few and bound?", "unknown", OFFICE, ""


def _security(facts: Facts) -> Iterator[Asked]:
    yield ("Is the bundle signed, so that a change of it shows?", "yes" if facts.signer else "no",
           f"By the key {facts.signer}." if facts.signer else "Its hashes show accidents, not forgery.",
           "signature facts.json:signer")  # fmt: skip
    yield ("Is the charge recorded in a ledger that shows changes?", "yes",
           f"Entry {facts.ledger_sequence} of a chain of hashes.", "ledger.sequence ledger.hash")  # fmt: skip
    entropy = facts.environment.get("entropy", "")
    yield ("Is the source of randomness fit for cryptography?",
           "yes" if entropy == "operating system" else "unknown",
           f"Source: {entropy or 'not recorded'}.", "environment")  # fmt: skip
    yield ("Do errors, logs, the order of rows and the names of files tell nothing of the data?", "yes",
           "They follow from the plan, or from a selection that is part of the loss.", "side_channels")  # fmt: skip
    yield ("Does the guarantee cover run time, memory and failures of the machine?", "no",
           "Whoever can watch the run may learn more than the tables tell.", "side_channels not_covered")  # fmt: skip
    yield "Is the machine that ran it secure?", "unknown", OFFICE, ""


def _bottom(plan: ReleasePlan) -> Iterator[Asked]:
    yield ("Are the tables and columns listed that were read?", "yes",
           f"Of {so_many(len(plan.catalog.tables), 'table')}.", "plan.json:catalog.tables dpia")  # fmt: skip
    yield ("Is no exact result kept?", "yes",
           "Exact results are never written; noisy ones are, in the ledger and here.", "dpia")  # fmt: skip
    for question in (
        "Were no more data collected than the purpose needs?",
        "Is there a lawful basis, or consent, for this use?",
        "Are the data protected where they lie and while they move?",
        "Is it fixed when the data are deleted?",
        "Were the data never published, leaked or shared in another form?",
    ):
        yield question, "unknown", OFFICE, ""
