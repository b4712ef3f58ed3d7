"""``dprelease new``: a first spec from the names of a file's columns, and what a person says about them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from dprelease.cli.options import Stopped

__all__ = ["new_command"]

Answer = str | None
Each = list[str] | None


def _answer(option: str, form: str, says: str) -> object:
    return typer.Option(option, metavar=form, help=says)


def new_command(
    context: typer.Context,
    data: Annotated[
        str,
        typer.Argument(metavar="DATA", help="A file of rows or the URL of a database; only columns' names are read."),
    ],
    out: Annotated[Path | None, typer.Option(help="The spec to write; left out: NAME.yaml in the project.")] = None,
    project: Annotated[
        Path | None, typer.Option("--project", help="The folder of the project, old or new; left out: this one.")
    ] = None,
    table: Annotated[Answer, _answer("--table", "NAME", "Of a database: the table.")] = None,
    schema: Annotated[Answer, _answer("--schema", "NAME", "Of a database: the table's schema.")] = None,
    view: Annotated[
        bool, typer.Option("--view", help="It is a view, and each of its rows is made of one unit's rows alone.")
    ] = False,
    header: Annotated[Answer, _answer("--header", "NAMES", "All columns in order, where no line names them.")] = None,
    delimiter: Annotated[Answer, _answer("--delimiter", "WORD", "comma, semicolon, tab or bar.")] = None,
    encoding: Annotated[Answer, _answer("--encoding", "NAME", "utf-8, latin-1, windows-1252, ...")] = None,
    decimal: Annotated[Answer, _answer("--decimal", "WORD", "point or comma.")] = None,
    date_format: Annotated[Answer, _answer("--date-format", "FORM", "How a day is written: %d.%m.%Y.")] = None,
    unit: Annotated[Answer, _answer("--unit", "WORD", "Who is protected: person, household, ...")] = None,
    unit_id: Annotated[Answer, _answer("--id", "COLUMN", "Whose row it is, or none.")] = None,
    max_rows: Annotated[Answer, _answer("--max-rows", "N", "How many rows of one unit count.")] = None,
    by: Annotated[Answer, _answer("--by", "COLUMNS", "The columns of the first table, or none.")] = None,
    numbers: Annotated[Answer, _answer("--numbers", "COLUMNS", "What is added up and averaged, or none.")] = None,
    types: Annotated[Each, _answer("--type", "COLUMN=TYPE", "How a column is read.")] = None,
    keys: Annotated[Each, _answer("--keys", "COLUMN=VALUES", "1,2 or 2015..2024, @us-states, 'bands 0,18,65'.")] = None,
    limits: Annotated[Each, _answer("--range", "COLUMN=LOW,HIGH", "The least and greatest value that can be.")] = None,
    clip: Annotated[Each, _answer("--clip", "COLUMN=LOW,HIGH", "What totals and averages hold values to.")] = None,
    time: Annotated[Answer, _answer("--time", "COLUMN", "The day of a row, or none.")] = None,
    period: Annotated[Answer, _answer("--period", "PERIOD", "2024, 2024-03, once, ...")] = None,
    budget: Annotated[Answer, _answer("--budget", "EPSILON,DELTA", "What the release may cost.")] = None,
    name: Annotated[Answer, _answer("--name", "NAME", "Of the release: a-z, 0-9 and -.")] = None,
    title: Annotated[Answer, _answer("--title", "TEXT", "Above the table.")] = None,
    curator: Annotated[Answer, _answer("--curator", "TEXT", "The office that answers for it.")] = None,
    contact: Annotated[Answer, _answer("--contact", "TEXT", "Where readers may ask.")] = None,
    account: Annotated[Answer, _answer("--account", "NAME", "The account that pays.")] = None,
    cap: Annotated[Answer, _answer("--cap", "EPSILON,DELTA", "Of a new account, for all its releases.")] = None,
    proposed: Annotated[bool, typer.Option("--yes", help="Take what is proposed, and ask nothing.")] = False,
    replaced: Annotated[bool, typer.Option("--replace", help="Write over a spec of that name.")] = False,
) -> None:
    """Write a first spec: reads the names of the columns, no value, and asks for the rest or takes it as options."""
    from dprelease.cli.new.project import begin
    from dprelease.cli.new.rows import Place

    given: dict[str, str] = {}
    for parameter in context.command.params:
        value = context.params.get(parameter.name or "")
        option = parameter.opts[0]
        if option in _OTHER or value is None:
            continue
        for word in [value] if isinstance(value, str) else value:
            column, _, answer = ("", "", word) if isinstance(value, str) else word.partition("=")
            given[f"{option} {column}".strip()] = answer
    names = tuple(part.strip() for part in header.split(",")) if header else ()
    try:
        begin(
            Place(data, table=table, schema=schema, view=view, header=names),
            given,
            out=out,
            folder=project,
            terminal=sys.stdin.isatty() and sys.stdout.isatty(),
            proposed=proposed,
            replaced=replaced,
        )
    except typer.Abort:  # at a question, and all of them come before the first file
        raise Stopped("nothing was written") from None


_OTHER = {"data", "--out", "--project", "--table", "--schema", "--view", "--header", "--yes", "--replace", "--help"}
