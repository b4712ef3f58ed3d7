"""Seconds to plan 1,000 queries, and to account for 1,000 draws, equal and all different.

Usage: ``python -m bench.planning [--queries N] [--peer] [--profile]``, or with ``--sizes 10,100,300,1000,10000`` the
CPU seconds, after imports, of loading, planning, verifying and telling so many counts with a condition each, and so
many without (below 1 MiB of spec); of a workload of 211 tables and of ranges over 4,096 keys too, and with
``--accounts zcdp,pld`` for accounts that compose so (``advanced``: the release under `accounting: advanced`, on an
account by zcdp). With ``--against FOLDER``, another checkout, each figure is the least of ``--rounds`` processes,
in turn with those of that checkout. Without it the spec counts the non-null values of as many integer
columns by a few sets of columns, each its own aggregate.
``--peer`` adds one evaluation of the same draws by the loss-distribution accountant of dp_accounting, one by one, as
its users do; ``--profile`` the functions in which the slowest of our own runs spends its time. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import json
import os
import pstats
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Literal

from dprelease.errors import DpReleaseError
from dprelease.freed_memory import COLLECTED_AFTER
from dprelease.plan.allocate.planner import allocate
from dprelease.plan.document import Account
from dprelease.plan.explain.facts import plan_facts
from dprelease.plan.resolve.catalog import resolve
from dprelease.plan.verify.whole_plan import verify
from dprelease.privacy.accountants import ACCOUNTANTS
from dprelease.privacy.accountants.base import atoms
from dprelease.privacy.budget import Budget
from dprelease.privacy.event import Composed, DiscreteGaussian, DiscreteLaplace, Event, Sensitivity
from dprelease.privacy.unit import Neighboring
from dprelease.spec.load import load
from tests.planned import plan_of

Asked = Literal["zcdp", "pld", "basic", "advanced"]

DELTA = Fraction(1, 10**6)
PHASES = ("load", "plan", "verify", "facts")
NOISES = ("auto", "laplace", "gaussian")
_MOST_COLUMNS = 3000  # as many as fit into the 1 MiB of a spec, twice over
BY = ("[]", "[region]", "[sex]", "[region, sex]")

HEAD = """
dprelease: 1
release: {{name: bench, period: 2024, title: Many counts}}
privacy:
  unit: {{entity: person}}
  budget: {{epsilon: 1, delta: 1e-6}}
  accounting: auto
  noise: {noise}
tables:
  people:
    account: people
    source: {{file: people.csv}}
    columns:
      region: {{type: text, keys: ["01", "02", "06"]}}
      sex: {{type: integer, keys: [1, 2]}}
"""


def spec(queries: int, noise: str, *, different: bool) -> str:
    """A spec text; ``different`` gives every query a share of its own, from 1 to 2."""
    lines = [HEAD.format(noise=noise).rstrip("\n")]
    lines += [f"      c{n:04}: {{type: integer, range: [0, 9]}}" for n in range(queries)]
    lines.append("queries:")
    for n in range(queries):
        share = f" share: {1 + n / queries:.6g}," if different else ""
        lines.append(f"  q{n:04}: {{table: people, by: {BY[n % len(BY)]},{share} measures: {{n: {{count: c{n:04}}}}}}}")
    return "\n".join(lines) + "\n"


@dataclass
class Run:
    """One thing that is timed."""

    name: str
    work: Callable[[], str]
    seconds: float = 0.0

    def time(self) -> Run:
        """Runs it once and prints how long it took; a refusal is an answer too."""
        started = time.perf_counter()
        try:
            found = self.work()
        except DpReleaseError as refusal:
            found = f"refused: {refusal.summary}"
        self.seconds = time.perf_counter() - started
        print(f"{self.name:60} {self.seconds:8.2f} s   {found}", flush=True)
        return self


def draws(noise: type[DiscreteLaplace | DiscreteGaussian], count: int, *, different: bool) -> Event:
    """As many draws on one cell that moves by 1, 1,000 of which at equal scales cost about epsilon 1.

    Different scales run from these to twice these.
    """
    base = Fraction(133)
    cell = Sensitivity.of_one_cell(1)
    scales = [base * (1 + Fraction(n, count)) if different else base for n in range(count)]
    return Composed(events=tuple(noise(scale=scale, sensitivity=cell) for scale in scales))


def planned(queries: int, noise: str, *, different: bool) -> Run:
    def work() -> str:
        plan = plan_of(spec(queries, noise, different=different))
        loss = {name: round(float(each.epsilon), 4) for name, each in plan.loss.items()}
        return f"{len(plan.steps)} steps of {', '.join(sorted({step.mechanism for step in plan.steps}))}, {loss}"

    return Run(f"plan {queries} queries, {_shares(different)} shares, noise {noise}", work)


def accounted(event: Event, name: str, about: str) -> Run:
    return Run(f"{name}: {about}", lambda: f"epsilon {float(ACCOUNTANTS[name].epsilon(event, DELTA)):.9g}")


def by_peer(event: Event, about: str) -> Run:
    """The same draws, one by one, but continuous: 0.15 % below the Laplace draws on integers at these scales."""
    from dp_accounting import NeighboringRelation, dp_event
    from dp_accounting.pld import PLDAccountant

    def work() -> str:
        kinds = {"discrete_laplace": dp_event.LaplaceDpEvent, "discrete_gaussian": dp_event.GaussianDpEvent}
        accountant = PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE)
        for atom, count in atoms(event).items():
            for _ in range(count):
                accountant.compose(kinds[atom.kind](float(atom.scale)))  # type: ignore[union-attr]  # one of the two
        return f"epsilon {accountant.get_epsilon(float(DELTA)):.9g}"

    return Run(f"dp_accounting's PLD, continuous noise: {about}", work)


def _shares(different: bool) -> str:
    return "different" if different else "equal"


def profile(run: Run, functions: int = 12) -> None:
    """The functions with the most time of their own in one more run."""
    print(f"\n{functions} functions of: {run.name}")
    profiler = cProfile.Profile()
    profiler.enable()
    Run(run.name, run.work).time()
    profiler.disable()
    pstats.Stats(profiler).strip_dirs().sort_stats("tottime").print_stats(functions)


def conditions(queries: int, *, different: bool) -> str:
    """A spec text of as many counts of the same table, each with a condition of its own."""
    lines = [HEAD.format(noise="auto").rstrip("\n"), "      age: {type: integer, range: [0, 1000000]}", "queries:"]
    for n in range(queries):
        share = f" share: {1 + n / queries:.6g}," if different else ""
        lines.append(f'  q{n}: {{table: people, by: [], where: "age >= {n}",{share} measures: {{n: {{count: rows}}}}}}')
    return "\n".join(lines) + "\n"


def tables(columns: int) -> str:
    """A spec text of one workload: the total, every column and every pair of columns, of 2 to 4 keys each."""
    keys = [f"      a{n}: {{type: integer, keys: {[*range(2 + n % 3)]}}}" for n in range(columns)]
    of = ", ".join(f"a{n}" for n in range(columns))
    query = f"  w: {{table: people, marginals: {{of: [{of}], ways: [0, 1, 2]}}, measures: {{n: {{count: rows}}}}}}"
    return "\n".join([HEAD.format(noise="auto").rstrip("\n"), *keys, "queries:", query]) + "\n"


def ranges(keys: int, which: str) -> str:
    """A spec text of one query of prefixes, or of all ranges, over a column of so many keys."""
    column = f"      age: {{type: integer, keys: {{from: 0, to: {keys - 1}}}}}"
    query = f"  r: {{table: people, by: [age], ranges: {{of: age, which: {which}}}, measures: {{n: {{count: rows}}}}}}"
    return "\n".join([HEAD.format(noise="auto").rstrip("\n"), column, "queries:", query]) + "\n"


def phases(text: str, asked: Asked) -> dict[str, float]:
    """CPU seconds of each phase of `dprelease plan`, for a spec whose account composes so."""
    if asked == "advanced":
        text = text.replace("accounting: auto", "accounting: advanced")
    clock = [time.process_time()]
    loaded = load(text, "spec.yaml")
    clock.append(time.process_time())
    people = Account(
        name="people",
        unit="person",
        neighboring=Neighboring.ADD_REMOVE,
        composition="zcdp" if asked == "advanced" else asked,
        lifetime=Budget(epsilon=Fraction(100), delta=Fraction(1, 10**5)),
    )
    plan = allocate(loaded.spec, resolve(loaded, {}), [people], loaded.fingerprint)
    clock.append(time.process_time())
    verify(plan)
    clock.append(time.process_time())
    plan_facts(plan)
    clock.append(time.process_time())
    return {name: after - before for name, before, after in zip(PHASES, clock, clock[1:], strict=False)}


def by_size(wanted: list[int], accounts: Sequence[Asked]) -> None:
    """A line for each size, account and spec; one small plan goes before, for what is made once."""
    _as_the_command()
    print(f"{'spec':40} {'account':8}" + "".join(f"{name:>9}" for name in (*PHASES, "all")))
    for about, text in _specs(wanted):
        for account in accounts:
            found = phases(text, account)
            seconds = "".join(f"{each:9.2f}" for each in (*found.values(), sum(found.values())))
            print(f"{about:40} {account:8}{seconds}", flush=True)


def _as_the_command() -> None:
    gc.set_threshold(*COLLECTED_AFTER)
    phases(conditions(3, different=True), "zcdp")


def against(other: Path, wanted: list[int], accounts: Sequence[Asked], rounds: int) -> None:
    """A line for each size, account and spec: seconds of another checkout, and of this one, in turn."""
    trees = [_Tree(root) for root in (other.resolve(), Path(__file__).resolve().parents[1])]
    print(f"{'spec':40} {'account':8}{'before':>9}{'now':>9}", flush=True)
    for about, text in _specs(wanted):
        for account in accounts:
            turns = [[tree.seconds(text, account) for tree in trees] for _ in range(rounds)]
            before, now = (min(column) for column in zip(*turns, strict=True))
            print(f"{about:40} {account:8}{before:9.2f}{now:9.2f}", flush=True)


class _Tree:
    """A process that has the code of a checkout, and times each spec in a child of its own: nothing is remembered."""

    def __init__(self, root: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--serve", str(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(root)},
        )

    def seconds(self, text: str, account: Asked) -> float:
        """CPU seconds of all phases."""
        asked, told = self._process.stdin, self._process.stdout
        assert asked is not None
        assert told is not None
        asked.write(json.dumps([text, account]) + "\n")
        asked.flush()
        return float(json.loads(told.readline()))


def _serve(root: str) -> None:
    """The other side of ``_Tree``."""
    if not Path(sys.modules["dprelease"].__file__ or "").is_relative_to(root):
        raise SystemExit(f"the code is not that of {root}")
    _as_the_command()
    for line in sys.stdin:
        child = os.fork()
        if not child:
            text, account = json.loads(line)
            print(json.dumps(sum(phases(text, account).values())), flush=True)
            os._exit(0)
        os.waitpid(child, 0)


def _specs(wanted: list[int]) -> Iterator[tuple[str, str]]:
    for queries in wanted:
        for different in (False, True):
            yield f"{queries} counts with where, {_shares(different)}", conditions(queries, different=different)
            if queries <= _MOST_COLUMNS:
                text = spec(queries, "auto", different=different)
                yield f"{queries} counts of columns, {_shares(different)}", text
    yield "211 tables of 20 columns", tables(20)
    for which in ("prefixes", "all"):
        yield f"4,096 keys, {which}", ranges(4096, which)


def main() -> None:
    parser = argparse.ArgumentParser(description="Seconds to plan many queries and to account for many draws.")
    parser.add_argument("--sizes", default="", help="CPU seconds of these numbers of queries, such as 10,100,1000")
    parser.add_argument("--accounts", default="zcdp", help="with --sizes: how accounts compose, such as zcdp,pld")
    parser.add_argument("--against", type=Path, help="with --sizes: another checkout, whose figures stand beside")
    parser.add_argument("--rounds", type=int, default=2, help="with --against: of how many turns the least is taken")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--peer", action="store_true", help="also ask dp_accounting")
    parser.add_argument("--profile", action="store_true", help="profile the slowest run")
    given = parser.parse_args()
    if given.serve:
        _serve(given.serve)
    elif given.sizes:
        _sizes([int(size) for size in given.sizes.split(",")], given)
    else:
        _many(given)


def _sizes(wanted: list[int], given: argparse.Namespace) -> None:
    accounts = given.accounts.split(",")
    if given.against:
        against(given.against, wanted, accounts, given.rounds)
    else:
        by_size(wanted, accounts)
    if given.profile:
        text = conditions(max(wanted), different=True)
        profile(Run(f"{max(wanted)} different counts with where", lambda: str(phases(text, "zcdp"))), 30)


def _many(given: argparse.Namespace) -> None:
    done = [
        planned(given.queries, noise, different=different).time() for noise in NOISES for different in (False, True)
    ]
    for noise in (DiscreteLaplace, DiscreteGaussian):
        for different in (False, True):
            event = draws(noise, given.queries, different=different)
            about = f"{given.queries} {noise.__name__} draws, {_shares(different)}"
            done += [accounted(event, name, about).time() for name in ACCOUNTANTS]
            if given.peer:
                by_peer(event, about).time()
    if given.profile:
        profile(max(done, key=lambda run: run.seconds))


if __name__ == "__main__":
    main()
