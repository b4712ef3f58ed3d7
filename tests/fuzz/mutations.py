"""The example specs with one to three changes: deleted, doubled, exchanged, taken from another spec, or grown."""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.fuzz.grammar import ODD, properties_like, written
from tests.laws.generated import generated_spec, generated_units_spec

__all__ = ["bases", "fuzzed"]

ROOT = Path(__file__).parents[2]
_SLOW = ("acs-totals", "adult-crosstabs", "redistricting-invariant")  # whose plans take over half a second
_FENCE = re.compile(r"^```yaml\n(dprelease: 1\n.*?)^```$", re.MULTILINE | re.DOTALL)
Node = Any  # of PyYAML, which has no types


@cache
def bases() -> dict[str, str]:
    """The texts of specs that are right, by name: the examples, and those of the pages about measures."""
    found = {}
    for path in sorted((ROOT / "specs").glob("*.yaml")):
        text = path.read_text("utf-8")
        if "\nqueries:" in text and path.stem not in _SLOW:
            found[path.stem] = text
    for path in sorted((ROOT / "docs/measures").glob("*.md")):
        for at, text in enumerate(_FENCE.findall(path.read_text("utf-8"))):
            found[f"{path.stem}-{at}"] = text
    return found


def fuzzed(seed: int) -> str:
    """The text of a spec; the same for the same seed. One in eight is made anew, all others are changed examples."""
    draw = random.Random(f"fuzz {seed}")
    turn = seed % 16
    if turn == 0:
        return generated_spec(seed, 8, ratios=True)
    if turn == 1:
        return generated_units_spec(seed, 4)
    text = draw.choice(sorted(bases().values()))
    root = yaml.compose(text, yaml.SafeLoader)
    words = tuple(sorted({each.value for each in _scalars(root)}))
    for _ in range(draw.choice([1, 1, 1, 2, 3])):
        draw.choice(_CHANGES)(root, draw, words)
    return str(yaml.serialize(root, allow_unicode=True, width=200))


def _nodes(node: Node) -> Iterator[Node]:
    yield node
    if isinstance(node, yaml.MappingNode):
        for _, value in node.value:
            yield from _nodes(value)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            yield from _nodes(value)


def _scalars(node: Node) -> list[Node]:
    return [each for each in _nodes(node) if isinstance(each, yaml.ScalarNode)]


def _collections(node: Node, kind: type = object) -> list[Node]:
    return [
        each for each in _nodes(node) if not isinstance(each, yaml.ScalarNode) and each.value and isinstance(each, kind)
    ]


def _read(text: str) -> Node:
    """The node of a value as it would stand in a file; a text that is no YAML is a quoted one."""
    try:
        return yaml.compose(text, yaml.SafeLoader) or yaml.ScalarNode("tag:yaml.org,2002:str", text, style='"')
    except yaml.YAMLError:
        return yaml.ScalarNode("tag:yaml.org,2002:str", text, style='"')


def _become(node: Node, other: Node) -> None:
    """Put a value in the place of another one."""
    if not isinstance(other, type(node)):
        node.__class__ = other.__class__
    node.tag, node.value = other.tag, copy.deepcopy(other.value)
    for name in ("style", "flow_style"):
        setattr(node, name, getattr(other, name, None))


def _delete(root: Node, draw: random.Random, words: tuple[str, ...]) -> None:
    found = draw.choice(_collections(root))
    found.value.pop(draw.randrange(len(found.value)))


def _double(root: Node, draw: random.Random, words: tuple[str, ...]) -> None:
    found = draw.choice(_collections(root))
    item = copy.deepcopy(draw.choice(found.value))
    if isinstance(found, yaml.MappingNode) and draw.random() < 0.8:
        item[0].value = f"{item[0].value}{draw.choice(['2', '_b', 'X'])}"
    found.value.append(item)


def _odd_scalar(root: Node, draw: random.Random, words: tuple[str, ...]) -> None:
    _become(draw.choice(_scalars(root)), _read(draw.choice(ODD)))


def _other_word(root: Node, draw: random.Random, words: tuple[str, ...]) -> None:
    draw.choice(_scalars(root)).value = draw.choice(words)


def _other_number(root: Node, draw: random.Random, words: tuple[str, ...]) -> None:
    numbers = [each for each in _scalars(root) if re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", each.value)]
    if numbers:
        found = draw.choice(numbers)
        value = float(found.value)
        found.value = f"{draw.choice([-value, value + 1, value - 1, value * 10, value / 2, value * 1e6, 0]):g}"


def _exchange(root: Node, draw: random.Random, words: tuple[str, ...]) -> None:
    found = draw.choice(_collections(root, yaml.MappingNode))
    if len(found.value) > 1:
        first, second = draw.sample(range(len(found.value)), 2)
        (a, x), (b, y) = found.value[first], found.value[second]
        found.value[first], found.value[second] = (a, y), (b, x)


def _from_another(root: Node, draw: random.Random, words: tuple[str, ...]) -> None:
    other = yaml.compose(draw.choice(sorted(bases().values())), yaml.SafeLoader)
    mine = {key.value: value for each in _collections(root, yaml.MappingNode) for key, value in each.value}
    theirs = {key.value: value for each in _collections(other, yaml.MappingNode) for key, value in each.value}
    both = sorted(set(mine) & set(theirs))
    if both:
        name = draw.choice(both)
        _become(mine[name], theirs[name])


def _grow(root: Node, draw: random.Random, words: tuple[str, ...]) -> None:
    """A property that the schema knows of a mapping like this one, with a value of its grammar."""
    found = draw.choice(_collections(root, yaml.MappingNode))
    keys = frozenset(key.value for key, _ in found.value)
    known = properties_like(keys)
    new = sorted(set(known) - keys)
    if new:
        name = draw.choice(new)
        found.value.append((_read(name), _read(written(known[name], draw, words))))


def _rename(root: Node, draw: random.Random, words: tuple[str, ...]) -> None:
    found = draw.choice(_collections(root, yaml.MappingNode))
    at = draw.randrange(len(found.value))
    _, value = found.value[at]
    near = sorted(properties_like(frozenset(each.value for each, _ in found.value))) or list(words)
    found.value[at] = (_read(draw.choice(near)), value)


_Change = Callable[[Node, random.Random, tuple[str, ...]], None]
_CHANGES: tuple[_Change, ...] = (
    *(_delete, _double, _odd_scalar, _other_word, _other_word, _other_number, _other_number),
    *(_exchange, _from_another, _from_another, _from_another, _grow, _grow, _rename),
)
