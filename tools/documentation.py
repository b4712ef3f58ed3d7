"""Hooks of MkDocs: pages that are made from the code, and links that leave ``docs/``; nothing is written here.

Every page of the site but those made here is a plain file of ``docs/``, whose links work in the repository as well.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
_LINK = re.compile(r"(?<=\]\()(?P<path>(?!https?:|mailto:|#)[^)#\s]+)(?P<anchor>#[^)\s]*)?(?=\))")
_LISTED = ("decisions", "reviews")  # folders whose index is made of the first lines of their pages


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what is made from the code, and the files outside of ``docs/`` that pages link to."""
    docs = Path(config.docs_dir)
    made = {
        "index.md": (ROOT / "README.md").read_text(encoding="utf-8"),
        "reference/spec.md": spec_page(json.loads((ROOT / "specs" / "schema.json").read_text(encoding="utf-8"))),
        "reference/commands.md": commands_page(),
        "reference/errors.md": errors_page(),
        **{f"{name}/README.md": _contents(docs / name) for name in _LISTED},
    }
    for uri, content in made.items():
        files.append(File.generated(config, uri, content=content))
    for page in (*docs.rglob("*.md"), ROOT / "README.md"):
        for target in _outside(page, docs):
            uri = _copy_of(target)
            if files.get_file_from_path(uri) is None:
                files.append(File.generated(config, uri, content=target.read_bytes()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links to files of the checkout at their copies, and links to folders at their first page."""
    docs = Path(config.docs_dir)
    is_home = page.file.src_uri == "index.md"
    here = ROOT if is_home else docs / Path(page.file.src_uri).parent
    up = "" if is_home else "../" * page.file.src_uri.count("/")

    def moved(found: re.Match[str]) -> str:
        target, anchor = (here / found["path"]).resolve(), found["anchor"] or ""
        if target == ROOT / "README.md":
            return f"{up}index.md{anchor}"
        if target.is_relative_to(docs):
            inside = target.relative_to(docs)
            return f"{up}{inside / 'README.md' if target.is_dir() else inside}{anchor}"
        return f"{up}{_copy_of(target)}" if target.is_file() and target.is_relative_to(ROOT) else found[0]

    return _LINK.sub(moved, markdown)


def _outside(page: Path, docs: Path) -> Iterator[Path]:
    """The files of the checkout, outside of ``docs/``, that a page links to."""
    for found in _LINK.finditer(page.read_text(encoding="utf-8")):
        target = (page.parent / found["path"]).resolve()
        inside = target.is_relative_to(docs) or target == ROOT / "README.md"
        if target.is_file() and target.is_relative_to(ROOT) and not inside:
            yield target


def _copy_of(target: Path) -> str:
    # As text: a browser shows it, instead of running or saving it.
    return f"files/{target.relative_to(ROOT)}.txt"


def _contents(folder: Path) -> str:
    """A list of the pages of a folder by their first lines."""
    first = {each.name: each.read_text(encoding="utf-8").partition("\n")[0] for each in sorted(folder.glob("*.md"))}
    lines = [f"- [{title.lstrip('# ')}]({name})" for name, title in first.items()]
    return "\n".join([f"# {folder.name.title()}", "", *lines, ""])


def spec_page(schema: dict[str, Any]) -> str:
    """The spec from its JSON Schema: one heading for each definition, one row for each field."""
    lines = ["# The spec, field by field", "", _text(schema.get("description", "")), "", *_fields(schema)]
    for name, each in sorted(schema.get("$defs", {}).items()):
        lines += ["", f"## {name} {{ #{name.lower()} }}", "", _text(each.get("description", "")), ""]
        lines += _fields(each) if "properties" in each else [_type(each)]
    return "\n".join(lines) + "\n"


def _fields(schema: dict[str, Any]) -> list[str]:
    required = set(schema.get("required", ()))
    rows = ["| field | what it is | left out | |", "|---|---|---|---|"]
    for name, each in schema.get("properties", {}).items():
        default = f"`{json.dumps(each['default'])}`" if "default" in each else ""
        left_out = "**required**" if name in required else default
        rows.append(f"| `{name}` | {_type(each)} | {left_out} | {_text(each.get('description', ''))} |")
    return rows


def _text(description: str) -> str:
    return description.replace("``", "`").replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


def _type(schema: dict[str, Any]) -> str:
    """What a field may be, in words, with links to other definitions."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})"
    choices = next((schema[joined] for joined in ("anyOf", "oneOf") if joined in schema), None)
    if choices is not None:
        return " or ".join(dict.fromkeys(map(_type, choices)))
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(each)}`".replace("|", "\\|") for each in schema["enum"])
    if "prefixItems" in schema:
        return "[" + ", ".join(map(_type, schema["prefixItems"])) + "]"
    kind = schema.get("type", "anything")
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"names, each with {_type(schema['additionalProperties'])}"
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def commands_page() -> str:
    """Every command with its arguments and options, from the command line itself."""
    import typer

    from dprelease.cli import app as command_line

    lines = ["# Every option", "", "`dprelease COMMAND --help` says the same.", ""]
    for words, command in _commands(("dprelease",), typer.main.get_command(command_line.app)):
        lines += [f"## {' '.join(words)}", "", _text(command.help or ""), ""]
        shown = [each for each in command.params if not getattr(each, "hidden", False) and each.name != "help"]
        if shown:
            lines += ["| option or argument | | what it says |", "|---|---|---|"]
        lines += [_parameter(each) for each in shown]
        lines.append("")
    return "\n".join(lines)


def errors_page() -> str:
    """Every error, from the texts that `dprelease explain` prints."""
    from dprelease.error_codes import error_pages

    lines = ["# Errors", "", "`dprelease explain DPR-S413` prints the same.", ""]
    for page in error_pages().values():
        title, _, rest = page.partition("\n")
        lines += [f"## {title.removeprefix('# ')}", re.sub(r"^## ", "### ", rest, flags=re.MULTILINE)]
    return "\n".join(lines) + "\n"


def _commands(words: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    if not hasattr(command, "commands"):
        yield words, command
        return
    for name, each in command.commands.items():
        yield from _commands((*words, name), each)


def _parameter(parameter: Any) -> str:
    if parameter.param_type_name == "option":
        flag = getattr(parameter, "is_flag", False)
        name = ", ".join(parameter.opts) + ("" if flag else f" {parameter.metavar or parameter.name.upper()}")
    else:
        name = parameter.metavar or parameter.name.upper()
    needed = "required" if parameter.required else ""
    return f"| `{name}` | {needed} | {_text(getattr(parameter, 'help', None) or '')} |"
