"""Ed25519 keys and signatures: a private key in a file of its own, a public key as one line of text.

A signature is over bytes **and** the purpose that they are signed for, so that what was signed for one purpose says
nothing in another one. Envelopes for tools of others (DSSE, the form of in-toto) are signed over DSSE's own encoding,
"DSSEv1" and the lengths; what is signed here otherwise begins with "dprelease" and a NUL. The two differ in their first
byte, so that no signature of the one kind is one of the other, under the same key. A file is signed for OpenSSH over
what begins with "SSHSIG" (PROTOCOL.sshsig), which differs from both.

`cryptography` is loaded where a key is made or used, and not to read the text of a public key.

>>> PublicKey.from_text("ed25519:11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=").fingerprint
'21fe31dfa154a261'
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dprelease.errors import Problem, SpecError, Where

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

__all__ = ["NotAKey", "PrivateKey", "PublicKey", "new_key_files", "read_private", "read_public"]

_PREFIX = "ed25519:"
_LARGEST = 16_384  # bytes of a key file
_OPEN = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC  # a pipe in the place of a key must not hang
_MAKE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# Edwards curve of RFC 8032, section 5.1: -x² + y² = 1 + d x² y² modulo p.
_P = 2**255 - 19
_D = -121665 * pow(121666, -1, _P) % _P


class NotAKey(ValueError):
    """A text that is no public key.

    Attributes:
        reason: What it is instead; completes "`key` is ...".
        hint: What to write.
    """

    def __init__(self, reason: str, hint: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint


@dataclass(frozen=True)
class PublicKey:
    """The 32 bytes of an Ed25519 public key."""

    raw: bytes

    @classmethod
    def from_text(cls, text: str) -> PublicKey:
        """Read ``ed25519:`` and the base64 of 32 bytes, in the one spelling that :attr:`text` has.

        Raises:
            NotAKey: If it is anything else, or a key under which a signature proves nothing (see ``_is_sound``).
        """
        hint = f"write the line that `dprelease keys show FILE` prints: {_PREFIX}..."
        if not text.startswith(_PREFIX):
            raise NotAKey(f"no text that begins with {_PREFIX}", hint)
        raw = _decoded(text[len(_PREFIX) :], 32)
        if raw is None:
            raise NotAKey("not the base64 of 32 bytes", hint)
        if not _is_sound(raw):
            raise NotAKey("no usable Ed25519 key: it was mistyped, or anybody could sign for it", hint)
        return cls(raw)

    @property
    def text(self) -> str:
        """As it stands in ``policy.yaml``."""
        return _PREFIX + base64.b64encode(self.raw).decode()

    @property
    def fingerprint(self) -> str:
        """The first 16 hexadecimal digits of the SHA-256 of its bytes: for people to compare, never to decide by."""
        return hashlib.sha256(self.raw).hexdigest()[:16]

    def signed(self, signature: str, purpose: str, data: bytes) -> bool:
        """Whether this key signed these bytes for this purpose; False for text that is no signature at all."""
        return self._signed(signature, _message(purpose, data))

    def checks_envelope(self, signature: str, payload_type: str, payload: bytes) -> bool:
        """Whether this key signed this payload as DSSE does; False for text that is no signature at all."""
        return self._signed(signature, _pre_auth_encoding(payload_type, payload))

    def checks_ssh(self, armour: bytes, data: bytes) -> bool:
        """Whether this key signed a file as ``ssh-keygen -Y sign -n file`` does; False for what is no signature."""
        try:
            blob = base64.b64decode(b"".join(armour.split(b"\n")[1:-2]), validate=True)
        except (binascii.Error, ValueError):
            return False
        raw = blob[-64:]  # the rest of the file follows from it, and is compared
        signature = base64.b64encode(raw).decode()
        return armour == _ssh_armour(self, raw) and self._signed(signature, _ssh_message(data))

    def ssh_line(self, principal: str) -> str:
        """The line of a file of allowed signers, for ``ssh-keygen -Y verify -n file -I PRINCIPAL``."""
        key = base64.b64encode(_ssh_key(self)).decode()
        return f'{principal} namespaces="{_SSH_NAMESPACE.decode()}" ssh-ed25519 {key}'

    def _signed(self, signature: str, message: bytes) -> bool:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        raw = _decoded(signature, 64)
        if raw is None or not _is_sound(self.raw):
            return False
        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(raw, message)
        except InvalidSignature:
            return False
        return True


class PrivateKey:
    """A key that can sign; it is never printed."""

    __slots__ = ("_key",)

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key

    def __repr__(self) -> str:
        return f"PrivateKey({self.public.fingerprint})"

    @classmethod
    def new(cls) -> PrivateKey:
        """A fresh key, from the operating system's randomness."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return cls(Ed25519PrivateKey.generate())

    @property
    def public(self) -> PublicKey:
        """The key that checks its signatures."""
        return PublicKey(self._key.public_key().public_bytes_raw())

    def sign(self, purpose: str, data: bytes) -> str:
        """The signature of these bytes for this purpose, as base64; the same one every time (RFC 8032)."""
        return base64.b64encode(self._key.sign(_message(purpose, data))).decode()

    def sign_envelope(self, payload_type: str, payload: bytes) -> str:
        """The signature of a DSSE envelope, as base64: over its type and its payload, not over its JSON."""
        return base64.b64encode(self._key.sign(_pre_auth_encoding(payload_type, payload))).decode()

    def sign_ssh(self, data: bytes) -> bytes:
        """The signature of a file for OpenSSH: the bytes that ``ssh-keygen -Y sign -n file`` writes with this key."""
        return _ssh_armour(self.public, self._key.sign(_ssh_message(data)))

    def to_pem(self) -> bytes:
        """PKCS 8 in PEM, without a passphrase: the file's mode is what protects it."""
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        return self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _message(purpose: str, data: bytes) -> bytes:
    """What is signed: the purpose has no NUL, so that no two pairs of purpose and data have the same bytes.

    Raises:
        ValueError: If the purpose has one.
    """
    if "\0" in purpose:
        raise ValueError("a purpose has no NUL")
    return b"dprelease\0" + purpose.encode() + b"\0" + data


def _pre_auth_encoding(payload_type: str, payload: bytes) -> bytes:
    """What a DSSE envelope signs: each part with its length in bytes, so that none reaches into the other.

    Source: https://github.com/secure-systems-lab/dsse/blob/v1.0.0/protocol.md, "Signature Definition".

    >>> _pre_auth_encoding("http://example.com/HelloWorld", b"hello world")
    b'DSSEv1 29 http://example.com/HelloWorld 11 hello world'
    """
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


_SSH_KIND, _SSH_NAMESPACE, _SSH_HASH = b"ssh-ed25519", b"file", b"sha512"


def _ssh_string(data: bytes) -> bytes:
    """A string of the SSH protocol: its length in four bytes, then itself (RFC 4251, section 5)."""
    return len(data).to_bytes(4, "big") + data


def _ssh_key(key: PublicKey) -> bytes:
    """A public key as SSH writes it (RFC 8709, section 4)."""
    return _ssh_string(_SSH_KIND) + _ssh_string(key.raw)


def _ssh_message(data: bytes) -> bytes:
    """What OpenSSH signs of a file: https://github.com/openssh/openssh-portable/blob/master/PROTOCOL.sshsig."""
    parts = (_SSH_NAMESPACE, b"", _SSH_HASH, hashlib.sha512(data).digest())
    return b"SSHSIG" + b"".join(map(_ssh_string, parts))


def _ssh_armour(key: PublicKey, signature: bytes) -> bytes:
    """The file of a signature, in the one form that ``ssh-keygen`` writes."""
    whole = _ssh_string(_SSH_KIND) + _ssh_string(signature)
    parts = (_ssh_key(key), _SSH_NAMESPACE, b"", _SSH_HASH, whole)
    text = base64.b64encode(b"SSHSIG" + (1).to_bytes(4, "big") + b"".join(map(_ssh_string, parts))).decode()
    lines = [text[at : at + 70] for at in range(0, len(text), 70)]
    return "\n".join(("-----BEGIN SSH SIGNATURE-----", *lines, "-----END SSH SIGNATURE-----", "")).encode()


def _decoded(text: str, size: int) -> bytes | None:
    """The bytes of base64 in its one canonical spelling; None for anything else."""
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return raw if len(raw) == size and base64.b64encode(raw).decode() == text else None


def _is_sound(raw: bytes) -> bool:
    """Whether 32 bytes are a point of the curve, spelled as RFC 8032 does, of an order above 8.

    With a public key A of order 1, 2, 4 or 8 anybody signs: (R, S) = (identity, 0) holds whenever H(R, A, message) is a
    multiple of the order. Those points are: x = 0 (orders 1 and 2, y = ±1); y = 0 (order 4); and those that double to
    y = 0 (order 8). Doubling gives y' = (y² + x²) / (1 - d x² y²), which is 0 exactly where x² = -y²; put into the
    curve, d y⁴ + 2 y² - 1 = 0.
    """
    y = int.from_bytes(raw, "little") & ((1 << 255) - 1)  # the highest bit is the sign of x
    if y >= _P:
        return False
    # x² = (y² - 1) / (d y² + 1); a quotient is a square exactly where the product is (Euler). 0, so x = 0, is out.
    has_x = pow((y * y - 1) * (_D * y * y + 1) % _P, (_P - 1) // 2, _P) == 1
    return has_x and y != 0 and (_D * y**4 + 2 * y * y - 1) % _P != 0


def new_key_files(path: Path, name: str = "") -> PublicKey:
    """Make a key: ``path`` holds the private one (mode 0600), ``path`` and ``.pub`` the public one as a line of text.

    Args:
        path: The path of the private key.
        name: Whose it is; stands after the public key.

    Raises:
        SpecError: If either file exists (DPR-K104) or cannot be written (DPR-K105); nothing is left behind.
    """
    key = PrivateKey.new()
    _write_new(path, key.to_pem(), 0o600)
    beside = path.with_name(path.name + ".pub")
    try:
        _write_new(beside, f"{key.public.text} {name}".strip().encode() + b"\n", 0o644)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return key.public


def _write_new(path: Path, data: bytes, mode: int) -> None:
    try:
        file = os.open(path, _MAKE, mode)
    except FileExistsError:
        hint = "a key is never overwritten: name another file"
        raise _refused("DPR-K104", path, "it exists", hint) from None
    except OSError as error:
        raise _unwritable(path, error) from None
    try:
        with os.fdopen(file, "wb") as opened:
            os.fchmod(file, mode)  # a strict umask may have taken the owner's own rights
            opened.write(data)
            opened.flush()
            os.fsync(file)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise _unwritable(path, error) from None


def read_private(path: Path) -> PrivateKey:
    """The private key of a file that only its owner can read.

    Raises:
        SpecError: If it cannot be read (DPR-K101), others can read it or it is somebody else's (DPR-K102), or it holds
            no Ed25519 private key without a passphrase (DPR-K103).
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    data = _read(path, private=True)
    hint = "`dprelease keys new FILE` makes one"
    if data.startswith(_PREFIX.encode()):
        raise _refused("DPR-K103", path, "it holds a public key", "give the file without .pub")
    try:
        key = load_pem_private_key(data, password=None)
    except TypeError:
        says = "it is protected by a passphrase, which is not supported"
        raise _refused("DPR-K103", path, says, hint) from None
    except (ValueError, UnsupportedAlgorithm):
        raise _refused("DPR-K103", path, "it holds no private key in PEM", hint) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise _refused("DPR-K103", path, "it holds a key of another kind than Ed25519", hint)
    return PrivateKey(key)


def read_public(path: Path) -> PublicKey:
    """The public key of a file: of the ``.pub`` file, or of the private key itself.

    Raises:
        SpecError: As :func:`read_private`; for a ``.pub`` file it does not matter who can read it.
    """
    data = _read(path, private=False)
    if not data.startswith(_PREFIX.encode()):
        return read_private(path).public
    try:
        return PublicKey.from_text(data.decode("ascii", "replace").split()[0])
    except NotAKey as error:
        raise _refused("DPR-K103", path, f"its key is {error.reason}", error.hint) from None


def _read(path: Path, *, private: bool) -> bytes:
    try:
        file = os.open(path, _OPEN)
    except OSError as error:
        hint = "give the path of a key file; `dprelease keys new FILE` makes one"
        raise _refused("DPR-K101", path, error.strerror or type(error).__name__, hint) from None
    try:  # judged and read through one handle: nobody swaps the file in between
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            raise _refused("DPR-K101", path, "it is no file", "give the path of a key file")
        given = private and _is_given(found)
        if private and found.st_uid != os.geteuid() and not given:
            hint = "sign with a key of your own; `dprelease keys new FILE` makes one"
            raise _refused("DPR-K102", path, "it belongs to another user", hint)
        if private and found.st_mode & 0o077 and not given:
            hint = f"make it yours alone (chmod 600 {path}), or make a new key if others may have seen it"
            raise _refused("DPR-K102", path, f"others can use it (mode {found.st_mode & 0o777:04o})", hint)
        return os.read(file, _LARGEST)
    finally:
        os.close(file)


def _is_given(found: os.stat_result) -> bool:
    """Whether root has put the file there for a group of this process alone to read, and nobody else to use.

    So a secret is mounted into a container that does not run as root (Kubernetes: ``fsGroup``, ``defaultMode: 0440``).
    Root can read every key anyway; that it cannot be written by this process takes nothing away. Who else is in the
    group is the mount's to say: in a container nobody is.
    """
    groups = {os.getegid(), *os.getgroups()}
    mine = os.geteuid() == 0  # root itself has no need of a group
    readable = found.st_mode & 0o077 == 0o040  # by the group, and by nobody else
    return not mine and found.st_uid == 0 and found.st_gid in groups and readable


def _unwritable(path: Path, error: OSError) -> SpecError:
    hint = "name a file in a folder of yours that exists"
    return _refused("DPR-K105", path, f"it cannot be written: {error.strerror}", hint)


def _refused(code: str, path: Path, why: str, hint: str) -> SpecError:
    return SpecError([Problem(code, f"key file refused: {why}", hint, Where(str(path)))])
