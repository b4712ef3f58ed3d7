"""What a command does not wait for: packages that it does not use, templates that are compiled already, other specs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import PathDistribution, distributions
from pathlib import Path

import jinja2
import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from dprelease.errors import SpecError
from dprelease.publish import html_text
from dprelease.release import environment as environments
from dprelease.release.data import public_files
from dprelease.spec.text.nodes import YamlNode, scalars
from dprelease.spec.text.yaml import read_yaml
from tests.project import SPEC, environment, small_project

ROOT = Path(__file__).resolve().parents[2]
_NEVER = ("pandas", "scipy", "dp_accounting")
_NOT_FOR_A_PLAN = (*_NEVER, "pyarrow", "duckdb", "ibis", "jinja2", "dprelease.publish.bundle.package")
_COUNTS = """
dprelease: 1
release: {name: counts, period: 2024}
privacy: {unit: {entity: person}, budget: {epsilon: 1, delta: 1e-9}}
tables:
  people:
    account: people
    source: {file: people-1.csv}
    columns:
      sex: {type: integer, keys: [1, 2]}
queries:
  by_sex: {table: people, by: [sex], measures: {people: {count: rows}}}
publish: {formats: [csv]}
"""
_SAID = "import sys, atexit\natexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"


@pytest.mark.parametrize(
    ("words", "spec", "never"),
    [
        (("plan", "spec.yaml"), SPEC, _NOT_FOR_A_PLAN),
        (("run", "spec.yaml", "--direct"), SPEC, _NEVER),
        (("run", "spec.yaml", "--direct"), _COUNTS, (*_NEVER, "duckdb", "ibis", "sqlglot", "numpy.random")),
        (("--help",), SPEC, (*_NOT_FOR_A_PLAN, "pydantic", "numpy")),
    ],
    ids=("plan", "run", "counts", "help"),
)
def test_a_command_does_not_load_what_it_does_not_use(
    tmp_path: Path, words: tuple[str, ...], spec: str, never: tuple[str, ...]
) -> None:
    """Also where the release is compared by dp_accounting, which another process loads."""
    small_project(tmp_path, spec, rows=60)
    code = f"{_SAID}from dprelease.cli import main\nsys.argv[0] = 'dprelease'\nmain()"
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=tmp_path,
        env={**environment(), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        text=True,
        capture_output=True,
        check=True,
        timeout=180,
    )
    loaded = set(done.stderr.splitlines()[-1].split())
    assert "dprelease.cli.app" in loaded
    assert loaded.isdisjoint(never), sorted(loaded & set(never))


_ENDS = """
import atexit, sys, threading, time
import dprelease.cli as cli

class Freed:
    def __del__(self):
        print("freed")

freed = Freed()

def main():
    atexit.register(lambda: print("registered"))
    threading.Thread(target=lambda: (time.sleep(0.2), print("thread"))).start()
    print("command")
    {end}

cli.main = main
cli.command()
"""


@pytest.mark.parametrize(
    ("end", "code", "says", "frees"),
    [
        ("return", 0, "", False),
        ("sys.exit()", 0, "", False),
        ("sys.exit(3)", 3, "", False),
        ("sys.exit(-1)", 255, "", False),
        ("sys.exit('why')", 1, "why", True),
        ("raise RuntimeError('why')", 1, "RuntimeError: why", True),
        ("sys.stdout.close()", 0, "", True),
    ],
)
def test_a_process_ends_with_its_code_once_its_threads_and_all_that_was_registered_have(
    end: str, code: int, says: str, frees: bool
) -> None:
    """What it would only free is not freed, but where Python has something to tell."""
    done = subprocess.run(
        [sys.executable, "-c", _ENDS.format(end=end)],
        env={**environment(), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        text=True,
        capture_output=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == code
    assert says in done.stderr
    if "close" not in end:
        assert done.stdout.split() == ["command", "thread", "registered", *["freed"] * frees]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no file that is always full")
@pytest.mark.parametrize("words", [["--version"], ["plan", "nothing.yaml"]])
def test_what_could_not_be_written_is_told_by_the_code(tmp_path: Path, words: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "dprelease", *words],
            cwd=tmp_path,
            env={**environment(), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdout=full,
            stderr=full,
            timeout=180,
            check=False,
        )
    assert done.returncode not in {0, None}


@pytest.mark.parametrize(
    ("shell", "words", "found"),
    [
        ("bash", "dprelease veri", {"verify"}),
        ("bash", "dprelease plan --hor", {"--horizon"}),
        ("bash", "dprelease ledger st", {"status"}),
        ("zsh", "dprelease veri", {"verify"}),
        ("fish", "dprelease veri", {"verify"}),
    ],
)
def test_a_shell_completes_commands_and_options(tmp_path: Path, shell: str, words: str, found: set[str]) -> None:
    """As the script asks that ``dprelease --install-completion`` installs, each shell in its own variables."""
    asked = {
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
        "_TYPER_COMPLETE_ARGS": words,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "_TYPER_COMPLETE_WORD_TO_COMPLETE": words.rsplit(" ", 1)[-1],
    }
    done = subprocess.run(
        [sys.executable, "-c", "import sys\nfrom dprelease.cli import main\nsys.argv[0] = 'dprelease'\nmain()"],
        cwd=tmp_path,
        env={
            **environment(),
            **asked,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "_DPRELEASE_COMPLETE": f"complete_{shell}",
        },
        text=True,
        capture_output=True,
        check=True,
        timeout=180,
    )
    assert found <= set(re.findall(r"[a-z-]+", done.stdout)), done.stdout
    assert "publish" not in done.stdout


def test_a_compiled_template_is_taken_from_beside_it_and_says_what_the_template_says(tmp_path: Path) -> None:
    """Not where the template, jinja or the options of the pages have changed since."""
    cache = jinja2.FileSystemBytecodeCache(str(tmp_path))
    for text in ("one {{ x }}", "two {{ x }}", "two {{ x }}"):
        made = jinja2.Environment(loader=jinja2.DictLoader({"a": text}), bytecode_cache=cache)
        assert made.get_template("a").render(x=1) == text.replace("{{ x }}", "1")
    assert len(list(tmp_path.iterdir())) == 1


def test_templates_are_kept_where_modules_are_and_under_what_made_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = tmp_path / "html_text.py"
    copied.write_bytes(Path(html_text.__file__).read_bytes())
    (tmp_path / "templates").mkdir()
    monkeypatch.setattr(html_text, "__file__", str(copied))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    first = html_text._compiled()
    assert isinstance(first, jinja2.FileSystemBytecodeCache)
    assert Path(first.directory) == tmp_path / "templates" / "__pycache__"
    copied.write_text(copied.read_text(encoding="utf-8") + "# other options\n", encoding="utf-8")
    other = html_text._compiled()
    assert isinstance(other, jinja2.FileSystemBytecodeCache)
    assert other.pattern != first.pattern
    monkeypatch.setattr(jinja2, "__version__", "99")
    newer = html_text._compiled()
    assert isinstance(newer, jinja2.FileSystemBytecodeCache)
    assert newer.pattern not in (first.pattern, other.pattern)


def test_where_python_keeps_nothing_no_template_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html_text, "__file__", str(tmp_path / "nowhere" / "html_text.py"))
    monkeypatch.setattr(sys, "pycache_prefix", None)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    assert html_text._compiled() is None  # an archive, or a folder that is not ours to write
    monkeypatch.undo()
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert html_text._compiled() is None
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    assert html_text._compiled() is None


def test_the_headers_of_a_package_are_those_of_its_whole_metadata() -> None:
    found = list(distributions())
    assert len(found) > 20
    for each in found:
        assert environments._headers(each) == (each.metadata["Name"], each.metadata["Version"])


def test_headers_are_the_first_of_their_name_and_none_of_the_description(tmp_path: Path) -> None:
    text = "Metadata-Version: 2.1\nnAmE:  a.b \nSummary: x\n Name: no\nVersion: 1:2\nName: second\n\nName: third\n"
    (tmp_path / "METADATA").write_text(text)
    told = PathDistribution(tmp_path)
    assert environments._headers(told) == (told.metadata["Name"], told.metadata["Version"]) == ("a.b ", "1:2")


_ONE_COMPILER = """
import sys
from dprelease.lean_imports import LeanImports
sys.meta_path.insert(0, LeanImports())
import ibis
ibis.duckdb
there = [name for name in sys.modules if name.startswith("ibis.backends.sql.compilers.")]
assert not any("athena" in name or "postgres" in name for name in there), there
from ibis.backends.sql.compilers import PostgresCompiler
import ibis.backends.sql.compilers as compilers
assert compilers.sqlite.compiler.dialect is not None
assert compilers.DuckDBCompiler is compilers.duckdb.DuckDBCompiler and PostgresCompiler is compilers.PostgresCompiler
try:
    compilers.nothing
except AttributeError as error:
    assert "nothing" in str(error)
else:
    raise AssertionError("there is no such name")
"""


def test_of_ibis_one_compiler_is_loaded_and_the_others_where_they_are_asked_for() -> None:
    subprocess.run([sys.executable, "-c", _ONE_COMPILER], check=True, cwd=ROOT)


# -- sources of other specs --------------------------------------------------------------------------------------------

_SPECS = (
    "tables:\n  p:\n    source: {file: people.csv}\n  b: {source: {file: \"a b.csv\", null_values: [x, 'y']}}\n",
    "tables: {p: {source: {file: x.csv}}}\n",
    "tables:\n  p:\n    source:\n      file: >-\n        x\n        .csv\n",
    "? tables\n: p:\n    source:\n      ? file\n      : |\n        abc\n",
    "tables:\n  p:\n    source:\n      file: a  # c\n      format: csv\n",
)
_PIECES = (
    *" \n\t:{}[],'\"#&*!|>%@`-?\\.0a\ufeff\u2028\x85é\r=<~",
    *(
        ": ",
        ":\n",
        "- ",
        "? ",
        "'''",
        "\\x41",
        "\\/",
        "\\\n",
        "{{",
        "}}",
        "<<",
        "%YAML 1.2\n",
        "---\n",
        "...\n",
        "!!str ",
    ),
    *(
        "&a ",
        "*a",
        "|\n",
        "|2-\n",
        ">+\n",
        "{a:b}",
        "{a:b, file:x}",
        "[a:b]",
        '"a":b',
        "'file':y.csv",
        "file:",
        "::",
        "null",
    ),
)
_CHANGES = st.lists(st.tuples(st.integers(0, 150), st.integers(0, 3), st.sampled_from(_PIECES)), min_size=1, max_size=3)


def _slowly(data: bytes) -> set[str]:
    """The sources that a spec has for the parser that it would be released by."""
    try:
        root = read_yaml(data, "")[0].root
    except SpecError:
        return set()
    return {
        text
        for at, text, node in scalars(root)
        if isinstance(node, YamlNode) and len(at) == 4 and (at[0], *at[2:]) == ("tables", "source", "file")
    }


def _changed(text: str, changes: list[tuple[int, int, str]]) -> str:
    for at, taken, piece in changes:
        here = at % (len(text) + 1)
        text = text[:here] + piece + text[here + taken :]
    return text


@given(st.sampled_from(_SPECS), _CHANGES)
@example(_SPECS[3], [(37, 0, "\ufeff")])  # a space to the one parser, and a letter to the other
def test_no_source_is_overlooked_by_the_quick_parser(text: str, changes: list[tuple[int, int, str]]) -> None:
    """It may read more files than the other one would; what that one reads, it reads."""
    data = _changed(text, changes).encode("utf-8", "surrogatepass")
    assert _slowly(data) <= set(public_files._sources_in(data))


@pytest.mark.parametrize("path", sorted((ROOT / "specs").glob("*.yaml")), ids=lambda path: path.stem)
def test_both_parsers_find_the_same_sources_of_a_spec(path: Path) -> None:
    data = path.read_bytes()
    assert set(public_files._sources_in(data)) == _slowly(data)


def test_libyaml_is_what_reads_them_where_it_is_there() -> None:
    assert getattr(yaml, "CSafeLoader", yaml.SafeLoader) is public_files._FAST
