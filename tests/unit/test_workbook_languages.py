"""The workbook in every language of its release: other words, the same numbers in the same places."""

from __future__ import annotations

from io import BytesIO

from openpyxl import load_workbook

from tests.unit.languages_example import bundle


def cells_of(path: str) -> tuple[list[str], dict[str, list[object]]]:
    """The names of the sheets of a workbook, and the values of the cells of each by its place among them."""
    book = load_workbook(BytesIO(bundle()[path]))
    return book.sheetnames, {
        str(at): [cell.value for row in sheet.iter_rows() for cell in row] for at, sheet in enumerate(book)
    }


def test_the_workbook_speaks_each_language_and_has_the_same_numbers_in_all() -> None:
    names, german = cells_of("tables/workbook.xlsx")
    english_names, english = cells_of("en/tables/workbook.xlsx")
    assert (names[:3], english_names[:3]) == (["Titelblatt", "Inhalt", "Erläuterungen"], ["Cover", "Contents", "Notes"])
    assert names[3:] == english_names[3:]
    for at in german:
        numbers = [[each for each in book[at] if isinstance(each, int | float)] for book in (german, english)]
        assert numbers[0] == numbers[1], names[int(at)]
        assert len(german[at]) == len(english[at]), names[int(at)]
    said = {
        tag: " ".join(str(each) for sheet in book.values() for each in sheet)
        for tag, book in (("de", german), ("en", english))
    }
    assert "Mittleres Einkommen (EUR): Fehlermarge" in said["de"]
    assert "Mean income (EUR): margin" in said["en"]
    assert "Nur Zeilen, bei denen das Einkommen über 0 liegt." in said["de"]
    assert "Only rows where the income is above 0." in said["en"]
    assert "Kreuztabellen: Region × Muttersprache" in said["de"]
    assert "Cross-tabulations: Region of residence × Mother tongue" in said["en"]
    for english_word in ("margin", "Back to", "estimate", "the noise", "This sheet"):
        assert english_word not in said["de"], english_word
