"""The plan as a value: what a release measures, publishes and costs."""

from dprelease.plan.document.account import Account, Composition, Parallel, Window
from dprelease.plan.document.approval import Head
from dprelease.plan.document.batch import Batch
from dprelease.plan.document.entry import CatalogueEntry
from dprelease.plan.document.goal import Goal
from dprelease.plan.document.invariant import Invariant, Measured
from dprelease.plan.document.mechanisms import Choosing
from dprelease.plan.document.pieces import Piece
from dprelease.plan.document.plan import (
    Considered,
    FrozenPlan,
    Naive,
    Output,
    PlannedQuery,
    Ranking,
    ReleaseInfo,
    ReleasePlan,
)
from dprelease.plan.document.publish import Derived, EarlierTable, KeyFigure, Publish
from dprelease.plan.document.ranges import PlannedRanges
from dprelease.plan.document.series import PlannedSeries
from dprelease.plan.document.step import Answer, Feed, JointTable, Selecting, Step
from dprelease.plan.document.totals import PlannedTotals, TotalTable
from dprelease.plan.document.workload import PostProcess, Take, Workload

__all__ = [
    "Account",
    "Answer",
    "Batch",
    "CatalogueEntry",
    "Choosing",
    "Composition",
    "Considered",
    "Derived",
    "EarlierTable",
    "Feed",
    "FrozenPlan",
    "Goal",
    "Head",
    "Invariant",
    "JointTable",
    "KeyFigure",
    "Measured",
    "Naive",
    "Output",
    "Parallel",
    "Piece",
    "PlannedQuery",
    "PlannedRanges",
    "PlannedSeries",
    "PlannedTotals",
    "PostProcess",
    "Publish",
    "Ranking",
    "ReleaseInfo",
    "ReleasePlan",
    "Selecting",
    "Step",
    "Take",
    "TotalTable",
    "Window",
    "Workload",
]
