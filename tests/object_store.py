"""A local stand-in for S3: the few calls that Arrow's file system makes to read, over a folder in memory.

List (version 2, with pages and delimiters), Head, and Get with a range; keys of access, versions, and what goes wrong.
It checks which access key signs a request, not the signature itself.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

ACCESS, SECRET = "MARKERACCESSKEY", "MARKER-secret-access-key"


@dataclass
class Bucket:
    """Objects by key, each with its bytes, the number of the write that made it, and when that was."""

    versioned: bool = False
    objects: dict[str, tuple[bytes, int, float]] = field(default_factory=dict)
    writes: int = 0

    def put(self, key: str, data: bytes) -> None:
        self.writes += 1
        self.objects[key] = (data, self.writes, 1.7e9 + self.writes)


@dataclass
class ObjectStore:
    """The stand-in: its buckets, where it listens, and what it was asked.

    Attributes:
        before: Called with every request before it is answered; what it returns is an error's code, or nothing.
    """

    buckets: dict[str, Bucket] = field(default_factory=dict)
    address: str = ""
    asked: list[str] = field(default_factory=list)
    before: Callable[[str, str], str | None] = lambda method, path: None

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.address,
            "AWS_ACCESS_KEY_ID": ACCESS,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
        }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer in one piece: two would wait for each other
    store: ObjectStore

    def log_message(self, *_: object) -> None:
        """Nothing is logged."""

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        bucket, _, key = unquote(url.path).lstrip("/").partition("/")
        self.store.asked.append(f"{self.command} {self.path}")
        if f"Credential={ACCESS}/" not in self.headers.get("Authorization", ""):
            return self.refuse(403, "InvalidAccessKeyId")
        if error := self.store.before(self.command, unquote(self.path)):
            if error == "drop":
                self.connection.close()
                self.close_connection = True
                return None
            return self.refuse(403 if error == "AccessDenied" else 500, error)
        if bucket not in self.store.buckets:
            return self.refuse(404, "NoSuchBucket")
        if not key:
            return self.list(self.store.buckets[bucket], bucket, parse_qs(url.query))
        return self.send_object(self.store.buckets[bucket], key)

    do_HEAD = do_GET  # noqa: N815 - the name that the standard library asks for

    def refuse(self, status: int, code: str) -> None:
        self.answer(
            status, f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{SECRET}</Message></Error>".encode()
        )

    def answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_object(self, bucket: Bucket, key: str) -> None:
        if key not in bucket.objects:
            return self.refuse(404, "NoSuchKey")
        data, number, at = bucket.objects[key]
        facts = {
            "ETag": f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"',
            "Last_Modified": formatdate(at, usegmt=True),
        }
        if bucket.versioned:
            facts["x_amz_version_id"] = f"version{number}"
        if self.command == "HEAD":
            self.send_response(200)
            for name, value in {**facts, "Content_Length": str(len(data))}.items():
                self.send_header(name.replace("_", "-"), value)
            return self.end_headers()
        first, _, last = self.headers.get("Range", f"bytes=0-{len(data)}").removeprefix("bytes=").partition("-")
        part = data[int(first) : int(last) + 1]
        if "Range" not in self.headers:
            return self.answer(200, part, **facts)
        return self.answer(206, part, Content_Range=f"bytes {first}-{int(first) + len(part) - 1}/{len(data)}", **facts)

    def list(self, bucket: Bucket, name: str, query: dict[str, list[str]]) -> None:
        prefix, delimiter = query.get("prefix", [""])[0], query.get("delimiter", [""])[0]
        most, after = int(query.get("max-keys", ["1000"])[0]), query.get("continuation-token", [""])[0]
        keys = [key for key in sorted(bucket.objects) if key.startswith(prefix)]
        folders = {
            prefix + key[len(prefix) :].split(delimiter)[0] + delimiter
            for key in keys
            if delimiter and delimiter in key[len(prefix) :]
        }
        keys = [key for key in keys if not any(key.startswith(folder) for folder in folders) and key > after]
        page, more = keys[: min(most, 100)], len(keys) > min(most, 100)  # short pages, so that tests turn them
        items = "".join(
            f"<Contents><Key>{escape(key)}</Key><LastModified>2024-01-01T00:00:00.000Z</LastModified>"
            f"<Size>{len(bucket.objects[key][0])}</Size></Contents>"
            for key in page
        )
        items += "".join(
            f"<CommonPrefixes><Prefix>{escape(each)}</Prefix></CommonPrefixes>" for each in sorted(folders)
        )
        token = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if more else ""
        body = (
            f"<?xml version='1.0'?><ListBucketResult><Name>{name}</Name><KeyCount>{len(page) + len(folders)}</KeyCount>"
            f"<IsTruncated>{str(more).lower()}</IsTruncated>{token}{items}</ListBucketResult>"
        )
        self.answer(200, body.encode(), Content_Type="application/xml")


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    """A stand-in that listens on this machine alone, for as long as the block runs."""
    store = ObjectStore()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"store": store}))
    server.daemon_threads = True
    store.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield store
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
