"""The closed table of the systems that are compared. To add one: a script in ``systems/`` and one entry here.

What its environment holds is in ``requirements/ENVIRONMENT.txt``, every version pinned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["COMPARED", "OURS", "RAW", "SYSTEMS", "System"]


@dataclass(frozen=True)
class System:
    """One line of the tables.

    Attributes:
        name: What a run calls it.
        title: What a reader is told.
        script: Its module in ``systems/``.
        environment: Its requirements, and the folder that they are installed in; empty: this project's own.
        packages: Whose versions are shown.
        noise: The noise for each work; Laplace where none is named, and none at all if it has no privacy.
        works: Those that it is for; a second line of a system, with other noise, is not for all.
        cannot: Which of them it cannot do, and why.
        without: Queries that it leaves out of a work, by their kind, and why.
        elsewhere: Whether another process does its work, so that it cannot tell its processor seconds inside.
        told: What a reader should know of its guarantee and of how it was used, as whole sentences.
    """

    name: str
    title: str
    script: str
    environment: str
    packages: tuple[str, ...]
    noise: Mapping[str, str] = field(default_factory=dict)
    works: tuple[str, ...] = ("W1", "W2", "W3", "W4")
    cannot: Mapping[str, str] = field(default_factory=dict)
    without: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    elsewhere: bool = False
    told: tuple[str, ...] = ()


RAW, RAW_BOUNDED, OURS = "raw-duckdb", "raw-duckdb-bounded", "dprelease"
COMPARED = {"W1": RAW, "W2": RAW, "W3": RAW, "W4": RAW_BOUNDED}  # what the times of a work are multiples of

SYSTEMS = {
    each.name: each
    for each in (
        System(RAW, "DuckDB, no privacy", "raw_duckdb", "raw", ("duckdb",)),
        System(
            RAW_BOUNDED,
            "DuckDB, no privacy, bounded users",
            "raw_bounded",
            "raw",
            ("duckdb",),
            works=("W4",),
            told=(
                "In W4 the times of all systems are multiples of this one: it keeps a row in each of at most ten "
                "counties of a user, as the work says, where DuckDB without privacy otherwise counts every visit.",
            ),
        ),
        System("raw-polars", "Polars, no privacy", "raw_polars", "raw", ("polars",)),
        System(
            OURS,
            "dprelease",
            "ours",
            "",
            ("dprelease", "duckdb"),
            noise={"W3": "gaussian"},
            told=(
                "The whole command counts, all but its imports inside too: planning and verifying, charging a ledger, "
                "margins of every cell, report and accounting.",
            ),
        ),
        System(
            "by-hand",
            "DuckDB and OpenDP, by hand",
            "by_hand",
            "opendp",
            ("duckdb", "opendp"),
            told=(
                "Nobody checks what the programmer claims: bounds, sensitivities and the division of the budget are "
                "written out in the script.",
            ),
        ),
        System(
            "by-hand-gaussian",
            "DuckDB and OpenDP, by hand, Gaussian",
            "by_hand",
            "opendp",
            ("duckdb", "opendp"),
            noise={"W3": "gaussian"},
            works=("W3",),
        ),
        System(
            "opendp",
            "OpenDP with Polars",
            "opendp_polars",
            "opendp",
            ("opendp", "polars"),
            told=(
                "In W4 it keeps the first ten counties of a user, for version 0.16.0 refuses to keep a sample; which "
                "counties lose by that depends on their numbers.",
            ),
        ),
        System(
            "opendp-gaussian",
            "OpenDP with Polars, zCDP",
            "opendp_polars",
            "opendp",
            ("opendp", "polars"),
            noise={"W3": "gaussian"},
            works=("W3",),
        ),
        System(
            "smartnoise",
            "SmartNoise SQL",
            "smartnoise",
            "smartnoise",
            ("smartnoise-sql", "opendp", "duckdb"),
            without={"W3": ("quantiles", "it has no quantiles")},
            told=(
                "The exact answers that it adds noise to are made in DuckDB (`pre_aggregated`), so that empty cells "
                "are published too; in W4 that statement is what bounds users.",
                "Its Laplace noise is real-valued, and a noisy count is cut off to a whole number towards zero.",
                "In W3 its 18 queries have a twentieth of the budget each, and the two that it cannot answer are left "
                "out of its times.",
            ),
        ),
        System(
            "diffprivlib",
            "diffprivlib",
            "diffprivlib_arrays",
            "diffprivlib",
            ("diffprivlib", "numpy"),
            cannot={"W4": "it knows no units with several rows"},
            told=(
                "It has no tables: NumPy groups, and its mechanisms get sensitivities that the script states.",
                "Its geometric noise is computed in floating point.",
            ),
        ),
        System(
            "pipelinedp",
            "PipelineDP",
            "pipelinedp",
            "pipelinedp",
            ("pipeline-dp", "python-dp"),
            told=("On its local backend, which is one process and one thread.",),
        ),
        System(
            "tumult",
            "Tumult Analytics",
            "tumult",
            "tumult",
            ("tmlt.analytics", "pyspark"),
            noise={"W3": "gaussian"},
            elsewhere=True,
            told=("On Spark in this machine; starting Spark counts in the whole process, not inside.",),
        ),
    )
}
