"""The servers whose resources and prompts a client may use."""

from __future__ import annotations

from .fleet import Fleet
from .sessions import ClientSession


def permitted_servers(fleet: Fleet, client: ClientSession) -> list[str]:
    """Names of the servers of which the client may use something, in the fleet's order.

    A server that has tools and permits none of them to this client shows nothing else either.

    Args:
        fleet: the servers.
        client: whose permission counts.
    """
    view = client.view()
    return [name for name in fleet.upstreams if client.views.permits_server(name, view)]
