"""``dcat.jsonld``: the release as an entry for data catalogues, by DCAT-AP 3 (semiceu.github.io/DCAT-AP) in JSON-LD.

The context stands in the file, so that nothing is fetched to read it. Addresses of files are relative: they are
resolved against the address of the file, wherever an office puts the bundle. Terms of authority lists have their type
beside them, because the shapes of DCAT-AP ask for the types of what is pointed at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dprelease.canonical import indented
from dprelease.catalog.names import Foreign
from dprelease.formats import FORMATS, Format
from dprelease.publish.base import Content
from dprelease.publish.catalogue.code_lists import (
    AUTHORITY,
    FREQUENCIES,
    LANGUAGE_CODES,
    PUBLISHER_TYPES,
    THEMES,
    licence_type,
    type_name,
)
from dprelease.publish.catalogue.entry import Told, told_of
from dprelease.publish.packed import digest_in, size_in
from dprelease.spec.fields.published.catalogued import is_address
from dprelease.words import DEFAULT, speaking

__all__ = ["dcat_files"]

_CONTEXT = {
    "adms": "http://www.w3.org/ns/adms#",
    "dcat": "http://www.w3.org/ns/dcat#",
    "dcatap": "http://data.europa.eu/r5r/",
    "dct": "http://purl.org/dc/terms/",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "spdx": "http://spdx.org/rdf/terms#",
    "vcard": "http://www.w3.org/2006/vcard/ns#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}
_FILE_TYPES = {"csv": "CSV", "parquet": "PARQUET", "json": "JSON", "sdmx": "CSV", "xlsx": "XLSX"}
_MOST = 500  # files that are listed one by one; of more the descriptor of all of them is
_DESCRIPTOR, _WORKBOOK = "datapackage.json", "tables/workbook.xlsx"
_SHA256 = "spdx:checksumAlgorithm_sha256"


def dcat_files(content: Content, files: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """``dcat.jsonld``.

    Args:
        content: The release.
        files: Made so far; those of tables become distributions, with size and SHA-256.
    """
    spoken = _in_each_language(content)
    told = told_of(content.plan, content.facts)
    listed = list(_listed(content, files))
    graph = [_dataset(content, told, [path for path, *_ in listed], spoken)]
    graph += [_distribution(told, *each, files, next(iter(spoken))) for each in listed]
    graph += _things(content, told, {form.name: form for _, form, *_ in listed}, list(spoken))
    return {"dcat.jsonld": f"{indented({'@context': _CONTEXT, '@graph': graph}, plain=True)}\n".encode()}


def _in_each_language(content: Content) -> dict[str, Told]:
    """What catalogues are told, by the languages of the release, the first one first."""
    plan, names = content.plan, content.plan.catalog.names
    if names is None:
        return {DEFAULT: told_of(plan, content.facts)}
    found = {}
    for tag in names.languages:
        title = names.said("release", "title", language=tag) or plan.release.title
        release = plan.release.model_copy(update={"title": title})
        with speaking(tag):
            found[tag] = told_of(plan.model_copy(update={"release": release}), content.facts)
    return found


def _listed(content: Content, files: Mapping[str, bytes]) -> Iterator[tuple[str, Format, str, str]]:
    """Path, format, title and description of every file that is a distribution."""
    forms = [form for form in FORMATS.values() if form.ending]
    each = [
        (form.path(table.name), form, f"{table.title or table.name} ({form.label})", f"{table.cells:,} rows")
        for table in content.tables
        for form in forms
        if form.path(table.name) in files
    ]
    if len(each) <= _MOST:
        yield from each
    elif _DESCRIPTOR in files:
        yield _DESCRIPTOR, FORMATS["json"], "Data Package", "Descriptor of every CSV file"
    if _WORKBOOK in files:
        yield _WORKBOOK, FORMATS["xlsx"], "Workbook", "Every table as a sheet"


def _dataset(content: Content, told: Told, paths: list[str], spoken: Mapping[str, Told]) -> dict[str, Any]:
    release = content.plan.release
    found: dict[str, Any] = {
        "@id": told.identifier if is_address(told.identifier) else "./",
        "@type": "dcat:Dataset",
        "dct:title": _in_all(spoken, "title"),
        "dct:description": _in_all(spoken, "description"),
        "dct:identifier": told.identifier or f"{release.name}/{release.period}/{told.version}",
        "dcat:version": told.version,
        "dct:language": _one_or_all([{"@id": _language(tag)} for tag in spoken]),
        "dct:accessRights": {"@id": f"{AUTHORITY}access-right/PUBLIC"},
        "dcat:distribution": [{"@id": f"{path}#distribution"} for path in paths],
    }
    if "html" in content.plan.publish.formats:
        found["dcat:landingPage"] = {"@id": "index.html"}
    if told.publisher:
        found["dct:publisher"] = {"@id": "#publisher"}
    if told.contact:
        found["dcat:contactPoint"] = {"@id": "#contact"}
    if told.issued:
        found |= {"dct:issued": _day(told.issued), "dct:modified": _day(told.issued)}
    if told.keywords:
        found["dcat:keyword"] = [_said(word, next(iter(spoken))) for word in told.keywords]
    if told.themes:
        found["dcat:theme"] = [{"@id": f"{AUTHORITY}data-theme/{code}"} for code in told.themes]
    if told.frequency:
        found["dct:accrualPeriodicity"] = {"@id": _frequency(told)}
    if told.spatial:
        found["dct:spatial"] = {"@id": _place(told)}
    if told.start:
        days = {"dcat:startDate": _day(told.start), "dcat:endDate": _day(told.end)}
        found["dct:temporal"] = {"@type": "dct:PeriodOfTime", **days}
    if content.facts.restates is not None:
        found["adms:versionNotes"] = _english(content.facts.restates.reason)
    return found


def _distribution(
    told: Told, path: str, form: Format, title: str, description: str, files: Mapping[str, bytes], tag: str
) -> dict[str, Any]:
    checksum = {
        "@type": "spdx:Checksum",
        "spdx:algorithm": {"@id": _SHA256},
        "spdx:checksumValue": {"@type": "xsd:hexBinary", "@value": digest_in(files, path)},
    }
    return {
        "@id": f"{path}#distribution",
        "@type": "dcat:Distribution",
        "dct:title": _said(title, tag),
        "dct:description": _english(description),
        "dcat:accessURL": {"@id": path},
        "dcat:downloadURL": {"@id": path},
        "dct:format": {"@id": f"{AUTHORITY}file-type/{_FILE_TYPES[form.name]}"},
        "dcat:mediaType": {"@id": _media(form)},
        "dcat:byteSize": {"@type": "xsd:nonNegativeInteger", "@value": str(size_in(files, path))},
        "dcatap:availability": {"@id": f"{AUTHORITY}planned-availability/STABLE"},
        "spdx:checksum": checksum,
        **({"dct:license": {"@id": told.licence}} if told.licence else {}),
        **({"dct:issued": _day(told.issued)} if told.issued else {}),
    }


def _things(content: Content, told: Told, forms: Mapping[str, Format], spoken: list[str]) -> list[dict[str, Any]]:
    """What the entry points at, each with its type."""
    found: list[dict[str, Any]] = [
        *({"@id": _language(tag), "@type": "dct:LinguisticSystem"} for tag in spoken),
        {"@id": f"{AUTHORITY}access-right/PUBLIC", "@type": "dct:RightsStatement"},
    ]
    if forms:
        stable = {"@id": f"{AUTHORITY}planned-availability/STABLE", "@type": "skos:Concept"}
        found += [{**stable, "skos:prefLabel": _english("stable")}, {"@id": _SHA256, "@type": "spdx:ChecksumAlgorithm"}]
    kinds = sorted({_FILE_TYPES[name] for name in forms})
    found += [{"@id": f"{AUTHORITY}file-type/{kind}", "@type": "dct:MediaTypeOrExtent"} for kind in kinds]
    found += [{"@id": _media(form), "@type": "dct:MediaType"} for form in forms.values()]
    if "html" in content.plan.publish.formats:
        found.append({"@id": "index.html", "@type": "foaf:Document"})
    found += _of_code_lists(told)
    if told.publisher:
        kind = {"dct:type": {"@id": PUBLISHER_TYPES[told.publisher_type]}} if told.publisher_type else {}
        name = {"foaf:name": _said(told.publisher, spoken[0])}
        found.append({"@id": "#publisher", "@type": "foaf:Agent", **name, **kind})
    if told.contact:
        mail = {"vcard:hasEmail": {"@id": f"mailto:{told.email}"}} if told.email else {}
        place = {"@id": "#contact", "@type": ["vcard:Kind", "vcard:Organization"]}
        found.append({**place, "vcard:fn": told.publisher or told.contact, **mail})
    if told.licence:
        licence = licence_type(told.licence)
        typed = {"dct:type": {"@id": licence}} if licence else {}
        found.append({"@id": told.licence, "@type": "dct:LicenseDocument", **typed})
    if told.spatial:
        words = {} if is_address(told.spatial) else {"skos:prefLabel": _said(told.spatial, spoken[0])}
        found.append({"@id": _place(told), "@type": "dct:Location", **words})
    return found


def _of_code_lists(told: Told) -> Iterator[dict[str, Any]]:
    """Entries of code lists that the release, its publisher or its licence point at."""
    for code in told.themes:
        yield _concept(f"{AUTHORITY}data-theme/{code}", THEMES[code])
    if told.frequency:
        yield {"@id": _frequency(told), "@type": "dct:Frequency"}
    if told.publisher and told.publisher_type:
        yield _concept(PUBLISHER_TYPES[told.publisher_type], type_name(PUBLISHER_TYPES[told.publisher_type]))
    if licence := licence_type(told.licence):
        yield _concept(licence, type_name(licence))


def _concept(address: str, name: str) -> dict[str, Any]:
    return {"@id": address, "@type": "skos:Concept", "skos:prefLabel": _english(name)}


def _frequency(told: Told) -> str:
    return f"{AUTHORITY}frequency/{FREQUENCIES[told.frequency]}"


def _language(tag: str) -> str:
    return f"{AUTHORITY}language/{LANGUAGE_CODES[tag]}"


def _place(told: Told) -> str:
    return told.spatial if is_address(told.spatial) else "#place"


def _media(form: Format) -> str:
    return f"https://www.iana.org/assignments/media-types/{form.media_type}"


def _english(text: str) -> dict[str, str]:
    return _said(text, DEFAULT)


def _said(text: str, tag: str) -> dict[str, str]:
    return {"@language": text.tag if isinstance(text, Foreign) else tag, "@value": text}


def _in_all(spoken: Mapping[str, Told], name: str) -> Any:
    """A text in every language; one that a language lacks once, in the language that it is in."""
    texts = [_said(getattr(told, name), tag) for tag, told in spoken.items()]
    return _one_or_all([text for at, text in enumerate(texts) if text not in texts[:at]])


def _one_or_all(found: list[dict[str, str]]) -> Any:
    return found[0] if len(found) == 1 else found


def _day(text: str) -> dict[str, str]:
    return {"@type": "xsd:date", "@value": text}
