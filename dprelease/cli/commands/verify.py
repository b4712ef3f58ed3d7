"""``dprelease verify``: what a stranger can check of a published bundle; or a page in which a browser does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dprelease.cli.options import Json
from dprelease.cli.views import say, say_json, text_table

if TYPE_CHECKING:
    from dprelease.publish import Check
    from dprelease.signature import PublicKey

__all__ = ["verify_command"]

_WORDS = {True: "pass", False: "FAIL", None: "not run"}


def verify_command(
    bundle: Annotated[
        str, typer.Argument(help="The folder of a published release, or NAME/PERIOD in its project.")
    ] = "",
    key: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE|ed25519:...", help="Whose signature it must have: a key file, or its text."),
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a page in which a browser checks bundles signed by --key, and end."),
    ] = None,
    earlier: Annotated[
        list[Path] | None, typer.Option(help="The bundle of an earlier period that it compares with; once for each.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Check the files, signature and numbers of a bundle and derive its loss again; needs no data and no ledger."""
    keys = [_key(each) for each in key or ()]
    if page is not None:
        if bundle:
            raise typer.BadParameter("is written for bundles that come later: name no bundle", param_hint="--page")
        _write_page(page, list(zip(key or (), keys, strict=True)), as_json=as_json)
        return
    if not bundle:
        raise typer.BadParameter("which one? give a folder, or NAME/PERIOD", param_hint="BUNDLE")
    if len(keys) > 1:
        raise typer.BadParameter("a bundle is signed by one key: name one", param_hint="--key")
    _check(bundle, keys[0] if keys else None, tuple(earlier or ()), as_json=as_json)


def _key(given: str) -> PublicKey:
    from dprelease.release.check import public_key
    from dprelease.signature import NotAKey

    try:
        return public_key(given)
    except NotAKey as error:
        raise typer.BadParameter(f"the key is {error.reason}; {error.hint}", param_hint="--key") from None


def _write_page(page: Path, keys: Sequence[tuple[str, PublicKey]], *, as_json: bool) -> None:
    from dprelease.release.publishing.checking_page import write_checking_page

    digest = write_checking_page(page, keys)
    if as_json:
        say_json({"page": str(page), "sha256": digest, "keys": [each.text for _, each in keys]})
        return
    say(f"page    {page}")
    say(f"sha256  {digest}")
    say("\nHost it by https at an address of your own, apart from every bundle, and print its SHA-256 elsewhere.")


def _check(bundle: str, signer: PublicKey | None, earlier: tuple[Path, ...], *, as_json: bool) -> None:
    from dprelease.release.opinion import begin_opinion

    begin_opinion()  # before all that is imported below
    from dprelease.release.bundle_place import bundle_folder, require_bundle
    from dprelease.release.check import check_release, conclusion, failure

    folder = bundle_folder(bundle)
    require_bundle(folder, bundle)
    checks = check_release(folder, signer, earlier)
    passed = all(check.passed is not False for check in checks)  # what was not run fails nothing
    if as_json:
        say_json({"passed": passed, "verdict": conclusion(checks), "checks": [asdict(check) for check in checks]})
    else:
        _show(checks)
        say(f"\n{conclusion(checks)}")
    if not passed:
        raise failure(checks)


def _show(checks: Sequence[Check]) -> None:
    rows = [[_WORDS[check.passed], check.name, check.detail.partition("\n")[0]] for check in checks]
    say(text_table(["", "check", "finding"], rows))
    for check in checks:
        for line in check.detail.split("\n")[1:]:
            say(f"\n{check.name}: {line}")
    skipped = [check.name for check in checks if check.passed is None]
    if skipped:
        say(f"\nnot run, and so neither passed nor failed: {', '.join(skipped)}")
