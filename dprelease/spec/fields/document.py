"""What the author writes, as frozen values: one model per mapping of the file, one field per line.

Numbers are exact rationals from their own digits. What crosses two fields or two names is checked in ``spec.checks``.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    WithJsonSchema,
    model_serializer,
    model_validator,
)

from dprelease.canonical import GrownValue, Value
from dprelease.catalog.workbook import WORKBOOK
from dprelease.formats import USUAL, FormatName
from dprelease.privacy.accountants import AccountingName
from dprelease.privacy.budget import Budget
from dprelease.privacy.unit import Neighboring, PrivacyUnit
from dprelease.spec.fields.columns import ColumnSpec, KeySpan, ReferenceKeys
from dprelease.spec.fields.published.catalogued import CataloguedSpec, TemporalSpec
from dprelease.spec.fields.published.compare import CompareSpec
from dprelease.spec.fields.published.figures import Base, SymbolsSpec, UnreliableSpec
from dprelease.spec.fields.published.key_figures import KeyFigures
from dprelease.spec.fields.published.office import Alternative, Office, Signatory
from dprelease.spec.fields.published.told import NameSpec, PageLanguages, Told
from dprelease.spec.fields.published_sets import published_sets
from dprelease.spec.fields.queries import (
    ExceptSpec,
    PinSpec,
    QueryBounds,
    QuerySpec,
    RangesSpec,
    SuppressSpec,
    TargetSpec,
)
from dprelease.spec.fields.schedule import ScheduleSpec
from dprelease.spec.fields.series import SeriesSpec
from dprelease.spec.fields.sources import SourceSpec
from dprelease.spec.fields.tables import BoundsSpec, JoinSpec, TableSpec, TimeSpec
from dprelease.spec.fields.value import SpecValue
from dprelease.spec.fields.workloads import InvariantSpec, Levels, MarginalsSpec, PostProcess, SharesSpec
from dprelease.spec.text.scalars import (
    AsWritten,
    Confidence,
    Delta,
    Filled,
    Flag,
    Period,
    Positive,
    ReleaseName,
    Text,
    Version,
    day,
    refuse,
)
from dprelease.words import DEFAULT

__all__ = [
    "MODELS",
    "BoundsSpec",
    "Cap",
    "ColumnSpec",
    "DeriveSpec",
    "EarlierTableSpec",
    "ExceptSpec",
    "InvariantSpec",
    "JoinSpec",
    "KeySpan",
    "MarginalsSpec",
    "PinSpec",
    "PublishSpec",
    "QueryBounds",
    "QuerySpec",
    "ReferenceKeys",
    "ReferenceSpec",
    "ReleaseSpec",
    "ScheduleSpec",
    "SharesSpec",
    "SourceSpec",
    "SpecValue",
    "SuppressSpec",
    "TableSpec",
    "TargetSpec",
    "TimeSpec",
]


def _next(value: Any) -> Any:
    if isinstance(value, str) and value != "schedule" and day(value) is None:
        raise refuse("DPR-S474", f"is {value!r}, no day of the calendar", "write 2024-06-01, or `schedule`")
    return value


Next = Annotated[
    str,
    BeforeValidator(_next),
    WithJsonSchema({"type": "string", "pattern": r"^(schedule|\d{4}-\d{2}-\d{2})$"}),
]


class ReleaseHead(CataloguedSpec):
    """What is released: name and period are its identity, released once."""

    LATER: ClassVar[tuple[str, ...]] = (*CataloguedSpec.LATER, "languages", "abstract", "next")

    name: ReleaseName = Field(description="With the period, the identity in the ledger: a-z, 0-9 and -.")
    period: Period = Field("once", description="Always read as text: 2024, 2024-Q1, 2024-03, 2024-03-07 or your own.")
    title: Told = Field("", description="What a reader sees at the top.")
    curator: Text = Field("", description="The office that answers for the release.")
    contact: Text = Field("", description="Where readers may ask.")
    intended_use: Text = Field("", description="What the release is made for.")
    languages: PageLanguages = Field(
        (DEFAULT,), description="Of the pages: the first one in the bundle itself, each other one in a folder."
    )
    abstract: Told = Field("", description="What was published and what it says, in one paragraph of the author's.")
    next: Next | None = Field(
        None, description="When the period after this one is released: a day, or `schedule` for that of `schedule`."
    )


class UnitSpec(SpecValue):
    """Who is protected."""

    entity: Filled = Field(description="As printed: person, household, ...")
    per: Filled | None = Field(None, description="With {entity: person, per: month}, one month of a person.")


class BudgetSpec(SpecValue):
    """What the release may cost: epsilon or rho, and delta. There is no default."""

    epsilon: Positive | None = Field(None, description="Smaller is more private and less accurate.")
    rho: Positive | None = Field(None, description="Zero-concentrated differential privacy, spent exactly.")
    delta: Delta = Field(Fraction(0), description="At least 0 and below 1; Gaussian noise needs more than 0.")

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.epsilon is None) == (self.rho is None):
            found = "neither epsilon nor rho" if self.epsilon is None else "both epsilon and rho"
            raise refuse("DPR-S218", f"has {found}", "write one: `{epsilon: 1, delta: 1e-9}` or `{rho: 1/10}`")
        return self


class Cap(SpecValue):
    """A limit on a loss: epsilon at delta."""

    epsilon: Positive = Field(description="At most this epsilon.")
    delta: Delta = Field(description="At this delta.")


def _unit(value: Any) -> Any:
    return value if isinstance(value, PrivacyUnit) else UnitSpec.model_validate(value).model_dump()


def _budget(value: Any) -> Any:
    return value if isinstance(value, Budget) else BudgetSpec.model_validate(value).model_dump()


class PrivacySpec(SpecValue, GrownValue):
    """Who is protected, how two neighbouring tables differ, and what may be spent."""

    LATER: ClassVar[tuple[str, ...]] = ("allocation", "unit_title")
    unit: Annotated[PrivacyUnit, BeforeValidator(_unit, json_schema_input_type=UnitSpec)]
    neighboring: Neighboring = Field(
        Neighboring.ADD_REMOVE, strict=False, description="Neighbours differ by one unit more, or by one replaced."
    )
    budget: Annotated[Budget, BeforeValidator(_budget, json_schema_input_type=BudgetSpec)]
    accounting: AccountingName = Field("auto", description="How losses add up; auto takes the smallest that is proved.")
    noise: Literal["auto", "laplace", "gaussian", "knorm"] = Field(
        "auto", description="Always integer-valued; one that is named is taken, whatever an account is charged for it."
    )
    allocation: Literal["shares", "least_error"] | None = Field(
        None,
        description="shares divide the budget; with least_error they weigh errors, whose total is made least; left "
        "out: shares, or where none is written beside a workload, the least total error with a least part for each.",
    )
    unit_title: Told = Field("", description="What a reader sees in the place of the unit's name.")
    at_most: Cap | None = Field(None, description="A lower cap than the account's; it can never raise it.")


def _csv(file: str) -> str:
    if not file.lower().endswith((".csv", WORKBOOK)):
        says = f"names a reference that is neither a .csv nor an {WORKBOOK} file"
        raise refuse("DPR-S216", says, "save the public table as CSV in UTF-8")
    return file


class ReferenceSpec(SpecValue):
    """A public CSV file or workbook; its content is part of the plan."""

    file: Annotated[Filled, AfterValidator(_csv)] = Field(
        description="Path of a CSV file or an Excel workbook (.xlsx), from the folder of dprelease.yaml."
    )
    columns: dict[str, Literal["text", "integer", "boolean", "date"]] = Field(description="The columns that are used.")


class GeographySpec(SpecValue):
    """Public boundaries, from which pages draw maps of rates, shares and means."""

    boundaries: Filled = Field(description="A GeoJSON file of polygons, from the folder of dprelease.yaml.")
    key: Filled = Field(description="The property of a feature that holds the key of its area.")
    without: tuple[AsWritten, ...] = Field((), description="Keys of the column that have no area.")
    insets: tuple[tuple[AsWritten, ...], ...] = Field(
        (), description="Lists of keys that are drawn apart, each in a box at its own scale: far away or very small."
    )


class EarlierTableSpec(SpecValue):
    """A published table of an earlier period, which SQL reads under a name of its own."""

    query: Filled = Field(description="The published table: a query of this spec, or a table of its workload.")
    period: Period = Field(description="The period whose bundle is read: `previous`, or one by name.")


class DeriveSpec(SpecValue, GrownValue):
    """A further table, made from the published ones: it costs nothing."""

    LATER: ClassVar[tuple[str, ...]] = ("earlier",)
    title: Told = Field("", description="What a reader sees above the table.")
    sql: Filled = Field(description="A query over the published tables, by the names of the queries.")
    earlier: dict[str, EarlierTableSpec] = Field(
        {}, description="Tables of earlier periods' bundles, by the names that `sql` gives them."
    )


class PublishSpec(SpecValue, GrownValue):
    """How the tables are written."""

    LATER: ClassVar[tuple[str, ...]] = (
        "certificate",
        "csv_formulas",
        "round",
        "symbols",
        "period_column",
        "across",
        "interactive",
        "key_figures",
    )
    formats: tuple[FormatName, ...] = Field(USUAL, min_length=1)
    certificate: Flag = Field(True, description="Whether certificate.pdf is made beside the formats.")
    confidence: Confidence = Field(Fraction(95, 100), description="Of the margins beside every number.")
    unreliable: UnreliableSpec | None = Field(
        None, description="What is flagged; left out: numbers whose interval is wide beside them, and wide shares."
    )
    csv_formulas: Literal["escape", "keep"] | None = Field(
        None,
        description="Keys that a spreadsheet takes for formulas, in CSV: escape puts ' before them; left out: "
        "escape where noise selects the keys, keep where they are declared.",
    )
    round: Base | None = Field(
        None, description="Counts are rounded to multiples of it after the noise, for reading; auto finds the base."
    )
    symbols: SymbolsSpec | None = Field(None, description="Signs for numbers that are not plain.")
    period_column: Flag = Field(
        False, description="Whether CSV and Parquet files begin with a column that holds the period."
    )
    across: dict[str, Filled] = Field(
        {}, description="By query the column of `by` whose keys stand side by side on pages: {income: sex}."
    )
    interactive: Flag = Field(
        False,
        description="Whether a script searches and sorts the tables of pages, which are complete without it.",
    )
    key_figures: KeyFigures = Field(
        (), description="Up to six numbers that the front page begins with; left out: those of tables with one row."
    )


def _no_default(schema: dict[str, Any]) -> None:
    schema.pop("default", None)


def _post(value: Any, info: ValidationInfo) -> Any:
    """Tables of a workload are consistent where nothing else is said, so that saying it is the same spec."""
    if value is None:
        return ("consistent",) if any(each.marginals for each in info.data.get("queries", {}).values()) else ()
    if value in ((), []):
        raise refuse("DPR-S210", "has 0 items, not at least 1", "write `postprocess: [consistent]`, or leave it out")
    return tuple(value) if isinstance(value, list) else value


class ReleaseSpec(SpecValue):
    """A release: what to publish, about whom, and how much privacy it may cost."""

    dprelease: Version = Field(description="Version of this format: 1.")
    release: ReleaseHead
    privacy: PrivacySpec
    references: dict[str, ReferenceSpec] = Field({}, description="Public files, each once, by name.")
    tables: dict[str, TableSpec] = Field(description="Confidential tables, by name.")
    hierarchies: dict[str, Levels] = Field(
        {}, description="Columns that nest, by name, top first: [region, state, puma]."
    )
    queries: dict[str, QuerySpec] = Field(description="Published tables, by name.")
    postprocess: Annotated[tuple[PostProcess, ...], BeforeValidator(_post)] = Field(
        None, validate_default=True, description="What is done to workloads after the noise; left out: [consistent]."
    )
    invariants: tuple[InvariantSpec, ...] = Field((), description="Counts that are published exactly, unprotected.")
    geography: dict[str, GeographySpec] = Field({}, description="Boundaries of the areas of a key column, by its name.")
    derive: dict[str, DeriveSpec] = Field({}, description="Tables made from the published ones, by name.")
    publish: PublishSpec = Field(PublishSpec(), json_schema_extra=_no_default)
    office: Office | None = Field(None, description="What the office states of the release, for the certificate.")
    # It says when, never what: another hour changes no fingerprint, and leaves open releases as they are.
    schedule: ScheduleSpec | None = Field(None, exclude=True, description="When each period is released.")

    @model_serializer(mode="wrap")
    def _without_nothing(self, written: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Specs without workloads keep the fingerprint that they had before there were any."""
        fields: dict[str, Any] = written(self)
        for name in ("hierarchies", "postprocess", "invariants", "office", "geography"):
            if not getattr(self, name):
                del fields[name]
        return fields

    @property
    def leaves_division_open(self) -> bool:
        """Whether nobody says how the budget is divided, where equal shares are far from the least total error.

        So it is where a workload of several tables shares with other queries, and all shares are equal. Shares that are
        written as equal ones stand: ``load`` then says ``allocation: shares``.
        """
        exact = {each.query for each in self.invariants}
        sharing = [each for name, each in self.queries.items() if name not in exact and each.weight is not None]
        return (
            self.privacy.allocation is None
            and len(sharing) > 1
            and len({each.weight for each in sharing}) == 1
            and any(each.marginals and len(published_sets("", each, self.hierarchies)) > 1 for each in sharing)
        )

    def with_written_shares(self) -> ReleaseSpec:
        """The same with ``allocation: shares`` where a share, or that itself, is written and it makes a difference.

        Elsewhere it is left out, so that specs whose shares differ keep the fingerprint that they had.
        """
        if self.privacy.allocation == "least_error":
            return self
        said = self.privacy.allocation or any("share" in each.model_fields_set for each in self.queries.values())
        silent = self.model_copy(update={"privacy": self.privacy.model_copy(update={"allocation": None})})
        if not (said and silent.leaves_division_open):
            return silent if self.privacy.allocation else self
        return self.model_copy(update={"privacy": self.privacy.model_copy(update={"allocation": "shares"})})

    @property
    def revisions(self) -> int:
        """How many revisions of each period are planned; they are charged with its first publication."""
        return 0 if self.schedule is None else len(self.schedule.revisions)


# The model of every mapping of a spec, by its path with `*` for a name that the author chose.
MODELS: Mapping[str, type[Value]] = {
    "": ReleaseSpec,
    "release": ReleaseHead,
    "release.temporal": TemporalSpec,
    "privacy": PrivacySpec,
    "privacy.unit": UnitSpec,
    "privacy.budget": BudgetSpec,
    "privacy.at_most": Cap,
    "references.*": ReferenceSpec,
    "tables.*": TableSpec,
    "tables.*.source": SourceSpec,
    "tables.*.time": TimeSpec,
    "tables.*.bounds": BoundsSpec,
    "tables.*.join": JoinSpec,
    "tables.*.columns.*": ColumnSpec,
    "tables.*.columns.*.keys": ReferenceKeys,
    "queries.*": QuerySpec,
    "queries.*.bounds": QueryBounds,
    "queries.*.compare.*": CompareSpec,
    "queries.*.except": ExceptSpec,
    "queries.*.names.*": NameSpec,
    "queries.*.suppress": SuppressSpec,
    "queries.*.budget": PinSpec,
    "queries.*.target.*": TargetSpec,
    "queries.*.marginals": MarginalsSpec,
    "queries.*.ranges": RangesSpec,
    "queries.*.series": SeriesSpec,
    "queries.*.shares": SharesSpec,
    "invariants": InvariantSpec,
    "derive.*": DeriveSpec,
    "derive.*.earlier.*": EarlierTableSpec,
    "geography.*": GeographySpec,
    "publish": PublishSpec,
    "publish.unreliable": UnreliableSpec,
    "publish.symbols": SymbolsSpec,
    "office": Office,
    "office.alternatives": Alternative,
    "office.signatories": Signatory,
    "schedule": ScheduleSpec,
}
