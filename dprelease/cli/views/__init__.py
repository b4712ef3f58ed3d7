"""How things are shown: plain columns for a person, JSON for a machine, errors with what to do next."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from dprelease.errors import DpReleaseError, Problem

__all__ = ["as_decimal", "complain", "complain_of", "json_text", "say", "say_json", "text_table", "warn"]


def say(text: str = "") -> None:
    """A line for a person, on standard output."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def json_text(value: Any) -> str:
    """One JSON document for a machine, with the newline at its end."""
    import json  # no help needs it

    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def say_json(value: Any) -> None:
    """One JSON document for a machine, on standard output."""
    sys.stdout.write(json_text(value))


def as_decimal(number: str) -> str:
    """A number of a fact as a decimal: a budget of 1/10 reads as 0.1; other words stay.

    >>> as_decimal("1/10"), as_decimal("1/3"), as_decimal("unbounded")
    ('0.1', '0.333333333334', 'unbounded')
    """
    from fractions import Fraction

    from dprelease.privacy.budget import round_up

    return round_up(Fraction(number), 12) if "/" in number else number


def complain(error: DpReleaseError) -> None:
    """An error, on standard error."""
    sys.stderr.write(f"{error}\n")


def complain_of(what: str) -> None:
    """Something that went wrong beside what was done, on standard error."""
    sys.stderr.write(f"warning: {what}\n")


def warn(problems: Sequence[Problem]) -> None:
    """What is allowed and seldom wanted, on standard error."""
    for problem in problems:
        sys.stderr.write(f"warning: {problem}\n")


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]], right: frozenset[int] = frozenset()) -> str:
    """A plain table: two spaces between columns, numbers to the right where ``right`` says so."""
    table = [list(header), *[list(row) for row in rows]]
    widths = [max(len(row[k]) for row in table) for k in range(len(header))]

    def line(row: Sequence[str]) -> str:
        cells = [text.rjust(widths[k]) if k in right else text.ljust(widths[k]) for k, text in enumerate(row)]
        return "  ".join(cells).rstrip()

    rule = "  ".join("-" * width for width in widths)
    return "\n".join([line(table[0]), rule, *[line(row) for row in table[1:]]])
