"""A plan that somebody changed, one thing at a time and everywhere: it is refused by name, or the change is harmless."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from pathlib import Path as FilePath
from typing import Any

import pytest
from pydantic import ValidationError

from dprelease.errors import BrokenPromiseError, PlanError
from dprelease.plan.document import ReleasePlan
from dprelease.plan.verify.loss import check_losses
from dprelease.plan.verify.whole_plan import verify
from dprelease.release.check import check_release
from dprelease.release.planning import open_target
from tests.invariants import exact_states
from tests.planned import SPEC, plan_of
from tests.workloads import GEO, areas, crosstabs, ordinary, spec_of

FILES = {"geo": GEO.encode()}
FIRST = ("workloads", "invariants")
ZCDP = "\n  accounting: zcdp"  # one figure to derive again, so that a plan is verified in a moment

OTHERS = (
    SPEC.replace("      region:", "      name: {type: text}\n      region:").rstrip()
    + """
  spread: {table: people, by: [sex], measures: {n: {count: income}, spread: {stddev: income, clip: [0, 9]}}}
  middle: {table: people, measures: {middle: {quantiles: income, at: [1/2], clip: [0, 1000]}}}
  names: {table: people, by: [name], keys: private, min_units: 20, measures: {persons: {count: rows}}}
  top: {table: people, top_k: region, k: 2}
"""
)


@cache
def plan(name: str) -> ReleasePlan:
    texts = {
        "workloads": spec_of(crosstabs("budget: {rho: 1/20}", ways="[0, 1]"), areas("target: {count: {margin: 300}}")),
        "units": spec_of(areas(), ordinary(), units=True, relation="replace_one", post="[consistent, integer]"),
        "exact": exact_states(areas(), ordinary()),
        "others": OTHERS,
    }
    text = re.sub(r"(\n  budget: .*)", rf"\1{ZCDP}", texts[name], count=1)
    made = plan_of(text, files={} if name == "others" else FILES)
    return made.model_copy(update={"loss": {"zcdp": made.loss["zcdp"]}})


@pytest.fixture(autouse=True)
def _once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The losses of draws that were not changed are not derived again: they are a function of the draws alone."""
    monkeypatch.setattr("dprelease.plan.verify.whole_plan.check_losses", _losses)


KNOWN: dict[Any, BrokenPromiseError | None] = {}


def _losses(changed: ReleasePlan) -> None:
    key = (tuple(step.event for step in changed.steps), tuple(changed.loss.items()))
    if key not in KNOWN:
        KNOWN[key] = None
        try:
            check_losses(changed)
        except BrokenPromiseError as error:
            KNOWN[key] = error
    if (known := KNOWN[key]) is not None:
        raise known


Path = tuple[Any, ...]


def _mutants(value: Any) -> Iterator[tuple[str, Any]]:
    """What can become of one value of a JSON text, and what that is called."""
    if isinstance(value, dict):
        yield from (("dropped", {name: each for name, each in value.items() if name != gone}) for gone in value)
        for first in list(value)[:1]:
            yield "renamed", {"other" if name == first else name: each for name, each in value.items()}
    elif isinstance(value, list):
        yield from (("dropped", [*value[:at], *value[at + 1 :]]) for at in range(len(value)))
        yield from (("doubled", [*value[: at + 1], *value[at:]]) for at in range(len(value)))
        pairs = range(len(value) - 1)
        yield from (("swapped", [*value[:at], value[at + 1], value[at], *value[at + 2 :]]) for at in pairs)
        yield "emptied", []
    elif isinstance(value, bool):
        yield "turned", not value
    elif isinstance(value, int):
        yield from ((kind, int(new)) for kind, new in _numbers(Fraction(value)) if new.denominator == 1)
        yield "zero", 0
    elif isinstance(value, str):
        yield from _texts(value)
    else:
        others: tuple[Any, ...] = ("other", 1, [], {})
        yield from (("set", each) for each in others)
    if value is not None:
        yield "nothing", None


def _numbers(value: Fraction) -> Iterator[tuple[str, Fraction]]:
    yield from (("less", value / 2), ("a little less", value * Fraction(99, 100)), ("less by one", value - 1))
    yield from (("more", value * 2), ("more by one", value + 1), ("far out", value + 10**6))
    yield "negative", -value - 1


def _texts(value: str) -> Iterator[tuple[str, str]]:
    yield from (("another text", "other"), ("no text", ""))
    try:
        number = Fraction(value)
    except ValueError:
        return
    yield from ((kind, str(new)) for kind, new in _numbers(number))
    yield "zero", "0"


def _walk(value: Any, path: Path = ()) -> Iterator[tuple[Path, str, Any]]:
    yield from ((path, kind, new) for kind, new in _mutants(value))
    places = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, each in places:
        yield from _walk(each, (*path, name))


def _put(value: Any, path: Path, new: Any) -> Any:
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = _put(copy[path[0]], path[1:], new)
    return copy


def _pattern(path: Path) -> str:
    return ".".join("#" if isinstance(each, int) else each for each in path)


def _tried(name: str, every: int) -> Iterator[tuple[str, str, str]]:
    """Where a change was made, which, and the text of the plan; one of every kind of place and change.

    Of places outside of workloads, and of all that is beside them, every so many-th.
    """
    root = json.loads(plan(name).canonical())
    seen: set[tuple[str, str]] = set()
    for path, kind, new in _walk(root):
        known = (_pattern(path), f"{kind} {_gone(root, path, new)}".strip() if kind == "dropped" else kind)
        if path and known not in seen:
            seen.add(known)
            if path[0] in FIRST or len(seen) % every == 0:
                yield *known, json.dumps(_put(root, path, new))


def _gone(root: Any, path: Path, new: Any) -> str:
    for name in path:
        root = root[name]
    return next(iter(set(root) - set(new)), "") if isinstance(root, dict) else ""


def _refusal(changed: ReleasePlan) -> str | None:
    try:
        verify(changed)
    except BrokenPromiseError as error:
        return error.summary
    return None


def _passed(name: str, every: int) -> dict[str, set[str]]:
    """The changes that verify, by place; everything else is refused, and says why."""
    found: dict[str, set[str]] = {}
    for place, kind, text in _tried(name, every):
        try:
            changed = ReleasePlan.from_canonical(text)
        except ValidationError:
            continue  # told as DPR-P301, or by ``dprelease verify`` as a file that cannot be read
        if changed == plan(name):
            continue
        if (why := _refusal(changed)) is None:
            found.setdefault(place, set()).add(kind)
        else:
            assert "makes no sense" not in why, (place, kind, why)
    return found


WORDS = "anything"
HARMLESS: tuple[tuple[str, str, str], ...] = (
    # where, which changes (anything: all that are tried), and why nobody is harmed by them
    (r"release\..*|release|.*\.title|workloads\.#\.strategy|spec_fingerprint", WORDS, "words for people and names"),
    (r"considered.*|naive.*|unspent|outputs\.#\.why_null|invariants\.#\.why", WORDS, "words for people"),
    (
        r"unit\..*|accounts\.#\.unit",
        WORDS,
        "who is meant is the author's word; the ledger holds it against the account",
    ),
    (r"accounts\.#\.(lifetime.*|selecting)|accounts\.#", WORDS, "the ledger keeps the account as it was opened"),
    (r"publish(\.formats|\.layout)?", WORDS, "how the same numbers are shown"),
    (
        r"publish\.(unreliable_above|intervals|quotients)",
        WORDS,
        "flags, and which of two intervals that cover is shown",
    ),
    (
        r"publish\.figures(\.(caution_above|shares|shares\.(narrow|wide|relative)|symbols\.\w+))?",
        WORDS,
        "limits of flags and their signs; without the rules the intervals are those of plans from before, which cover",
    ),
    (r"publish\.confidence", "less|a little less", "narrower intervals are asked for than are told"),
    (r"budget\.(delta|epsilon)", "more|more by one|far out|a little less", "a limit, and the loss is still within it"),
    (
        r"queries\.#\.goal\.share|workloads\.#\.goal\.share|(queries|workloads)\.#\.goal|allocation",
        WORDS,
        "shares of steps are told",
    ),
    (r"(queries|workloads)\.#", "dropped goal|dropped post", "nothing is asked of it, and margins are of the noise"),
    (r"publish\.research", "nothing", "no files for researchers beside the measurements"),
    (r"(queries|workloads)\.#\.goal\.(budget|targets)", "nothing|dropped count", "less is asked of it"),
    (r"(queries|workloads)\.#\.goal\.budget\.(rho|epsilon)", "more|more by one|far out", "less is asked of it"),
    (r"(queries|workloads)\.#\.goal\.targets\.\w+", "more|more by one|far out", "less is asked of it"),
    (r"queries\.#\.expect(\.\w+)?", "more|more by one|far out|renamed", "a guess, by which margins are told"),
    (r"outputs\.#\.(margin|standard_error)", "more|more by one|far out", "less accuracy is told than there is"),
    (r"outputs|queries|steps|workloads(\.#\.takes)?|steps\.#\.answers", "swapped", "another order of the same"),
    (r"steps\.#\.selecting\.threshold", "more|more by one|far out", "fewer keys are shown"),
    (r"steps\.#\.sensitivity(\.shifts)?", "dropped shifts|dropped|emptied", "norms claim less than worst cases do"),
    # A catalog is what the author and public files say of data. Sensitivities are derived from it, whatever it says;
    # ``run`` asks that a plan is, byte for byte, what the spec and its files make, and the engine refuses what it
    # cannot read before it reads a row.
    (r"catalog(\..*)?", WORDS, "the description of other data, at the same loss"),
)
MUST_FAIL = (
    # Of a catalog what sensitivities, cells and charges are derived from.
    (r"catalog\.tables\.\w+\.(account|name|columns\.#\.name)", "another text"),
    (r"catalog\.tables\.\w+\.(bounds|unit_id|private_joins)", "nothing"),
    (r"catalog\.tables\.\w+\.bounds\.max_rows", WORDS),
    (r"catalog\.tables\.\w+\.columns\.#\.keys", "dropped|doubled"),
    (r"catalog\.hierarchies\.\w+\.(levels|parents|name).*", "dropped|doubled|another text"),
)


@pytest.mark.thin(first=1)
@pytest.mark.parametrize("name", ["workloads", "units", "exact", "others"])
def test_what_is_changed_is_refused_by_name_or_harmless(name: str) -> None:
    _judge(name, every=6)


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["workloads", "units", "exact", "others"])
def test_nothing_that_is_changed_is_forgotten(name: str) -> None:
    _judge(name, every=1)


def _judge(name: str, every: int) -> None:
    harmful = []
    for place, kinds in _passed(name, every).items():
        allowed = [which for where, which, _ in HARMLESS if re.fullmatch(where, place)]
        refused = [which for where, which in MUST_FAIL if re.fullmatch(where, place)]
        harmful += [(place, kind) for kind in kinds if not _among(kind, allowed) or _among(kind, refused)]
    assert harmful == []


def _among(kind: str, listed: list[str]) -> bool:
    return any(which == WORDS or kind in which.split("|") for which in listed)


def _changed(name: str, place: str, change: Callable[[Any], Any]) -> ReleasePlan:
    """The plan with what is at a place replaced by a function of it."""
    root = json.loads(plan(name).canonical())
    path = tuple(int(each) if each.isdigit() else each for each in place.split("/"))
    value = root
    for each in path:
        value = value[each]
    return ReleasePlan.from_canonical(json.dumps(_put(root, path, change(value))))


LIES: tuple[tuple[str, str, Callable[[Any], Any], str], ...] = (
    ("workloads", "workloads/0/takes", lambda takes: [*takes, takes[-1]], "several times for crosstabs the draw"),
    ("workloads", "workloads/1/takes/0/level", lambda _: 3, "a level that is not there"),
    ("workloads", "workloads/0/takes/1/axes", lambda _: [7], "attributes that are not there"),
    ("workloads", "workloads/1/sets/2", lambda _: [1, 0], "attributes that are not there"),
    ("workloads", "workloads/0/sets", lambda _: [], "publishes nothing"),
    ("workloads", "workloads/1/hierarchy", lambda _: "other", "a hierarchy that is not there"),
    ("workloads", "workloads/0/attributes", lambda found: [*found, "region"], "attributes in none of its tables"),
    ("workloads", "workloads/0/attributes", lambda found: [*found[:-1], "age"], "without public keys"),
    ("workloads", "workloads/0/attributes", lambda found: [*found, found[0]], "an attribute or a level twice"),
    ("workloads", "workloads/0/table", lambda _: "other", "reads a table that is not there"),
    ("workloads", "workloads/1/post", lambda _: ["integer"], "no order of work"),
    ("workloads", "workloads/1/post", lambda _: ["consistent", "consistent"], "no order of work"),
    ("workloads", "workloads/1/post", lambda _: ["consistent", "integer", "nonnegative"], "no order of work"),
    ("workloads", "workloads/1/post", lambda _: [], "no order of work"),
    ("workloads", "workloads/0/post", lambda _: ["consistent", "integer"], "no joint table"),
    ("workloads", "queries", lambda found: [*found, found[0]], "several tables of the name"),
    ("workloads", "workloads/0/goal/budget/delta", lambda _: "0", "another delta"),
    ("workloads", "outputs/0/standard_error", lambda _: "-1", "has no accuracy"),
    ("workloads", "outputs", lambda found: found[1:], "other numbers than it publishes"),
    ("workloads", "accounts", lambda _: [], "of an account that is not charged"),
    ("workloads", "accounts", lambda found: found * 2, "several accounts of the name"),
    ("workloads", "publish/confidence", lambda _: "1", "a confidence that is none"),
    ("workloads", "catalog/tables/persons/columns/1/keys", lambda keys: [keys[0]] * len(keys), "one key twice"),
    ("workloads", "catalog/tables/persons/name", lambda _: "other", "another one's description"),
    ("workloads", "steps/0/aggregate/by", lambda _: ["nobody"], "a column that is not there"),
    ("workloads", "steps/0/aggregate/table", lambda _: "nobody", "a table that is not there"),
    ("workloads", "steps/0/answers", lambda found: found * 2, "several answers"),
    ("workloads", "steps/0/aggregate/quantity/column", lambda _: "age", "measures a column that is not there"),
    ("workloads", "steps/0/aggregate/quantity/step", lambda _: "1/2", "clips what it counts"),
    ("units", "queries/0/complete", lambda _: ["nobody"], "without public keys"),
    ("others", "queries/1/measures/total/sum", lambda _: "nobody", "not there, or has no range"),
    ("others", "queries/1/expect/persons", lambda _: 0, "expects cells of no rows"),
    ("others", "queries/3/measures/middle_q50/at", lambda _: "1/4", "a quantile that is not drawn"),
    ("others", "outputs/0/margin", lambda _: "1", "more accurate than it is"),
    ("others", "outputs/0/table", lambda _: "other", "told of another table"),
    ("others", "outputs/0/steps", lambda _: [], "told of other steps"),
)


@pytest.mark.parametrize(("name", "place", "change", "why"), LIES)
def test_a_malformed_plan_is_told_what_is_wrong(name: str, place: str, change: Callable[[Any], Any], why: str) -> None:
    with pytest.raises(BrokenPromiseError, match=why):
        verify(_changed(name, place, change))


def test_a_draw_that_counts_twice_and_an_error_that_is_told_to_fit_are_refused() -> None:
    """With every draw twice among the takes the variances are half of the true ones, and would be told as that."""
    halved = _changed("workloads", "workloads/1/takes", lambda takes: [*takes, *takes])
    told = tuple(
        each.model_copy(update={"standard_error": str(Fraction(each.standard_error or 0) * Fraction(5, 7))})
        for each in halved.outputs
    )
    with pytest.raises(BrokenPromiseError, match="several times"):
        verify(halved.model_copy(update={"outputs": told}))


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"plan": 1}', "[" * 100_000, "\x00", '{"plan": {"steps": [{}]}}']
)
def test_what_is_no_plan_is_told_as_that(text: str, tmp_path: FilePath) -> None:
    """By ``dprelease run PLAN`` with a code, by ``dprelease verify BUNDLE`` as checks that failed."""
    frozen = tmp_path / "plan.json"
    frozen.write_text(text, encoding="utf-8")
    with pytest.raises(PlanError, match="DPR-P301"):
        open_target(frozen)
    checks = {check.name: check.passed for check in check_release(tmp_path)}
    assert checks["loss re-derived"] is False
