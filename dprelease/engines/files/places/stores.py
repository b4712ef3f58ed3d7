"""Object stores: what an address means, how one is opened by the environment alone, and what its failures say.

Arrow's own file systems do the work. Credentials are read from the environment of the process and are given to them;
no address may hold one, and no word of a store or of its driver is passed on, for it may quote a request.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar
from urllib.parse import urlsplit

from pyarrow import fs

from dprelease.catalog.source import store_problem
from dprelease.errors import DpReleaseError, TableMismatch, Unavailable

__all__ = ["OpenedStore", "is_stored", "opened_store", "reached", "store_failure"]

Result = TypeVar("Result")
_SECONDS = 30  # until a store that does not answer is given up
_REFUSED = re.compile(
    "access.?denied|invalid.?access.?key|signature.?does.?not.?match|expired.?token|invalid.?token|invalid.?client"
    "|access token|no.*authentication information"
    "|permission.?denied|unauthenticated|authorization.?failure|authentication.?failed|credential"
    "|status(?: code)?:? 40[13]"
)
_NO_BUCKET = re.compile("no.?such.?bucket|bucket.*not (?:exist|found)|container.?not.?found|container.*not exist")


@dataclass(frozen=True)
class OpenedStore:
    """A bucket, and what to name in it.

    Attributes:
        filesystem: Arrow's.
        bucket: A bucket, or a container.
        pattern: The key of an object, or a pattern of keys.
    """

    filesystem: Any
    bucket: str
    pattern: str


def is_stored(pattern: str) -> bool:
    """Whether a source is an address, and no path of this machine."""
    return "://" in pattern


def opened_store(written: str, address: str, environment: Mapping[str, str]) -> OpenedStore:
    """The store of an address.

    Args:
        written: The source as the spec has it, which alone is shown.
        address: With the values of its variables.
        environment: What holds the credentials.

    Raises:
        TableMismatch: If it is no address of a store, or holds a credential.
        Unavailable: If the store cannot be opened.
    """
    if problem := store_problem(address):
        raise TableMismatch(f"the source {written!r} {problem[0]}", hint=problem[1], code="DPR-E140")
    scheme, place, key = re.split("://|/", address, maxsplit=2)
    filesystem = reached(written, lambda: _OPENED[scheme](place, environment))
    return OpenedStore(filesystem, place.partition("@")[0], key)


def _s3(place: str, environment: Mapping[str, str]) -> Any:
    endpoint = urlsplit(environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL") or "")
    return fs.S3FileSystem(
        access_key=environment.get("AWS_ACCESS_KEY_ID"),
        secret_key=environment.get("AWS_SECRET_ACCESS_KEY"),
        session_token=environment.get("AWS_SESSION_TOKEN"),
        region=environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION"),
        endpoint_override=endpoint.netloc or None,
        scheme=endpoint.scheme or "https",
        connect_timeout=_SECONDS,
        request_timeout=_SECONDS,
    )


def _gcs(place: str, environment: Mapping[str, str]) -> Any:
    return fs.GcsFileSystem(retry_time_limit=timedelta(seconds=_SECONDS))  # with GOOGLE_APPLICATION_CREDENTIALS


def _azure(place: str, environment: Mapping[str, str]) -> Any:
    account, _, cloud = place.partition("@")[2].partition(".")
    cloud = cloud.partition(".")[2]  # behind "dfs." or "blob."
    return fs.AzureFileSystem(
        account,
        blob_storage_authority=f".blob.{cloud}",
        dfs_storage_authority=f".dfs.{cloud}",
        account_key=environment.get("AZURE_STORAGE_ACCOUNT_KEY"),
        sas_token=environment.get("AZURE_STORAGE_SAS_TOKEN"),
    )


_OPENED: dict[str, Callable[[str, Mapping[str, str]], Any]] = {"s3": _s3, "gs": _gcs, "abfss": _azure}


def reached(written: str, action: Callable[[], Result]) -> Result:
    """Do something with a store; a failure becomes an error of our own, without a word of the store's.

    Args:
        written: The source as the spec has it.
        action: What is done.

    Raises:
        Unavailable: If the store refuses the credentials, has no such bucket, or does not answer.
    """
    try:
        return action()
    except DpReleaseError:
        raise
    except Exception as error:
        failed = store_failure(written, type(error).__name__, str(error))
    raise failed


def store_failure(written: str, kind: str, says: str) -> Unavailable:
    """What a store's own words mean; none of them is quoted.

    Args:
        written: The source as the spec has it.
        kind: The class of an error.
        says: Its text.
    """
    says = says.lower()
    if _NO_BUCKET.search(says):
        return Unavailable(
            f"the bucket of {written!r} is not there",
            hint="correct the address, or the region and endpoint (AWS_REGION, AWS_ENDPOINT_URL), and run it again",
            code="DPR-E142",
        )
    if _REFUSED.search(says):
        return Unavailable(
            f"the store of {written!r} refuses what this process shows to be let in",
            detail="it is asked with the credentials of the environment alone, which need the rights to list and read",
            hint="set those of the store, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and run it again",
            code="DPR-E141",
        )
    return Unavailable(
        f"the store of {written!r} cannot be read ({kind}); its own words are withheld",
        hint="check the network and the address (AWS_ENDPOINT_URL), then run the same command again: it resumes",
        code="DPR-E143",
    )
