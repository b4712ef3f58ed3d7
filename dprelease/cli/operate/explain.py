"""``dprelease explain``: what an error means, why it is refused, and what to do."""

from __future__ import annotations

from typing import Annotated

import typer

from dprelease.cli.options import Json
from dprelease.cli.views import say, say_json

__all__ = ["explain_command"]


def explain_command(
    codes: Annotated[
        list[str] | None, typer.Argument(metavar="CODE", help="DPR-S413, S413, or S4 for all that begin so.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Say what the code of an error means, and what to do; without a code, list them all."""
    from dprelease.error_codes import codes_meant, error_texts, first_sentence

    texts = error_texts()
    meant = {written: codes_meant(written) for written in codes or ()}
    for written, found in meant.items():
        if not found:
            raise typer.BadParameter(_unknown(written), param_hint="CODE")
    asked = list(dict.fromkeys(code for found in meant.values() for code in found)) or list(texts)
    if as_json:
        say_json({"codes": {code: texts[code] for code in asked}})
    elif len(asked) <= max(1, len(meant)):
        say("\n\n".join(f"{code}\n\n{texts[code]}" for code in asked))
    else:
        for code in asked:
            say(f"{code}  {first_sentence(texts[code])}")


def _unknown(written: str) -> str:
    from dprelease.error_codes import codes_near

    near = codes_near(written)
    hint = f"did you mean {', '.join(near)}?" if near else "`dprelease explain` lists all codes"
    return f"there is no error {written!r}; {hint}"
