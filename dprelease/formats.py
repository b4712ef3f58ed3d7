"""The formats that tables are published in, each with what the rest of the package must know of it.

This is the only list of them. It stands this low because a spec and a plan name formats, and a plan says how much
memory they take; the function that makes the files of a format is named here, and found by ``publish`` when it is
wanted. To add a format, write a module with that function below ``dprelease/publish/formats/`` and put a line here.

>>> FORMATS["csv"].paths(["income"])
('tables/income.csv', 'datapackage.json')
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from dprelease.canonical import one_of
from dprelease.words import marked

__all__ = ["CERTIFICATE", "FORMATS", "USUAL", "Format", "FormatName"]


@dataclass(frozen=True)
class Format:
    """A format, as a line of ``FORMATS``.

    Attributes:
        name: Its name in a spec.
        label: Its name on pages.
        render: The function that makes its files, as ``module:function`` below ``dprelease.publish``. It takes a
            ``publish.base.Content`` and the files made so far (those of the formats before it among them, by path), and
            returns its own files by path; the same bytes for the same arguments.
        media_type: The media type of the files that it writes for tables; of all its files where it writes none for
            tables.
        ending: Each table has a file of its own, ``tables/<table><ending>``; empty: it has none.
        once: Further files of a bundle, whatever its tables are, with a few words for the list of files on the index;
            without words a file is not listed. Other media types may be among them.
        folder: A folder, with a slash behind it, of as many files as the size of the tables makes necessary; empty:
            there is none.
        in_languages: Whether each further language of the pages has its files of ``once`` in a folder of its own.
        cost: Bytes of memory that its files take for each published number, until the bundle is written; 0 where that
            does not grow with the tables.
        waits: Whether its files of large tables wait on a disk until the bundle is written, and take no memory.
        all_digits: Whether its files for tables hold every number with all of its digits.
        any_size: Whether they do so of tables of any size.
        as_filed: Whether it takes the tables by the layout that the plan names (``measured.filed``), or as estimated.
        aside: Whether a thread of its own makes it, beside the others: for one whose library lets Python go on. It is
            given no file that was made before, and the tables as estimated.
        made_with: Packages (or ``zlib``) that its bytes depend on; a manifest names their versions.
        requires: A function, named like ``render``, that raises ``MissingExtra`` where the format cannot be made here.
    """

    name: str
    label: str
    render: str
    media_type: str
    ending: str = ""
    once: tuple[tuple[str, str], ...] = ()
    folder: str = ""
    in_languages: bool = False
    cost: int = 0
    waits: bool = False
    all_digits: bool = False
    any_size: bool = False
    as_filed: bool = True
    aside: bool = False
    made_with: tuple[str, ...] = ()
    requires: str = ""

    def path(self, table: str) -> str:
        """The file of a table, of a format that has one for each."""
        return f"tables/{table}{self.ending}"

    def paths(self, tables: Iterable[str]) -> tuple[str, ...]:
        """The files that it writes for tables of these names, but for those in ``folder``."""
        each = (self.path(name) for name in tables) if self.ending else ()
        return (*each, *(path for path, _ in self.once))

    def wrong(self, made: Iterable[str], tables: Iterable[str], languages: Iterable[str] = ()) -> tuple[str, ...]:
        """Paths that it made and does not declare, and those that it declares and did not make, in order.

        Args:
            made: Its files.
            tables: The names of the tables.
            languages: Those of its pages beside the first one, each with a folder of its own.
        """
        folders = (self.folder, *(f"{tag}/" for tag in languages)) if self.folder else ()
        found = {path for path in made if not path.startswith(folders)}
        further = {f"{tag}/{path}" for tag in languages for path, _ in self.once} if self.in_languages else set()
        return tuple(sorted(found ^ {*self.paths(tables), *further}))


_EVERY = (  # in the order in which they are made: a page links to the files that were made before it
    Format(
        name="csv",
        label="CSV",
        render="formats.datapackage:text_files",
        media_type="text/csv",
        ending=".csv",
        once=(
            (
                "datapackage.json",
                marked("what every column of the CSV files is, for programs (Frictionless Data Package)"),
            ),
        ),
        cost=120,
        waits=True,
        all_digits=True,
        any_size=True,
    ),
    Format(
        name="parquet",
        label="Parquet",
        render="formats.parquet:parquet_files",
        media_type="application/vnd.apache.parquet",
        ending=".parquet",
        cost=45,
        waits=True,
        all_digits=True,
        any_size=True,
        made_with=("pyarrow",),
    ),
    Format(
        name="json",
        label="JSON-stat",
        render="formats.jsonstat:jsonstat_files",
        media_type="application/json",
        ending=".json",
        cost=40,
        all_digits=True,
    ),
    Format(
        name="sdmx",
        label="SDMX-CSV",
        render="formats.sdmx:sdmx_files",
        media_type="application/vnd.sdmx.data+csv",
        ending=".sdmx.csv",
        cost=40,
        all_digits=True,
        any_size=True,
    ),
    Format(
        name="xlsx",
        label="Workbook",
        render="formats.xlsx:xlsx_files",
        media_type="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        once=(("tables/workbook.xlsx", marked("every table as a sheet, for Excel and LibreOffice")),),
        cost=60,
        made_with=("xlsxwriter", "zlib"),
        in_languages=True,
    ),
    Format(
        name="pdf",
        label="Certificate",
        render="certificate.pdf:certificate_files",
        media_type="application/pdf",
        once=(("certificate.pdf", marked("a summary of the accounting to sign and file")),),
        as_filed=False,
        aside=True,
        made_with=("typst",),
        requires="certificate.compiler:require_typst",
        in_languages=True,
    ),
    Format(
        name="dcat",
        label="Catalogue entry",
        render="catalogue.dcat:dcat_files",
        media_type="application/ld+json",
        once=(("dcat.jsonld", marked("the entry for data catalogues (DCAT-AP)")),),
    ),
    Format(
        name="html",
        label="Pages",
        render="site.html:html_files",
        media_type="text/html",
        once=(("index.html", ""), ("accounting.html", marked("what was spent and why"))),
        folder="pages/",
        as_filed=False,
        made_with=("jinja2",),
    ),
)
FORMATS: dict[str, Format] = {each.name: each for each in _EVERY}
USUAL = ("csv", "parquet", "xlsx", "html")  # where a spec names none
CERTIFICATE = "pdf"  # is made beside the formats that are named, unless that is switched off
FormatName = Annotated[str, one_of(lambda: FORMATS)]
