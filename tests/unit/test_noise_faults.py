"""Faults planted in native noise, one at a time: each is caught by one of its checks at least."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import dprelease.noise.native as package
from tests.unit.native_checks import CHECKS

FOLDER = Path(package.__file__ or "").parent
PARTS = ("source", "entropy", "cumulative", "lookup", "draws")

FIRST = {
    "source": "every_word_is_used_once_and_wiped",
    "entropy": "thresholds_are_those_of_many_digits",
    "cumulative": "thresholds_are_those_of_many_digits",
    "lookup": "a_vector_is_its_words_one_by_one",
    "draws": "sums_saturate_and_keep_their_place",
}
"""The check to begin with, for each part."""

FAULTS = {
    "search takes thresholds that equal the word": (
        "lookup", 'passed = np.searchsorted(self._all, words, side="left")', 'passed = np.searchsorted(self._all, words, side="right") - 1'),
    "buckets count a threshold at their start": ("lookup", 'starts, side="left"', 'starts, side="right"'),
    "a word below its threshold counts": ("lookup", "np.greater(words, threshold", "np.less(words, threshold"),
    "ties in buckets of one threshold are decided": ("lookup", "np.equal(words, threshold, out=flag)", "flag.fill(False)"),
    "ties in buckets of several are decided": ("lookup", "np.flatnonzero(self._all[passed] == words)", "np.flatnonzero(words != words)"),
    "values are one too high": ("lookup", "np.add(count, self.first - 1, out=out)", "np.add(count, self.first, out=out)"),
    "searched values are one too low": ("lookup", "passed + (self.first - 1)", "passed + (self.first - 2)"),
    "one bit of the word is lost": ("lookup", "np.greater(words, threshold, out=flag)", "np.greater(words & ~np.uint64(1), threshold, out=flag)"),
    "further digits replace the first ones": ("lookup", "digits << self._more | source.bits(self._more)", "source.bits(self._more)"),
    "one further digit is lost": ("lookup", "source.bits(self._more), bits + self._more", "source.bits(self._more) | 1, bits + self._more"),
    "the upper bound decides as the lower": ("lookup", "digits + 1 <= found.low[index + 1]", "digits <= found.low[index + 1]"),
    "the lower bound decides as the upper": ("lookup", "bisect_right(found.high, digits)", "bisect_right(found.low, digits)"),
    "the tail is dropped": ("cumulative", "return low, high, (tail_low, -((-next_high << fine) // (one - ratio_high)))", "return low, high, (0, 0)"),
    "the tail is one value short": ("cumulative", "tail_low = (next_low << fine)", "tail_low = (low[-1] << fine)"),
    "lower weights are rounded up": ("cumulative", "next_low, next_high = low[-1] * ratio_low >> fine", "next_low, next_high = -(-low[-1] * ratio_high >> fine)"),
    "upper weights are rounded down": ("cumulative", "-(-high[-1] * ratio_high >> fine)", "high[-1] * ratio_low >> fine"),
    "the lower sums hold the upper tail": ("cumulative", "_suffixes(low, tail[0])", "_suffixes(low, tail[1] << 1)"),
    "the upper sums hold the lower tail": ("cumulative", "_suffixes(high, tail[1])", "_suffixes(high, tail[0] >> 1)"),
    "upper sums are rounded down": ("cumulative", "-((-part << bits) // total_low)", "(part << bits) // total_low"),
    "the mirrored bounds keep their places": ("cumulative", "[one - part for part in above_high], [one - part for part in above_low]", "[one - part for part in above_low], [one - part for part in above_high]"),
    "zero counts on both sides": ("cumulative", "low[0] + sides * beyond_low[0]", "sides * (low[0] + beyond_low[0])"),
    "ratios fall half as fast": ("cumulative", "exp_bounds(2 * law.rate, fine)", "exp_bounds(law.rate, fine)"),
    "a scale wrong by a thousandth": ("cumulative", "return Decay(1, 1 / scale)", "return Decay(1, 1000 / (999 * scale))"),
    "the exponential takes wrong signs": ("entropy", "if index % 2 else", "if index % 3 else"),
    "the exponential is not squared back": ("entropy", "for _ in range(halvings):", "for _ in range(halvings // 2):"),
    "the other side starts at zero too": ("draws", "np.bitwise_xor(out, sign, out=out)", "out *= 1 + 2 * sign"),
    "the sign is one of the coin's bits": ("draws", "np.bitwise_and(words.view(np.int64), 1, out=sign)", "np.bitwise_and(words.view(np.int64) >> self._width + 1, 1, out=sign)"),
    "the offset shares a bit with the sign": ("draws", "np.right_shift(words, np.uint64(1), out=offset)", "np.right_shift(words, np.uint64(0), out=offset)"),
    "refused draws are kept": ("draws", "while len(again):", "while False:"),
    "refused draws are kept the second time": ("draws", "again = again[refused]", "break"),
    "coins that stay open accept": ("draws", "if digits + 1 <= low:", "if digits <= low:"),
    "coins that stay open refuse": ("draws", "if digits >= high:", "if digits + 1 >= high:"),
    "the quick test forgets that offsets start at one": ("draws", "coin += slope\n        slope *=", "slope *="),
    "the quick test takes its edge": ("draws", "np.greater_equal(coin,", "np.greater(coin,"),
    "slopes are rounded down": ("draws", "-(-rise * ((y + 1) ** law.power - y**law.power) // below)", "rise * ((y + 1) ** law.power - y**law.power) // below"),
    "blocks far out accept at once": ("draws", "for slope in slopes), 1 << self._coin]", "for slope in slopes), 0]"),
    "the first word is used again": ("draws", "words = source.words(size)\n        sign", "words = scratch.first\n        sign"),
    "refused draws of any size are kept": ("draws", "if self.accepts(value, source.bits(self._coin), source):", "if self.accepts(value, 0 * source.bits(self._coin), source):"),
    "offsets of any size are short": ("draws", "+ source.bits(self._width)", "+ source.bits(self._width) // 2"),
    "wide noise is cut off before the sum": ("draws", "total = value + sampler.integer(source, scratch)", "total = value + min(max(sampler.integer(source, scratch), -(2**63)), 2**63 - 1)"),
    "one block of words serves all": ("draws", "_block(sampler, out[start : start + BLOCK], source, scratch)", "_block(sampler, out[:BLOCK], source, scratch)"),
    "the last block is left out": ("draws", "for start in range(0, len(out), BLOCK):", "for start in range(0, len(out) - BLOCK + 1, BLOCK):"),
    "words are not wiped": ("source", "ctypes.memset(", "(lambda *_: None)("),
    "words are kept and handed out again": ("source", "raw = os.urandom(8 * count)\n        self._given.append(raw)", "raw = (_KEPT + [os.urandom(8 * count)])[0]\n        _KEPT[:] = [raw[:] + b''] if len(raw) == 8 * count else []"),
    "sums wrap": ("draws", "wrapped = ((values ^ total) & (noisy ^ total)) < 0", "wrapped = total != total"),
    "sums saturate at the wrong end": ("draws", "np.where(values < 0, _LIMITS.min, _LIMITS.max)", "np.where(values > 0, _LIMITS.min, _LIMITS.max)"),
    "the second block of values is added to the first noise": ("draws", "values[start : start + BLOCK], noisy", "values[:len(values[start:start + BLOCK])], noisy"),
}  # fmt: skip

EVERY = 3
"""Of so many faults ``make test`` plants one."""


def kit_with(part: str, before: str, after: str) -> Any:
    """The modules of native noise with one text replaced, loaded under names of their own."""
    names = {name: f"faulty_{name}" for name in PARTS}
    loaded: dict[str, ModuleType] = {}
    try:
        for name in PARTS:
            text = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
            if name == part:
                assert text.count(before) == 1, f"the text of the fault is found {text.count(before)} times"
                text = text.replace(before, after)
            for other in PARTS:
                text = text.replace(f"from dprelease.noise.native.{other} import", f"from {names[other]} import")
            spec = importlib.util.spec_from_loader(names[name], loader=None)
            assert spec is not None
            module = loaded[name] = importlib.util.module_from_spec(spec)
            sys.modules[names[name]] = module
            module.__dict__["_KEPT"] = []
            exec(compile(text, f"{name} with a fault", "exec"), module.__dict__)
    finally:
        for name in names.values():
            sys.modules.pop(name, None)
    return SimpleNamespace(**loaded, native=loaded["draws"], blocks=loaded["draws"])


def caught(kit: Any, part: str) -> str | None:
    """The first check that fails, beginning with those that look at the part."""
    start = [check.__name__ for check in CHECKS].index(FIRST[part])
    for check in CHECKS[start:] + CHECKS[:start]:
        try:
            check(kit)
        except Exception:  # whatever stops a fault from passing
            return check.__name__
    return None


@pytest.mark.thin(every=EVERY)
@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_caught(name: str) -> None:
    assert caught(kit_with(*FAULTS[name]), FAULTS[name][0]) is not None


def test_every_part_has_a_fault_in_every_run() -> None:
    assert {part for part, _, _ in list(FAULTS.values())[::EVERY]} == set(PARTS)


def test_without_a_fault_nothing_is_caught() -> None:
    assert caught(kit_with("source", "import os\n", "import os\n"), "source") is None
