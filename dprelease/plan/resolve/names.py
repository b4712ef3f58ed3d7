"""What the author says to a reader of everything that has a name, in one language or several."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dprelease.catalog.names import Names
from dprelease.catalog.reference import ReferenceTable
from dprelease.catalog.table import Key
from dprelease.spec.fields.columns import label_key, label_text
from dprelease.spec.fields.document import ColumnSpec, QuerySpec, ReleaseSpec
from dprelease.spec.fields.published.told import ReferenceLabels, first_said, said
from dprelease.spec.text.findings import Findings
from dprelease.spec.text.names import did_you_mean, shown
from dprelease.spec.text.nodes import Path
from dprelease.words import DEFAULT

__all__ = ["Labels", "first_labels", "labels_of", "names_of"]

Labels = Mapping[str, Mapping[str, str]]
"""By key, as text, the words by language."""
Told = str | Mapping[str, str]


def names_of(spec: ReleaseSpec, labels: Mapping[tuple[str, str], Labels]) -> Names | None:
    """Everything that is said of names; None where a plan without it says all: plain titles and labels in English.

    Args:
        spec: What the author wrote.
        labels: By table and column the labels of its keys.
    """
    languages = spec.release.languages
    told = {path: words for path, words in _told(spec, labels) if words}
    if languages == (DEFAULT,) and all(_as_before(path) and tuple(words) == (DEFAULT,) for path, words in told.items()):
        return None
    return Names(languages=languages, texts=told)


def _as_before(path: str) -> bool:
    """Whether plans had a place for these words before there were languages: titles of tables, labels of keys."""
    kind, *_, what = path.split("/", 4)
    return what == "title" and kind in ("release", "queries") if kind != "tables" else "/labels/" in path


def _told(spec: ReleaseSpec, labels: Mapping[tuple[str, str], Labels]) -> Iterator[tuple[str, dict[str, str]]]:
    languages = spec.release.languages

    def each(path: str, **words: Told) -> Iterator[tuple[str, dict[str, str]]]:
        return ((f"{path}/{what}", said(text, languages)) for what, text in words.items())

    yield "unit/title", said(spec.privacy.unit_title, languages)
    yield from each("release", title=spec.release.title, abstract=spec.release.abstract)
    for name, table in spec.tables.items():
        yield from each(f"tables/{name}", title=table.title, description=table.description)
        for column, written in table.columns.items():
            at = f"tables/{name}/columns/{column}"
            yield from each(at, title=written.title, description=written.description)
            if not isinstance(written.measured_in, str):
                yield from each(at, measured_in=written.measured_in)
            for key, words in labels.get((name, column), {}).items():
                yield f"{at}/labels/{key}", dict(words)
    for name, query in spec.queries.items():
        yield from _of_query(name, query, languages)
    for name, derived in spec.derive.items():
        yield from each(f"queries/{name}", title=derived.title)


def _of_query(name: str, query: QuerySpec, languages: tuple[str, ...]) -> Iterator[tuple[str, dict[str, str]]]:
    at = f"queries/{name}"
    for what in ("title", "description", "condition"):
        yield f"{at}/{what}", said(getattr(query, what), languages)
    for measure, words in query.names.items():
        for what in ("title", "description", "measured_in", "condition"):
            yield f"{at}/measures/{measure}/{what}", said(getattr(words, what), languages)


def labels_of(
    column: ColumnSpec,
    name: str,
    languages: tuple[str, ...],
    found: Mapping[str, ReferenceTable],
    at: Path,
    findings: Findings,
) -> Labels:
    """The labels of a column's keys, by language: as they are written, or as the lines of a reference have them."""
    written = column.labels
    if not isinstance(written, ReferenceLabels):
        return {label_key(key, column.type): said(text, languages) for key, text in written.items()}
    public = found.get(written.reference)
    if public is None:
        return {}
    source = column.keys if not isinstance(column.keys, tuple) else None
    same = getattr(source, "reference", None) == written.reference
    key = written.key or (getattr(source, "column", None) if same else None) or name
    columns = said(written.column, languages)
    missing = [each for each in (key, *columns.values()) if each not in public.columns]
    if missing:
        hint = did_you_mean(missing[0], public.columns, "declare it under `columns` of the reference")
        says = f"means no column of reference {shown(written.reference)!r}: {shown(missing[0])!r}"
        findings.add("DPR-S475", (*at, "labels"), says, hint)
        return {}
    labels: dict[str, dict[str, str]] = {}
    for tag, told in columns.items():
        for each, words in zip(public.columns[key], public.columns[told], strict=True):
            text = labels.setdefault(label_text(each), {}).setdefault(tag, str(words))
            if text != str(words):
                says = f"gives a key two labels in reference {shown(written.reference)!r}, column {shown(told)!r}"
                findings.add("DPR-S476", (*at, "labels"), says, "keep one label for each key in the file")
                return {}
    return labels


def first_labels(labels: Labels, languages: tuple[str, ...], keys: tuple[Key, ...] | None) -> dict[str, str]:
    """Of each key that there is, its label in the first language that has one."""
    known = None if keys is None else {label_text(key) for key in keys}
    told = {key: first_said(words, languages) for key, words in labels.items() if known is None or key in known}
    return {key: text for key, text in told.items() if text}
