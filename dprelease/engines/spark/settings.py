"""Which settings must a Spark session have, so that nothing of the data is shown, logged or written in clear?

A session of ours is started with them. Whatever started it, they are read back from the running session, and one that
is otherwise is refused by its name: a setting can come from the site's own files, or from ``spark-submit``.
"""

from __future__ import annotations

from collections.abc import Mapping

from dprelease.errors import Unsupported

__all__ = ["OURS", "asked_for", "is_local", "refuse_other_catalogs", "refuse_unsafe"]

OURS: Mapping[str, str] = {
    "spark.app.name": "dprelease",
    # Pages and logs with the sizes of exact totals.
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.eventLog.enabled": "false",
    "spark.log.level": "OFF",
    # What is shuffled, and what does not fit in memory, is on disk in clear without it.
    "spark.io.encryption.enabled": "true",
    # A second task for the same rows reads the files again, and its answer would be thrown away.
    "spark.speculation": "false",
    "spark.python.profile": "false",
    "spark.python.profile.memory": "false",
    "spark.shuffle.service.enabled": "false",
}
_ON_ONE_MACHINE = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
_BETWEEN_MACHINES = {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}
_DEFAULTS = {"spark.ui.enabled": "true"}  # of a setting that nobody set: of all others it is "false"
_WHY = {
    "spark.ui.enabled": "its pages show how much each task read and wrote",
    "spark.eventLog.enabled": "its files say how much each task read and wrote",
    "spark.io.encryption.enabled": "rows that are shuffled or spilled would lie on disks in clear",
    "spark.speculation": "tasks would read the rows again while others still do",
    "spark.python.profile": "it collects what tasks do",
    "spark.python.profile.memory": "it collects what tasks do",
    "spark.shuffle.service.enabled": "files of the shuffle would outlive the session",
    "spark.authenticate": "anybody on the network could ask an executor for rows",
    "spark.network.crypto.enabled": "rows would cross the network in clear",
}
_NAMES_MEAN = {
    "spark.sql.defaultCatalog": {"spark_catalog"},
    "spark.sql.catalog.spark_catalog": {"builtin", "org.apache.spark.sql.delta.catalog.DeltaCatalog"},
    "spark.sql.extensions": {
        "io.delta.sql.DeltaSparkSessionExtension",
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    },
}
"""What may be set where tables are named: with anything else a query of the site may read other rows by that name."""
_NOBODY_LISTENS = ("spark.extraListeners", "spark.plugins", "spark.sql.queryExecutionListeners", "spark.metrics.conf")


def is_local(master: str) -> bool:
    """Whether a session has no machine but this one.

    >>> is_local("local[2]"), is_local("local-cluster[2,1,1024]"), is_local("yarn")
    (True, False, False)
    """
    return master == "local" or master.startswith("local[")


def asked_for(master: str) -> dict[str, str]:
    """The settings that a session with this master is started with."""
    more = _ON_ONE_MACHINE if is_local(master) else _BETWEEN_MACHINES
    return {**OURS, **more, "spark.master": master}


def refuse_unsafe(found: Mapping[str, str]) -> None:
    """Hold the settings of a running session against what they must be.

    Args:
        found: Its settings, by name; what is not in it has its default.

    Raises:
        Unsupported: Names the first one that is otherwise (DPR-E154).
    """
    master = found.get("spark.master", "")
    wanted = {name: value for name, value in asked_for(master).items() if name in _WHY}
    for name, value in wanted.items():
        said = found.get(name, _DEFAULTS.get(name, "false")).strip().lower()
        if said != value:
            _refuse(name, f"is {said}", _WHY[name], f"set {name}={value}")
    for name in _NOBODY_LISTENS:
        if found.get(name, "").strip():
            _refuse(name, "is set", "what listens is told the sizes of exact totals", f"leave {name} out")


def refuse_other_catalogs(found: Mapping[str, str]) -> None:
    """Refuse a session in which the name of a table may mean other rows than those of the files on its record.

    Args:
        found: Its settings, by name.

    Raises:
        Unsupported: Names the first one that is otherwise (DPR-E154).
    """
    for name, may in _NAMES_MEAN.items():
        if not may.issuperset(each.strip() for each in found.get(name, "").split(",") if each.strip()):
            why = "tables of a metastore would be other ones, or have other rows, in the queries of this session"
            _refuse(name, "is set", why, f"leave {name} out, or name the files of the table as `source`,")


def _refuse(name: str, says: str, why: str, hint: str) -> None:
    raise Unsupported(
        f"the Spark session cannot be used: {name} {says}",
        detail=why,
        hint=f"{hint} where the session is configured, then run the same command again",
        code="DPR-E154",
    )
