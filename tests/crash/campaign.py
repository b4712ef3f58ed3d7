"""Kill a running release at random moments, let it go on, and look for what broke; counts add up over runs.

``python -m tests.crash.campaign --kills 1000 --out FILE`` goes on until FILE holds so many kills of the code as it is
now; one JSON line each, so that it can be stopped at any time and started again. Exit code 1: something broke.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import dprelease
from tests.crash.child import Orders
from tests.crash.invariants import Inspector
from tests.crash.nursery import End, Nursery
from tests.crash.victim import FULL, SERIES, Victim
from tests.project import environment

__all__ = ["Campaign", "Flavour", "code", "totals"]

Flavour = Literal["direct", "pair", "prefect", "series"]
_ROOT = Path(__file__).resolve().parents[2]
_PERIODS = 10  # releases of one ledger, then a new project: kills fall on young and on grown ledgers
_DEEPEST = 4  # kills of one release in a row, at most
_RANDOM = random.SystemRandom()


def code() -> str:
    """A fingerprint of the product's source: kills of other code prove nothing about this one."""
    root = Path(dprelease.__file__).parent
    mixed = sha256()
    for path in sorted(root.rglob("*.py")):
        mixed.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes())
    return mixed.hexdigest()[:16]


def totals(out: Path, flavour: str | None = None, mark: str | None = None) -> tuple[Counter[str], list[str]]:
    """The counts of a file of results, and every problem in it; of one flavour and one state of the code."""
    counts: Counter[str] = Counter()
    problems = []
    for line in out.read_text(encoding="utf-8").splitlines() if out.exists() else []:
        told = json.loads(line)
        if flavour in (None, told["flavour"]) and mark in (None, told["code"]):
            counts[told["flavour"]] += 1
            counts["kills"] += 1
            problems += told["problems"]
    return counts, problems


class Campaign:
    """Kills of each flavour; ``series``: of one process, whose months share their noise.

    Args:
        nursery: Where children come from.
        folder: For the projects; each is removed when it is sound.
        out: File of results.
        text: The spec of all flavours but ``series``, with PERIOD in place of the period.
    """

    def __init__(self, nursery: Nursery, folder: Path, out: Path, text: str = FULL) -> None:
        self._nursery, self._folder, self._out, self._text = nursery, folder, out, text
        self._inspector = Inspector()
        self._code = code()
        self._seconds: dict[Flavour, float] = {}

    def run(self, flavour: Flavour, kills: int) -> list[str]:
        """Go on until the file of results holds so many kills; every problem in it."""
        while (done := totals(self._out, flavour, self._code)[0]["kills"]) < kills:
            self._project(flavour, kills - done)
        return totals(self._out, flavour, self._code)[1]

    def _project(self, flavour: Flavour, kills: int) -> None:
        folder = Path(tempfile.mkdtemp(prefix=f"{flavour}-", dir=self._folder))
        text, months = (SERIES, 24) if flavour == "series" else (self._text, _PERIODS)
        if flavour not in self._seconds:
            self._measure(flavour, Victim.make(folder / "measured", text))
        victim, sound = Victim.make(folder / "project", text), True
        periods: list[str] = []
        for at in range(months):
            periods.append(f"{2024 + at // 12}-{1 + at % 12:02}")
            for told in self._release(flavour, victim, periods):
                with self._out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(told) + "\n")
                kills, sound = kills - 1, sound and not told["problems"]
            if kills <= 0 or not sound:
                break
        if sound:
            shutil.rmtree(folder)  # what is broken stays, to be looked at

    def _measure(self, flavour: Flavour, victim: Victim) -> None:
        """How long a release takes that nobody kills."""
        orders = Orders(str(victim.spec("2024-01")), str(victim.note), prefect=flavour == "prefect")
        (end,) = self._start(flavour, [orders], 0, None)
        if end.code:
            raise RuntimeError(f"a release ends with {end.code} without any kill: see {self._nursery.errors}")
        self._seconds[flavour] = end.seconds

    def _release(self, flavour: Flavour, victim: Victim, periods: list[str]) -> Iterator[dict[str, Any]]:
        """Kill the release of the last period until it survives; one result for every kill."""
        period, longest = periods[-1], self._seconds[flavour]
        if flavour == "series":  # a later month is made of more draws: the 24th takes twice as long as the first one
            longest *= 1 + len(periods) / 24
        results: list[dict[str, Any]] = []
        for _ in range(_RANDOM.randint(1, _DEEPEST)):
            moment = _RANDOM.uniform(0, longest)
            unlocked = flavour == "pair" and _RANDOM.random() < 0.5
            orders = Orders(str(victim.spec(period)), str(victim.note), unlocked=unlocked, prefect=flavour == "prefect")
            ends = self._start(flavour, [orders] * (1 + (flavour == "pair")), _RANDOM.randint(0, 1), moment)
            if not any(end.killed for end in ends):
                break  # it was faster this time: nobody was killed
            self._inspector.glimpse(victim, period)
            problems = self._inspector.problems(victim, *periods[:-1])
            problems += [f"a child ended with {end.code}" for end in ends if end.code not in (0, 3, -signal.SIGKILL)]
            about = {"flavour": flavour, "unlocked": unlocked, "at": round(moment, 4), "code": self._code}
            results.append({**about, "of": round(longest, 4), "period": period, "problems": problems})
        if results:
            results[-1]["problems"] += self._finish(flavour, victim, periods)
        elif self._start(flavour, [Orders(str(victim.spec(period)), str(victim.note))], 0, None)[0].code:
            raise RuntimeError(f"a release fails without any kill: see {self._nursery.errors}")
        yield from results

    def _finish(self, flavour: Flavour, victim: Victim, periods: list[str]) -> list[str]:
        orders = Orders(str(victim.spec(periods[-1])), str(victim.note), prefect=flavour == "prefect")
        (end,) = self._start(flavour, [orders], 0, None)
        problems = [f"the resumed run ended with {end.code}"] if end.code else []
        self._inspector.glimpse(victim, periods[-1])
        problems += self._inspector.problems(victim, *periods)
        return [f"{each} (in {victim.folder})" for each in problems]

    def _start(self, flavour: Flavour, orders: list[Orders], kill: int, after: float | None) -> list[End]:
        if flavour != "prefect":
            return self._nursery.run(*orders, kill=min(kill, len(orders) - 1), after=after)
        started = time.monotonic()
        with self._nursery.errors.open("ab") as errors:
            # A process of its own: Prefect starts a server and threads, which no fork survives.
            command = [sys.executable, "-m", "tests.crash.child", orders[0].text()]
            process = subprocess.Popen(
                command, cwd=_ROOT, env=environment(), stdin=subprocess.DEVNULL, stdout=errors, stderr=errors
            )
        try:
            process.wait(after if after is not None else 180)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        return [End(process.returncode, time.monotonic() - started)]


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash.campaign", description=__doc__)
    parser.add_argument("--kills", type=int, default=1000, help="so many of one process")
    parser.add_argument("--pairs", type=int, default=0, help="so many of one of two processes on one release")
    parser.add_argument("--prefect", type=int, default=0, help="so many through Prefect")
    parser.add_argument("--series", type=int, default=0, help="so many of one whose 24 months share their noise")
    parser.add_argument("--out", type=Path, required=True, help="file of results; it is added to")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="dprelease-crash-"))
    asked: dict[Flavour, int] = {
        "direct": given.kills,
        "pair": given.pairs,
        "prefect": given.prefect,
        "series": given.series,
    }
    with Nursery(folder / "errors.txt") as nursery:
        campaign = Campaign(nursery, folder, given.out)
        problems = [each for flavour, kills in asked.items() for each in campaign.run(flavour, kills)]
    here, ever = totals(given.out, None, code())[0], totals(given.out)[0]
    print(f"on this code: {dict(here)}; in all: {dict(ever)}; problems: {len(problems)}")
    print("\n".join(problems[:50]))
    if not problems:
        shutil.rmtree(folder)
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
