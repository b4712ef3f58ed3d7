"""Signs that reorder what is shown are in no file that people review or read; right-to-left scripts need none of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from dprelease.errors import SpecError
from dprelease.publish.html_text import visible
from dprelease.release.planning import open_target, plan_release
from tests.project import POLICY, SETTINGS

SPEC = """dprelease: 1
release: {name: s, period: 2024, title: "سكان"}
privacy: {unit: {entity: person}, budget: {epsilon: 1/4, delta: 1e-9}}
references: {d: {file: d.csv, columns: {code: text, name: text}}}
tables:
  people:
    account: people
    source: {file: people.csv}
    columns:
      sex: {type: text, keys: [m, f], labels: {m: "זכר\u200f (1)", f: "أنثى\u061c"}}
      area: {type: text, keys: {reference: d, column: code}, labels: {reference: d, column: name}}
queries: {q: {table: people, by: [sex, area], measures: {n: {count: rows}}}}  # a comment
"""
SIGNS = [chr(code) for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))]


def project(folder: Path, spec: str = SPEC, reference: str = "code,name\na,القاهرة\nb,חיפה\n") -> Path:
    for name, text in {
        "dprelease.yaml": SETTINGS,
        "policy.yaml": POLICY,
        "spec.yaml": spec,
        "d.csv": reference,
    }.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder / "spec.yaml"


def refused(path: Path) -> list[tuple[str, int]]:
    with pytest.raises(SpecError) as caught:
        plan_release(open_target(path))
    return [(each.code, each.where.line if each.where else 0) for each in caught.value.problems]


def test_right_to_left_labels_are_labels_like_any_other(tmp_path: Path) -> None:
    plan = plan_release(open_target(project(tmp_path)))
    people = plan.catalog.tables["people"]
    assert list(people.column("sex").labels.values()) == ["זכר\u200f (1)", "أنثى\u061c"]
    assert list(people.column("area").labels.values()) == ["القاهرة", "חיפה"]
    assert plan.release.title == "سكان"
    assert [visible(each) for each in people.column("sex").labels.values()] == list(
        people.column("sex").labels.values()
    )


@pytest.mark.parametrize("sign", SIGNS, ids=lambda sign: f"U+{ord(sign):04X}")
def test_no_sign_that_reorders_is_taken_in_a_spec_or_a_reference(tmp_path: Path, sign: str) -> None:
    for old, new, line in (
        ("זכר", sign, 10),  # a label
        ("sex: {type", f"s{sign}: {{type", 10),
        ("keys: [m, f]", f'keys: [m, f, "{sign}x"]', 10),
        ("سكان", f"\\u{ord(sign):04x}", 2),  # written out: the plan would have the sign itself
        ("# a comment", f"# {sign}", 12),  # of whoever reviews the file
        ("title:", f"title: '{sign}', citation:", 2),
    ):
        assert old in SPEC
        found = refused(project(tmp_path, SPEC.replace(old, new)))
        assert ("DPR-S920", line) in found, (old, found)
        assert [code for code, _ in found].count("DPR-S920") == 1
    for where in ("x", "name"):
        text = "code,name\na,x\n".replace(where, sign) if where == "x" else f"code,name\n{sign}a,x\n"
        assert [code for code, _ in refused(project(tmp_path, reference=text))] == ["DPR-S602"]
    (tmp_path / "policy.yaml").write_text(f"# {sign}\n{POLICY}", encoding="utf-8")
    project_file = tmp_path / "spec.yaml"
    project_file.write_text(SPEC, encoding="utf-8")
    assert refused(project_file) == [("DPR-S920", 1)]
