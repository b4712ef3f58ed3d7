"""The theme that ``dprelease.yaml`` names, read and checked."""

from __future__ import annotations

from pathlib import Path

from dprelease.errors import Problem, SpecError, Where
from dprelease.regular import TooLarge, read_regular
from dprelease.spec.fields.published.theme import (
    LARGEST_LOGO,
    LARGEST_THEME,
    Theme,
    ThemeError,
    ThemeSpec,
    logo_of,
    read_theme,
)

__all__ = ["theme_of"]


def theme_of(asked: ThemeSpec | None, folder: Path, settings: str) -> Theme | None:
    """The theme; None where none is named.

    Args:
        asked: What ``dprelease.yaml`` says.
        folder: Its folder.
        settings: Its name in messages.

    Raises:
        SpecError: If a file cannot be read (DPR-S497), or is no theme that leaves pages readable (DPR-S498 to S500).
    """
    if asked is None:
        return None
    part = "css"
    try:
        colours = read_theme(_read(folder, asked.css, LARGEST_THEME).decode(errors="replace") if asked.css else "")
        part = "logo"
        logo = logo_of(_read(folder, asked.logo, LARGEST_LOGO)) if asked.logo else ""
    except ThemeError as error:
        raise SpecError([Problem(error.code, f"`theme.{part}` {error.says}", error.hint, Where(settings))]) from None
    return Theme(light=colours["light"], dark=colours["dark"], logo=logo)


def _read(folder: Path, name: str, most: int) -> bytes:
    try:
        return read_regular(folder / name, most)
    except TooLarge:
        raise ThemeError("DPR-S497", f"has more than {most:,} bytes", "name a smaller file") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        hint = f"looked for {name!r} in the folder of dprelease.yaml; put the file there"
        raise ThemeError("DPR-S497", f"cannot be read: {reason}", hint) from None
