"""``docs/benchmarks.md`` and its figure, from the kept results: the same results, the same bytes."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.growth.figure import growth_figure
from bench.growth.page import FIGURE, growth_parts
from bench.growth.results import Growth, read_growth
from bench.peers.figure import figure
from bench.peers.summary import Results, Summary, read_results
from bench.peers.table import SYSTEMS, System
from bench.peers.works import CLIP, MOST_GROUPS, WORKS, Work

__all__ = ["RESULTS", "kept_results", "page", "write_page"]

RESULTS = Path(__file__).parent / "results"
_DASH = "–"
_KINDS = {"count": "counts", "sum": "sums", "mean": "means", "quantiles": "quantiles", "kept": "bounded counts"}

_HEAD = """\
# Benchmarks

Speed, memory and error of `dprelease` beside other systems on the same work: the same Parquet file, the same budget of
epsilon {epsilon:g} and delta {delta} for everything that a work publishes, neighbours that differ by one unit more or
less, and CSV files with a row for every public cell at the end. The rows are made up, by a generator with a fixed
start.

![{alt}](benchmarks.svg)

{works}

Every run is a process from scratch, and all systems take turns in one run. **Wall** and **CPU** are seconds of the
whole process and all that it starts; **inside** is the part from the first look at the file to the last answer written,
without imports and without the start of an engine, and **its CPU** the processor seconds of the first process in that
part (what the project's own second opinion takes in another one is in CPU alone). **Times**, in each case of the
column before it, compares with DuckDB without privacy in the same round; in W4 with DuckDB that bounds users too.
**Peak** is the most memory that all processes of a run held together. Medians over the runs, with least and
largest wall time; what took long was not repeated (how long is told at the end). **RMSE** is the root of the mean
squared error over all cells, and **relative** the median of the absolute relative error over cells that are not empty.

Written by `python -m bench.peers page` from the results in `bench/peers/results/`; do not edit. To measure again:

```console
python -m bench.peers build
python -m bench.peers run --rows 1000000 10000000 --rounds 3
python -m bench.peers page
```
"""


def _described(work: Work) -> str:
    told = {
        "W1": "how many people there are by county, sex and race; every row is one person",
        "W2": f"the sum of incomes by county, clipped to {CLIP[0]} and {CLIP[1]:,}",
        "W3": "ten tables of counts, five of clipped sums, three of clipped means and two of quartiles, of the same "
        "people; every query has the same part of the budget",
        "W4": "visits by county, where a user has ten rows on average, some far more; of each user at most "
        f"{MOST_GROUPS} counties count, and one row in each",
    }
    return f"- **{work.name}, {work.title}**: {told[work.name]}."


def _seconds(value: float) -> str:
    return f"{value:.2f}" if value < 100 else f"{value:.0f}"


def _times(value: float | None) -> str:
    if value is None:
        return _DASH
    if value < 0.1:
        return f"{value:.1g}"
    return f"{value:.1f}" if value < 10 else f"{value:,.0f}"


def _amount(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _systems(work: Work) -> list[System]:
    return [system for system in SYSTEMS.values() if work.name in system.works]


def _noise(system: System, work: str) -> str:
    if system.environment == "raw":
        return "none"
    return system.noise.get(work, "laplace").capitalize()


def _kinds(work: Work) -> list[str]:
    kinds: list[str] = list(dict.fromkeys(query.kind for query in work.queries))
    return [*kinds, "kept"] if work.bounded else kinds


def _told_errors(found: Summary, kinds: Sequence[str]) -> Iterator[str]:
    for kind in kinds:
        errors = found.errors.get(kind)
        yield _amount(errors["rmse"]) if errors else _DASH
        yield f"{100 * errors['relative']:.3g} %" if errors else _DASH


def _table(lines: Sequence[Sequence[str]]) -> Iterator[str]:
    head, *rows = lines
    yield f"| {' | '.join(head)} |"
    yield "|---" + "|--:" * (len(head) - 1) + "|"
    yield from (f"| {' | '.join(row)} |" for row in rows)


def _speed(work: Work, results: Results) -> Iterator[str]:
    told = ["wall s", "times", "CPU s", "times", "inside s", "times", "its CPU s", "times"]
    lines = [["system", "noise", *told, "peak MiB", "runs"]]
    for system in _systems(work):
        found = results.summaries.get((work.name, system.name))
        if not found:
            lines.append([system.title, *[_DASH] * 11])
            continue
        wall = _seconds(found.wall)
        if found.runs > 1:
            wall += f" ({_seconds(found.spread[0])} to {_seconds(found.spread[1])})"
        inside_cpu = _DASH if found.inside_cpu is None else _seconds(found.inside_cpu)
        told = [wall, _seconds(found.cpu), _seconds(found.inside), inside_cpu]
        times = [_times(found.ratios.get(name)) for name in ("wall", "cpu", "inside", "inside_cpu")]
        both = [each for pair in zip(told, times, strict=True) for each in pair]
        lines.append([system.title, _noise(system, work.name), *both, f"{found.peak:,.0f}", str(found.runs)])
    yield from _table(lines)


def _errors(work: Work, results: Results) -> Iterator[str]:
    """Of the systems with privacy."""
    kinds = _kinds(work)
    lines = [["system", *(f"{_KINDS[kind]}, {what}" for kind in kinds for what in ("RMSE", "relative"))]]
    for system in SYSTEMS.values():
        found = results.summaries.get((work.name, system.name))
        if found and system.environment != "raw":
            lines.append([system.title, *_told_errors(found, kinds)])
    yield from _table(lines)


def _reasons(work: Work, results: Results) -> Iterator[str]:
    """Why there is a dash, and which cells were not published."""
    for system in _systems(work):
        found = results.summaries.get((work.name, system.name))
        if not found:
            reason = results.reasons.get((work.name, system.name), "it was not run")
            yield f"- {system.title}: {reason}."
            continue
        if work.name in system.without:
            kind, reason = system.without[work.name]
            yield f"- {system.title} without {kind}: {reason}."
        missing = {kind: each for kind, each in found.errors.items() if each["missing"] and system.environment != "raw"}
        for kind, each in missing.items():
            yield f"- {system.title}: {each['missing']:,.0f} of {each['cells']:,.0f} {_KINDS[kind]} are not published."


def _section(work: Work, shown: Sequence[Results]) -> Iterator[str]:
    yield f"## {work.name}: {work.title}"
    for results in shown:
        yield f"### {work.name}, {results.rows:,} rows"
        yield "\n".join(_speed(work, results))
        yield "\n".join(_errors(work, results))
        if reasons := list(_reasons(work, results)):
            yield "\n".join(reasons)
    if work.bounded:
        yield (
            "*Counts* are compared with all visits, so that their error is mostly what bounding leaves out; *bounded "
            "counts* with what a sample of each user's counties keeps on average, so that it is noise and sampling."
        )


def _guarantees() -> Iterator[str]:
    yield "## How equal the guarantees are"
    yield (
        "Laplace noise is pure: its delta is 0, which is more than was asked for. Gaussian noise uses the whole pair; "
        "a system that takes a rho of zero-concentrated privacy is given the largest one that has this epsilon and "
        "delta, and `dprelease` is given the pair. One query is more accurate with Laplace noise, and twenty are with "
        "Gaussian noise, so that each system has the better one for a work, or both in two lines, where it offers "
        "both; SmartNoise, diffprivlib and PipelineDP add up epsilons, so that they have Laplace noise in W3 too. "
        "What differs beside that:"
    )
    yield "\n".join(f"- {system.title}: {sentence}" for system in SYSTEMS.values() for sentence in system.told)


def _machine(results: Results) -> str:
    told = results.told
    machine, versions = told["machine"], told["versions"]
    rounds = (
        "one round"
        if told["rounds"] == 1
        else f"{told['rounds']} rounds, one alone of what took longer than {told['patience']:g} s"
    )
    packages = [
        f"{SYSTEMS[system].title}: {', '.join(f'{name} {number}' for name, number in each.items())}"
        for system, each in versions.items()
    ]
    busy = machine["load"] > machine["cores"] / 4
    warned = " **Other work kept the cores busy: compare CPU seconds, not wall.**" if busy else ""
    return (
        f"- {results.rows:,} rows: {told['day']}, {machine['processor']}, {machine['cores']} cores, "
        f"{machine['memory_gib']} GiB, {machine['system']}, Python {machine['python']}, {rounds}, "
        f"load {machine['load']:g} before the first. {'; '.join(packages)}.{warned}"
    )


def _wrapped(part: str) -> str:
    """Lines of at most 120 characters, but for tables, headings and pictures; lines that are not longer stay."""
    lines = []
    for line in part.split("\n"):
        if len(line) <= 120 or line[0] in "|#!":
            lines.append(line)
        else:
            indent = "  " if line.startswith("- ") else ""
            lines += textwrap.wrap(line, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines)


def page(shown: Sequence[Results], growth: Growth) -> str:
    """The text of the page, of results with the fewest rows first, and of how a release grows."""
    told = shown[0].told
    head = _HEAD.format(
        epsilon=told["epsilon"],
        delta=f"{told['delta']:g}".replace("e-0", "e-"),
        alt="CPU time of every system as a multiple of the same queries in DuckDB without privacy",
        works="\n".join(_described(work) for work in WORKS.values()),
    )
    parts = [head.rstrip()]
    for work in WORKS.values():
        parts += _section(work, shown)
    parts += growth_parts(growth)
    parts += _guarantees()
    parts += ["## Machine and versions", "\n".join(_machine(each) for each in shown)]
    return "\n\n".join(_wrapped(part) for part in parts) + "\n"


def kept_results() -> list[Results]:
    """What is kept, with the fewest rows first."""
    return sorted((read_results(path) for path in RESULTS.glob("*.json")), key=lambda each: each.rows)


def write_page(docs: Path) -> None:
    """Write the page and its figure."""
    shown, growth = kept_results(), read_growth()
    (docs / "benchmarks.md").write_text(page(shown, growth), encoding="utf-8")
    (docs / FIGURE).write_text(growth_figure(growth), encoding="utf-8")
    (docs / "benchmarks.svg").write_text(figure(shown), encoding="utf-8")
