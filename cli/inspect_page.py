"""`shortlist inspect`: a local page that shows why tools are found and what they cost."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from ..errors import MissingExtraError
from .console import progress, quarantine_as_notes
from .gateway.configured_servers import (
    ServersOption,
    SettingsOption,
    read_gateway_files,
)
from .options import IndexOption, check_one_source

if TYPE_CHECKING:
    from ..inspector.subject import Subject
    from ..setting_types import ConfigSettings, IndexSettings


def inspect_page(
    index: IndexOption = None,
    config: ServersOption = None,
    settings: SettingsOption = None,
    events: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="File of events; by default the one that the settings name."
        ),
    ] = None,
    pins: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="With --index: file of accepted definitions, to approve others."
        ),
    ] = None,
    examples: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File that gets new example queries; by default the one that the settings name.",
        ),
    ] = None,
    port: Annotated[
        int, typer.Option(metavar="NUMBER", min=0, max=65535, help="Port; a free one by default.")
    ] = 0,
) -> None:
    """Serve a local page about an index, or about the servers of a gateway.

    Needs --index or --config. Prints the address with a token. Only this machine can open it, and
    no server is started.
    """
    check_one_source(index=index, config=config, settings=settings)
    if config is not None and pins is not None:
        raise typer.BadParameter("--pins: goes with --index; the gateway's own pins are used")
    try:
        import anyio

        from ..gateway.http_server import check_can_listen
        from ..inspector.page_app import serve_page
    except ImportError as missing:
        raise MissingExtraError("the page", "gateway") from missing
    check_can_listen("127.0.0.1", port)
    if index is not None:
        subject = _of_index(index, events, pins, examples)
    elif config is not None:
        subject = _of_config(config, settings, events, examples)
    anyio.run(serve_page, subject, port, typer.echo)


def _of_index(
    index: Path, events: Path | None, pins: Path | None, examples: Path | None
) -> Subject:
    """A saved index, with another file of pins and of example queries if these are given."""
    from ..engine import Engine
    from ..inspector.event_history import EventHistory
    from ..inspector.subject import Subject
    from ..retrieval.store.versions import saved_settings
    from ..trust import change_pins

    changes: ConfigSettings = {}
    index_settings = dict(saved_settings(index).get("config", {}).get("index", {}))
    if pins is not None:
        change_pins(pins, lambda present: present)  # created if it does not exist
        changes["trust"] = {"pins": pins}
    if examples is not None:
        changes["index"] = cast("IndexSettings", with_example_file(index_settings, examples))
    with quarantine_as_notes(), progress("encoding tools") as show_progress:
        engine = Engine.open(index, progress=show_progress, **changes)
    return Subject(engine, str(index), EventHistory(events), pins)


def _of_config(
    config: Path, settings: Path | None, events: Path | None, examples: Path | None
) -> Subject:
    """The servers of a file as they were listed last; none of them is started."""
    from ..gateway.profiles.profile import ClientProfiles
    from ..inspector.event_history import EventHistory
    from ..inspector.subject import GatewaySubject
    from ..trust import make_pins_folder

    files = read_gateway_files(config, settings)
    make_pins_folder(files.pins)
    changes = {}
    if examples is not None:
        index_settings = files.settings.engine.get("index", {})
        changes["index"] = with_example_file(index_settings, examples)
    fleet = files.fleet_with_pins(**changes)
    # Like the clients that share a gateway, the page may show any profile.
    clients = ClientProfiles.of(files.settings, attached=True)
    return GatewaySubject(
        fleet, files.client_config, clients, EventHistory(events or files.events), files.pins
    )


def with_example_file(settings: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Settings of the section `index` with a further file of example queries, which is created."""
    path = path.absolute()
    path.touch()
    names = [str(name) for name in settings.get("example_queries", ("library",))]
    return {**settings, "example_queries": list(dict.fromkeys((*names, str(path))))}
