"""The one Spark session of a process: started when it is first needed, with settings that are read back.

Nothing here imports PySpark before a table asks for it. Spark runs in Java beside this process; what it prints goes to
a file in a folder of this user's alone, which is removed at the end, as what a process that was killed left behind is
removed at the next start.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import Any

from dprelease.engines.spark.settings import asked_for, is_local, refuse_unsafe
from dprelease.errors import DpReleaseError, MissingExtra, Unavailable

__all__ = ["LEAST_JAVA", "MASTER", "java_version", "on_disks", "spark_context"]

MASTER = "DPRELEASE_SPARK_MASTER"
"""The variable of the environment that says where the cluster is, as ``spark-submit --master`` does."""
_FOLDER = "dprelease-spark-"
LEAST_JAVA = 17
_LOCK = Lock()
_SILENT = "rootLogger.level = off\n"
_LEVEL = "OFF"
_FOLDERS: list[str] = []
_JAVA = "-XX:-HeapDumpOnOutOfMemoryError -XX:ErrorFile=/dev/null -XX:-UsePerfData -Dlog4j2.configurationFile={log}"


def spark_context(environment: Mapping[str, str]) -> Any:
    """The running ``SparkContext``, started now if there is none; safe for threads.

    Args:
        environment: What holds ``DPRELEASE_SPARK_MASTER``; without it all cores of this machine are used.

    Raises:
        MissingExtra: If PySpark is not installed (DPR-X114).
        Unavailable: If there is no Java for it, or the session does not start (DPR-E149).
        Unsupported: If a setting is not safe (DPR-E154).
    """
    with _LOCK:
        try:
            from pyspark import SparkContext
        except ImportError:
            raise MissingExtra(
                "a table is read by Spark, and PySpark is not installed",
                hint='pip install "dprelease[spark]"',
                code="DPR-X114",
            ) from None
        context = SparkContext._active_spark_context
        if context is None:
            context = _started(environment.get(MASTER) or "local[*]")
        refuse_unsafe(dict(context.getConf().getAll()))
        return context


def on_disks(parts: Any) -> Any:
    """What tasks come to, kept for later jobs: encrypted on the disks of the executors, and in nobody's memory."""
    from pyspark import StorageLevel

    return parts.persist(StorageLevel.DISK_ONLY)


def java_version() -> int | None:
    """The version of the Java that Spark would run in; None where there is none."""
    home = os.environ.get("JAVA_HOME", "")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if not java:
        return None
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 - Java of this machine
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?([0-9]+)', said.stderr + said.stdout)
    return int(found[1]) if found else None


def _started(master: str) -> Any:
    """A new session, in a new Java process; under ``spark-submit`` in the one that is there."""
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if not submitted and (java_version() or 0) < LEAST_JAVA:
        raise Unavailable(
            f"Spark needs Java {LEAST_JAVA} or later, and there is none",
            hint="install it (`apt install openjdk-17-jre-headless`), or let JAVA_HOME name it; `dprelease doctor` "
            "tells what is found",
            code="DPR-E149",
        )
    folder = _own_folder()
    try:
        return _open(master, folder, submitted=submitted)
    except DpReleaseError:
        raise
    except Exception as error:  # there is no session yet, so that no word of it can be about rows
        kind, words = type(error).__name__, str(error)
    raise Unavailable(
        f"no Spark session starts with the master {master!r} ({kind})",
        detail=_reason(folder, words),
        hint=f"correct {MASTER}, or unset it to use this machine alone",
        code="DPR-E149",
    )


def _open(master: str, folder: Path, *, submitted: bool) -> Any:
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    log = folder / "log4j2.properties"
    log.write_text(_SILENT, "utf-8")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = SparkConf(loadDefaults=False)
    settings = {**asked_for(master), "spark.local.dir": str(folder)}
    if not submitted:
        settings["spark.driver.extraJavaOptions"] = _JAVA.format(log=log)
    if is_local(master):
        os.environ["SPARK_LOCAL_DIRS"] = str(folder)  # it goes before the setting
    for name, value in settings.items():
        conf.set(name, value)
    with (folder / "java.txt").open("wb") as said:
        gateway = launch_gateway(conf, {"stdout": said, "stderr": said})
    context = SparkContext(gateway=gateway, conf=conf)
    atexit.register(_ended, context, folder)
    context.setLogLevel(_LEVEL)
    return context


def _ended(context: Any, folder: Path) -> None:
    try:
        context.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _reason(folder: Path, words: str) -> str:
    """What Java, or else Spark, said before there was a session: they knew nothing of any data."""
    try:
        lines = (folder / "java.txt").read_text("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    lines += [line.removeprefix(": ") for line in words.splitlines() if line.startswith(": ")]
    told = [line for line in lines if re.search(r"(?i)error|exception", line)]
    return told[0][:300] if told else ""


def _own_folder() -> Path:
    """A new folder of this user's alone; those of processes that are gone are removed."""
    place = Path(tempfile.gettempdir())
    for old in place.glob(f"{_FOLDER}*"):
        number = old.name.removeprefix(_FOLDER).partition("-")[0]
        if number.isdecimal() and not _alive(int(number)) and not old.is_symlink() and old.stat().st_uid == os.getuid():
            shutil.rmtree(old, ignore_errors=True)
    _FOLDERS.append(tempfile.mkdtemp(prefix=f"{_FOLDER}{os.getpid()}-"))
    return Path(_FOLDERS[-1])


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
