"""What was lost before the release: the randomized answers, towards their collector and towards readers."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from dprelease.plan.document import ReleasePlan
from dprelease.plan.explain.facts import loss_facts
from dprelease.privacy.budget import Loss
from dprelease.privacy.randomized import LocalQuestion
from dprelease.privacy.rounding import CONTEXT, real, upper
from dprelease.publish.accounting.semantics import semantics
from dprelease.publish.numbers import odds_factor
from dprelease.words import phrase

__all__ = ["local_facts", "local_losses", "local_words", "through_both"]


def through_both(local: Fraction, central: Fraction) -> Fraction:
    """What a reader learns of a true answer behind a local loss and then a central one, both pure; rounded up.

    With p = e^l / (1 + e^l) and q = 1 - p it is ln((p e^c + q) / (q e^c + p)), so that
    tanh(e / 2) = tanh(l / 2) tanh(c / 2): docs/proofs/randomized-response.md, section 4.
    """
    odds, factor = CONTEXT.exp(real(local)), CONTEXT.exp(real(central))
    return min(local, central, upper(CONTEXT.log((odds * factor + 1) / (odds + factor))))


def local_facts(plan: ReleasePlan) -> dict[str, Any]:
    """What ``accounting.json`` says of it; nothing where no answers were randomized."""
    if plan.local is None:
        return {}
    return {
        "randomized_response": {
            "questions": [
                {**each.model_dump(mode="json", exclude={"epsilon"}), **loss_facts(_pure(each.epsilon))}
                for each in plan.local.questions
            ],
            "towards_collector": loss_facts(_pure(plan.local.epsilon)),
            "towards_readers": [
                {"table": each.table, "question": each.question, "loss": None if found is None else loss_facts(found)}
                for each in plan.local.questions
                for found in (_towards_readers(plan, each),)
            ],
            "both": None if (together := _together(plan)) is None else loss_facts(together),
        }
    }


def local_losses(plan: ReleasePlan) -> Iterator[tuple[str, Loss | None]]:
    """The same as lines of a table: which change of a true answer is hidden, from whom, and how well."""
    if plan.local is None:
        return
    for each in plan.local.questions:
        told = {"unit": str(plan.unit), "question": each.question, "table": each.table}
        yield (
            phrase("what one {unit} answers to {question} of {table}, from its collector", **told),
            _pure(each.epsilon),
        )
        through = _towards_readers(plan, each)
        yield phrase("the same answer, from readers of this release alone", **told), through
    if len(plan.local.questions) > 1:
        told = {"unit": str(plan.unit)}
        yield phrase("all answers of one {unit}, from their collector", **told), _pure(plan.local.epsilon)
    yield phrase("all of one {unit}, from whoever has the answers and this release", unit=plan.unit), _together(plan)


def local_words(plan: ReleasePlan) -> tuple[str, ...]:
    """What readers are told: by which law each question was answered, what is hidden of it, and what is not."""
    found = []
    for each in () if plan.local is None else plan.local.questions:
        bits = len(each.columns) > 1
        column = plan.catalog.tables[each.table].column(each.columns[0])
        law = column.collected
        assert law is not None  # noqa: S101 - the plan tells questions of such columns alone
        found.append(
            phrase(
                "Each answer to {question} of {table} was randomized before it was collected, as the collector "
                "declares: whoever sees it changes the odds of any two true answers by a factor of at most {factor}, "
                "and so again for each further answer of the same {unit}. This release cannot check that.",
                question=each.question,
                table=each.table,
                factor=odds_factor(law.epsilon),
                unit=plan.unit,
            )
        )
        found.append(
            phrase("Silence is one of the answers to {question}.", question=each.question)
            if law.silence is not None and not bits
            else phrase(
                "That somebody took part, or did not answer {question}, is not hidden from the collector: from readers "
                "the noise of the tables hides it.",
                question=each.question,
            )
        )
    return tuple(found)


def _pure(epsilon: Fraction) -> Loss:
    return Loss(epsilon=epsilon, delta=Fraction(0))


def _towards_readers(plan: ReleasePlan, each: LocalQuestion) -> Loss | None:
    """Of the true answers of one unit to one question, by the tables alone.

    What is published is made of the randomized answers, so that it tells no more of the true ones than these do. Where
    the draws that read the columns have a pure loss, the two in series tell less than either.
    """
    found = [
        meaning.loss
        for meaning in semantics(plan)
        if meaning.attribute is not None and meaning.attribute[0] == each.table and meaning.attribute[1] in each.columns
    ]
    alone = _pure(each.epsilon)
    if len(found) != 1 or found[0] is None or found[0].delta:
        return alone
    return _pure(through_both(each.epsilon, found[0].epsilon))


def _together(plan: ReleasePlan) -> Loss | None:
    """Of a unit that is in both, by its answers and by the tables: the sum; None: nothing is proved of the tables."""
    assert plan.local is not None  # noqa: S101 - asked for by the callers
    kinds = {meaning.kind: meaning.loss for meaning in semantics(plan) if meaning.kind in ("unit", "other_unit")}
    central = kinds.get("other_unit", kinds["unit"])
    return None if central is None else Loss(epsilon=plan.local.epsilon + central.epsilon, delta=central.delta)
