"""``manifest.json`` lists every other file of a bundle; ``manifest.sig`` says who stands for it.

``SHA256SUMS`` lists all of them for ``sha256sum --check``, and ``SHA256SUMS.sig`` is a signature by the same key that
``ssh-keygen -Y verify`` checks. Both follow from the manifest and its signature, and are not listed in it.

The manifest has the size and the hash of each file, and what they were made from. The signature is a DSSE envelope over
an in-toto statement: every file of the bundle with its SHA-256, the manifest among them, and what was released under
which ledger entry. The statement follows from the manifest, so that there is one statement for one bundle. Tools that
know DSSE (https://github.com/secure-systems-lab/dsse) and in-toto (https://in-toto.io/Statement/v1) can check it
without this program.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any, ClassVar, Literal

from dprelease.canonical import GrownValue, Value, dumps, sha256
from dprelease.signature import NotAKey, PrivateKey, PublicKey

__all__ = [
    "MANIFEST_FILE",
    "SIGNATURE_FILE",
    "SUMS_FILE",
    "SUMS_SIGNATURE_FILE",
    "FileFacts",
    "LedgerFacts",
    "Manifest",
    "fault",
    "signature_file",
    "sums_file",
]

MANIFEST_FILE = "manifest.json"
SIGNATURE_FILE: Literal["manifest.sig"] = "manifest.sig"
SUMS_FILE: Literal["SHA256SUMS"] = "SHA256SUMS"
SUMS_SIGNATURE_FILE = "SHA256SUMS.sig"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://dprelease.org/release/v1"
_LARGEST = 1 << 28  # bytes of a signature file that is looked at


class FileFacts(Value):
    """What the manifest says of a file."""

    sha256: str
    bytes: int


class LedgerFacts(GrownValue):
    """The ledger entry that charged the release; ``id`` is which ledger, and is not written where it is not known."""

    LATER: ClassVar[tuple[str, ...]] = ("id",)
    sequence: int
    hash: str
    reserved_at: str
    id: str = ""


class Manifest(GrownValue):
    """Every other file of a bundle, and what they were made from; ``manifest.json`` is its canonical JSON.

    ``sums`` says that ``SHA256SUMS`` lies beside it; bundles from before have none, and say nothing.
    """

    LATER: ClassVar[tuple[str, ...]] = ("sums",)
    format: Literal[1] = 1
    release: str
    period: str
    files: dict[str, FileFacts]
    plan_fingerprint: str
    spec_fingerprint: str
    ledger: LedgerFacts
    rehearsal: bool
    signature: Literal["unsigned", "manifest.sig"] = "unsigned"
    signer: str = ""
    rendered_with: dict[str, str] = {}
    sums: Literal["", "SHA256SUMS"] = ""

    def to_bytes(self) -> bytes:
        """The bytes of the file."""
        return (self.canonical() + "\n").encode()

    @property
    def beside(self) -> tuple[str, ...]:
        """The files of the bundle that it does not list, and does not name: they follow from it."""
        signed = self.signature == SIGNATURE_FILE
        of_sums = (SUMS_FILE, *((SUMS_SIGNATURE_FILE,) if signed else ())) if self.sums else ()
        return (MANIFEST_FILE, *((SIGNATURE_FILE,) if signed else ()), *of_sums)


def statement(manifest: Manifest) -> bytes:
    """What is signed of a bundle: canonical JSON of an in-toto statement, version 1."""
    digests = {
        MANIFEST_FILE: sha256(manifest.to_bytes()),
        **{path: each.sha256 for path, each in manifest.files.items()},
    }
    return dumps(
        {
            "_type": STATEMENT_TYPE,
            "subject": [{"name": path, "digest": {"sha256": digests[path]}} for path in sorted(digests)],
            "predicateType": PREDICATE_TYPE,
            "predicate": {
                "release": manifest.release,
                "period": manifest.period,
                "plan_fingerprint": manifest.plan_fingerprint,
                "spec_fingerprint": manifest.spec_fingerprint,
                "ledger": {"sequence": manifest.ledger.sequence, "hash": manifest.ledger.hash},
                "signer": manifest.signer,
            },
        }
    ).encode()


def signature_file(manifest: Manifest, key: PrivateKey) -> bytes:
    """The signature file of a bundle; the same bytes for the same manifest and key.

    Args:
        manifest: The manifest of the bundle; it names the key.
        key: To sign with.

    Raises:
        ValueError: If the manifest names another signer.
    """
    if manifest.signer != key.public.text:
        raise ValueError("a manifest is signed with the key that it names")
    payload = statement(manifest)
    signature = {"keyid": key.public.fingerprint, "sig": key.sign_envelope(PAYLOAD_TYPE, payload)}
    return _envelope(payload, signature)


def sums_file(manifest: Manifest, signature: bytes | None) -> bytes:
    """``SHA256SUMS`` of a bundle, as ``sha256sum`` writes it: every file but itself and its own signature, in order.

    Args:
        manifest: The manifest of the bundle.
        signature: The signature file; None: there is none.
    """
    found = {path: each.sha256 for path, each in manifest.files.items()}
    found[MANIFEST_FILE] = sha256(manifest.to_bytes())
    if signature is not None:
        found[SIGNATURE_FILE] = sha256(signature)
    return "".join(f"{found[path]}  {path}\n" for path in sorted(found)).encode()


def _envelope(payload: bytes, signature: dict[str, str]) -> bytes:
    content = {"payload": base64.b64encode(payload).decode(), "payloadType": PAYLOAD_TYPE, "signatures": [signature]}
    return (dumps(content) + "\n").encode()


def fault(data: bytes, manifest: Manifest) -> str:
    """What is wrong with a signature file as the signature of a bundle by the key that its manifest names.

    Nothing is passed over: one envelope has one spelling, holds one signature, and signs the statement of exactly
    this manifest. Whose the key is, is not asked here.

    Args:
        data: The file.
        manifest: The manifest of the bundle.

    Returns:
        Empty where it holds.
    """
    found = _read(data)
    if found is None:
        return f"{SIGNATURE_FILE} is not one signature in a DSSE envelope for in-toto, in its canonical form"
    payload, signature = found
    try:
        key = PublicKey.from_text(manifest.signer)
    except NotAKey as error:
        return f"the signer that the manifest names is {error.reason}"
    if not key.checks_envelope(signature["sig"], PAYLOAD_TYPE, payload):
        return f"the signature is not one of key {key.fingerprint} over what {SIGNATURE_FILE} holds"
    if signature["keyid"] != key.fingerprint:
        return f"the signature says that it is of key {signature['keyid'][:16]}, and it is of {key.fingerprint}"
    return "" if payload == statement(manifest) else _differs(payload, manifest)


def _read(data: bytes) -> tuple[bytes, dict[str, str]] | None:
    """Payload and signature of an envelope that is written as here; repeated names are not."""
    try:
        content: Any = json.loads(data) if len(data) <= _LARGEST else None
        payload = base64.b64decode(content["payload"], validate=True)
        (signature,) = content["signatures"]
        given = {"keyid": str(signature["keyid"]), "sig": str(signature["sig"])}
        return (payload, given) if _envelope(payload, given) == data else None
    except (ValueError, KeyError, TypeError, RecursionError, binascii.Error):
        return None


def _differs(payload: bytes, manifest: Manifest) -> str:
    """In what a statement that was signed differs from the one of this manifest."""
    said: Any = json.loads(payload)
    expected = json.loads(statement(manifest))
    names = [name for name in expected if not isinstance(said, dict) or said.get(name) != expected[name]]
    return f"what was signed is another statement than that of this bundle: it differs in {', '.join(names) or 'form'}"
