"""Subscriptions to resources: clients are notified when a resource changes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
import mcp
import mcp.types as types
from mcp import Client, MCPError
from mcp.client.subscriptions import Subscription, SubscriptionLost
from mcp.server.lowlevel import Server
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from ...errors import RequestError, ShortlistError
from ..profiles.client_sessions import ClientSession, permitted_servers
from ..upstream.caller import Context, TimeLimit
from ..upstream.fleet import Fleet
from ..upstream.server_connection import Upstream, UpstreamError
from .forwarding import answered
from .resources import Resources, public_uri, server_and_uri

_LOG = logging.getLogger("shortlist.gateway")
#: Most resources with subscriptions, of all clients together.
_MOST = 10_000
#: Seconds between two checks whether a server still answers.
_LOOK = 5.0
#: Seconds before a lost subscription is renewed: at first, and at most.
_WAIT, _MOST_WAIT = 1.0, 60.0
#: Time limit in seconds for a server to end a subscription.
_FAREWELL = 2.0


@dataclass(eq=False, slots=True)
class _Follower:
    """A subscription of a client of the older protocol, with the client's form of the address."""

    client: ClientSession
    channel: ServerSession
    uri: str


@dataclass(eq=False, slots=True)
class _Followed:
    """A resource with at least one subscription."""

    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    holders: int = 0
    ready: anyio.Event = field(default_factory=anyio.Event)
    problem: Exception | None = None


class Subscriptions:
    """Subscribes to resources at their servers while a client is subscribed.

    A server with subscriptions is not stopped when it is idle.

    Args:
        fleet: the servers.
        client_of: returns the session of a request.
        resources: finds the server of a resource.
        server: the gateway's MCP server; the handlers are added to it.
    """

    def __init__(
        self,
        fleet: Fleet,
        client_of: Callable[[Context], ClientSession],
        resources: Resources,
        server: Server[Any],
    ) -> None:
        self._fleet = fleet
        self._client_of = client_of
        self._resources = resources
        self._bus = InMemorySubscriptionBus()
        self._stream = ListenHandler(self._bus)
        self._followed: dict[tuple[str, str], _Followed] = {}
        self._followers: dict[tuple[str, str], list[_Follower]] = {}
        server.add_request_handler(
            "resources/subscribe", types.SubscribeRequestParams, answered(self._subscribe)
        )
        server.add_request_handler(
            "resources/unsubscribe", types.UnsubscribeRequestParams, answered(self._unsubscribe)
        )
        server.add_request_handler(
            "subscriptions/listen", types.SubscriptionsListenRequestParams, answered(self._listen)
        )
        fleet.message_handlers.on_resource_update = self._updated

    def drop(self, client: ClientSession) -> None:
        """End the subscriptions of a client of the older protocol.

        Args:
            client: the ended session.
        """
        for place, followers in list(self._followers.items()):
            for one in [one for one in followers if one.client is client]:
                self._leave(place, one)

    async def _subscribe(
        self, context: Context, params: types.SubscribeRequestParams
    ) -> types.EmptyResult:
        client = self._client_of(context)
        place = self._resources.place(client, params.uri)
        followers = self._followers.setdefault(place, [])
        if not any(one.client is client for one in followers):
            follower = _Follower(client, context.session, params.uri)
            followers.append(follower)
            try:
                await self._follow(place)
            except BaseException:
                self._forget(place, follower)
                raise
        return types.EmptyResult()

    async def _unsubscribe(
        self, context: Context, params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        client = self._client_of(context)
        place = self._resources.place(client, params.uri)
        for one in self._followers.get(place, ()):
            if one.client is client:
                self._leave(place, one)
                break
        return types.EmptyResult()

    async def _listen(
        self, context: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """A stream of changes of the resources that the client may read."""
        permitted = permitted_servers(self._fleet, self._client_of(context))
        uris, places = [], []
        for uri in params.notifications.resource_subscriptions or ():
            place = server_and_uri(uri)
            if place is not None and place[0] in permitted:
                uris.append(uri)
                places.append(place)
        taken = []
        try:
            for place in places:
                await self._follow(place)
                taken.append(place)
            honoured = types.SubscriptionFilter(resource_subscriptions=uris)
            return await self._stream(
                context, params.model_copy(update={"notifications": honoured})
            )
        finally:
            for place in taken:
                self._unfollow(place)

    async def _updated(self, server: str, uri: str) -> None:
        """Notify the subscribed clients that a resource has changed."""
        await self._bus.publish(ResourceUpdated(uri=public_uri(server, uri)))
        for place, followers in list(self._followers.items()):
            # The changed resource may be a part of another one, such as a file in a folder.
            if place[0] != server or not (uri + "/").startswith(place[1].rstrip("/") + "/"):
                continue
            for one in list(followers):
                if server in permitted_servers(self._fleet, one.client):
                    shown = one.uri if uri == place[1] else public_uri(server, uri)
                    await self._tell(place, one, shown)

    async def _tell(self, place: tuple[str, str], follower: _Follower, uri: str) -> None:
        params = types.ResourceUpdatedNotificationParams(uri=uri)
        try:
            await follower.channel.send_notification(
                types.ResourceUpdatedNotification(params=params)
            )
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._leave(place, follower)

    def _leave(self, place: tuple[str, str], follower: _Follower) -> None:
        """End a client's subscription, if there is one."""
        if self._forget(place, follower):
            self._unfollow(place)

    def _forget(self, place: tuple[str, str], follower: _Follower) -> bool:
        """Remove a subscription. Returns whether it existed."""
        followers = self._followers.get(place, [])
        if follower not in followers:
            return False
        followers.remove(follower)
        if not followers:
            del self._followers[place]
        return True

    async def _follow(self, place: tuple[str, str]) -> None:
        """Add a subscription to a resource. The first one subscribes at the server.

        Raises:
            RequestError: there are too many subscriptions.
            UpstreamError: the server refuses.
        """
        followed = self._followed.get(place)
        if followed is None:
            if len(self._followed) >= _MOST:
                raise RequestError(
                    f"uri: there are already subscriptions to {_MOST:,} resources; try again later"
                )
            followed = self._followed[place] = _Followed()
            self._fleet.background.start_soon(self._keep, place, followed)
        followed.holders += 1
        try:
            await followed.ready.wait()
        except BaseException:
            self._unfollow(place, followed)
            raise
        if followed.problem is not None:
            self._unfollow(place, followed)
            raise followed.problem

    def _unfollow(self, place: tuple[str, str], followed: _Followed | None = None) -> None:
        one = followed or self._followed[place]
        one.holders -= 1
        if not one.holders:
            one.scope.cancel()
            if self._followed.get(place) is one:
                del self._followed[place]

    async def _keep(self, place: tuple[str, str], followed: _Followed) -> None:
        """Subscribe at the server, also after a lost connection, until no client is left."""
        wait = _WAIT
        with followed.scope:
            while True:
                try:
                    await self._keep_once(place, followed)
                except (UpstreamError, ShortlistError) as error:
                    if not followed.ready.is_set():
                        followed.problem = error
                        break
                    _LOG.info("server %r: a subscription was lost: %s", place[0], error)
                await anyio.sleep(wait)
                wait = min(wait * 2, _MOST_WAIT)
        followed.ready.set()

    async def _keep_once(self, place: tuple[str, str], followed: _Followed) -> None:
        upstream = self._fleet.upstreams.get(place[0])
        if upstream is None:
            # The server may be configured again while a client is subscribed.
            raise UpstreamError(f"server {place[0]!r} was removed from the configuration")
        await upstream.request(self._subscribing(upstream, place, followed), lasting=True)

    def _subscribing(
        self, upstream: Upstream, place: tuple[str, str], followed: _Followed
    ) -> Callable[[Client, TimeLimit], Any]:
        server, uri = place

        async def subscribe(client: Client, patience: TimeLimit) -> None:
            able = client.server_capabilities.resources
            if able is None or not able.subscribe:
                raise UpstreamError(
                    f"server {server!r} does not support subscriptions to resources"
                )
            if client.protocol_version in MODERN_PROTOCOL_VERSIONS:
                try:
                    async with client.listen(resource_subscriptions=[uri]) as changes:
                        followed.ready.set()
                        with patience.paused():
                            while self._fleet.upstreams.get(server) is upstream:
                                if await _has_ended(changes):
                                    break
                except SubscriptionLost as error:
                    raise UpstreamError(f"server {server!r}: {error}") from error
                return
            # The client of a closed connection no longer gives its session.
            session = client.session
            asked = types.SubscribeRequest(params=types.SubscribeRequestParams(uri=uri))
            await session.send_request(asked, types.EmptyResult)
            followed.ready.set()
            try:
                with patience.paused():
                    while self._fleet.upstreams.get(server) is upstream:
                        await anyio.sleep(_LOOK)
                        await session.send_request(types.PingRequest(), types.EmptyResult)
            finally:
                with anyio.move_on_after(_FAREWELL, shield=True):
                    await _unsubscribe(session, uri)

        return subscribe


async def _has_ended(changes: Subscription) -> bool:
    """Wait while the connection receives changes. Returns whether the subscription has ended."""
    with anyio.move_on_after(_LOOK):
        async for _ in changes:
            continue
        return True
    return False


async def _unsubscribe(session: mcp.ClientSession, uri: str) -> None:
    request = types.UnsubscribeRequest(params=types.UnsubscribeRequestParams(uri=uri))
    try:
        await session.send_request(request, types.EmptyResult)
    except (MCPError, anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
        _LOG.info("resources/unsubscribe: %s", error)
