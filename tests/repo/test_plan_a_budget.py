"""What the page on budgets shows of a budget that is divided for the least error is what its plan says."""

from __future__ import annotations

import re

from dprelease.plan.document import ReleasePlan
from dprelease.plan.explain.facts import allocation_text
from dprelease.plan.verify.whole_plan import verify

from .documents import blocks
from .planning import plan_text

PAGE = "docs/how-to/plan-a-budget.md"


def _margin(plan: ReleasePlan, query: str) -> str:
    return f"{float(next(each.margin for each in plan.outputs if each.query == query) or 0):.4g}"


def test_what_the_page_shows_is_what_its_plan_says() -> None:
    (spec,) = (block for block in blocks("yaml") if block.file == PAGE and "least_error" in block.text)
    (shown,) = (block.text for block in blocks("text") if block.file == PAGE and "least total error" in block.text)
    plan = plan_text(spec.text, str(spec))
    shares = plan_text(re.sub(r"allocation: .*\n", "allocation: shares\n", spec.text), f"{spec}, shares")

    verify(plan)
    told = [f"{each.name}: {each.noise} times this noise" for each in plan.considered if "shares" in each.name]
    assert shown.splitlines() == [allocation_text(plan), *told]
    assert (_margin(shares, "districts"), _margin(plan, "districts")) == ("21", "31")  # as the page says
    assert shares.allocation is None
