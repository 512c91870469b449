"""`shortlist install`: put the gateway into the configuration of an MCP client."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...errors import ConfigError
from ..console import counted, note, visible
from ..options import HomeOption, usage_errors
from .configured_servers import GatewayFileOption, YesOption

if TYPE_CHECKING:
    from ...gateway.clients.installation import InstallPlan


def install(
    client: Annotated[
        str,
        typer.Option(
            "--client", metavar="NAME", help="Client, such as claude-code, cursor, codex."
        ),
    ],
    config: GatewayFileOption = Path("mcp.json"),
    beside: Annotated[
        bool, typer.Option("--beside", help="Leave the client's other servers where they are.")
    ] = False,
    hook: Annotated[
        bool,
        typer.Option(
            "--hook",
            help="Claude Code: also ask about a call by the name of its tool, and put tools that "
            "fit beside a message.",
        ),
    ] = False,
    undo: Annotated[
        bool, typer.Option("--undo", help="Restore the client's file from the last backup.")
    ] = False,
    yes: YesOption = False,
    home: HomeOption = None,
) -> None:
    """Make shortlist the one MCP server of a client.

    The client's other servers move into the gateway's file. The command shows the change, asks,
    writes a backup, and then the files. Secrets are masked in what it shows.
    """
    from ...gateway.clients.installation import plan_install, plan_undo
    from ...gateway.clients.known_clients import find_client

    with usage_errors("--client"):
        chosen = find_client(client)
    home = Path.home() if home is None else home
    file = chosen.path(home)
    if undo:
        plan = plan_undo(chosen, file, home)
    else:
        plan = plan_install(chosen, file, config, home, beside=beside, with_hooks=hook)
    if not plan.is_needed:
        typer.echo(f"{file}: nothing to change")
        return
    typer.echo(visible(plan.preview))
    for line in plan.notes:
        note(line)
    if not yes:
        typer.confirm("Write this?", abort=True)
    for backup in plan.apply():
        typer.echo(f"backup: {backup}")
    if plan.moved_servers:
        typer.echo(
            f"moved {counted(len(plan.moved_servers), 'server')}: {', '.join(plan.moved_servers)}"
        )
    if leftovers := _leftovers(plan):
        listed = ", ".join(map(str, leftovers))
        if not yes and _agrees(f"Delete what nothing needs: {listed}?"):
            _delete(leftovers)
            typer.echo(f"deleted: {listed}")
        else:
            typer.echo(f"stays, though nothing needs it: {listed}")
    typer.echo(f"done; restart {chosen.title} to use it")


def _agrees(question: str) -> bool:
    try:
        return typer.confirm(question)
    except typer.Abort:  # the undo is done: the end of the input means no
        typer.echo()
        return False


def _leftovers(plan: InstallPlan) -> tuple[Path, ...]:
    """The files of the gateway that nothing needs after an undo, with its pins and approvals."""
    if not plan.leftovers:
        return ()
    from ...gateway.upstream.first_use import approvals_file, default_pins

    states = [of(path) for path in plan.leftovers for of in (default_pins, approvals_file)]
    return (*plan.leftovers, *(path for path in states if path.exists()))


def _delete(paths: tuple[Path, ...]) -> None:
    for path in paths:
        try:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            raise ConfigError(f"{path}: cannot be deleted: {error.strerror}") from None
