"""A question on a terminal, before something that is not to be done by mistake."""

from __future__ import annotations

import sys

import typer

__all__ = ["refusal"]


def refusal(question: str, done: str, before: str, *, nobody: bool = False) -> tuple[str, str] | None:
    """Ask, and say what to tell where the answer is not yes: what is wrong, and what to type next.

    Args:
        question: That is answered with yes or no.
        done: What then is not: ``signed``.
        before: What to have done before going on without being asked.
        nobody: Nobody reads the question.

    Returns:
        None: the answer was yes.
    """
    if nobody or not sys.stdin.isatty():
        hint = f"type it on a terminal, or add --yes once you have {before}"
        return f"nothing was {done}: nobody can be asked here", hint
    return None if typer.confirm(question) else (f"nothing was {done}", "the same command asks again")
