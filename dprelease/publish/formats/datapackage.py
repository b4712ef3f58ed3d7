"""CSV (UTF-8, RFC 4180, one header line), and the Data Package (version 1) that describes the files for programs.

Text keys are always in quotes and as declared; where the release asks for it, one that a spreadsheet would run as a
formula is escaped (``csv_text``). Numbers are never in quotes; what is not published is an empty field.

Types are written, never inferred: a key ``06`` that a reader takes for a number is six ever after. Every resource has
the size and the SHA-256 of its file, so that a reader can tell whether it is whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dprelease.canonical import indented
from dprelease.catalog.table import Column
from dprelease.estimate import PublishedMeasure, PublishedTable
from dprelease.formats import FORMATS
from dprelease.measures.comparing.comparison import ALIKE_KINDS
from dprelease.measures.text import exact_text
from dprelease.plan.document import Publish
from dprelease.plan.explain.facts import unprotected
from dprelease.publish.accounting.clips import clip_lines
from dprelease.publish.accounting.glossary import dictionary, relation
from dprelease.publish.base import NOTICE, Content, key_as_text
from dprelease.publish.catalogue.entry import Told, description_of, told_of
from dprelease.publish.columns import (
    P_VALUE,
    PERIOD_COLUMN,
    REHEARSAL_COLUMN,
    SAMPLING_ERROR,
    TOTAL_MARGIN,
    UNADJUSTED,
    UNADJUSTED_ERROR,
    endings,
    table_header,
)
from dprelease.publish.csv_text import (
    MARK,
    Texts,
    constant_texts,
    csv_quoted,
    escaped,
    escapes,
    key_texts,
    key_width,
    line_blocks,
    number_texts,
    rows_at_once,
    small_files,
    word_texts,
)
from dprelease.publish.formats.cube import PARTS, UNROUNDED, keys_repeat, parts_of
from dprelease.publish.packed import Data, Files, digest_in, kept, pack, size_in
from dprelease.publish.stacked import stacks

__all__ = ["csv_blocks", "csv_files", "datapackage_files", "package_of", "text_files"]

_MOST_LISTED = 1000
_DIALECT = {
    "csvddfVersion": 1.2,
    "delimiter": ",",
    "doubleQuote": True,
    "lineTerminator": "\r\n",
    "quoteChar": '"',
    "skipInitialSpace": False,
    "header": True,
    "caseSensitiveHeader": True,
}
_PARTS = {
    "_se": "standard error of {name}",
    "_margin": "margin of {name}: half the width of its {share} % interval, before it is cut",
    "_lower": "lower end of the {share} % interval of {name}",
    "_upper": "upper end of the {share} % interval of {name}",
    SAMPLING_ERROR: "standard error of {name} because it is of a sample, by a public model; no part of the margin",
    TOTAL_MARGIN: "margin of {name} for noise and sampling together, at {share} %",
    UNADJUSTED: "estimate of {name} before it was made non-negative or whole, or made of numbers that were: standard "
    "error, margin and interval are about this one, and {name} itself can lie outside of the interval",
    P_VALUE: "probability, at most, that noise alone is as far from 0 as {name}",
    UNADJUSTED_ERROR: "standard error of that estimate; the {share} % interval beside {name} holds {name} and covers "
    "its noise",
}
_FARTHER = "margin of {name}: how far the farther end of its {share} % interval is from it"

_ESCAPED = (
    "; escaped for spreadsheets: a text that begins with = + - @ (also full-width), a tab, a line end or an apostrophe "
    "has one more apostrophe before it, which is no part of the key"
)
_BEFORE_HELD = (
    "best unbiased estimate of {name}, before it was made non-negative or whole, or made of numbers that were: the one "
    "for sums of your own"
)


def _alike_words(publish: Publish) -> str:
    """What the status of a change or a difference says."""
    signs = {} if publish.figures is None else publish.figures.symbols
    return (
        "ok; not_distinguishable: noise alone may have made it "
        f"{signs.get('not_distinguishable', '')}; blank: nothing is published"
    )


def _status_words(publish: Publish) -> str:
    """What each status says, with the sign that the pages and the workbook have for it."""
    if publish.figures is None:
        return "ok; unreliable: the margin is large beside the number; blank: nothing is published"
    signs = publish.figures.symbols
    return (
        f"ok; caution {signs['caution']}: the interval is wide beside the number; unreliable {signs['unreliable']}: it "
        f"is very wide, and the number is withheld where none is there; blank {signs['no_estimate']}: nothing is "
        f"published, where a row is suppressed {signs['withheld']}"
    )


def text_files(content: Content, files: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """``tables/<name>.csv``, and ``datapackage.json``, which says what is in them."""
    made = csv_files(content, files)
    return Files({**kept(made), **datapackage_files(content, made)})


def datapackage_files(content: Content, files: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """``datapackage.json`` at the top of the bundle; nothing where no CSV files were made.

    Args:
        content: The release.
        files: Made so far; those it describes are ``tables/<name>.csv``.
    """
    if not all(_path(table) in files for table in content.tables):
        return {}
    return {"datapackage.json": f"{indented(package_of(content, files), plain=True)}\n".encode()}


def package_of(content: Content, files: Mapping[str, bytes]) -> dict[str, Any]:
    """The descriptor as a value."""
    plan, facts = content.plan, content.facts
    release, loss = plan.release, plan.loss[plan.certified]
    title = release.title or release.name
    told, catalogued = dictionary(plan), told_of(plan, facts)
    return {
        "profile": "tabular-data-package",
        "name": _name(f"{release.name}-{release.period}"),
        "title": f"{NOTICE}: {title}" if facts.rehearsal else title,
        "description": description_of(plan, facts),
        "version": release.entry.version if release.entry and release.entry.version else release.period,
        "created": facts.reserved_at,
        **({"contributors": [{"title": release.curator, "role": "publisher"}]} if release.curator else {}),
        **(_for_catalogues(catalogued) if catalogued.said else {}),
        "resources": [_resource(content, table, files, told) for table in content.tables],
        "dprelease": {
            "release": release.name,
            "period": release.period,
            "plan_fingerprint": facts.plan_fingerprint,
            "epsilon": str(loss.epsilon),
            "delta": str(loss.delta),
            **({"unprotected": unprotected(content.plan)} if plan.invariants else {}),
            "unit": str(plan.unit),
            "relation": relation(plan),
            "contact": release.contact,
            "rehearsal": facts.rehearsal,
            **(_beside(catalogued) if catalogued.said else {}),
        },
    }


def _path(table: PublishedTable) -> str:
    return FORMATS["csv"].path(table.name)


def _name(text: str) -> str:
    """A name as the standard allows it: small letters, digits, and ``.``, ``-``, ``_``."""
    return re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("-") or "release"


def _for_catalogues(told: Told) -> dict[str, Any]:
    """What the author said for catalogues, as far as a Data Package has a place for it."""
    licence = {"path": told.licence, **({"name": told.licence_name} if told.licence_name else {})}
    more = {
        "id": told.identifier,
        "licenses": [licence] if told.licence else [],
        "keywords": list(told.keywords),
    }
    return {name: value for name, value in more.items() if value}


def _beside(told: Told) -> dict[str, str]:
    """And the rest of it, beside what else is said here alone."""
    more = {
        "citation": told.citation,
        "issued": told.issued,
        "next": told.next,
        "temporal": told.interval,
        "spatial": told.spatial,
    }
    return {name: value for name, value in more.items() if value}


def _resource(
    content: Content, table: PublishedTable, files: Mapping[str, bytes], told: Mapping[str, Any]
) -> dict[str, Any]:
    described = {} if table.derived else told.get(table.name, {})
    return {
        "profile": "tabular-data-resource",
        "name": _name(table.name),
        "title": table.title or table.name,
        **_about(content, table),
        **_sources(content, table),
        "path": _path(table),
        "format": "csv",
        "mediatype": FORMATS["csv"].media_type,
        "encoding": "utf-8",
        "bytes": size_in(files, _path(table)),
        "hash": f"sha256:{digest_in(files, _path(table))}",
        "dialect": _DIALECT,
        "schema": _schema(content, table, described),
    }


def _about(content: Content, table: PublishedTable) -> dict[str, str]:
    """What a reader of the file must know that its columns do not say."""
    if table.derived:
        return {"description": f"Derived after the noise: {table.derived}"}
    query = content.plan.query(table.name)
    lines = () if query is None else clip_lines(content.plan, query, content.measurements)
    return {"description": " ".join(lines)} if lines else {}


def _sources(content: Content, table: PublishedTable) -> dict[str, Any]:
    """The table that was read, as its author calls and describes it; nothing where the author says nothing of it."""
    names = content.plan.catalog.names
    query = None if names is None or table.derived else content.plan.query(table.name)
    if names is None or query is None:
        return {}
    words = {
        what: str(said)
        for what in ("title", "description")
        if (said := names.said("tables", query.table, what, language=names.languages[0]))
    }
    return {"sources": [{"title": query.table, **words}]} if words else {}


def _schema(content: Content, table: PublishedTable, described: Mapping[str, str]) -> dict[str, Any]:
    publish = content.plan.publish
    fields = {
        column.name: _key_field(column, table, described, escape=escapes(publish, column))
        for column in table.key_columns
    }
    for measure in table.measures:
        fields |= _number_fields(measure, table, described, publish)
    fields[REHEARSAL_COLUMN] = {
        "name": REHEARSAL_COLUMN,
        "type": "string",
        "constraints": {"required": True, "enum": [NOTICE]},
    }
    fields[PERIOD_COLUMN] = fields.get(PERIOD_COLUMN) or {
        "name": PERIOD_COLUMN,
        "type": "string",
        "description": "the period of the release",
        "constraints": {"required": True, "enum": [table.period]},
    }
    names = table_header(table, rehearsal=content.facts.rehearsal)
    unique = table.key_columns and not keys_repeat(table) and not any(map(_has_empty, table.keys))
    keys = [*([PERIOD_COLUMN] if table.period else []), *(column.name for column in table.key_columns)]
    return {
        "fields": [fields[name] for name in names],
        "missingValues": [""],
        **({"primaryKey": keys} if unique else {}),
    }


def _has_empty(keys: Sequence[Any]) -> bool:
    """Whether one of the keys is the empty text, which a reader takes for a missing value."""
    return "" in keys


def _key_field(column: Column, table: PublishedTable, described: Mapping[str, str], *, escape: bool) -> dict[str, Any]:
    types = {"text": "string", "integer": "integer", "boolean": "boolean", "date": "date"}
    words = described.get(column.name, f"key: {column.type}")
    labels = "; ".join(f"{code}: {label}" for code, label in column.labels.items() if label != code)
    found: dict[str, Any] = {
        "name": column.name,
        **({"title": column.title} if column.title else {}),
        "type": types[column.type],
        "description": f"{words} ({labels})" if labels and len(column.labels) <= _MOST_LISTED else words,
    }
    if column.type == "boolean":
        found |= {"trueValues": ["true"], "falseValues": ["false"]}
    empty = _has_empty(table.keys[table.key_columns.index(column)])
    listed = column.keys is not None and len(column.keys) <= _MOST_LISTED
    texts = [escaped(key_as_text(key)) if escape else key_as_text(key) for key in column.keys or ()]
    enum = {"enum": texts} if listed and column.type == "text" else {}
    if escape:
        found["description"] += _ESCAPED
        found["dprelease"] = {"escaped": MARK}
    return {**found, "constraints": {**({} if empty else {"required": True}), **enum}}


def _number_fields(
    measure: PublishedMeasure, table: PublishedTable, described: Mapping[str, str], publish: Publish
) -> dict[str, dict[str, Any]]:
    """The fields of one measure by name; only numbers that are whole by their kind are integers."""
    statuses = ("ok", "unreliable", "blank") if publish.figures is None else ("ok", "caution", "unreliable", "blank")
    if measure.compared is not None and measure.compared.kind in ALIKE_KINDS:
        statuses = ("ok", "not_distinguishable", "blank")
    rounded = f", rounded to multiples of {exact_text(measure.base)} after the noise" if measure.base else ""
    name, share = measure.name, f"{float(table.confidence) * 100:.4g}"
    number = "integer" if measure.integer else "number"
    found: dict[str, dict[str, Any]] = {
        name: {
            "name": name,
            **({"title": measure.title} if measure.title else {}),
            "type": number,
            "description": described.get(name, "made of published numbers") + rounded,
        },
        f"{name}_status": {
            "name": f"{name}_status",
            "type": "string",
            "description": _alike_words(publish) if "not_distinguishable" in statuses else _status_words(publish),
            "constraints": {"required": True, "enum": list(statuses)},
        },
    }
    parts = _PARTS | ({"_margin": _FARTHER} if measure.tested or measure.base is not None else {})
    parts |= {UNADJUSTED: _BEFORE_HELD} if measure.held else {}
    for ending, words in ((each, parts[each]) for each in parts_of(measure) if each):
        kind = "number" if ending in UNROUNDED else number
        found[name + ending] = {
            "name": name + ending,
            "type": kind,
            "description": words.format(name=name, share=share)
            + (f", in {measure.unit}" if measure.unit and ending != P_VALUE else ""),
        }
    return found


def csv_files(content: Content, _: Mapping[str, bytes]) -> Files:
    """``tables/<name>.csv`` for every query and derived table."""
    publish, notice = content.plan.publish, NOTICE if content.facts.rehearsal else None
    found: dict[str, Data] = {}
    for stack in stacks(content.tables):
        whole, paths = stack.whole, list(map(_path, stack.tables))
        names, columns = table_header(whole, rehearsal=notice is not None), _columns(whole, notice, publish)
        width = key_width(whole.keys)
        if len(paths) == 1:
            found[paths[0]] = pack(line_blocks(names, columns, whole.cells, width))
        elif whole.cells <= rows_at_once(len(columns), width):
            sizes = [table.cells for table in stack.tables]
            found.update(zip(paths, small_files(names, columns, sizes), strict=True))
        else:
            found |= {_path(each): pack(csv_blocks(names, each, notice, publish)) for each in stack.tables}
    return Files(found)


def csv_blocks(
    names: tuple[str, ...], table: PublishedTable, notice: str | None = None, publish: Publish | None = None
) -> Iterator[bytes]:
    """The bytes of one table, some thousand lines at a time.

    Args:
        names: The names of its columns.
        table: The table.
        notice: Repeated in a last column of every line; ``names`` names that column.
        publish: What the release says of formulas; None: nothing is escaped.
    """
    return line_blocks(names, _columns(table, notice, publish), table.cells, key_width(table.keys))


def _columns(table: PublishedTable, notice: str | None, publish: Publish | None) -> list[Texts]:
    """The texts of its columns, in the order of the header."""
    period = [constant_texts(csv_quoted(table.period))] if table.period else []
    parts = period + [
        key_texts(column, keys, escape=publish is not None and escapes(publish, column))
        for column, keys in zip(table.key_columns, table.keys, strict=True)
    ]
    for measure in table.measures:
        parts += [
            word_texts(measure.status)
            if ending == "_status"
            else number_texts(getattr(measure, PARTS[ending]), None if ending in UNROUNDED else measure.places)
            for ending in endings(measure)
        ]
    return [*parts, constant_texts(csv_quoted(notice))] if notice is not None else parts
