"""``dcat.jsonld``: the release as an entry for data catalogues, by DCAT-AP 3 (semiceu.github.io/DCAT-AP) in JSON-LD.

The context stands in the file, so that nothing is fetched to read it. Addresses of files are relative: they are
resolved against the address of the file, wherever an office puts the bundle. Terms of authority lists have their type
beside them, because the shapes of DCAT-AP ask for the types of what is pointed at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dprelease.canonical import indented
from dprelease.formats import FORMATS, Format
from dprelease.publish.base import Content
from dprelease.publish.catalogue.entry import Told, told_of
from dprelease.publish.packed import digest_in, size_in
from dprelease.spec.fields.published.catalogued import is_address

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
_AUTHORITY = "http://publications.europa.eu/resource/authority/"
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
    told = told_of(content.plan, content.facts)
    listed = list(_listed(content, files))
    graph = [_dataset(content, told, [path for path, *_ in listed])]
    graph += [_distribution(told, *each, files) for each in listed]
    graph += _things(content, told, {form.name: form for _, form, *_ in listed})
    return {"dcat.jsonld": f"{indented({'@context': _CONTEXT, '@graph': graph}, plain=True)}\n".encode()}


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


def _dataset(content: Content, told: Told, paths: list[str]) -> dict[str, Any]:
    release = content.plan.release
    found: dict[str, Any] = {
        "@id": told.identifier if is_address(told.identifier) else "./",
        "@type": "dcat:Dataset",
        "dct:title": _english(told.title),
        "dct:description": _english(told.description),
        "dct:identifier": told.identifier or f"{release.name}/{release.period}/{told.version}",
        "dcat:version": told.version,
        "dct:language": {"@id": f"{_AUTHORITY}language/ENG"},
        "dct:accessRights": {"@id": f"{_AUTHORITY}access-right/PUBLIC"},
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
        found["dcat:keyword"] = [_english(word) for word in told.keywords]
    if told.spatial:
        found["dct:spatial"] = {"@id": _place(told)}
    if told.start:
        days = {"dcat:startDate": _day(told.start), "dcat:endDate": _day(told.end)}
        found["dct:temporal"] = {"@type": "dct:PeriodOfTime", **days}
    if content.facts.restates is not None:
        found["adms:versionNotes"] = _english(content.facts.restates.reason)
    return found


def _distribution(
    told: Told, path: str, form: Format, title: str, description: str, files: Mapping[str, bytes]
) -> dict[str, Any]:
    checksum = {
        "@type": "spdx:Checksum",
        "spdx:algorithm": {"@id": _SHA256},
        "spdx:checksumValue": {"@type": "xsd:hexBinary", "@value": digest_in(files, path)},
    }
    return {
        "@id": f"{path}#distribution",
        "@type": "dcat:Distribution",
        "dct:title": _english(title),
        "dct:description": _english(description),
        "dcat:accessURL": {"@id": path},
        "dcat:downloadURL": {"@id": path},
        "dct:format": {"@id": f"{_AUTHORITY}file-type/{_FILE_TYPES[form.name]}"},
        "dcat:mediaType": {"@id": _media(form)},
        "dcat:byteSize": {"@type": "xsd:nonNegativeInteger", "@value": str(size_in(files, path))},
        "dcatap:availability": {"@id": f"{_AUTHORITY}planned-availability/STABLE"},
        "spdx:checksum": checksum,
        **({"dct:license": {"@id": told.licence}} if told.licence else {}),
        **({"dct:issued": _day(told.issued)} if told.issued else {}),
    }


def _things(content: Content, told: Told, forms: Mapping[str, Format]) -> list[dict[str, Any]]:
    """What the entry points at, each with its type."""
    found: list[dict[str, Any]] = [
        {"@id": f"{_AUTHORITY}language/ENG", "@type": "dct:LinguisticSystem"},
        {"@id": f"{_AUTHORITY}access-right/PUBLIC", "@type": "dct:RightsStatement"},
    ]
    if forms:
        stable = {"@id": f"{_AUTHORITY}planned-availability/STABLE", "@type": "skos:Concept"}
        found += [{**stable, "skos:prefLabel": _english("stable")}, {"@id": _SHA256, "@type": "spdx:ChecksumAlgorithm"}]
    kinds = sorted({_FILE_TYPES[name] for name in forms})
    found += [{"@id": f"{_AUTHORITY}file-type/{kind}", "@type": "dct:MediaTypeOrExtent"} for kind in kinds]
    found += [{"@id": _media(form), "@type": "dct:MediaType"} for form in forms.values()]
    if "html" in content.plan.publish.formats:
        found.append({"@id": "index.html", "@type": "foaf:Document"})
    if told.publisher:
        found.append({"@id": "#publisher", "@type": "foaf:Agent", "foaf:name": _english(told.publisher)})
    if told.contact:
        mail = {"vcard:hasEmail": {"@id": f"mailto:{told.email}"}} if told.email else {}
        kind = {"@id": "#contact", "@type": ["vcard:Kind", "vcard:Organization"]}
        found.append({**kind, "vcard:fn": told.publisher or told.contact, **mail})
    if told.licence:
        found.append({"@id": told.licence, "@type": "dct:LicenseDocument"})
    if told.spatial:
        words = {} if is_address(told.spatial) else {"skos:prefLabel": _english(told.spatial)}
        found.append({"@id": _place(told), "@type": "dct:Location", **words})
    return found


def _place(told: Told) -> str:
    return told.spatial if is_address(told.spatial) else "#place"


def _media(form: Format) -> str:
    return f"https://www.iana.org/assignments/media-types/{form.media_type}"


def _english(text: str) -> dict[str, str]:
    return {"@language": "en", "@value": text}


def _day(text: str) -> dict[str, str]:
    return {"@type": "xsd:date", "@value": text}
