"""A census in small whose state totals are exact: they are the truth, nothing else is, and every page says so."""

from __future__ import annotations

import csv
import json
import os
import re
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from dprelease.noise import Exact, Sampler
from dprelease.plan.document import Invariant, Measured, Piece, Step
from dprelease.release import draw
from dprelease.release.direct import run_directly
from dprelease.release.run import Request, open_run
from tests.invariants import LAW, allowed, exact_states, project
from tests.project import command, installed
from tests.workloads import areas, ordinary, published, small_workloads, spec_of, truth_of

ALL = ("puma", "sex", "race")
BUNDLE = Path("releases") / "census" / "2030"
SAID = f"these totals are published exactly and unprotected, at no epsilon: states.persons by state ({LAW})"


def _counts(rows: list[dict[str, str]], column: str, keys: tuple[str, ...]) -> dict[tuple[str, ...], float]:
    return {tuple(row[name] for name in keys): float(row[column]) for row in rows}


def _sums(found: dict[tuple[str, ...], float], keep: int) -> dict[tuple[str, ...], float]:
    total: Counter[tuple[str, ...]] = Counter()
    for key, number in found.items():
        total[key[:keep]] += number  # type: ignore[assignment]
    return dict(total)


NIGHT = pytest.mark.nightly


def _width(row: dict[str, str]) -> float:
    """Of the interval of a count; beside one that was adjusted no margin is published."""
    return float(row["count_upper"]) - float(row["count_lower"])


@pytest.mark.parametrize(
    "post",
    [
        pytest.param("[consistent]", marks=NIGHT),
        pytest.param("[consistent, nonnegative]", marks=NIGHT),
        "[consistent, nonnegative, integer]",
    ],
)
def test_state_totals_are_the_truth_and_all_tables_add_up_to_them(tmp_path: Path, post: str) -> None:
    """On every commit after all that is done to the noisy numbers; at night also with less of it."""
    project(tmp_path, exact_states(post=post, budget="{epsilon: 1/10, delta: 1e-9}"))
    command(tmp_path, "run", "spec.yaml", "--direct")
    tables = published(tmp_path / BUNDLE)
    truth = {key: float(number) for key, number in truth_of(tmp_path, ("state",), ALL).items()}
    assert sum(truth.values()) > 1000
    assert _counts(tables["states"], "persons", ("state",)) == truth
    assert _counts(tables["areas__state"], "count", ("state",)) == truth
    regions = {key: float(number) for key, number in truth_of(tmp_path, ("region",), ALL).items()}
    assert _counts(tables["areas__region"], "count", ("region",)) == regions
    assert {_width(row) for row in tables["areas__region"] + tables["areas__state"]} == {0}
    near = pytest.approx if "integer" not in post else dict
    for name, keys in (("areas__state__sex", ("state", "sex")), ("areas__state__sex__race", ("state", "sex", "race"))):
        found = _counts(tables[name], "count", keys)
        assert _sums(found, 1) == near(truth)
        assert found != {key: float(n) for key, n in truth_of(tmp_path, keys, ALL).items()}
        assert _width(tables[name][0]) > 0
    assert "rendered again" in command(tmp_path, "verify", str(BUNDLE))


@pytest.mark.slow
def test_the_plan_and_every_page_say_what_is_not_protected(tmp_path: Path) -> None:
    small_workloads(tmp_path, exact_states().replace("html]", "html, xlsx, json, sdmx]"))
    refused = command(tmp_path, "plan", "spec.yaml", code=2)
    assert "DPR-S418" in refused
    allowed(tmp_path)
    plan = command(tmp_path, "plan", "spec.yaml")
    assert SAID in plan
    assert "areas: without its invariants:" in plan
    assert json.loads(command(tmp_path, "plan", "spec.yaml", "--json"))["invariants"][0]["query"] == "states"
    assert SAID in command(tmp_path, "run", "spec.yaml", "--direct")
    bundle = tmp_path / BUNDLE
    assert SAID in command(tmp_path, "verify", str(bundle))
    assert SAID in json.loads(command(tmp_path, "run", "spec.yaml", "--direct", "--json"))["unprotected"]
    for name in ("index.html", "accounting.html", "accounting.json", "registry.yaml", "datapackage.json"):
        text = re.sub(r"\s+", " ", (bundle / name).read_text(encoding="utf-8"))
        assert SAID in text, name
        assert "no invariants" not in text, name
    assert "exact totals, unprotected" in (tmp_path / "releases" / "index.html").read_text(encoding="utf-8")
    recipe = json.loads((bundle / "measurements" / "recipe.json").read_text(encoding="utf-8"))
    assert [each["step"] for each in recipe["invariants"]] == ["states.exact"]
    assert "states.exact" not in {each["step"] for each in recipe["steps"]}
    before = {path: path.read_bytes() for path in bundle.rglob("*") if path.is_file()}
    assert "nothing drawn, nothing spent" in command(tmp_path, "run", "spec.yaml", "--direct")
    assert before == {path: path.read_bytes() for path in bundle.rglob("*") if path.is_file()}


HIDING = exact_states(areas(), ordinary(), budget="{epsilon: 1/10000, delta: 1e-9}")


@pytest.mark.nightly
def test_exact_counts_that_are_no_invariants_are_nowhere(tmp_path: Path) -> None:
    """The noise is so large that a true count is found by chance less than once in a thousand runs.

    Of the published numbers only the eleven draws of two tables are whole and of the size of a count.
    """
    project(tmp_path, HIDING, rows=30_000)
    said = command(tmp_path, "plan", "spec.yaml") + command(tmp_path, "run", "spec.yaml", "--direct")
    _look_for_exact_counts(tmp_path, said)


@pytest.mark.slow
def test_where_noise_is_large_for_certain_no_exact_count_is_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every draw is ten million off, so that no noisy number has the digits of a count, and nothing is left to chance."""
    hidden = draw.hidden

    def far(step: Measured, boxes: Sequence[Exact], sampler: Sampler, piece: Piece | None) -> npt.NDArray[np.int64]:
        return hidden(step, boxes, sampler, piece) if isinstance(step, Invariant) else far_off(step, boxes, piece)

    def far_off(step: Step, boxes: Sequence[Exact], piece: Piece | None) -> npt.NDArray[np.int64]:
        quiet = step.model_copy(update={"scale": Fraction(1, 1024)})
        return hidden(quiet, boxes, "native", piece) + 10**7

    monkeypatch.setattr(draw, "hidden", far)
    run_directly(Request(target=str(project(tmp_path, HIDING, rows=30_000))))
    _look_for_exact_counts(tmp_path, "")


def _look_for_exact_counts(tmp_path: Path, said: str) -> None:
    """No file has a true count of a noisy table, and what is exact is found by the same search where it belongs."""
    exact = {str(number) for number in truth_of(tmp_path, ("state",), ALL).values()}
    exact |= {str(number) for number in truth_of(tmp_path, ("region",), ALL).values()}
    secret: set[str] = set()
    for keys in (("state", "sex"), ("state", "sex", "race"), ("puma", "sex"), ("puma", "sex", "race"), ("puma",)):
        secret |= {str(number) for number in truth_of(tmp_path, keys, ALL).values() if number > 1000}
    secret = {number for number in secret - exact if int(number) % 10}  # a page rounds to what a margin supports
    secret.discard(str(os.getpid()))  # the ledger names the process
    assert len(secret) > 10
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "persons.csv"]
    texts = {str(path): path.read_bytes() for path in files} | {"output": said.encode()}
    found = {name: _numbers(data) & secret for name, data in texts.items()}
    assert {name: numbers for name, numbers in found.items() if numbers} == {}
    raw = {name for name, data in texts.items() for one in secret if int(one).to_bytes(8, "little") in data}
    assert raw == set()
    # The same search finds what is exact: in the tables, and in the ledger's measurement alone.
    holding = {Path(name).name for name, data in texts.items() if exact & _numbers(data)}
    assert {"states.csv", "states.exact.csv", "index.html"} <= holding
    assert "output" not in holding
    words = [int(one).to_bytes(8, "little") for one in exact]
    stored = {Path(name).name for name, data in texts.items() if any(word in data for word in words)}
    assert any(name.startswith("ledger.db") for name in stored)


def _numbers(data: bytes) -> set[str]:
    """Whole numbers that stand by themselves, also with commas between thousands."""
    text = data.decode("utf-8", "replace").replace(",", "\x00") + data.decode("utf-8", "replace").replace(",", "")
    return set(re.findall(r"(?<![0-9A-Za-z.])[0-9]{4,6}(?![0-9A-Za-z]|\.[0-9])", text))


@pytest.mark.slow
def test_a_release_that_was_stopped_publishes_the_totals_that_were_committed(tmp_path: Path) -> None:
    spec = str(project(tmp_path, exact_states()))
    with open_run(Request(target=spec), "a run that stops after one pass") as run:
        batch = next(each for each in run.batches() if any(step.id == "states.exact" for step in each.steps))
        run.measure(batch)
    done = len(batch.steps)
    assert f"{done} reused" in command(tmp_path, "run", "spec.yaml", "--direct")
    truth = {key: float(number) for key, number in truth_of(tmp_path, ("state",), ALL).items()}
    assert _counts(published(tmp_path / BUNDLE)["states"], "persons", ("state",)) == truth
    command(tmp_path, "ledger", "check")


@pytest.mark.slow
@pytest.mark.parametrize(
    "post",
    [
        pytest.param("[consistent, nonnegative]", marks=NIGHT),
        pytest.param("[consistent, integer]", marks=NIGHT),
        "[consistent, nonnegative, integer]",
    ],
)
def test_an_exact_table_with_attributes_stays_the_truth_whatever_is_done_after_the_noise(
    tmp_path: Path, post: str
) -> None:
    """As housing units by type are in a census; the noise is larger than most of the cells. At night with less of it."""
    query = "  kinds: {table: persons, by: [state, race], measures: {persons: {count: rows}}}\n"
    text = spec_of(areas(), ordinary(), query, post=post, budget="{epsilon: 1/10, delta: 1e-9}")
    text = text.replace("[race, sex]", "[race], [race, sex]")
    project(tmp_path, f'{text}invariants: [{{query: kinds, measure: persons, why: "{LAW}"}}]\n', rows=600)
    command(tmp_path, "run", "spec.yaml", "--direct")
    tables = published(tmp_path / BUNDLE)
    assert _counts(tables["kinds"], "persons", ("state", "race")) == _truth(tmp_path, ("state", "race"))
    for keys in (("region",), ("state",), ("region", "race"), ("state", "race")):
        assert _counts(tables["__".join(("areas", *keys))], "count", keys) == _truth(tmp_path, keys)
    for level in ("state", "region"):
        cells = tables[f"areas__{level}__sex__race"]
        sums = Counter[tuple[str, ...]]()
        for row in cells:
            sums[row[level], row["race"]] += float(row["count"])  # type: ignore[assignment]
        assert dict(sums) == pytest.approx(_truth(tmp_path, (level, "race")))
        assert all(float(row["count_unadjusted_se"]) > 0 for row in cells)
    every = [row["count"] for name, rows in tables.items() if name.startswith("areas") for row in rows]
    assert "integer" not in post or not any("." in number for number in every)
    assert "nonnegative" not in post or min(map(float, every)) >= 0
    assert "rendered again" in command(tmp_path, "verify", str(BUNDLE))


def _truth(folder: Path, keys: tuple[str, ...]) -> dict[tuple[str, ...], float]:
    return {key: float(number) for key, number in truth_of(folder, keys, ALL).items()}


@pytest.mark.slow
@pytest.mark.nightly
def test_through_prefect_an_exact_total_is_where_it_was_declared_and_nowhere_in_prefect(tmp_path: Path) -> None:
    """One total has six digits, so that no port, process or fraction of a second is taken for it."""
    project(tmp_path, exact_states(budget="{epsilon: 1/10, delta: 1e-9}"))
    with (tmp_path / "persons.csv").open("ab") as file:
        file.write(b"99999,0601,1,1,30\r\n" * 100_000)
    said = installed(tmp_path, "run", "spec.yaml")
    assert "published census/2030" in said
    tables = published(tmp_path / BUNDLE)
    truth = _truth(tmp_path, ("state",))
    assert _counts(tables["states"], "persons", ("state",)) == truth
    assert _counts(tables["areas__state"], "count", ("state",)) == truth
    (canary,) = {str(int(number)) for number in truth.values() if number > 99_999}
    word = int(canary).to_bytes(8, "little").rstrip(b"\0")
    holding = set[str]()
    for path in (each for each in tmp_path.rglob("*") if each.is_file() and each.name != "persons.csv"):
        data = path.read_bytes()
        if canary in _numbers(data) or word in data:
            holding.add(str(path.relative_to(tmp_path)))
    assert not {name for name in holding if name.startswith("state/prefect")}
    assert (tmp_path / "state" / "prefect" / "prefect.db").stat().st_size > 0
    assert all(name.startswith((str(BUNDLE), "state/ledger.db")) for name in holding), holding
    assert {f"{BUNDLE}/tables/states.csv", f"{BUNDLE}/measurements/states.exact.csv"} <= holding
    assert canary not in said.replace(",", "")
    assert "rendered again" in command(tmp_path, "verify", str(BUNDLE))


@pytest.mark.slow
def test_a_planned_revision_publishes_the_totals_as_they_are_then(tmp_path: Path) -> None:
    """It is right: its noisy tables add up to them. And it is said beforehand, for it tells who came late."""
    text = exact_states(post="[consistent, nonnegative, integer]", budget="{epsilon: 1/10, delta: 1e-9}")
    text = text.replace("period: 2030", "period: 2024-01") + (
        'schedule: {cron: "0 6 5 * *", timezone: Europe/Paris, period: month, not_before: 4d, revisions: [1m]}\n'
    )
    project(tmp_path, text)
    again = "and again in each planned revision (1), from the data as they are then"
    assert again in re.sub(r"\s+", " ", command(tmp_path, "plan", "spec.yaml"))
    command(tmp_path, "run", "spec.yaml", "--direct")
    folder = tmp_path / "releases" / "census" / "2024-01"
    first = _truth(tmp_path, ("state",))
    spent = _spent(tmp_path)
    with (tmp_path / "persons.csv").open("a", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([[10_000 + k, "3601", 1, 2, 30] for k in range(17)])
    command(tmp_path, "run", "spec.yaml", "--direct", "--revision", "1")
    later = _truth(tmp_path, ("state",))
    assert later == {**first, ("36",): first[("36",)] + 17}
    tables = published(folder)
    assert _counts(tables["states"], "persons", ("state",)) == later
    assert _counts(tables["areas__state"], "count", ("state",)) == later
    assert _sums(_counts(tables["areas__state__sex"], "count", ("state", "sex")), 1) == later
    assert _spent(tmp_path) == spent
    (old,) = (each for each in folder.parent.iterdir() if "superseded" in each.name)
    assert _counts(published(old)["states"], "persons", ("state",)) == first
    for bundle in (folder, old):
        assert again in re.sub(r"\s+", " ", (bundle / "accounting.html").read_text(encoding="utf-8"))
        assert "rendered again" in command(tmp_path, "verify", str(bundle))
    assert "sound" in command(tmp_path, "ledger", "check")


def _spent(folder: Path) -> str:
    (account,) = json.JSONDecoder().raw_decode(command(folder, "ledger", "status", "--json"))[0]["accounts"]
    return str(account["spent"])
