"""Signed bundles: what others' tools make of them, and what is no signature of one."""

from __future__ import annotations

import base64
import copy
import json
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from dprelease.canonical import dumps, sha256
from dprelease.errors import BrokenPromiseError
from dprelease.publish import Publication, render
from dprelease.publish.manifest import PAYLOAD_TYPE, SIGNATURE_FILE, Manifest, fault, signature_file, statement
from dprelease.signature import PrivateKey, PublicKey
from tests.unit.publish_example import facts, measurements, plan


@cache
def key() -> PrivateKey:
    return PrivateKey.new()


@cache
def published(key: PrivateKey) -> Publication:
    return render(plan(), measurements(), facts(plan(), signer=key.public.text), key)


def manifest() -> Manifest:
    return Manifest.from_canonical(published(key()).files["manifest.json"])


def envelope() -> Any:
    return json.loads(published(key()).files[SIGNATURE_FILE])


def test_the_example_of_the_dsse_protocol_is_encoded_as_it_says() -> None:
    """The key, payload and signature of the protocol's test vector are ECDSA; its encoding is what both share."""
    from securesystemslib.dsse import Envelope

    data = Envelope(b"hello world", "http://example.com/HelloWorld", {})
    assert data.pae() == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    made = key().sign_envelope("http://example.com/HelloWorld", b"hello world")
    assert made == base64.b64encode(key()._key.sign(data.pae())).decode()


def _their_key(public: PublicKey) -> Any:
    from securesystemslib.signer._key import SSlibKey

    return SSlibKey(public.fingerprint, "ed25519", "ed25519", {"public": public.raw.hex()})


def test_securesystemslib_accepts_our_envelope_and_refuses_another_key() -> None:
    from securesystemslib.dsse import Envelope
    from securesystemslib.exceptions import VerificationError

    theirs = Envelope.from_dict(copy.deepcopy(envelope()))
    assert theirs.payload_type == PAYLOAD_TYPE
    assert set(theirs.verify([_their_key(key().public)], 1)) == {key().public.fingerprint}
    other = _their_key(PrivateKey.new().public)
    other.keyid = key().public.fingerprint
    with pytest.raises(VerificationError):
        theirs.verify([other], 1)


def test_we_accept_what_securesystemslib_signs() -> None:
    from securesystemslib.dsse import Envelope
    from securesystemslib.signer._crypto_signer import CryptoSigner

    signer = CryptoSigner(key()._key, _their_key(key().public))
    theirs = Envelope(statement(manifest()), PAYLOAD_TYPE, {})
    theirs.sign(signer)
    assert fault((dumps(theirs.to_dict()) + "\n").encode(), manifest()) == ""


def test_the_statement_is_in_toto_and_names_every_file() -> None:
    files, payload = published(key()).files, base64.b64decode(envelope()["payload"])
    said = json.loads(payload)
    assert (said["_type"], said["predicateType"]) == (
        "https://in-toto.io/Statement/v1",
        "https://dprelease.org/release/v1",
    )
    assert {each["name"]: each["digest"] for each in said["subject"]} == {
        name: {"sha256": sha256(data)} for name, data in files.items() if name not in manifest().beside[1:]
    }
    assert said["predicate"] == {
        "release": "regional-monitor",
        "period": "2024-03",
        "plan_fingerprint": plan().fingerprint(),
        "spec_fingerprint": "5" * 64,
        "ledger": {"sequence": 17, "hash": facts(plan()).ledger_hash},
        "signer": key().public.text,
    }
    assert payload == dumps(said).encode()


def test_signing_again_gives_the_same_bytes() -> None:
    made = render(plan(), measurements(), facts(plan(), signer=key().public.text), key())
    assert made.files == published(key()).files


def test_the_manifest_names_the_signer_and_an_unsigned_one_says_so() -> None:
    assert (manifest().signature, manifest().signer) == (SIGNATURE_FILE, key().public.text)
    plain = render(plan(), measurements(), facts(plan())).files
    unsigned = Manifest.from_canonical(plain["manifest.json"])
    assert (unsigned.signature, unsigned.signer, SIGNATURE_FILE in plain) == ("unsigned", "", False)


def test_facts_and_key_must_name_one_signer() -> None:
    for named, used in ((key().public.text, None), ("", key()), (PrivateKey.new().public.text, key())):
        with pytest.raises(BrokenPromiseError) as caught:
            render(plan(), measurements(), facts(plan(), signer=named), used)
        assert caught.value.code == "DPR-W108"
    with pytest.raises(ValueError, match="key that it names"):
        signature_file(manifest(), PrivateKey.new())


def test_an_approval_is_no_envelope_and_an_envelope_no_approval() -> None:
    """One key may approve plans and sign releases: neither signature can be taken for the other."""
    payload = statement(manifest())
    enveloped = key().sign_envelope(PAYLOAD_TYPE, payload)
    for purpose in ("", PAYLOAD_TYPE, "approval of a plan"):
        assert not key().public.signed(enveloped, purpose, payload)
        assert not key().public.checks_envelope(key().sign(purpose, payload), PAYLOAD_TYPE, payload)
    assert key().public.checks_envelope(enveloped, PAYLOAD_TYPE, payload)


def test_the_type_does_not_reach_into_the_payload() -> None:
    made = key().sign_envelope("ab", b"c")
    assert key().public.checks_envelope(made, "ab", b"c")
    for kind, payload in (("a", b"bc"), ("ab 1", b"c"), ("ab", b"c "), ("", b"abc")):
        assert not key().public.checks_envelope(made, kind, payload)


def _again(content: Any) -> bytes:
    return (dumps(content) + "\n").encode()


def _changed(**changes: Any) -> bytes:
    return _again({**envelope(), **changes})


def _signature(**changes: Any) -> bytes:
    return _changed(signatures=[{**envelope()["signatures"][0], **changes}])


def _restated(**changes: Any) -> bytes:
    """Another statement, signed with the right key: what only whoever has the key can make."""
    payload = dumps({**json.loads(base64.b64decode(envelope()["payload"])), **changes}).encode()
    sig = key().sign_envelope(PAYLOAD_TYPE, payload)
    return _changed(
        payload=base64.b64encode(payload).decode(), signatures=[{"keyid": key().public.fingerprint, "sig": sig}]
    )


WRONG: dict[str, tuple[Any, str]] = {
    "nothing": (lambda: b"", "not one signature"),
    "no JSON": (lambda: b"\xff", "not one signature"),
    "deep": (lambda: b"[" * 100_000, "not one signature"),
    "a list": (lambda: b"[]\n", "not one signature"),
    "spaces": (lambda: json.dumps(envelope()).encode(), "not one signature"),
    "no end of line": (lambda: _again(envelope())[:-1], "not one signature"),
    "another type": (lambda: _changed(payloadType="text/plain"), "not one signature"),
    "a name twice": (lambda: _again(envelope()).replace(b"{", b'{"payload":"",', 1), "not one signature"),
    "no signatures": (lambda: _changed(signatures=[]), "not one signature"),
    "two signatures": (lambda: _changed(signatures=envelope()["signatures"] * 2), "not one signature"),
    "more fields": (lambda: _changed(more="x"), "not one signature"),
    "no payload": (lambda: _changed(payload=None), "not one signature"),
    "payload spelled otherwise": (lambda: _changed(payload=envelope()["payload"] + "\n"), "not one signature"),
    "another keyid": (lambda: _signature(keyid="0" * 16), "says that it is of key 0000"),
    "no signature": (lambda: _signature(sig=""), "is not one of key"),
    "another's": (lambda: _signature(sig=PrivateKey.new().sign_envelope(PAYLOAD_TYPE, b"x")), "is not one of key"),
    "for a purpose": (lambda: _signature(sig=key().sign("release", statement(manifest()))), "is not one of key"),
    "payload swapped": (lambda: _changed(payload=base64.b64encode(b"{}").decode()), "is not one of key"),
    "no statement": (lambda: _restated(_type=""), "differs in _type"),
    "a file more": (lambda: _restated(subject=[]), "differs in subject"),
    "another predicate": (lambda: _restated(predicateType="x", predicate={}), "differs in predicate, predicateType"),
    "a field more": (lambda: _restated(more="x"), "differs in form"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_signature_of_the_bundle_is_told(name: str) -> None:
    made, says = WRONG[name]
    assert says in fault(made(), manifest())


def test_the_right_one_is() -> None:
    assert fault(_again(envelope()), manifest()) == ""
    assert "is not one of key" in fault(
        _again(envelope()), manifest().model_copy(update={"signer": PrivateKey.new().public.text})
    )
    assert "signer that the manifest names" in fault(_again(envelope()), manifest().model_copy(update={"signer": "me"}))


def ssh_keygen(*arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    program = shutil.which("ssh-keygen")
    if program is None:
        pytest.skip("there is no ssh-keygen here")
    return subprocess.run([program, *arguments], input=given, capture_output=True, timeout=60, check=False)


def bundle_in(folder: Path) -> Path:
    for name, data in published(key()).files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def test_openssh_and_sha256sum_accept_the_bundle_and_see_a_changed_byte(tmp_path: Path) -> None:
    """As a stranger types it, with what every Linux and macOS has."""
    at = bundle_in(tmp_path / "bundle")
    (tmp_path / "office.allowed").write_text(key().public.ssh_line("statistics@example.org") + "\n")
    line = ["-Y", "verify", "-f", str(tmp_path / "office.allowed"), "-I", "statistics@example.org", "-n", "file"]
    line += ["-s", str(at / "SHA256SUMS.sig")]
    sums = (at / "SHA256SUMS").read_bytes()
    assert ssh_keygen(*line, given=sums).returncode == 0
    assert ssh_keygen(*line, given=sums.replace(b"0", b"1", 1)).returncode != 0
    (tmp_path / "office.allowed").write_text(PrivateKey.new().public.ssh_line("statistics@example.org") + "\n")
    assert ssh_keygen(*line, given=sums).returncode != 0
    check = ["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"]
    if shutil.which("sha256sum"):
        assert subprocess.run(check, cwd=at, check=False, capture_output=True).returncode == 0
        (at / "index.html").write_bytes(b"x")
        assert b"index.html: FAILED" in subprocess.run(check, cwd=at, check=False, capture_output=True).stdout


def test_we_write_what_openssh_writes_with_the_same_key(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    private = key()._key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    (tmp_path / "key").write_bytes(private)
    (tmp_path / "key").chmod(0o600)
    (tmp_path / "SHA256SUMS").write_bytes(published(key()).files["SHA256SUMS"])
    assert (
        ssh_keygen("-Y", "sign", "-f", str(tmp_path / "key"), "-n", "file", str(tmp_path / "SHA256SUMS")).returncode
        == 0
    )
    assert (tmp_path / "SHA256SUMS.sig").read_bytes() == published(key()).files["SHA256SUMS.sig"]


def test_a_signature_for_openssh_has_one_spelling_and_one_purpose() -> None:
    data = published(key()).files["SHA256SUMS"]
    armour = key().sign_ssh(data)
    assert key().public.checks_ssh(armour, data)
    assert not key().public.checks_ssh(armour, data + b"x")
    assert not PrivateKey.new().public.checks_ssh(armour, data)
    other = (
        b"",
        b"x",
        armour[:-1],
        armour + b"\n",
        armour.replace(b"\n", b"\r\n"),
        armour.replace(b"SSH SIG", b"SSH  SIG"),
    )
    assert not any(key().public.checks_ssh(each, data) for each in other)
    raw = base64.b64decode(b"".join(armour.split(b"\n")[1:-2]))[-64:]
    assert not key().public.signed(base64.b64encode(raw).decode(), "file", data)


def test_every_file_is_in_the_checksums_but_they_themselves() -> None:
    files = published(key()).files
    lines = [line.split("  ", 1) for line in files["SHA256SUMS"].decode().splitlines()]
    listed = {name: digest for digest, name in lines}
    assert listed == {name: sha256(data) for name, data in files.items() if not name.startswith("SHA256SUMS")}
    assert list(listed) == sorted(listed)
