"""The servers whose resources and prompts a client may use."""

from __future__ import annotations

from .fleet import Fleet
from .sessions import ClientSession


def permitted_servers(fleet: Fleet, client: ClientSession) -> list[str]:
    """Names of the servers that the client may use, in the fleet's order.

    If the client may use none of a server's tools, it may not use the rest of the server either.

    Args:
        fleet: the servers.
        client: session with the permissions.
    """
    view = client.view()
    return [name for name in fleet.upstreams if client.views.permits_server(name, view)]
