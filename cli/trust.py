"""`shortlist trust`: accept definitions, see what changed, approve what is quarantined."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .console import counted, note, show, write_json
from .gateway.configured_servers import (
    RequiredServersOption,
    ServersOption,
    SettingsOption,
    note_unlisted_servers,
    read_gateway_files,
)
from .options import (
    CHECK_FAILED_EXIT,
    IndexOption,
    JsonOption,
    RequiredSourcesOption,
    SourcesOption,
    check_one_source,
)
from .tool_source import catalog_of

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ..catalog import Catalog
    from ..gateway.profiles.remembered_approvals import RememberedApprovals
    from ..trust import DefinitionChange, Flag

_PINS_OPTION = typer.Option("--pins", metavar="FILE", help="File of accepted definitions.")
_PinsOption = Annotated[Path, _PINS_OPTION]
_OptionalPins = Annotated[Path | None, _PINS_OPTION]

trust = typer.Typer(
    no_args_is_help=True, help="Accept tool definitions, and review those that changed."
)


@trust.command()
def init(
    pins: _PinsOption,
    tools: SourcesOption = None,
    index: IndexOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create a file of pins: accept all definitions as they are now.

    Settings that name a file of pins need it to exist. A tool whose text reads like instructions
    stays quarantined until `shortlist trust approve`.
    """
    from ..errors import PinsError

    if pins.exists():
        raise PinsError(
            f"{pins}: exists already; `shortlist trust pin` adds the tools that have no pin"
        )
    check_one_source(index=index, tools=tools)
    _pin(catalog_of(tools or () if index is None else [index]), pins, as_json)


@trust.command()
def pin(tools: RequiredSourcesOption, pins: _PinsOption, as_json: JsonOption = False) -> None:
    """Pin the definitions that have no pin yet.

    Existing pins do not change. The file is created if it does not exist.
    """
    _pin(catalog_of(tools), pins, as_json)


def _pin(catalog: Catalog, path: Path, as_json: bool) -> None:
    from ..trust import Pins, Trust, change_pins, quarantined

    before = Pins.read(path, missing_ok=True)
    after = change_pins(path, lambda pins: pins.pin(catalog))
    flags = quarantined(Trust(pins=after).flags(catalog))
    if as_json:
        new_ids = [tool_id for tool_id in after if tool_id not in before]
        write_json({"pinned": new_ids, "pins": len(after), "quarantined": _reasons(flags)})
        return
    typer.echo(f"{path}: {counted(len(after), 'pin')}, {len(after) - len(before):,} of them new")
    _print_quarantined_count(flags)


@trust.command()
def diff(
    tools: SourcesOption = None,
    pins: _OptionalPins = None,
    config: ServersOption = None,
    settings: SettingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show which tools are quarantined, and what changed.

    Needs --config, or --tools and --pins. With --config, the tools are those that the servers
    listed last, and the pins are the gateway's own. Exits with 3 if a tool is quarantined.
    """
    from ..trust import Pins, Trust, quarantined

    catalog, path = _catalog_and_pins(tools, pins, config, settings)
    accepted = Pins.read(path, missing_ok=config is not None)
    if not path.exists():
        note(f"no definition is pinned yet; the gateway creates {path} when it is first served")
    changes = accepted.changes(catalog)
    flags = quarantined(Trust(pins=accepted).flags(catalog))
    if as_json:
        new = [tool.id for tool in catalog if tool.id not in accepted]
        gone = [tool_id for tool_id in accepted if tool_id not in catalog]
        changed = [change.to_dict() for change in changes]
        write_json({"changed": changed, "new": new, "gone": gone, "quarantined": _reasons(flags)})
    else:
        for change in changes:
            show(*change_lines(change))
        _print_quarantined(flags)
    if flags:
        raise typer.Exit(CHECK_FAILED_EXIT)


@trust.command()
def approve(
    ids: Annotated[list[str], typer.Argument(metavar="ID", help="Ids of the tools to approve.")],
    tools: SourcesOption = None,
    pins: _OptionalPins = None,
    config: ServersOption = None,
    settings: SettingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Approve the definitions of these tools as they are now.

    Needs --config, or --tools and --pins. The definitions are pinned in the file, which is created
    if it does not exist; with --config, it is the gateway's own. A running gateway follows at the
    next request.
    """
    from ..trust import Trust, approve_definitions, quarantined

    catalog, path = _catalog_and_pins(tools, pins, config, settings)
    after = approve_definitions(path, [catalog.get(tool_id) for tool_id in ids])
    flags = quarantined(Trust(pins=after).flags(catalog))
    if as_json:
        write_json({"approved": ids, "quarantined": _reasons(flags)})
        return
    typer.echo(f"{path}: approved {', '.join(ids)}")
    _print_quarantined_count(flags)


@trust.command()
def approvals(config: RequiredServersOption, as_json: JsonOption = False) -> None:
    """List the approvals of calls that users of the gateway want remembered."""
    rows = _remembered_approvals(config).read()
    if as_json:
        write_json({"approvals": [asdict(row) for row in rows]})
        return
    for row in rows:
        show(f"{row.tool}: profile {row.profile}, until {_day(row.until)}")
    if not rows:
        typer.echo("no approval is remembered")


@trust.command()
def revoke(
    ids: Annotated[list[str], typer.Argument(metavar="ID", help="Ids of the tools.")],
    config: RequiredServersOption,
) -> None:
    """Revoke remembered approvals: calls of these tools are asked about again.

    A running gateway follows at the next call.
    """
    rows = _remembered_approvals(config).revoke(ids)
    if missing := [tool_id for tool_id in ids if tool_id not in {row.tool for row in rows}]:
        raise typer.BadParameter(f"no approval is remembered for: {', '.join(missing)}")
    typer.echo(f"revoked {', '.join(ids)}")


def _remembered_approvals(config: Path) -> RememberedApprovals:
    from ..gateway.profiles.remembered_approvals import RememberedApprovals
    from ..gateway.upstream.first_use import approvals_file

    return RememberedApprovals(approvals_file(read_gateway_files(config, None).path))


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().date().isoformat()


def _catalog_and_pins(
    tools: list[Path] | None, pins: Path | None, config: Path | None, settings: Path | None
) -> tuple[Catalog, Path]:
    """The tools that are judged, and the file of their pins."""
    if config is not None and not tools:
        from ..catalog import Catalog

        files = read_gateway_files(config, settings)
        fleet = files.fleet({"tiers": ["lexical"], "trust": {"scan": False}})
        note_unlisted_servers(fleet, config)
        skills = fleet.listed_tools.skill_tools()
        return Catalog([*fleet.engine.catalog, *skills]), pins or files.pins
    if config is not None or not tools or pins is None:
        raise typer.BadParameter("give --config FILE, or --tools FILE and --pins FILE")
    return catalog_of(tools), pins


def change_lines(change: DefinitionChange) -> list[RenderableType]:
    """What changed in a definition, for `show`."""
    from rich.padding import Padding
    from rich.text import Text

    lines: list[RenderableType] = [
        f"{change.tool_id}: changed from {change.pinned[:12]} to {change.now[:12]}"
    ]
    for part in change.parts:
        lines.append(f"  {part.part} ({part.kind})")
        lines += [Padding(Text(line), (0, 0, 0, 4)) for line in part.lines()]
    return lines


def _reasons(flags: Mapping[str, Flag]) -> dict[str, str]:
    return {tool_id: "; ".join(flag.reasons) for tool_id, flag in flags.items()}


def _print_quarantined_count(flags: Mapping[str, Flag]) -> None:
    if flags:
        tools = "1 tool is" if len(flags) == 1 else f"{len(flags):,} tools are"
        typer.echo(f"{tools} quarantined; `shortlist trust diff` shows why")
    else:
        typer.echo("nothing is quarantined")


def _print_quarantined(flags: Mapping[str, Flag]) -> None:
    if not flags:
        typer.echo("nothing is quarantined")
    for tool_id, reason in _reasons(flags).items():
        show(f"quarantined: {tool_id}: {reason}")
