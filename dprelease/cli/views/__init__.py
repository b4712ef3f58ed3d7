"""How things are shown: plain columns for a person, JSON for a machine, errors with what to do next."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

from dprelease.errors import DpReleaseError, Problem, SpecError

__all__ = ["as_decimal", "complain", "complain_of", "json_text", "say", "say_aside", "say_json", "text_table", "warn"]


def say(text: str = "") -> None:
    """A line for a person, on standard output.

    Raises:
        SpecError: It cannot be written there (DPR-S921).
    """
    _put(f"{text}\n")


def _put(text: str) -> None:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:  # `| head` has read enough: the command line ends quietly
        raise
    except OSError as error:
        _give_up(sys.stdout, 1)
        says = f"what this command has to say cannot be written to its output: {error.strerror}"
        hint = "what it did stays done: free space, or name another output, and ask again; nothing is done twice"
        raise SpecError([Problem("DPR-S921", says, hint)]) from None


def _give_up(stream: Any, number: int) -> None:
    """What is left in the buffer of a full output would fail once more at the end, and be an exit code of its own."""
    if stream in (sys.__stdout__, sys.__stderr__):
        os.dup2(os.open(os.devnull, os.O_WRONLY), number)


def json_text(value: Any) -> str:
    """One JSON document for a machine, with the newline at its end."""
    import json  # no help needs it

    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def say_json(value: Any) -> None:
    """One JSON document for a machine, on standard output; errors as of :func:`say`."""
    _put(json_text(value))


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
    say_aside(f"{error}\n")


def say_aside(text: str) -> None:
    """On standard error; where that is full the exit code has to do."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        _give_up(sys.stderr, 2)


def complain_of(what: str) -> None:
    """Something that went wrong beside what was done, on standard error."""
    say_aside(f"warning: {what}\n")


def warn(problems: Sequence[Problem]) -> None:
    """What is allowed and seldom wanted, on standard error."""
    for problem in problems:
        say_aside(f"warning: {problem}\n")


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]], right: frozenset[int] = frozenset()) -> str:
    """A plain table: two spaces between columns, numbers to the right where ``right`` says so."""
    table = [list(header), *[list(row) for row in rows]]
    widths = [max(len(row[k]) for row in table) for k in range(len(header))]

    def line(row: Sequence[str]) -> str:
        cells = [text.rjust(widths[k]) if k in right else text.ljust(widths[k]) for k, text in enumerate(row)]
        return "  ".join(cells).rstrip()

    rule = "  ".join("-" * width for width in widths)
    return "\n".join([line(table[0]), rule, *[line(row) for row in table[1:]]])
