"""``dprelease keys``: the key of an approver, or of the office that signs its releases, made and shown."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dprelease.cli.options import Json
from dprelease.cli.views import say, say_json

__all__ = ["keys_app"]

keys_app = typer.Typer(help="Keys to sign with: make one, show its public half.", no_args_is_help=True)


@keys_app.command()
def new(
    path: Annotated[Path, typer.Argument(help="Where the private key goes; the public one goes to PATH.pub.")],
    name: Annotated[str, typer.Option(help="Whose it is, as in the policy.")] = "",
    as_json: Json = False,
) -> None:
    """Make an Ed25519 key pair; never overwrites a file."""
    from dprelease.signature import new_key_files
    from dprelease.spec.text.names import NAME_RULE, QUERY_NAME

    if name and not QUERY_NAME.fullmatch(name):
        raise typer.BadParameter(f"{NAME_RULE}; - as well", param_hint="--name")
    facts = _facts(new_key_files(path, name), name)
    if as_json:
        say_json({"private_key": str(path), "public_key": f"{path}.pub", **facts})
        return
    say(f"private key  {path} (mode 0600; keep it to yourself: there is no other copy)")
    say(f"public key   {path}.pub")
    _print(facts)
    say("\nor, to sign releases with it, the line for dprelease.yaml, with the path as seen from there:")
    say(f"  signing_key: {path}")


@keys_app.command()
def show(
    path: Annotated[Path, typer.Argument(help="The file of a private key, or its .pub file.")], as_json: Json = False
) -> None:
    """The public key of a file, its fingerprint, and the line for the policy."""
    from dprelease.signature import read_public

    facts = _facts(read_public(path), "")
    if as_json:
        say_json(facts)
        return
    _print(facts)


def _facts(public: Any, name: str) -> dict[str, str]:
    line = f'{name or "NAME"}: {{role: data-owner, key: "{public.text}"}}'
    told = {"key": public.text, "fingerprint": public.fingerprint, "policy_line": line}
    return {**told, "allowed_signer": public.ssh_line(name or "NAME")}


def _print(facts: dict[str, str]) -> None:
    say(f"key          {facts['key']}")
    say(f"fingerprint  {facts['fingerprint']}")
    say("\nthe line for `approvals: approvers:` in policy.yaml, with the role that the data owner gives:")
    say(f"  {facts['policy_line']}")
    say("\nthe line of a file of allowed signers, with which `ssh-keygen -Y verify` checks SHA256SUMS of a bundle:")
    say(f"  {facts['allowed_signer']}")
