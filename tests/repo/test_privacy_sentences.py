"""No sentence about privacy is written that the inventory does not know, and every number in it is true."""

from __future__ import annotations

import math
import re

import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from dprelease.publish.errata import plain_text
from tests.repo.documents import ROOT, STARTER
from tests.repo.privacy_sentences import KNOWN, sentences, truth
from tests.repo.sentence_bundles import BUNDLES, bundle, plan_named

# The registry folds long texts: its blocks are read as YAML, and each line of them by itself.
_FOLDED = "registry.yaml"


def told(name: str) -> list[tuple[str, str]]:
    """(file, sentence) of a bundle."""
    found = []
    for path, data in bundle(name).items():
        if path.endswith(".json"):
            continue
        text = plain_text(data) if path != _FOLDED else unfolded(data)
        found += [(path, each) for each in sentences(text)]
    return found


def unfolded(data: bytes) -> str:
    import yaml

    def texts(value: object) -> list[str]:
        if isinstance(value, dict):
            return [text for each in value.values() for text in texts(each)]
        if isinstance(value, list):
            return [text for each in value for text in texts(each)]
        return [value] if isinstance(value, str) else []

    return "\n".join(texts(yaml.safe_load(data)))


def known(sentence: str) -> list[tuple[str, re.Match[str]]]:
    return [(name, match) for name, (pattern, _) in KNOWN.items() if (match := re.fullmatch(pattern, sentence))]


@pytest.mark.thin(first=3)
@pytest.mark.parametrize("name", BUNDLES)
def test_every_sentence_about_privacy_is_in_the_inventory_and_its_numbers_are_true(name: str) -> None:
    at, wrong = truth(plan_named(name)), []
    for path, sentence in told(name):
        found = known(sentence)
        if not found:
            wrong.append(f"{path}: not in the inventory: {sentence}")
            continue
        which, match = found[0]
        try:
            KNOWN[which][1](at, *(group for group in match.groups() if group is not None))
        except AssertionError as error:
            wrong.append(f"{path}: {which}: {sentence}: {error}")
    assert wrong == []


def test_no_entry_of_the_inventory_is_dead() -> None:
    used = {known(sentence)[0][0] for name in BUNDLES for _, sentence in told(name) if known(sentence)}
    assert set(KNOWN) - used == set()


@pytest.mark.parametrize(
    ("false", "true"),
    [
        ("a loss above 1 has a probability of at most 10⁻⁹ over the noise, 1 times δ; but for a probability of 10⁻⁹ the loss is at most 1.1", False),
        ("at most 2.71 times as likely with one person as without, or the other way round, plus 10⁻⁹", False),
        ("right at most 53.5 % of the time, from even odds: one half, and half of δ at ε = 0", False),
        ("ε = 0.9 at δ = 10⁻⁹", False),
        ("ε = 1 at δ = 10⁻⁹", True),
        ("These limits hold but for an event of probability 10⁻⁹, which no attacker can bring about.", None),
        ("With a chance of 3 % an attacker is right.", None),
    ],
)  # fmt: skip
def test_the_test_can_fail(false: str, true: bool | None) -> None:
    """False: a number is wrong; None: no such sentence is known."""
    assert sentences(false)
    found = known(sentences(false)[0]) if len(sentences(false)) == 1 else known(false)
    assert bool(found) == (true is not None)
    if not found:
        return
    which, match = found[0]
    groups = [group for group in match.groups() if group is not None]
    if true:
        KNOWN[which][1](truth(plan_named("gaussian")), *groups)
    else:
        with pytest.raises(AssertionError):
            KNOWN[which][1](truth(plan_named("gaussian")), *groups)


@pytest.mark.parametrize("name", BUNDLES)
def test_the_table_of_beliefs_is_bayes_rule(name: str) -> None:
    page = plain_text(bundle(name)["accounting.html"])
    rows = re.findall(r"^([\d.]+) %\n1 : ([\d.]+)\n([\d.]+) %\n([\d.]+) %$", page, re.MULTILINE)
    assert len(rows) == 3
    epsilon = float(plan_named(name).loss[plan_named(name).certified].epsilon)
    for before, odds, least, most in rows:
        against = (100 - float(before)) / float(before)
        assert math.isclose(against, float(odds))
        low, high = 100 / (1 + against * math.exp(epsilon)), 100 / (1 + against * math.exp(-epsilon))
        assert low * 0.99 <= float(least) <= low
        assert high <= float(most) <= high * 1.01


def gaussian_guess(epsilon: float, delta: float) -> float:
    """In percent: half of 1 and the total variation of the Gaussian draw that is just (epsilon, delta)-private."""

    def excess(mu: float) -> float:
        return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu) - delta)

    return float(100 * norm.cdf(brentq(excess, 1e-3, 20) / 2))


def test_the_table_of_guesses_is_what_any_release_and_gaussian_noise_allow() -> None:
    text = (ROOT / "docs" / "how-to" / "choose-epsilon.md").read_text()
    lines = {
        label: re.search(rf"^\| {label} \| (.+) \|$", text, re.MULTILINE)
        for label in ("epsilon", "Gaussian noise", "any release")
    }
    epsilons, gaussian, every = (
        [float(cell.strip(" %")) for cell in match[1].split("|")] for match in lines.values() if match
    )
    assert re.search(r"figures rounded up, at delta 1e-9", text)
    assert len(epsilons) == len(gaussian) == len(every) == 5
    for epsilon, one, other in zip(epsilons, gaussian, every, strict=True):
        assert one - 0.1 < gaussian_guess(epsilon, 1e-9) <= one
        assert other - 0.1 < 100 * (math.exp(epsilon) + 1e-9) / (math.exp(epsilon) + 1) <= other
        assert 100 / (1 + math.exp(-epsilon)) <= other  # the same line is told of a single outcome


# Sentences of the documents that a reader follows first, and what works each of them out again.
DOCUMENTS = {
    r"A query gets a `share` of the budget, a price of its own \(`budget: \{epsilon: 0\.2\}`\).*": "a spec, by test_documents",
    r"Somebody to whom it is as likely as not .* right at most so often \(figures rounded up, at delta 1e-9\):": "above",
    r"\| epsilon \| 0\.1 \| 0\.5 \| 1 \| 2 \| 4 \| .*": "above",
    r"Start at 1 or below for a release, give delta far less than one over the number of people .*": "advice",
    r"`dprelease plan SPEC --what-if epsilon=0\.5,1,2` shows .*": "a command, by test_documents",
    r".*`--what-if epsilon=0\.5,1,2` other budgets.*": "a command, by test_documents",
    r"\| `above: \{epsilon: 1/2, delta: 1e-9\}` beside one of these \| .*": "a policy",
    r"The same tables as 92 queries .* \(`python -m bench\.crosstabs`\)\.": "bench.crosstabs",
    r"With `rho` as the budget .* 17\.14, .* \(`tests/golden/test_census_spec\.py`\)\.": "tests/golden/test_census_spec.py",
    r"That is how the certificates of the 2020 Census state it, .* all 17 of their epsilons\.": "test_census_certificate",
    r"Its confidence is one for the whole list: .* is at most 5 %\.": "test_compare",
    r"> The noisy measurements are \(epsilon, delta\)-differentially private; .*": "test_invariants",
    r"The `lifetime` then holds for each month by itself: twelve months may cost epsilon 2 each, .*": "test_horizon",
    r"\| `budget: \{epsilon: 0\.2\}` \| a pin: .*": "a spec, by test_documents",
    r"`rho` needs a delta greater than 0\.": "test_spec_budget",
    r"`plan` reads no data; with `--what-if epsilon=0\.5,1,2` it shows .*": "a command, by test_documents",
    r"It allows epsilon 4 in all for these people, .*": "shown by a command, by test_tutorial",
    r"Two releases of epsilon 1 cost the people in the data less than 2 together, .*": "shown by a command, by test_tutorial",
    r"A program that guesses types reads .*|pysdmx guesses types: .*": "about guesses of programs",
}
_SAID = re.compile(
    r"epsilon|delta|[εδρ]|probab|chance|likely|belie|attacker|guess|\bsure\b|privacy loss", re.IGNORECASE
)


def said(text: str) -> list[str]:
    """The sentences of a Markdown text that speak of privacy and have a digit in them; code blocks are left out."""
    bare, found = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE), []
    for block in re.split(r"\n\s*\n|\n(?=[-|#*] )", bare):
        for each in re.split(r"(?<=[.;:?]) +(?=[A-Z`*\[(\"“])", " ".join(block.split())):
            if _SAID.search(each) and re.search(r"\d", each):
                found.append(each)
    return found


def test_every_such_sentence_of_the_guides_is_known_and_none_is_listed_that_is_gone() -> None:
    docs = ROOT / "docs"
    guides = [docs / f"{name}.md" for name in ("commands", "files-of-a-project", "glossary")]
    folders = [path for name in ("how-to", "tutorial") for path in sorted((docs / name).rglob("*.md"))]
    paths = [ROOT / "README.md", STARTER / "README.md", *guides, *folders]
    every = {each: str(path.relative_to(ROOT)) for path in paths for each in said(path.read_text())}
    unknown = {each: file for each, file in every.items() if not any(re.fullmatch(k, each) for k in DOCUMENTS)}
    assert unknown == {}
    assert [k for k in DOCUMENTS if not any(re.fullmatch(k, each) for each in every)] == []


def test_no_document_explains_epsilon_and_delta_as_epsilon_but_for_delta() -> None:
    paths = [ROOT / "README.md", STARTER / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    wrong = re.compile(
        r"(?:but for|apart from|up to|except with|except for)(?: an event of| a failure of| a)? (?:probability|chance) "
        r"(?:of )?(?:about )?(?:delta|δ)\b|with probability (?:at least )?1 - delta",
        re.IGNORECASE,
    )
    # Both speak of what is proved with that very probability: the tail of a law, and the second half of a claim.
    allowed = {"docs/proofs/loss-tail.md", "docs/proofs/README.md", "CHANGELOG.md"}
    found = {}
    for path in paths:
        name, text = str(path.relative_to(ROOT)), " ".join(path.read_text().split())
        if name not in allowed and (match := wrong.search(text)):
            found[name] = match.group()
    assert found == {}


def test_no_template_and_no_sentence_of_a_page_does_either() -> None:
    for name in BUNDLES:
        for path, data in bundle(name).items():
            text = plain_text(data)
            assert not re.search(r"(?:but for|apart from) (?:an event|a chance)", text), path
            assert "or with another" not in text, path
