"""Randomizing answers where they are given: a file of true answers becomes the file that a collector may have.

Each answer is changed by exact coins: one uniform whole number below the sum of the weights, from the entropy of the
operating system, decides of it (``noise.native.entropy``). No seed, no float, and no answer is drawn twice: two
randomized answers of one truth tell epsilon twice. That is why a file that is there already is never written again.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dprelease.errors import TableMismatch, Unsupported
from dprelease.noise.native.entropy import Below, Entropy
from dprelease.privacy.randomized import RandomizedResponse
from dprelease.regular import read_regular
from dprelease.spec.fields.columns import label_text, spelled_out
from dprelease.spec.fields.document import TableSpec
from dprelease.spec.text.names import did_you_mean, shown

__all__ = ["Question", "bits_given", "given", "questions_of", "randomize_file"]

_MOST_BYTES = 1 << 30


@dataclass(frozen=True)
class Question:
    """One question as it is asked at the source.

    Attributes:
        name: The column of true answers.
        columns: What takes its place: itself, or one column for each bit.
        answers: What may be answered, as text.
        law: Of the randomized answers.
    """

    name: str
    columns: tuple[str, ...]
    answers: tuple[str, ...]
    law: RandomizedResponse


def given(true: int, law: RandomizedResponse, below: Below) -> int:
    """The position of the answer that is given in the place of the true one: k-ary randomized response.

    Of a + (k - 1) b equally likely numbers the first a give the true answer, and b each of the others.
    """
    right, wrong = law.weights
    turn = below(right + (law.choices - 1) * wrong) - right
    if turn < 0:
        return true
    other = turn // wrong
    return other if other < true else other + 1


def bits_given(true: int | None, bits: int, law: RandomizedResponse, below: Below) -> tuple[int, ...]:
    """The bits that are given: that of the true answer is 1 by a fair coin, any other one with b in a + b."""
    right, wrong = law.weights
    return tuple(1 - below(2) if at == true else int(below(right + wrong) < wrong) for at in range(bits))


def questions_of(name: str, table: TableSpec) -> tuple[Question, ...]:
    """The questions of a table whose answers are randomized.

    Raises:
        Unsupported: It has none (DPR-E132).
    """
    found: dict[str, Question] = {}
    for label, column in table.columns.items():
        keys = spelled_out(column)
        if column.collect is None or keys is None:
            continue
        law = column.collect.law(len(keys))
        if law.unary is None:
            found[label] = Question(label, (label,), tuple(map(label_text, keys)), law)
        else:
            asked, answer = law.unary.question, law.unary.answer
            known = found.get(asked, Question(asked, (), (), law))
            found[asked] = Question(asked, (*known.columns, label), (*known.answers, answer), law)
    if not found:
        raise Unsupported(
            f"table {name!r} has no column of randomized answers",
            hint="declare `collect: {randomized_response: {epsilon: 1}}` of a column, see `dprelease explain S250`",
            code="DPR-E132",
        )
    return tuple(found.values())


def randomize_file(name: str, table: TableSpec, answers: Path, out: Path) -> dict[str, int]:
    """Write the file of a table's collected answers from one of true answers; every other column is copied.

    Args:
        name: The name of the table.
        table: As its spec declares it.
        answers: CSV in UTF-8 with a header: the true answers, a column for each question.
        out: Where the randomized answers go; nothing may be there.

    Returns:
        By question how many answers were randomized; a row without an answer stays one where silence is public.

    Raises:
        Unsupported: The table asks no such question, or ``out`` is there already (DPR-E132, DPR-E136).
        TableMismatch: The file is not as declared: named by line, never by value (DPR-E133, DPR-E134, DPR-E137).
    """
    questions = questions_of(name, table)
    if out.exists() or out.is_symlink():
        raise _there_already(out)
    header, rows = _read(answers)
    places = _places(header, questions, answers)
    made, counts = _randomized(header, rows, questions, places)
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(made)
    _write_new(out, text.getvalue().encode())
    return counts


def _write_new(out: Path, data: bytes) -> None:
    """A file that only its owner may read; never in the place of another one."""
    try:
        with os.fdopen(os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(data)
            os.fsync(file.fileno())
    except FileExistsError:
        raise _there_already(out) from None
    except OSError as error:
        raise Unsupported(
            f"{shown(str(out))} cannot be written ({type(error).__name__})",
            hint="name a new file in a folder that is there",
            code="DPR-E138",
        ) from None


def _there_already(out: Path) -> Unsupported:
    return Unsupported(
        f"{shown(str(out))} is there already, and answers are randomized once: a second time tells as much again",
        hint="keep the file that is there; for other answers name a file that is not there yet",
        code="DPR-E136",
    )


def _read(path: Path) -> tuple[list[str], list[list[str]]]:
    """The header and the rows of a CSV file, each row as long as the header."""
    try:
        text = read_regular(path, _MOST_BYTES).decode("utf-8-sig")
        lines = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise TableMismatch(
            f"{shown(str(path))} cannot be read as CSV in UTF-8 ({type(error).__name__})",
            hint="save it as CSV in UTF-8 with commas and a header",
            code="DPR-E137",
        ) from None
    if lines and len(lines[0]) == 1:
        lines = [line or [""] for line in lines]  # of a single column an empty line is an answer that is not there
    lines = [line for line in lines if line]
    if not lines or len(set(lines[0])) < len(lines[0]):
        raise _wrong(path, 1, "no header, or a column twice", "DPR-E137")
    for number, line in enumerate(lines[1:], 2):
        if len(line) != len(lines[0]):
            raise _wrong(path, number, "another number of fields than the header", "DPR-E137")
    return lines[0], lines[1:]


def _places(header: Sequence[str], questions: Sequence[Question], path: Path) -> Mapping[str, int]:
    """Where each question stands in the header."""
    for each in questions:
        if each.name not in header:
            raise TableMismatch(
                f"{shown(str(path))} has no column {shown(each.name)!r}, in which the true answers are",
                hint=did_you_mean(each.name, header) or "add the column",
                code="DPR-E133",
            )
        clash = [column for column in each.columns if column != each.name and column in header]
        if clash:
            raise TableMismatch(
                f"{shown(str(path))} has a column {shown(clash[0])!r}, which randomizing {shown(each.name)!r} makes",
                hint="give the file of true answers, not one that is randomized already",
                code="DPR-E133",
            )
    return {each.name: header.index(each.name) for each in questions}


def _randomized(
    header: Sequence[str], rows: Sequence[Sequence[str]], questions: Sequence[Question], places: Mapping[str, int]
) -> tuple[list[list[str]], dict[str, int]]:
    """The lines of the new file, header first, and how many answers of each question were changed by coins.

    All rows are looked at before the first coin is thrown, so that a file with a mistake draws nothing.
    """
    at = {places[each.name]: each for each in questions}
    true = {
        place: [_position(row[place], number, each) for number, row in enumerate(rows, 2)] for place, each in at.items()
    }
    counts = {each.name: sum(answer is not None for answer in true[places[each.name]]) for each in questions}
    with Entropy() as entropy:

        def line(number: int, row: Sequence[str]) -> list[str]:
            told = (
                _fields(at[place], true[place][number], entropy.below) if place in at else (text,)
                for place, text in enumerate(row)
            )
            return [field for fields in told for field in fields]

        made = [line(number, row) for number, row in enumerate(rows)]
    names = [name for place, text in enumerate(header) for name in (at[place].columns if place in at else (text,))]
    return [names, *made], counts


def _fields(question: Question, answer: int | None, below: Callable[[int], int]) -> Sequence[str]:
    """What stands in the place of one true answer: a randomized one, or bits; nothing for public silence."""
    if answer is None:
        return ("",) * len(question.columns)
    if question.law.unary is None:
        return (question.answers[given(answer, question.law, below)],)
    return tuple(map(str, bits_given(answer, len(question.columns), question.law, below)))


def _position(text: str, line: int, question: Question) -> int | None:
    """Which answer it is; None: there is none, and that is public."""
    silence = question.law.silence
    if text == "" and silence is not None:
        return question.answers.index(silence)
    if text == "":
        return None
    if text not in question.answers:
        raise TableMismatch(
            f"line {line} answers {shown(question.name)!r} by none of its keys",
            hint="correct the file: the keys are those of the spec, to the letter",
            code="DPR-E134",
        )
    return question.answers.index(text)


def _wrong(path: Path, line: int, what: str, code: str) -> TableMismatch:
    return TableMismatch(
        f"{shown(str(path))} has in line {line} {what}",
        hint="save it as CSV with a header and one row a line",
        code=code,
    )
