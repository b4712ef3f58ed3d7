"""What the author asks for: one published table, its measures, and how its part of the budget is said."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from itertools import combinations
from typing import Annotated, Any, ClassVar, Literal, Self, get_args, get_origin

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic.config import JsonDict
from pydantic_core import InitErrorDetails, PydanticCustomError, PydanticKnownError

from dprelease.canonical import GrownValue
from dprelease.catalog.chosen_clip import ChosenClip
from dprelease.measures import MEASURES, AskedMeasure, Measure
from dprelease.spec.fields.clips import chosen_clip
from dprelease.spec.fields.published.compare import CompareSpec
from dprelease.spec.fields.published.figures import QueryBases
from dprelease.spec.fields.published.told import NameSpec, Told
from dprelease.spec.fields.series import SeriesSpec
from dprelease.spec.fields.value import SpecValue
from dprelease.spec.fields.workloads import (
    MarginalsSpec,
    SharesSpec,
)
from dprelease.spec.text.advice import EXAMPLES, MEASURES_ELSEWHERE
from dprelease.spec.text.names import did_you_mean
from dprelease.spec.text.scalars import (
    Bound,
    Exact,
    Filled,
    Positive,
    PositiveWhole,
    Relative,
    Share,
    as_written,
    exact_number,
    kind_of,
    refuse,
    true_or_false,
)

__all__ = [
    "MOST_TOTALS",
    "ExceptSpec",
    "PinSpec",
    "QueryBounds",
    "QuerySpec",
    "RangesSpec",
    "SuppressSpec",
    "TargetSpec",
    "Which",
    "end_columns",
]

_ONE: JsonDict = {"minProperties": 1, "maxProperties": 1}


def _numbers_of(kind: str) -> dict[str, bool]:
    """The fields of a measure that hold exact numbers, and whether each holds a list of them."""

    def within(annotation: Any) -> Iterator[Any]:
        yield annotation
        for part in get_args(annotation):
            yield from within(part)

    inside = {name: list(within(info.annotation)) for name, info in MEASURES[kind].model_fields.items()}
    return {
        name: any(get_origin(each) is tuple for each in types) for name, types in inside.items() if Fraction in types
    }


def _measure(value: Any) -> Any:
    """The mapping of a measure with its numbers exact; which kind it is must be plain."""
    if isinstance(value, Measure):
        return value
    example = "write one of: " + ", ".join(f"{{{kind}: ...}}" for kind in MEASURES)
    if not isinstance(value, dict):
        raise refuse("DPR-S214", f"is {kind_of(value)}, not a measure", example)
    kinds = [kind for kind in MEASURES if kind in value]
    if len(kinds) != 1:
        raise _no_measure(value, kinds, example)
    problems: list[InitErrorDetails] = []
    read = _with_forms(kinds[0], value, problems)
    for name, is_list in _numbers_of(kinds[0]).items():
        if isinstance(value.get(name), ChosenClip | dict) and name == "clip":  # read already
            continue
        if value.get(name) is None:  # as canonical JSON writes what was left out; no author can write it
            continue
        if is_list and not isinstance(value[name], list | tuple):
            examples = MEASURES[kinds[0]].model_fields[name].examples
            hint = f"write {examples[0]}" if examples else "write [low, high]"
            error = refuse("DPR-S210", f"is {kind_of(value[name])}, not a list of numbers", hint)
            problems.append(InitErrorDetails(type=error, loc=(name,), input=value[name]))
            continue
        items: list[Fraction] = []
        for at, item in enumerate(value[name] if is_list else (value[name],)):
            try:
                items.append(exact_number(item))
            except PydanticCustomError as error:
                problems.append(InitErrorDetails(type=error, loc=(name, at) if is_list else (name,), input=item))
        read[name] = tuple(items) if is_list else next(iter(items), None)
    if problems:
        raise ValidationError.from_exception_data("measure", problems)
    return read


def _with_forms(kind: str, value: dict[str, Any], problems: list[InitErrorDetails]) -> dict[str, Any]:
    """The mapping with what has a form of its own read: what is true or false, and a clip that noise chooses."""
    forms: tuple[tuple[str, type, Callable[[Any], Any]], ...] = (
        ("weighted", object, true_or_false),
        ("gini", object, true_or_false),
        ("clip", dict, partial(chosen_clip, kind)),
        ("key", object, as_written),
    )
    read = dict(value)
    for name, form, reading in forms:
        if read.get(name) is not None and isinstance(read[name], form):
            try:
                read[name] = reading(read[name])
            except PydanticCustomError as wrong:
                problems.append(InitErrorDetails(type=wrong, loc=(name,), input=read[name]))
    return read


def _no_measure(value: dict[str, Any], kinds: list[str], example: str) -> Exception:
    if kinds:
        return refuse("DPR-S214", f"is {len(kinds)} measures: {', '.join(kinds)}", "give each one a name of its own")
    asked = str(next(iter(value), ""))
    meant = MEASURES_ELSEWHERE.get(asked.lower())
    hint = f"write {meant}" if meant else did_you_mean(asked, MEASURES, example)
    return refuse("DPR-S214", "does not say what it measures", hint)


class PinSpec(SpecValue):
    """What this query alone costs, whatever the others get; the release's delta holds."""

    model_config: ClassVar[ConfigDict] = ConfigDict(json_schema_extra=_ONE)
    epsilon: Positive | None = Field(None, description="What the query alone would cost, at the release's delta.")
    rho: Positive | None = Field(None, description="Zero-concentrated differential privacy, spent exactly.")

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.epsilon is None) == (self.rho is None):
            found = "neither epsilon nor rho" if self.epsilon is None else "both epsilon and rho"
            raise refuse("DPR-S218", f"has {found}", "write one: `budget: {epsilon: 1/10}` or `budget: {rho: 1/100}`")
        return self


class TargetSpec(SpecValue):
    """How accurate a measure is to be in its worst cell, at `publish.confidence`."""

    model_config: ClassVar[ConfigDict] = ConfigDict(json_schema_extra=_ONE)
    margin: Positive | None = Field(None, description="At most this margin of error, in units of the measure.")
    relative: Relative | None = Field(None, description="At most this part of `expect`, for a count: 0.1 is 10 %.")

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.margin is None) == (self.relative is None):
            found = "neither margin nor relative" if self.margin is None else "both margin and relative"
            raise refuse("DPR-S222", f"has {found}", "write one: `{margin: 500}` or `{relative: 0.1}`")
        return self


class QueryBounds(SpecValue):
    """How much one unit may add to this table; what is more is left out."""

    model_config: ClassVar[ConfigDict] = ConfigDict(json_schema_extra={"minProperties": 1})
    max_groups: Bound | None = Field(None, description="In so many cells at most one unit is counted.")
    max_rows_per_group: Bound | None = Field(None, description="So many rows at most of one unit and cell.")

    @model_validator(mode="after")
    def _not_empty(self) -> Self:
        if self.max_groups is None and self.max_rows_per_group is None:
            raise refuse("DPR-S224", "bounds nothing", "write `bounds: {max_groups: 3, max_rows_per_group: 10}`")
        return self


class ExceptSpec(SpecValue):
    """Key combinations that cannot occur, and are left out of the table: public facts."""

    reference: Filled = Field(description="A name under `references`; its lines are the combinations.")


class SuppressSpec(SpecValue):
    """Rows that are withheld after the noise, by a published number."""

    measure: Filled = Field(description="A measure of the query.")
    below: Exact = Field(description="Where the published number is below this one, the row is blank.")


def _measures(value: Any, info: ValidationInfo) -> Any:
    """Only a list of the most frequent keys has no measures; a workload counts rows where nothing else is said."""
    if info.data.get("top_k", "wrong in itself") is not None:
        return {} if value is None else value
    if info.data.get("marginals", "wrong in itself") is not None and value is None:
        return {"count": {"count": "rows"}}
    if value is None:
        raise PydanticKnownError("missing")
    if value == {}:
        raise refuse("DPR-S210", "has 0 items, not at least 1", EXAMPLES["queries.*.measures"])
    return value


def _table_or_top(schema: JsonDict) -> None:
    schema["required"] = ["table"]
    schema["anyOf"] = [{"required": ["measures"]}, {"required": ["top_k", "k"]}, {"required": ["marginals"]}]


MOST_TOTALS = 63  # tables of totals of one query: all of six columns


def _totals(value: Any, info: ValidationInfo) -> Any:
    """``all`` written out: every list of some of the columns of `by`, the longest first."""
    if isinstance(value, str) and value != "all":
        hint = "write `totals: [[], [region]]`, lists of columns of `by`, or `totals: all`"
        raise refuse("DPR-S711", f"is {kind_of(value)}, neither lists nor `all`", hint)
    if value != "all":
        return value
    by = tuple(info.data.get("by") or ())
    if 2 ** len(by) - 1 > MOST_TOTALS:
        hint = "write the lists that are wanted, such as `totals: [[], [region], [region, sex]]`"
        raise refuse("DPR-S711", f"is `all` of {len(by)} columns, more than {MOST_TOTALS} tables of totals", hint)
    return tuple(each for size in reversed(range(len(by))) for each in combinations(by, size))


Totals = Annotated[
    tuple[tuple[Filled, ...], ...],
    BeforeValidator(_totals),
    WithJsonSchema(
        {
            "anyOf": [
                {"const": "all"},
                {
                    "type": "array",
                    "minItems": 1,
                    "items": {"type": "array", "items": {"type": "string", "minLength": 1}},
                },
            ]
        }
    ),
]


class QuerySpec(SpecValue, GrownValue):
    """One published table: the full cross product of the keys of `by`, empty cells too; or the most frequent keys.

    With `marginals` it is a workload: many tables of counts, planned, measured and reconciled as one.
    """

    LATER: ClassVar[tuple[str, ...]] = (
        "marginals",
        "levels",
        "shares",
        "ranges",
        "totals",
        "round",
        "compare",
        "description",
        "condition",
        "names",
        "series",
    )
    model_config: ClassVar[ConfigDict] = ConfigDict(json_schema_extra=_table_or_top)
    title: Told = Field("", description="What a reader sees above the table.")
    description: Told = Field("", description="What it is, in the author's words, below its title.")
    condition: Told = Field("", description="What `where` says, in words.")
    names: dict[str, NameSpec] = Field({}, description="What a reader sees of a published number, by its name.")
    table: Filled = Field(description="A name under `tables`.")
    where: Filled | None = Field(None, description="The rows that are looked at, as an expression that is true there.")
    by: tuple[Filled, ...] = Field((), description="Columns with keys; empty: one number for the whole table.")
    bounds: QueryBounds | None = None
    keys: Literal["private"] | None = Field(None, description="A noisy selection decides which keys appear.")
    min_units: PositiveWhole | None = Field(None, description="With private keys: the least noisy number of units.")
    except_: ExceptSpec | None = Field(None, alias="except")
    top_k: Filled | None = Field(None, description="Instead of measures: the column whose keys are ranked.")
    k: PositiveWhole | None = Field(None, description="With `top_k`: how many keys are listed.")
    of: Literal["units", "rows"] | None = Field(
        None, description="With `top_k`: what is counted; left out: units.", validate_default=True
    )
    marginals: MarginalsSpec | None = Field(None, description="Instead of `by`: many tables of counts, as one.")
    ranges: RangesSpec | None = Field(None, description="Sums along an ordered column of `by`, instead of its cells.")
    totals: Totals | None = Field(
        None, description="Further rows, keyed `_total`: one list of columns of `by` for each table of them, or `all`."
    )
    series: SeriesSpec | None = Field(
        None, description="Sums over periods, told well because the periods share their noise."
    )
    levels: Filled | None = Field(
        None, description="With `marginals`: a name under `hierarchies`; every table is made at every level."
    )
    shares: SharesSpec | None = Field(
        None, description="With `marginals` or `totals`: the budget of each table; left out: the plan finds it."
    )
    measures: Annotated[dict[str, Annotated[AskedMeasure, BeforeValidator(_measure)]], BeforeValidator(_measures)] = (
        Field(None, validate_default=True, description="One published number per cell each, by name.")
    )
    compare: dict[str, CompareSpec] = Field(
        {}, description="Further columns, made of the published numbers: shares, changes, indices, differences; free."
    )
    suppress: SuppressSpec | None = None
    round: QueryBases | None = Field(
        None, description="Counts, or each measure named here, are rounded to multiples of a base after the noise."
    )
    budget: PinSpec | None = Field(None, description="Instead of a share: what this query alone would cost.")
    target: dict[str, TargetSpec] = Field(
        {}, description="Measure to the accuracy of its worst cell; beside a share, the least that it gets."
    )
    share: Share | None = Field(
        None,
        description="Of the budget (or see `privacy.allocation`); left out: 1, or none with a budget or a target.",
        validate_default=True,
    )
    expect: dict[str, PositiveWhole] = Field({}, description="A public guess per cell of a count of this query.")

    @field_validator("of")
    @classmethod
    def _units_first(cls, of: str | None, info: ValidationInfo) -> str | None:
        """Units where a list of keys does not say, so that leaving it out and writing it are the same spec."""
        return "units" if of is None and info.data.get("top_k") else of

    @field_validator("share")
    @classmethod
    def _one_share(cls, share: Fraction | None, info: ValidationInfo) -> Fraction | None:
        """A share of 1 where nothing is said, so that leaving it out and writing it are the same spec."""
        said = info.data.get("budget") or info.data.get("target")
        return Fraction(1) if share is None and not said else share

    @property
    def weight(self) -> Fraction | None:
        """Its share of what is not pinned; None where it has a budget of its own, or targets and no share."""
        return None if self.budget else self.share

    @property
    def cells_by(self) -> tuple[str, ...]:
        """The columns whose keys make its cells: of a list of keys, the one column that is ranked."""
        return self.by if self.top_k is None else (self.top_k,)

    @property
    def with_totals(self) -> MarginalsSpec:
        """Its cells and its totals as the tables of one workload."""
        return MarginalsSpec(sets=(self.by, *(self.totals or ())))


Which = Literal["prefixes", "all"]


def end_columns(of: str, which: Which) -> tuple[str, ...]:
    """The key columns that take the place of the ordered one, in published order.

    >>> end_columns("age", "prefixes"), end_columns("age", "all")
    (('age_to',), ('age_from', 'age_to'))
    """
    return (f"{of}_to",) if which == "prefixes" else (f"{of}_from", f"{of}_to")


class RangesSpec(SpecValue):
    """Counts up to each key of an ordered column, or from each key to each later one."""

    of: Filled = Field(description="A column of `by` whose keys are in order: numbers, dates or bins.")
    which: Which = Field(description="`prefixes`: up to and with each key; `all`: from each key to each later one.")
