"""Which publication a certificate says that it is of, and where its pages end."""

from __future__ import annotations

import io
import re

import pytest

from dprelease.publish.certificate.blocks import BlockColumn, BlockText, CertificateTable
from dprelease.publish.certificate.compiler import compiled
from dprelease.publish.certificate.office import identified
from dprelease.publish.certificate.pdf import certificate_data
from tests.unit.formats_example import plain
from tests.unit.test_certificate import MOMENT

pypdf = pytest.importorskip("pypdf")


def test_the_version_is_that_of_catalogues_where_the_office_counts_none() -> None:
    content = plain()
    for changed, version in (({}, "1"), ({"restatement": 2, "revision": 1}, "3.1")):
        release = content.plan.release.model_copy(update=changed)
        plan = content.plan.model_copy(update={"release": release})
        assert identified(plan, content.facts)[0] == ("Version", version)


@pytest.mark.parametrize("lines", [1, 400])
def test_a_short_table_is_whole_on_one_page_and_one_with_long_statements_is_not_cut_off(lines: int) -> None:
    """A table of four rows after 44 lines: its last row alone on the next page, or statements of several pages."""
    said = "".join(f"Statement {at} of the office. " for at in range(lines))
    data = certificate_data(plain())
    space = [BlockText(f"line {at}").as_data() for at in range(44)]
    table = CertificateTable(
        "Short", (BlockColumn("What"), BlockColumn("Statement", 3)), tuple((f"row{at}", said) for at in range(4))
    )
    reader = pypdf.PdfReader(io.BytesIO(compiled({**data, "blocks": [*space, table.as_data()]}, MOMENT)))
    pages = [page.extract_text() for page in reader.pages]
    assert (
        len({at for at, text in enumerate(pages) if re.search(r"row\d", text)}) == 1 if lines == 1 else len(pages) > 4
    )
    assert sum(len(re.findall(rf"Statement {lines - 1} ", text)) for text in pages) == 4
