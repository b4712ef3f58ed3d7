"""Interview that are options too: asked on a terminal, taken from the command line, or named where both are missing."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from typing import TypeVar

import typer

from dprelease.cli.views import say
from dprelease.errors import Problem, SpecError

__all__ = ["Interview"]

Answer = TypeVar("Answer")


class Interview:
    """What was given, asked and left open.

    Args:
        given: Answers of the command line by option: ``--unit``, or ``--keys sex`` for one column.
        terminal: Whether somebody can be asked.
        proposed: Whether proposals are taken where nothing is given.
    """

    def __init__(self, given: Mapping[str, str], *, terminal: bool, proposed: bool) -> None:
        self._given = dict(given)
        self._terminal = terminal and not proposed
        self._proposed = proposed
        self._missing: list[tuple[str, str]] = []
        self._answers: dict[str, str] = {}
        self.asked = 0

    @property
    def on_terminal(self) -> bool:
        """Whether somebody reads what is shown between the questions."""
        return self._terminal

    def has(self, option: str) -> bool:
        """Whether the command line answers it."""
        return option in self._given

    def ask(
        self, option: str, question: str, why: str, read: Callable[[str], Answer], proposal: str | None = None
    ) -> Answer | None:
        """The answer to one question; None where it is missing, which :meth:`require_all` tells.

        Args:
            option: By which it can be given.
            question: In a few words.
            why: One line that explains it.
            read: The answer of its text; raises ValueError, with what is wrong in words.
            proposal: The answer of who types nothing; None: there is none.

        Raises:
            SpecError: If what was given cannot be read (DPR-S908).
        """
        if option in self._given:
            return self._read(option, self._given[option], read)
        if self._terminal:
            return self._prompt(option, question, why, read, proposal)
        if self._proposed and proposal is not None:
            return self._read(option, proposal, read)
        self._missing.append((option, question + ("" if proposal is None else f" (proposed: {proposal or 'empty'})")))
        return None

    def _read(self, option: str, text: str, read: Callable[[str], Answer]) -> Answer:
        try:
            answer = read(text)
        except ValueError as error:
            raise SpecError([Problem("DPR-S908", f"{option}: {error}", "correct the option")]) from None
        self._answers[option] = text
        return answer

    def _prompt(
        self, option: str, question: str, why: str, read: Callable[[str], Answer], proposal: str | None
    ) -> Answer:
        self.asked += 1
        say(f"\n{self.asked}. {why}")
        while True:
            text = str(typer.prompt(f"   {question}", default=proposal, show_default=bool(proposal))).strip()
            try:
                answer = read(text)
            except ValueError as error:
                say(f"   {error}")
                continue
            self._answers[option] = text
            return answer

    def require_all(self) -> None:
        """Stop where an answer is missing.

        Raises:
            SpecError: With every option that is still to be given (DPR-S909), or one that nothing asks for (DPR-S908).
        """
        if self._missing:
            found = [Problem("DPR-S909", f"{option} is missing: {question}") for option, question in self._missing]
            hint = "nobody can be asked here: give the options, or `--yes` to take what is proposed"
            raise SpecError([*found[:-1], Problem(found[-1].code, found[-1].summary, hint)])
        for option in sorted(self._given.keys() - self._answers.keys()):
            says = f"{option} answers a question that this file and the other answers do not raise"
            raise SpecError([Problem("DPR-S908", says, "leave it out")])

    def repeated(self, *words: str) -> str:
        """The command that does the same without a question."""
        options = []
        for option, text in self._answers.items():
            name, _, column = option.partition(" ")
            options += [name, f"{column}={text}" if column else text]
        return shlex.join(["dprelease", "new", *words, *options])
