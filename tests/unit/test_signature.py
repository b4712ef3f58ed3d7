"""Keys and signatures: what verifies, what never does, and files that are refused."""

from __future__ import annotations

import base64
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from dprelease.errors import SpecError
from dprelease.signature import _D, _P, NotAKey, PrivateKey, PublicKey, new_key_files, read_private, read_public

DATA = b"what is signed"


def refused(error: SpecError) -> str:
    (problem,) = error.problems
    assert problem.hint
    assert problem.where is not None
    return problem.code


def test_the_first_vector_of_rfc_8032() -> None:
    """RFC 8032, section 7.1, test 1: the key of this seed; the library below signs the empty message as it says."""
    seed = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    key = Ed25519PrivateKey.from_private_bytes(seed)

    assert PrivateKey(key).public.raw.hex() == "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    assert key.sign(b"").hex().startswith("e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155")


def test_a_signature_is_of_one_key_one_purpose_and_these_bytes() -> None:
    key, other = PrivateKey.new(), PrivateKey.new()
    signature = key.sign("approval", DATA)

    assert key.public.signed(signature, "approval", DATA)
    assert signature == key.sign("approval", DATA)
    assert not other.public.signed(signature, "approval", DATA)
    assert not key.public.signed(signature, "manifest", DATA)
    assert not key.public.signed(signature, "approva", b"l" + DATA)
    assert not key.public.signed(signature, "approval", DATA + b"\n")


def test_no_purpose_reaches_into_the_data() -> None:
    with pytest.raises(ValueError, match="NUL"):
        PrivateKey.new().sign("a\0b", DATA)


def test_no_flipped_bit_of_a_signature_verifies() -> None:
    key = PrivateKey.new()
    signature = base64.b64decode(key.sign("approval", DATA))

    for bit in range(8 * len(signature)):
        flipped = bytearray(signature)
        flipped[bit // 8] ^= 1 << bit % 8
        assert not key.public.signed(base64.b64encode(flipped).decode(), "approval", DATA)


@pytest.mark.parametrize("text", ["", "x", "====", "AAAA", "é", "\ud800"])
def test_what_is_no_signature_is_no_error(text: str) -> None:
    assert not PrivateKey.new().public.signed(text, "approval", DATA)


def test_a_signature_has_one_spelling() -> None:
    key = PrivateKey.new()
    signature = key.sign("approval", DATA)  # 64 bytes: the last sign before == has four bits that mean nothing
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    other = signature[:-3] + alphabet[alphabet.index(signature[-3]) ^ 1] + "=="

    assert base64.b64decode(other) == base64.b64decode(signature)
    assert not key.public.signed(other, "approval", DATA)
    assert not key.public.signed(signature + "\n", "approval", DATA)


def test_a_public_key_reads_back_and_has_one_spelling() -> None:
    public = PrivateKey.new().public

    assert PublicKey.from_text(public.text) == public
    assert len(public.fingerprint) == 16
    for wrong in (
        "",
        public.text[8:],
        public.text.upper(),
        f" {public.text}",
        f"{public.text}\n",
        public.text.replace("=", ""),
        f"ed25519:{base64.b64encode(public.raw[:31]).decode()}",
        f"ed25519:{public.raw.hex()}",
        f"ecdsa:{public.text[8:]}",
    ):
        with pytest.raises(NotAKey) as caught:
            PublicKey.from_text(wrong)
        assert caught.value.reason
        assert "dprelease keys show" in caught.value.hint


def small_order_keys() -> list[bytes]:
    """Points of order 1, 2, 4 and 8, found by solving for them: 8 points, each sign bit that has one."""
    root_of_minus_one = pow(2, (_P - 1) // 4, _P)

    def root(square: int) -> int | None:
        found = pow(square, (_P + 3) // 8, _P)
        for each in (found, found * root_of_minus_one % _P):
            if each * each % _P == square % _P:
                return each
        return None

    d_root = root(1 + _D)
    assert d_root is not None
    # d t² + 2 t - 1 = 0 in t = y²
    squares = [(-1 + sign * d_root) * pow(_D, -1, _P) % _P for sign in (1, -1)]
    eighth = [each for square in squares if (each := root(square)) is not None]
    found = {0, 1, _P - 1} | {y for each in eighth for y in (each, _P - each)}
    return [(y | sign << 255).to_bytes(32, "little") for y in sorted(found) for sign in (0, 1)]


def test_keys_for_which_anybody_can_sign_are_refused() -> None:
    """The signature (identity, 0) needs no secret. The library takes it for each of these keys, for some message."""
    keys, nothing = small_order_keys(), (1).to_bytes(32, "little") + bytes(32)
    forged = set()
    for raw in keys:
        for number in range(64):
            try:
                Ed25519PublicKey.from_public_bytes(raw).verify(nothing, b"%d" % number)
                forged.add(raw)
            except InvalidSignature:
                continue
        with pytest.raises(NotAKey):
            PublicKey.from_text(f"ed25519:{base64.b64encode(raw).decode()}")
        assert not PublicKey(raw).signed(base64.b64encode(nothing).decode(), "approval", DATA)

    assert len({raw[:31] for raw in keys}) == 5
    assert len(forged) >= 8  # the danger is real: the test fails where there is nothing to refuse


def test_points_off_the_curve_and_other_spellings_of_points_are_refused() -> None:
    refused_now = 0
    for y in [*range(2, 200), _P, _P + 1, _P + 3, 2**255 - 1]:
        try:
            PublicKey.from_text(f"ed25519:{base64.b64encode(y.to_bytes(32, 'little')).decode()}")
        except NotAKey:
            refused_now += 1
            continue
        assert y < _P

    assert 60 < refused_now < 140  # about half of all numbers are no y of a point


def test_new_key_files(tmp_path: Path) -> None:
    public = new_key_files(tmp_path / "alice.key", "alice")

    assert stat.S_IMODE((tmp_path / "alice.key").stat().st_mode) == 0o600
    assert (tmp_path / "alice.key.pub").read_text() == f"{public.text} alice\n"
    assert read_private(tmp_path / "alice.key").public == public
    assert read_public(tmp_path / "alice.key") == read_public(tmp_path / "alice.key.pub") == public
    assert repr(read_private(tmp_path / "alice.key")) == f"PrivateKey({public.fingerprint})"


def test_the_mode_is_that_of_a_private_key_whatever_the_umask(tmp_path: Path) -> None:
    code = "import os,sys; os.umask(int(sys.argv[1])); from pathlib import Path; from dprelease.signature import *; "
    code += "new_key_files(Path(sys.argv[2])); read_private(Path(sys.argv[2]))"
    for mask in (0, 0o777):
        path = tmp_path / f"{mask}.key"
        subprocess.run([sys.executable, "-c", code, str(mask), str(path)], check=True)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("there", ["alice.key", "alice.key.pub"])
def test_a_key_is_never_overwritten(tmp_path: Path, there: str) -> None:
    (tmp_path / there).write_text("mine")

    with pytest.raises(SpecError) as caught:
        new_key_files(tmp_path / "alice.key")

    assert refused(caught.value) == "DPR-K104"
    assert [path.name for path in tmp_path.iterdir()] == [there]
    assert (tmp_path / there).read_text() == "mine"


def test_a_link_is_not_followed_to_write_a_key(tmp_path: Path) -> None:
    (tmp_path / "alice.key").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(SpecError) as caught:
        new_key_files(tmp_path / "alice.key")

    assert refused(caught.value) == "DPR-K104"
    assert not (tmp_path / "elsewhere").exists()


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        new_key_files(tmp_path / "none" / "alice.key")

    assert refused(caught.value) == "DPR-K105"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660, 0o610, 0o601, 0o602])
def test_a_private_key_that_others_can_use_is_refused(tmp_path: Path, mode: int) -> None:
    new_key_files(tmp_path / "alice.key")
    (tmp_path / "alice.key").chmod(mode)

    for read in (read_private, read_public):
        with pytest.raises(SpecError) as caught:
            read(tmp_path / "alice.key")
        assert refused(caught.value) == "DPR-K102"
        assert "chmod 600" in str(caught.value)


def test_a_private_key_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new_key_files(tmp_path / "alice.key")
    mine = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)

    with pytest.raises(SpecError) as caught:
        read_private(tmp_path / "alice.key")

    assert refused(caught.value) == "DPR-K102"
    assert "another user" in str(caught.value)


def test_no_file_a_folder_and_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    (tmp_path / "folder").mkdir(mode=0o700)

    for name in ("nothing", "folder", "pipe"):
        with pytest.raises(SpecError) as caught:
            read_private(tmp_path / name)
        assert refused(caught.value) == "DPR-K101"


def test_files_that_hold_no_key_that_can_be_used(tmp_path: Path) -> None:
    good = Ed25519PrivateKey.generate()
    curve = ec.generate_private_key(ec.SECP256R1())
    contents = {
        "empty": b"",
        "text": b"hello\n",
        "binary": bytes(range(256)),
        "public": PrivateKey(good).public.text.encode(),
        "half": PrivateKey(good).to_pem()[:60],
        "other": curve.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        "locked": good.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")),
    }
    for name, data in contents.items():
        (tmp_path / name).write_bytes(data)
        (tmp_path / name).chmod(0o600)
        with pytest.raises(SpecError) as caught:
            read_private(tmp_path / name)
        assert refused(caught.value) == "DPR-K103"
        assert "PRIVATE" not in str(caught.value)


def test_a_public_file_that_holds_no_key(tmp_path: Path) -> None:
    (tmp_path / "x.pub").write_text("ed25519:short alice\n")

    with pytest.raises(SpecError) as caught:
        read_public(tmp_path / "x.pub")

    assert refused(caught.value) == "DPR-K103"


def test_the_text_of_a_key_is_read_without_the_library() -> None:
    """So that every command that reads a policy stays fast."""
    text = PrivateKey.new().public.text
    code = "import sys; from dprelease.signature import PublicKey; PublicKey.from_text(sys.argv[1]); "
    code += "sys.exit('cryptography' in sys.modules)"

    subprocess.run([sys.executable, "-c", code, text], check=True)
