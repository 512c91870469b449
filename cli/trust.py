"""`shortlist trust`: accept definitions, see what changed, approve what is held back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .console import counted, write_json
from .options import IndexOption, JsonOption, ToolsOption
from .source import catalog_of, read_catalog

if TYPE_CHECKING:
    from ..catalog import Catalog
    from ..trust import Change, Pins

_HELD = 3

_ToolsOption = Annotated[
    list[Path],
    typer.Option(
        "--tools",
        metavar="FILE",
        help="Tools in any form that can be read, or a folder of such files; repeatable.",
    ),
]
_PinsOption = Annotated[
    Path, typer.Option("--pins", metavar="FILE", help="Where accepted definitions are kept.")
]

trust = typer.Typer(
    no_args_is_help=True, help="Definitions that are accepted, and those that are held back."
)


def register(app: typer.Typer) -> None:
    """Add the commands to an application."""
    app.add_typer(trust, name="trust")


@trust.command()
def init(
    pins: _PinsOption,
    tools: ToolsOption = None,
    index: IndexOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create the file of pins: pin every definition of the tools or of the index as it is now.

    A configuration that names a file of pins needs it to exist. The scan still holds back what
    reads like orders; see `approve`.
    """
    from ..errors import PinsError
    from ..trust import Pins

    if pins.exists():
        raise PinsError(
            f"{pins}: exists already; `shortlist trust pin` adds the tools that have no pin"
        )
    _pin(read_catalog(index, tools), Pins(), pins, as_json)


@trust.command()
def pin(tools: _ToolsOption, pins: _PinsOption, as_json: JsonOption = False) -> None:
    """Pin each definition that has no pin yet; pins that exist stay as they are.

    Creates the file where there is none.
    """
    from ..trust import Pins

    _pin(catalog_of(tools), Pins.read(pins, missing_ok=True), pins, as_json)


def _pin(catalog: Catalog, before: Pins, path: Path, as_json: bool) -> None:
    from ..trust import Trust

    after = before.pin(catalog)
    after.save(path)
    held = Trust(pins=after).quarantined(catalog)
    if as_json:
        fresh = [tool_id for tool_id in after if tool_id not in before]
        write_json({"pinned": fresh, "pins": len(after), "quarantined": held})
        return
    typer.echo(f"{path}: {counted(len(after), 'pin')}, {len(after) - len(before):,} of them new")
    _show_held(held)


@trust.command()
def diff(tools: _ToolsOption, pins: _PinsOption, as_json: JsonOption = False) -> None:
    """Show what is held back, and each changed definition as a diff; exits with 3 if any is."""
    from ..trust import Pins, Trust

    catalog = catalog_of(tools)
    accepted = Pins.read(pins)
    changes = accepted.changes(catalog)
    held = Trust(pins=accepted).quarantined(catalog)
    if as_json:
        new = [tool.id for tool in catalog if tool.id not in accepted]
        gone = [tool_id for tool_id in accepted if tool_id not in catalog]
        changed = [change.to_dict() for change in changes]
        write_json({"changed": changed, "new": new, "gone": gone, "quarantined": held})
    else:
        for change in changes:
            _show_change(change)
        _show_held(held)
    if held:
        raise typer.Exit(_HELD)


@trust.command()
def approve(
    ids: Annotated[
        list[str], typer.Argument(metavar="ID...", help="Tools to approve as they are.")
    ],
    tools: _ToolsOption,
    pins: _PinsOption,
    as_json: JsonOption = False,
) -> None:
    """Approve the definitions of these tools as they are now, and pin them.

    Creates the file where there is none.
    """
    from ..trust import Pins, Trust

    catalog = catalog_of(tools)
    after = Pins.read(pins, missing_ok=True).approve([catalog.get(tool_id) for tool_id in ids])
    after.save(pins)
    held = Trust(pins=after).quarantined(catalog)
    if as_json:
        write_json({"approved": ids, "quarantined": held})
        return
    typer.echo(f"{pins}: approved {', '.join(ids)}")
    _show_held(held)


def _show_change(change: Change) -> None:
    typer.echo(f"{change.tool_id}: changed from {change.pinned[:12]} to {change.now[:12]}")
    for part in change.parts:
        typer.echo(f"  {part.part} ({part.kind})")
        for line in part.lines():
            typer.echo(f"    {line}")


def _show_held(held: Mapping[str, str]) -> None:
    if not held:
        typer.echo("nothing is held back")
    for tool_id, reason in held.items():
        typer.echo(f"held back: {tool_id}: {reason}")
