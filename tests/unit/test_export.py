"""A stranger who loads the export in `dp_accounting` gets the ledger's totals, and never less than the truth."""

from __future__ import annotations

import json
import math
import re
import runpy
import subprocess
import sys
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from fractions import Fraction
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from dprelease.noise.mechanisms.random_scale import RandomScaleMechanism
from dprelease.privacy.accountants.pld import Pld
from dprelease.privacy.accountants.zcdp import Zcdp
from dprelease.privacy.event import (
    Approximate,
    BoundedRange,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    KNorm,
    Repeated,
    Sensitivity,
    TotalResidual,
)
from dprelease.release.records.export import FORMAT, events_of, export
from dprelease.release.records.status import status_facts
from tests.ledgers import SQLiteLedger, account, charges, plan
from tests.unit.test_status import twelve

dp_event = pytest.importorskip("dp_accounting.dp_event", reason="dp_accounting is not installed")
HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "read-the-ledger.md"
DELTA = Fraction(1, 10**9)
ONE, TWO = Sensitivity.of_one_cell(1), Sensitivity.of_shifts((3, 1))


def script(folder: Path) -> Path:
    (block,) = re.findall(r"```python\n(.*?)```", HOW_TO.read_text(encoding="utf-8"), re.DOTALL)
    path = folder / "total.py"
    path.write_text(block, encoding="utf-8")
    return path


def stranger(words: list[str]) -> str:
    """A process that has nothing of ours."""
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, check=True, timeout=120).stdout


def here(words: list[str]) -> str:
    """The same program in this process, where ``dp_accounting`` is imported."""
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as out, warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # it leaves its file open, as a program may that ends
        patch.setattr(sys, "argv", words)
        runpy.run_path(words[0], run_name="__main__")
    return out.getvalue()


def theirs(folder: Path, facts: dict[str, Any], run: Callable[[list[str]], str] = here) -> dict[tuple[str, str], float]:
    """What the program in the how-to prints."""
    (folder / "ledger.json").write_text(json.dumps(facts), encoding="utf-8")
    out = run([str(script(folder)), str(folder / "ledger.json"), str(float(DELTA))])
    rows = [line.split() for line in out.splitlines()]
    return {(name, kind): float(epsilon) for name, kind, epsilon in rows}


def whole(draws: Composed) -> dict[str, Any]:
    """An export of one account with these draws."""
    told = events_of(draws)
    composition = {"zcdp": told["zcdp"], "pld": told["pld"]}
    return {"accounts": {"a": {"composition": composition, "reveals": told["reveals"], "slack": told["slack"]}}}


@pytest.mark.slow
def test_twelve_monthly_releases_are_the_same_to_a_stranger(tmp_path: Path) -> None:
    _, policy, ledger = twelve(tmp_path)
    ours = status_facts(ledger, policy)["accounts"][0]
    found = theirs(tmp_path, export(ledger), stranger)
    spent, fixed = float(ours["spent"]), float(ours["hypothetical"]["pld"])
    assert spent * (1 - 1e-5) <= found["people", "zcdp"] <= spent * 1.002
    assert fixed * (1 - 1e-3) <= found["people", "pld"] <= fixed * 1.1
    assert found["people", "pld"] < 12


@pytest.mark.parametrize(
    ("event", "above"),
    [
        (Repeated(event=DiscreteLaplace(scale=Fraction(7), sensitivity=ONE), count=12), 1.002),
        (Repeated(event=DiscreteLaplace(scale=Fraction(20), sensitivity=TWO), count=12), 1.002),
        (Repeated(event=DiscreteGaussian(scale=Fraction(40), sensitivity=TWO), count=30), 1.01),
        (Repeated(event=DiscreteGaussian(scale=Fraction(6), sensitivity=ONE), count=12), 1.06),
        (Repeated(event=KNorm(ball="count", dimension=3, scale=Fraction(9), gauge=Fraction(1)), count=9), 1.002),
        (
            Repeated(event=TotalResidual(dimension=20, share=Fraction(49, 256), scale=Fraction(9), rows=1), count=9),
            1.3,
        ),
        (Repeated(event=RandomScaleMechanism().event(Fraction(90), 40, Fraction(1)), count=9), 1.8),
        (Repeated(event=BoundedRange(epsilon=Fraction(1, 5)), count=9), 1.3),
        (Repeated(event=Approximate(epsilon=Fraction(1, 5), delta=Fraction(1, 10**11)), count=9), 1.002),
    ],
)
def test_nothing_is_flattered_and_little_is_lost(tmp_path: Path, event: Event, above: float) -> None:
    """Their grid of losses is 1e-4 and pessimistic; what is below our certified figure by more is an error of ours."""
    draws = Composed(events=(event,))
    found = theirs(tmp_path, whole(draws))
    pld, zcdp = (float(each.epsilon(draws, DELTA)) for each in (Pld(), Zcdp()))
    assert pld * (1 - 5e-4) <= found["a", "pld"] <= pld * above
    assert zcdp * (1 - 1e-6) <= found["a", "zcdp"] <= zcdp * 1.003


def test_numbers_are_rounded_against_us() -> None:
    third = Fraction(10, 3)
    gaussian = DiscreteGaussian(scale=third, sensitivity=ONE)
    told = events_of(Composed(events=(gaussian,)))
    assert Fraction(told["zcdp"]["rho"]) >= 1 / (2 * third * third)
    assert Fraction(told["pld"]["noise_multiplier"]) ** 2 <= third * third - Fraction(3, 2)
    told = events_of(Composed(events=(DiscreteLaplace(scale=third, sensitivity=ONE),)))
    assert Fraction(told["pld"]["noise_parameter"]) >= 1 / third
    several = Sensitivity.of_shifts((3, 1), (2, 2))
    told = events_of(Composed(events=(DiscreteLaplace(scale=third, sensitivity=several),)))
    assert (told["pld"]["sensitivity"], Fraction(told["pld"]["noise_parameter"]) >= 4 / third) == (1, True)


def test_the_slack_covers_what_a_continuous_start_changes() -> None:
    """The proof's probabilities, computed: discrete noise around a continuous start is discrete noise, up to exp(k)."""
    variance, around = 4.0, 1.5
    scale = math.sqrt(variance + around)
    steps = [k / 400 for k in range(-400 * 14, 400 * 14 + 1)]
    near = range(-30, 31)
    wholes = [sum(math.exp(-((k - x) ** 2) / (2 * around)) for k in near if abs(k - x) < 12) for x in steps]
    weights = []
    for z in range(-8, 9):
        total = 0.0
        for x, whole_ in zip(steps, wholes, strict=True):
            total += math.exp(-x * x / (2 * variance)) * math.exp(-((z - x) ** 2) / (2 * around)) / whole_
        weights.append(total)
    exact = [math.exp(-z * z / (2 * scale * scale)) for z in range(-8, 9)]
    ratios = [math.log(a / b) for a, b in zip(weights, exact, strict=True)]
    assert max(ratios) - min(ratios) < 2e-12
    h = 2 * sum(math.exp(-2 * math.pi**2 * around * k * k) for k in range(1, 5))
    assert math.log((1 + h) / (1 - h)) < 1e-12


def test_noise_that_is_too_small_for_it_is_not_written_as_continuous() -> None:
    told = events_of(Composed(events=(DiscreteGaussian(scale=Fraction(1), sensitivity=ONE),)))
    assert told["pld"]["class_name"] == "UnsupportedDpEvent"
    assert told["zcdp"] == {"module_name": "dp_accounting.dp_event", "class_name": "ZCDpEvent", "rho": 0.5, "xi": 0.0}


def test_what_is_written_is_what_their_package_writes(tmp_path: Path) -> None:
    """`to_named_tuple` of the event that is loaded has the same fields and values."""
    draws = Composed(
        events=(
            Repeated(event=DiscreteGaussian(scale=Fraction(5), sensitivity=TWO), count=3),
            DiscreteLaplace(scale=Fraction(5), sensitivity=TWO),
        )
    )
    for kind in ("zcdp", "pld"):
        told = events_of(draws)[kind]
        event = dp_event.DpEvent.from_named_tuple(loaded(told))
        assert plain(event.to_named_tuple()) == told


def loaded(value: Any) -> Any:
    scope: dict[str, Any] = {}
    block = re.findall(r"```python\n(.*?)```", HOW_TO.read_text(encoding="utf-8"), re.DOTALL)[0]
    exec(block.split("for name, account")[0], scope)  # the how-to's own reader
    return scope["load"](value)


def plain(value: Any) -> Any:
    if hasattr(value, "_asdict"):
        return {name: plain(each) for name, each in value._asdict().items()}
    return [plain(each) for each in value] if isinstance(value, list) else value


def test_an_export_says_by_account_what_was_charged(tmp_path: Path) -> None:
    ledger = SQLiteLedger(tmp_path / "l.db")
    for release, cost in (("a", "1/8"), ("b", "1/8"), ("c", "1/4")):
        made = plan(release=release, steps={"one": "people", "two": "firms"}, cost=cost)
        ledger.reserve(made, charges(made))
    found = export(ledger)
    assert found["format"] == FORMAT
    assert set(found["accounts"]) == {"people", "firms"}
    people = found["accounts"]["people"]
    assert [(each["release"], each["ended"]) for each in people["releases"]] == [
        ("a", "open"),
        ("b", "open"),
        ("c", "open"),
    ]
    assert len(people["draws"]) == 2
    assert people["spent"] == {"loss": "1/2", "reveals": "0"}
    assert people["terms"]["composition"] == "basic"
    assert export(ledger, "firms")["accounts"].keys() == {"firms"}
    assert json.loads(json.dumps(found)) == found
    assert theirs(tmp_path, found)["people", "pld"] == pytest.approx(0.5, rel=1e-3)


def test_a_zcdp_account_and_a_gaussian(tmp_path: Path) -> None:
    people = account("people", epsilon="5", composition="zcdp")
    ledger = SQLiteLedger(tmp_path / "l.db")
    for release in "abc":
        made = plan(release=release, cost="1/9", mechanism="discrete_gaussian")
        ledger.reserve(made, charges(made, [people]))
    ours = float(status_facts(ledger, {"people": people})["accounts"][0]["spent"])
    assert ours * (1 - 1e-5) <= theirs(tmp_path, export(ledger))["people", "zcdp"] <= ours * 1.002
