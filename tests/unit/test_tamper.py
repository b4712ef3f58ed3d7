"""What was done to a bundle, and which checks name it: without a signature, with one, and where the key is known.

Somebody who changes a file can make the hashes again (``reseal``), and somebody who has this program can make a whole
bundle from other numbers. ``CASES`` are found by what the files say of one another; a signature finds all of them but
those that leave the manifest alone, once more. ``ONLY_SIGNED`` are found by a signature alone, and some of those only
where the reader knows the key.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path

import pytest

from dprelease.canonical import dumps
from dprelease.privacy.budget import Loss
from dprelease.publish import Publication, check_bundle, render, write
from dprelease.publish.bundle.checks.whole_bundle import CHECKS
from dprelease.publish.certificate import pdf as certificate
from dprelease.publish.manifest import PAYLOAD_TYPE
from dprelease.release.check import check_release
from dprelease.signature import PrivateKey
from tests.accountants import ANY_NOISE
from tests.planned import SPEC, plan_of
from tests.unit.tamper_example import (
    OURS,
    THEIRS,
    Folder,
    added,
    bundle,
    case_folded,
    changed,
    dropped,
    linked,
    linked_folder,
    lowered,
    lowered_scale,
    made,
    numbers,
    old_manifest,
    renamed,
    rewritten,
    swapped_files,
    swapped_rows,
    told,
)

ROWS, SUMS = "measurements/population.rows.csv", "measurements/income.income-sum.csv"
SUMMED = {"SHA256SUMS"}
FILES, AGAIN, ALL = {"files", "rendered again"}, {"rendered again"}, set(CHECKS) - {"signer", "versions"}
NO_PLAN = {"plan", "accounting", "tables", "measurements", "values"}

# What was done, which checks fail, and whether the manifest still says what it said.
CASES: dict[str, tuple[Callable[[Folder], None], set[str], bool]] = {
    "a page is flipped": (lambda at: at.flip("index.html"), FILES, True),
    "the report is flipped": (lambda at: at.flip("accounting.html"), FILES, True),
    "the accounting is flipped": (lambda at: at.flip("accounting.json"), FILES | {"accounting"}, True),
    "a CSV file is flipped": (lambda at: at.flip("tables/income.csv"), FILES | {"tables", "values"}, True),
    "a Parquet file is flipped": (lambda at: at.flip("tables/income.parquet"), FILES | {"tables", "values"}, True),
    "a measurement is flipped": (lambda at: at.flip(SUMS), FILES | {"measurements", "values"}, True),
    "the recipe is flipped": (lambda at: at.flip("measurements/recipe.json"), FILES, True),
    "the plan is flipped": (lambda at: at.flip("plan.json"), FILES | NO_PLAN, True),
    "the facts are flipped": (lambda at: at.flip("facts.json"), FILES | {"facts"}, True),
    "a table is cut short": (lambda at: at.put("tables/each.csv", at.read("tables/each.csv")[:-9]), FILES | {"tables"}, True),
    "line ends of a table are changed": (lambda at: at.put("tables/income.csv", at.read("tables/income.csv").replace(b"\r\n", b"\n")), FILES | {"tables", "values"}, True),
    "a table is dropped": (dropped("tables/population.csv"), FILES | {"tables", "values"}, True),
    "a page is dropped": (dropped("index.html"), FILES, True),
    "a page is dropped, hashes made again": (dropped("index.html", sealed=True), AGAIN, False),
    "a measurement is dropped, hashes made again": (dropped(ROWS, sealed=True), AGAIN | {"measurements", "values"}, False),
    "the manifest is dropped": (dropped("manifest.json"), set(CHECKS), True),
    "a file is added": (added("tables/more.csv"), {"nothing else"}, True),
    "a file is added, hashes made again": (added("tables/more.csv", sealed=True), AGAIN, False),
    "a hidden file is added": (added(".index.html.swp"), {"nothing else"}, True),
    "a table is renamed": (renamed("tables/income.csv", "tables/Income.csv"), FILES | {"tables", "values", "nothing else"}, True),
    "a table is renamed, hashes made again": (renamed("tables/income.csv", "tables/Income.csv", sealed=True), AGAIN | {"tables", "values"}, False),
    "a table is a link": (linked, FILES | {"tables", "values"}, True),
    "a folder is a link": (linked_folder, FILES | {"tables", "values", "nothing else"}, True),
    "two rows swap numbers": (swapped_rows, AGAIN | {"values"}, False),
    "two tables swap files": (swapped_files, AGAIN | {"tables", "values"}, False),
    "a derived number is changed": (changed("tables/each.csv", b"400001.0", b"400002.0"), AGAIN | {"tables"}, False),
    "a margin is made smaller": (changed("tables/population.csv", b",15,", b",14,"), AGAIN | {"values"}, False),
    "a flag is taken off": (changed("tables/population.csv", b",ok\r\n", b",unreliable\r\n"), AGAIN | {"values"}, False),
    "06 becomes 6": (changed("tables/income.csv", b'"06"', b'"6"'), AGAIN | {"tables"}, False),
    "epsilon is changed in the page alone": (changed("accounting.html", "ε = 1,".encode(), "ε = 0.5,".encode()), AGAIN, False),
    "a number is changed in the page alone": (changed("index.html", b"400,000,000", b"300,000,000"), AGAIN, False),
    "epsilon is changed in the accounting": (lowered("accounting.json", rb'"epsilon": "(1\.[0-9]+)"'), AGAIN | {"accounting"}, False),
    "a name stands twice in the accounting": (changed("accounting.json", b"{", b'{"release":"x",'), AGAIN, False),
    "a measurement is changed": (changed(ROWS, b",1000\r", b",1001\r"), AGAIN | {"values"}, False),
    "a measurement has one row less": (changed(ROWS, b'"06",2,6000\r\n', b""), AGAIN | {"measurements", "values"}, False),
    "a formula of the recipe is changed": (changed("measurements/recipe.json", b"x1", b"x2"), AGAIN, False),
    "the variance of the recipe is changed": (changed("measurements/recipe.json", b'"variance":"', b'"variance":"1'), AGAIN, False),
    "a scale is lowered in the plan": (lowered_scale, AGAIN | {"accounting", "values"}, False),
    "the ledger entry is changed in the facts": (rewritten("facts.json", ledger_sequence=18), AGAIN | {"facts"}, False),
    "the time is changed in the facts": (rewritten("facts.json", reserved_at="2025-04-05T06:00:03Z"), AGAIN | {"facts"}, False),
    "a reason is put into the facts": (rewritten("facts.json", changed_data=["all is well"]), AGAIN, False),
    "the signer is changed in the facts": (rewritten("facts.json", signer=THEIRS.public.text), AGAIN | {"facts"}, False),
    "a name stands twice in the facts": (changed("facts.json", b"{", b'{"signer":"",'), AGAIN | {"facts"}, False),
    "a name stands twice in the plan": (changed("plan.json", b"{", b'{"format":1,'), AGAIN | NO_PLAN, False),
    "the period is changed in the manifest": (rewritten("manifest.json", sealed=False, period="2025"), AGAIN | SUMMED | {"plan"}, False),
    "the ledger is changed in the manifest": (rewritten("manifest.json", sealed=False, ledger={"sequence": 1, "hash": "0", "reserved_at": ""}), AGAIN | SUMMED | {"accounting", "facts"}, False),
    "the checksums are flipped": (lambda at: at.flip("SHA256SUMS"), SUMMED, True),
    "the checksums are dropped": (dropped("SHA256SUMS"), SUMMED, True),
    "a name stands twice in the manifest": (changed("manifest.json", b"{", b'{"format":1,', sealed=False), set(CHECKS), True),
    "spaces in the manifest": (changed("manifest.json", b",", b", ", sealed=False), set(CHECKS), True),
    "names that are one where capitals do not count": (case_folded, set(CHECKS), True),
    "the manifest of another period": (old_manifest, AGAIN | {"files", "facts", "accounting"} | NO_PLAN, True),
}  # fmt: skip

EVERY = 3  # of so many cases `make test` takes one


def folder(files: Mapping[str, bytes], path: Path, signer: PrivateKey | None) -> Folder:
    made = Folder(path / "bundle", signer)
    made.path.mkdir(parents=True)
    made.all(files)
    return made


def failed(at: Folder, key: PrivateKey | None = None) -> set[str]:
    checks = check_bundle(at.path, key.public if key else None)
    assert [check.name for check in checks[: len(CHECKS)]] == list(CHECKS)
    assert all(check.detail for check in checks if not check.passed)
    return {check.name for check in checks if check.passed is False}


@pytest.mark.thin(every=EVERY)
@pytest.mark.parametrize("name", CASES)
def test_it_is_named_in_a_bundle_that_is_not_signed(name: str, tmp_path: Path) -> None:
    act, expected, _ = CASES[name]
    at = folder(bundle(), tmp_path, None)
    act(at)
    assert failed(at) == expected


def test_every_check_has_a_case_in_every_run() -> None:
    checks = [expected for _, expected, _ in CASES.values()]
    assert set().union(*checks[::EVERY]) == set().union(*checks)


# What is done to a bundle is found as in the test before; of what a signature adds to it every commit sees a third.
SIGNED = [pytest.param(name, marks=[pytest.mark.nightly] if at % 3 else []) for at, name in enumerate(CASES)]


@pytest.mark.thin(first=2)
@pytest.mark.parametrize("name", SIGNED)
def test_it_is_named_in_a_signed_bundle_and_a_changed_manifest_by_the_signature_as_well(
    name: str, tmp_path: Path
) -> None:
    act, expected, same_manifest = CASES[name]
    at = folder(bundle(OURS), tmp_path, OURS)
    act(at)
    assert failed(at, OURS) == expected | (set() if same_manifest else {"signature", *SUMMED})


def test_nothing_is_wrong_with_what_nobody_touched(tmp_path: Path) -> None:
    at = folder(bundle(OURS), tmp_path, OURS)
    checks = check_release(at.path, OURS.public)
    assert [check for check in checks if not check.passed] == []
    assert len(checks) > len(CHECKS) + 2


@pytest.mark.slow
def test_a_flipped_byte_is_named_in_every_file(tmp_path: Path) -> None:
    at = folder(bundle(OURS), tmp_path, OURS)
    for name, data in bundle(OURS).items():
        at.flip(name)
        wrong = failed(at)
        assert wrong & {"manifest", "files", "signature", "SHA256SUMS"}, name
        at.put(name, data)
    assert failed(at, OURS) == set()


@pytest.mark.slow
def test_what_follows_from_the_plan_is_found_even_if_all_is_made_again(tmp_path: Path) -> None:
    """A lower scale at the same loss, and a lower loss at the same scale, in bundles that agree with themselves."""
    plan = made()
    first = plan.steps[0].model_copy(update={"scale": plan.steps[0].scale / 2})
    cheaper = {name: Loss(epsilon=loss.epsilon / 2, delta=loss.delta) for name, loss in plan.loss.items()}
    for number, forged in enumerate((plan.model_copy(update={"steps": (first, *plan.steps[1:])}), plan.model_copy(update={"loss": cheaper}))):  # fmt: skip
        at = folder(render(forged, numbers(), told(forged)).files, tmp_path / str(number), None)
        assert failed(at) == set()
        wrong = {check.name for check in check_release(at.path) if check.passed is False}
        assert {"loss re-derived", "accountants agree"} <= wrong


@pytest.mark.thin(first=1)
@pytest.mark.parametrize("name", [name for name in ANY_NOISE if name != "pld"])
def test_a_figure_above_what_is_proved_now_is_true_and_named_and_one_below_is_not(name: str, tmp_path: Path) -> None:
    """As a bundle has it that was made before a tighter theorem; the smallest step that its text can show."""
    plan = made()
    assert name != plan.certified
    for number, (factor, passes) in enumerate(((1 + Fraction(1, 10**11), True), (1 - Fraction(1, 10**11), False))):
        changed = plan.loss[name].model_copy(update={"epsilon": plan.loss[name].epsilon * factor})
        other = plan.model_copy(update={"loss": {**plan.loss, name: changed}})
        at = folder(render(other, numbers(), told(other)).files, tmp_path / str(number), None)
        (found,) = [check for check in check_release(at.path) if check.name == "accountants agree"]
        assert found.passed is passes
        assert f"{name} is published as {'more' if passes else 'less'}" in found.detail


def stripped(at: Folder) -> None:
    """As if it had never been signed, in everything."""
    at.all(bundle())


def stolen(at: Folder) -> None:
    """The same numbers, signed by somebody else."""
    at.all(bundle(THEIRS))


def invented(at: Folder) -> None:
    at.all(bundle(None, "2024", 1))


def invented_and_signed(at: Folder) -> None:
    at.all(bundle(THEIRS, "2024", 1))


def dodged(at: Folder) -> None:
    """Change a page, and say that another version of its library made it."""
    at.replace("accounting.html", "ε = 1,".encode(), "ε = 0.5,".encode())
    versions = json.loads(at.read("manifest.json"))["rendered_with"]
    at.reseal(rendered_with={**versions, "jinja2": "0.0.1"})


# Nothing in these is wrong but the signature: (what was done, what fails without the key, what fails with it).
BOTH = {"signature", *SUMMED}  # the one is listed in the other
ONLY_SIGNED: dict[str, tuple[Callable[[Folder], None], set[str], set[str]]] = {
    "the signature is dropped": (dropped("manifest.sig"), BOTH, BOTH),
    "the signature is flipped": (lambda at: at.flip("manifest.sig"), BOTH, BOTH),
    "the signature of another period": (lambda at: at.put("manifest.sig", bundle(OURS, "2023")["manifest.sig"]), BOTH, BOTH),
    "the signature of somebody else": (lambda at: at.put("manifest.sig", bundle(THEIRS)["manifest.sig"]), BOTH, BOTH),
    "the payload is swapped": (rewritten("manifest.sig", sealed=False, payload=base64.b64encode(b"{}").decode()), BOTH, BOTH),
    "the type is swapped": (rewritten("manifest.sig", sealed=False, payloadType="text/plain"), BOTH, BOTH),
    "a name stands twice in the envelope": (changed("manifest.sig", b"{", b'{"payload":"",', sealed=False), BOTH, BOTH),
    "versions are changed in the manifest": (lambda at: at.reseal(rendered_with={"dprelease": "9"}), BOTH | {"sentences"}, BOTH | {"sentences"}),
    "a page is changed and its library": (dodged, BOTH, BOTH),
    "never signed": (stripped, set(), {"signer"}),
    "signed by somebody else": (stolen, set(), {"signer"}),
    "other numbers, never signed": (invented, set(), {"signer"}),
    "other numbers, signed by somebody else": (invented_and_signed, set(), {"signer"}),
    "the signature of the checksums is flipped": (lambda at: at.flip("SHA256SUMS.sig"), SUMMED, SUMMED),
    "the signature of the checksums is dropped": (dropped("SHA256SUMS.sig"), SUMMED, SUMMED),
}  # fmt: skip


@pytest.mark.thin(first=2)
@pytest.mark.parametrize("name", ONLY_SIGNED)
def test_the_signature_alone_finds_it(name: str, tmp_path: Path) -> None:
    act, without, with_key = ONLY_SIGNED[name]
    at = folder(bundle(OURS), tmp_path, OURS)
    act(at)
    assert failed(at) == without
    assert failed(at, OURS) == with_key


def test_an_envelope_for_one_file_more_is_refused_even_by_the_right_key(tmp_path: Path) -> None:
    at = folder(bundle(OURS), tmp_path, OURS)
    envelope = json.loads(at.read("manifest.sig"))
    statement = json.loads(base64.b64decode(envelope["payload"]))
    statement["subject"].append({"name": "tables/more.csv", "digest": {"sha256": "0" * 64}})
    payload = dumps(statement).encode()
    signature = {"keyid": OURS.public.fingerprint, "sig": OURS.sign_envelope(PAYLOAD_TYPE, payload)}
    at.json("manifest.sig", payload=base64.b64encode(payload).decode(), signatures=[signature])
    assert failed(at, OURS) == BOTH


def test_versions_that_are_not_here_are_named_and_what_differs_is_not_called_the_same(tmp_path: Path) -> None:
    """Who says in a bundle without a signature that another library made a page escapes that comparison, and is seen."""
    at = folder(bundle(), tmp_path, None)
    dodged(at)
    found = {check.name: check for check in check_bundle(at.path)}
    assert [name for name, check in found.items() if check.passed is False] == []
    assert found["versions"].passed is None
    assert "jinja2 0.0.1 (here: " in found["versions"].detail
    assert found["not compared"].passed is None
    assert "accounting.html" in found["not compared"].detail
    assert "could not be compared" in found["rendered again"].detail


def with_certificate_of_others(path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """A bundle whose certificate was made by something that is not here."""
    plan = plan_of(SPEC + "publish: {formats: [csv]}\n")
    with monkeypatch.context() as patch:
        patch.setattr(
            certificate, "certificate_files", lambda content, files: {"certificate.pdf": b"%PDF-1.7 of another office"}
        )
        return folder(render(plan, numbers(), told(plan)).files, path, None)


def test_what_cannot_be_made_here_is_not_called_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A certificate on a machine without the package that makes it."""
    at = with_certificate_of_others(tmp_path, monkeypatch)
    monkeypatch.setitem(sys.modules, "typst", None)  # importing it is an ImportError
    found = {check.name: check for check in check_bundle(at.path)}
    assert "certificate.pdf" in found["not compared"].detail
    assert "typst" in found["not compared"].detail
    assert "1 could not be compared" in found["rendered again"].detail


def test_a_certificate_that_weasyprint_made_is_held_against_its_hash_and_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in bundles from before typst made it: nothing is wrong with them, and a changed byte still is."""
    at = with_certificate_of_others(tmp_path, monkeypatch)
    assert failed(at) == {"rendered again"}  # of a certificate by this program
    versions = json.loads(at.read("manifest.json"))["rendered_with"]
    before = {name: version for name, version in versions.items() if name != "typst"} | {"weasyprint": "70.0"}
    at.reseal(rendered_with=before)
    found = {check.name: check for check in check_bundle(at.path)}
    assert [name for name, check in found.items() if check.passed is False] == []
    assert "made with weasyprint 70.0, which this version does without: certificate.pdf" in found["not compared"].detail
    at.flip("certificate.pdf")
    assert failed(at) == {"files", "rendered again"}


def test_values_are_compared_whatever_library_wrote_them(tmp_path: Path) -> None:
    """A Parquet file with other numbers, and a version of pyarrow that nobody has."""
    at = folder(bundle(), tmp_path, None)
    at.put("tables/population.parquet", bundle(None, "2024", 1)["tables/population.parquet"])
    versions = json.loads(at.read("manifest.json"))["rendered_with"]
    at.reseal(rendered_with={**versions, "pyarrow": "0.0.1"})
    assert failed(at) == {"values"}


def test_a_whole_bundle_of_another_period_is_a_bundle(tmp_path: Path) -> None:
    """Nothing can tell that an old bundle is shown in the place of a new one, but the period that it says itself."""
    at = folder(bundle(OURS, "2023"), tmp_path, OURS)
    assert failed(at, OURS) == set()
    assert json.loads(at.read("manifest.json"))["period"] == "2023"


def test_there_are_as_many_cases_as_were_promised() -> None:
    assert len(CASES) + len(ONLY_SIGNED) >= 25


def test_a_rehearsal_that_is_signed_is_no_rehearsal(tmp_path: Path) -> None:
    facts = told(made(), signer=OURS.public.text, rehearsal=True)
    at = folder(render(made(), numbers(), facts, OURS).files, tmp_path, OURS)
    assert failed(at, OURS) == {"facts"}


def test_writing_a_signed_bundle_again_is_allowed(tmp_path: Path) -> None:
    for files in (bundle(OURS), bundle(THEIRS), bundle(), bundle(OURS)):
        write(Publication(files), tmp_path / "bundle")
        assert {
            each.relative_to(tmp_path / "bundle").as_posix()
            for each in (tmp_path / "bundle").rglob("*")
            if each.is_file()
        } == set(files)
