"""``dprelease look``: what of the confidential data a release would leave out, move or not read; on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dprelease.cli.options import Period
from dprelease.cli.views import say, text_table

if TYPE_CHECKING:
    from dprelease.release.tuning.look import LookLine, TableLook

__all__ = ["look_command", "shown_text"]

_NOTICE = "CONFIDENTIAL: counts of the data themselves - for your eyes, kept nowhere"
_WORDS = {
    "rows": "rows",
    "unparsed": "lines that are no rows of its columns",
    "out_of_period": "rows outside the period, or without a time",
    "no_unit_id": "rows without the id of a unit",
    "truncated": "rows beyond `max_rows` of their unit",
    "null": "null",
    "unreadable": "unreadable",
    "not_listed": "not listed",
    "outside": "outside the range",
    "no_cell": "rows in no cell",
    "groups": "groups beyond `max_groups`",
    "rows_in_groups": "rows beyond `max_rows_per_group`",
    "clipped": "values that the clip moves",
}
_OF_COLUMNS = ("null", "unreadable", "not_listed", "outside")


def look_command(
    spec: Annotated[Path, typer.Argument(help="A spec file.")],
    allowed: Annotated[
        bool,
        typer.Option("--i-can-see-the-data", help="Needed, for the counts are confidential: no noise hides them."),
    ] = False,
    expect: Annotated[
        Path | None, typer.Option("--expect", metavar="FILE", help="What you expect of the data: `expect_data: 1`.")
    ] = None,
    period: Period = None,
) -> None:
    """Count what a release would leave out, clip or not read, for whoever may see the data; on a terminal only."""
    from dprelease.release.tuning.look import look_at

    terminal = sys.stdout.isatty()
    found = look_at(spec, allowed=allowed, is_terminal=terminal, expect=expect, period=period, show=_progress)
    say(shown_text(found))


def _progress(table: str, done: int, total: int) -> None:
    sys.stdout.write(f"\rread file {done} of {total} of table {table}" + "\n" * (done == total))
    sys.stdout.flush()


def shown_text(found: Sequence[TableLook]) -> str:
    """All of it, as a terminal shows it; every line beyond what is expected again at the end."""
    lines = ["", _NOTICE]
    for each in found:
        lines += ["", f"table {each.table}, {each.files} file{'s' * (each.files != 1)}"]
        lines += _plain(each.rows)
        if each.columns:
            lines += ["", *_columns(each).splitlines()]
        for label, counted in each.queries.items():
            lines += ["", f"query {label}", *_plain(counted)]
    odd = [(place, line) for each in found for place, line in _all(each) if line.is_odd]
    lines += ["", *(_odd(place, line) for place, line in odd)]
    lines += [] if odd else ["nothing is beyond what is expected"]
    return "\n".join([*lines, "", "it informs you, and decides nothing: no release starts or stops by it", _NOTICE])


def _all(found: TableLook) -> list[tuple[str, LookLine]]:
    """Every line, and where that is."""
    parts = {f"table {found.table}": found.rows}
    parts |= {f"column {name} of table {found.table}": part for name, part in found.columns.items()}
    parts |= {f"query {label}": part for label, part in found.queries.items()}
    return [(place, line) for place, part in parts.items() for line in part]


def _plain(lines: Sequence[LookLine]) -> list[str]:
    names = [_named(line) for line in lines]
    width = max(map(len, names), default=0)
    return [
        f"{'!' if line.is_odd else ' '} {name.ljust(width)}  {_count(line)}"
        for name, line in zip(names, lines, strict=True)
    ]


def _count(line: LookLine) -> str:
    if line.what == "rows":
        return f"{line.count:,}"
    return f"{line.count:,} of {line.whole:,} ({_share(line)})"


def _share(line: LookLine) -> str:
    """Rounded, but never to all or nothing."""
    if line.count in (0, line.whole):
        return "0 %" if line.count == 0 else "100 %"
    return f"{min(max(100 * line.count / line.whole, 0.01), 99.99):.2f} %"


def _columns(found: TableLook) -> str:
    rows = []
    for name, counted in found.columns.items():
        known = {line.what: line for line in counted}
        rows.append([name, *(_cell(known.get(what)) for what in _OF_COLUMNS)])
    return text_table(["column", *(_WORDS[what] for what in _OF_COLUMNS)], rows, right=frozenset({1, 2, 3, 4}))


def _cell(line: LookLine | None) -> str:
    if line is None:
        return "-"
    return f"{'! ' * line.is_odd}{line.count:,}" + (f" ({_share(line)})" if line.count else "")


def _odd(place: str, line: LookLine) -> str:
    return f"! {place}: {_named(line)} {_count(line)}, {line.expected} expected"


def _named(line: LookLine) -> str:
    return _WORDS[line.what] + (f" of {line.of}" if line.what == "clipped" else "")
