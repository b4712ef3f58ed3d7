"""``verify.html`` without a browser: its policy, its keys, and its arithmetic beside that of the accountants."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
from fractions import Fraction
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from dprelease.errors import SpecError
from dprelease.privacy.accountants.zcdp import total_rho
from dprelease.privacy.event import (
    Approximate,
    BoundedRange,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    KeySelection,
    KNorm,
    Parallel,
    RandomScale,
    Repeated,
    Sensitivity,
    TotalResidual,
)
from dprelease.privacy.theorems.concentrated import rho_to_epsilon
from dprelease.privacy.unit import Neighboring
from dprelease.publish import Check
from dprelease.publish.bundle.checks.checking_page import SCRIPTS, checking_page, said_by
from dprelease.release.check import conclusion
from dprelease.release.publishing.checking_page import write_checking_page
from dprelease.signature import PrivateKey, PublicKey
from dprelease.words.catalogue import places

KEY = PublicKey.from_text("ed25519:11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=")
SOURCES = files("dprelease.publish") / "templates" / "checking"
ONE = Sensitivity.of_one_cell(1)
THIRD = BoundedRange(epsilon=Fraction(1, 3))
NOISE = DiscreteLaplace(scale=Fraction(3), sensitivity=ONE)
THREE = ("1/3", "12", "9999999/7")
EVENTS: tuple[Event, ...] = (
    *(
        KNorm(ball=ball, dimension=k, scale=Fraction(scale), gauge=Fraction(1))
        for ball in ("count", "linf")
        for k, scales in ((1, THREE), (2, THREE), (7, THREE), (40, THREE[1:2]))  # a second for each of the last
        for scale in scales
    ),
    KNorm(ball="count", dimension=3, scale=Fraction(5), gauge=Fraction(2)),
    DiscreteLaplace(scale=Fraction(7, 3), sensitivity=Sensitivity.of_shifts((3, 1), (2, 2))),
    DiscreteLaplace(scale=Fraction(10**9), sensitivity=Sensitivity.of_shifts((3, 1), (2, 2))),
    DiscreteLaplace(scale=Fraction(7, 3), sensitivity=Sensitivity(l0=2, l1=3, l2_squared=5, linf=2)),
    DiscreteLaplace(scale=Fraction(1, 9), sensitivity=Sensitivity.of_one_cell(200)),
    DiscreteGaussian(scale=Fraction(7, 3), sensitivity=Sensitivity.of_shifts((3, 1)), common=Fraction(5)),
    RandomScale(
        dimension=3,
        total=Fraction(1),
        scale=Fraction(3),
        stretches=(Fraction(1, 2), Fraction(2)),
        weights=(1, 2),
        rows=2,
    ),
    THIRD,
    Approximate(epsilon=Fraction(1, 3), delta=Fraction(1, 10**6)),
    Repeated(event=THIRD, count=7),
    KeySelection(noise=NOISE, threshold=20, keys=1, delta=Fraction(1, 10**8)),
    Parallel(events=(NOISE, THIRD)),
    Parallel(events=(NOISE, THIRD), neighboring=Neighboring.REPLACE_ONE),
    Composed(events=(NOISE, THIRD, NOISE)),
)


def in_node(program: str, given: object) -> list[Any]:
    """What the scripts of the page, without the page itself, work out of some JSON."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no node here")
    source = "".join((SOURCES / name).read_text(encoding="utf-8") for name in SCRIPTS if name != "page.js")
    text = f"{source}\nconst given = JSON.parse(require('fs').readFileSync(0, 'utf8'));\n{program}"
    done = subprocess.run(
        [node, "-e", text], input=json.dumps(given), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout))


def test_rho_is_between_the_bounds_that_the_page_works_out_for_every_kind_of_draw() -> None:
    """They are apart by 1e-15 at most, which the rounding of one chance to 53 bits needs; elsewhere by 1e-25."""
    shown = in_node(
        "const sixteen = (q) => [q.n.toString(16), q.d.toString(16)];"  # of any length
        "console.log(JSON.stringify(given.map((e) => { const x = loss(e);"
        "return [x.exact, sixteen(x.low), sixteen(x.high)]; })));",
        [json.loads(event.canonical()) for event in EVENTS],
    )
    for event, (exact, low, high) in zip(EVENTS, shown, strict=True):
        rho, (least, most) = total_rho(event), (Fraction(int(n, 16), int(d, 16)) for n, d in (low, high))
        assert exact
        # What is published is rounded up in its 30th digit.
        assert least <= rho <= most * (1 + Fraction(1, 10**25)), event
        room = Fraction(1, 10**15) if isinstance(event, KNorm) and event.gauge == 1 else Fraction(1, 10**25)
        assert most - least <= most * room, event


def test_what_it_has_no_exact_formula_for_it_bounds_and_says_so() -> None:
    event = TotalResidual(dimension=3, share=Fraction(1, 3), scale=Fraction(2), rows=1)
    ((exact, high),) = in_node(
        "console.log(JSON.stringify(given.map((e) => { const x = loss(e); return [x.exact, `${x.high.n}/${x.high.d}`]; })));",
        [json.loads(event.canonical())],
    )
    assert not exact
    assert total_rho(event) <= Fraction(high)


def test_epsilon_is_never_below_that_of_the_best_order_and_hardly_above() -> None:
    cases = [(rho, delta) for rho in ("1/1000000", "1/25", "5/2", "300") for delta in ("1e-15", "1e-9", "0.01")]
    shown = in_node(
        "console.log(JSON.stringify(given.map(([rho, delta]) => {"
        "const e = epsilonUpper(rational(rho), rational(delta)); return `${e.n}/${e.d}`; })));",
        cases,
    )
    for (rho, delta), text in zip(cases, shown, strict=True):
        best = rho_to_epsilon(Fraction(rho), Fraction(delta))
        assert best * (1 - Fraction(1, 10**9)) <= Fraction(str(text)) <= best * (1 + Fraction(1, 10**6)), (rho, delta)


def test_signatures_are_those_of_rfc_8032_and_nothing_near_them() -> None:
    """Test 3 of section 7.1; a flipped bit, an s of L or more, and a key of order 4 are refused."""
    key = "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025"
    signature = (
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
        "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"
    )
    order = 2**252 + 27742317777372353535851937790883648493
    s = int.from_bytes(bytes.fromhex(signature)[32:], "little") + order
    cases = [
        (key, signature, "af82"), (key, signature, "af83"), (key, signature[:64] + s.to_bytes(32, "little").hex(), "af82"),
        ("00" * 32, "01" + "00" * 63, "af82"), (key, signature[:-2], "af82"),
    ]  # fmt: skip
    shown = in_node(
        "const raw = (t) => Uint8Array.from(Buffer.from(t, 'hex'));"
        "Promise.all(given.map(([k, s, m]) => ed25519(raw(k), raw(s), raw(m)))).then((all) => console.log(JSON.stringify(all)));",
        cases,
    )
    assert shown == [True, False, False, False, False]


def test_the_policy_allows_the_script_and_the_style_of_the_page_and_nothing_else() -> None:
    text = checking_page([("Office", KEY)]).decode()
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    parts = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert {name: parts[name] for name in ("default-src", "base-uri", "form-action")} == {
        "default-src": "'none'", "base-uri": "'none'", "form-action": "'none'",
    }  # fmt: skip
    for tag, name in (("script", "script-src"), ("style", "style-src")):
        (body,) = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        assert parts[name] == f"'sha256-{base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()}'"
    assert set(parts) == {"default-src", "script-src", "style-src", "base-uri", "form-action"}
    assert not re.search(r"(src|href|action)=|@import|url\(", text)
    assert "innerHTML" not in text


def test_the_name_of_a_key_cannot_end_the_script() -> None:
    text = checking_page([('</script><img src=x>"\u202e', KEY)]).decode()
    assert text.count("</script>") == 3
    assert "<img" not in text
    assert checking_page([("Office", KEY)]) == checking_page([("Office", KEY)])


def test_it_is_written_apart_from_bundles_for_keys_that_have_names(tmp_path: Path) -> None:
    (tmp_path / "office.pub").write_text(f"{KEY.text} The office, since 2024\n")
    digest = write_checking_page(tmp_path / "verify.html", [(str(tmp_path / "office.pub"), KEY), (KEY.text, KEY)])
    data = (tmp_path / "verify.html").read_bytes()
    assert hashlib.sha256(data).hexdigest() == digest
    assert b"The office, since 2024" in data
    assert f"the holder of key {KEY.fingerprint}".encode() in data
    with pytest.raises(SpecError) as none:
        write_checking_page(tmp_path / "verify.html", [])
    (tmp_path / "bundle" / "tables").mkdir(parents=True)
    (tmp_path / "bundle" / "manifest.json").write_text("{}")
    with pytest.raises(SpecError) as inside:
        write_checking_page(tmp_path / "bundle" / "tables" / "verify.html", [(KEY.text, KEY)])
    with pytest.raises(SpecError) as nowhere:
        write_checking_page(tmp_path / "none" / "verify.html", [(KEY.text, KEY)])
    assert [each.value.code for each in (none, inside, nowhere)] == ["DPR-K124", "DPR-K123", "DPR-K125"]


def test_all_checks_together_say_one_sentence() -> None:
    def said(signature: bool | None, signer: bool | None, other: bool | None = True) -> str:
        return conclusion([Check("signature", signature), Check("signer", signer), Check("files", other)])

    assert said(True, True).startswith("These are the files that the holder of the given key signed")
    assert "give it with --key" in said(True, None)
    assert "nobody signed them" in said(None, None)
    assert said(True, True, None) == said(True, True)
    for signature, signer, other in ((False, True, True), (True, False, True), (None, None, False)):
        assert said(signature, signer, other) == "Do not rely on these files: 1 of 3 checks failed."
    assert PrivateKey.new().public.ssh_line("a@b").startswith('a@b namespaces="file" ssh-ed25519 AAAA')


def test_whatever_a_script_says_or_refuses_is_one_sentence_that_every_language_has() -> None:
    for name in SCRIPTS:
        text = (SOURCES / name).read_text(encoding="utf-8")
        calls = len(re.findall(r"(?<!function )(?<!\.)\b(?:say|refusal)\((?!text|place)", text))
        assert calls == len(said_by(text)), name
        assert "Error(" not in text.replace("Error(String(said))", ""), name
    page = checking_page([]).decode()
    words = json.loads(re.search(r'id="words">(.*?)</script>', page)[1])  # type: ignore[index]
    for tag, said in words.items():
        for english, other in said.items():
            assert places(english) == places(other), (tag, english)
            assert english.count("`") == other.count("`"), (tag, english)
