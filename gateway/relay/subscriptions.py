"""Subscriptions to resources: clients are notified when a resource changes."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from functools import partial

import anyio
import mcp
import mcp.types as types
from mcp import Client, MCPError
from mcp.client.subscriptions import Subscription, SubscriptionLost
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from ...errors import RequestError, ShortlistError
from ..profiles.client_sessions import ClientCaller, ClientSession, permitted_servers
from ..upstream.call import TimeLimit
from ..upstream.fleet import Fleet
from ..upstream.server_connection import Upstream, UpstreamError
from .client_requests import RequestHandlers
from .resources import Resources, public_uri, server_and_uri

_LOG = logging.getLogger("shortlist.gateway")
#: Name of a server, and the server's ended address of a resource.
_ServerAndUri = tuple[str, str]
#: Most resources with subscriptions, of all clients together.
_MAX_RESOURCES = 10_000
#: Seconds between two checks whether a server still answers.
_CHECK_INTERVAL_S = 5.0
#: Seconds before a lost subscription is renewed: at first, and at most.
_FIRST_RENEWAL_WAIT_S, _MAX_RENEWAL_WAIT_S = 1.0, 60.0
#: Time limit in seconds for a server to end a subscription.
_UNSUBSCRIBE_TIMEOUT_S = 2.0


@dataclass(eq=False, slots=True)
class _Subscriber:
    """A subscription of a client.

    Args:
        client: the client's session.
        session: the MCP session that gets the notifications; None for a client of the newer
            protocol, which gets them over the stream of its request.
        client_uri: the address that the client gave.
    """

    client: ClientSession
    session: ServerSession | None
    client_uri: str


@dataclass(eq=False, slots=True)
class _ServerSubscription:
    """The subscription to a resource at its server, for at least one client.

    Args:
        cancel_scope: ends it.
        subscribers: the subscriptions of clients.
        first_try_ended: set when the server accepted it, or when it failed.
        problem: why the server refused it; None if it did not.
    """

    cancel_scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    subscribers: list[_Subscriber] = field(default_factory=list)
    first_try_ended: anyio.Event = field(default_factory=anyio.Event)
    problem: Exception | None = None


class Subscriptions:
    """Subscribes to resources at their servers while a client is subscribed.

    A server with subscriptions is not stopped when it is idle.

    Args:
        fleet: the servers.
        handlers: gets the handlers.
        resources: finds the server of a resource.
    """

    def __init__(self, fleet: Fleet, handlers: RequestHandlers, resources: Resources) -> None:
        self._fleet = fleet
        self._resources = resources
        self._bus = InMemorySubscriptionBus()
        self._stream = ListenHandler(self._bus)
        self._subscriptions: dict[_ServerAndUri, _ServerSubscription] = {}
        handlers.add("resources/subscribe", types.SubscribeRequestParams, self._subscribe)
        handlers.add("resources/unsubscribe", types.UnsubscribeRequestParams, self._unsubscribe)
        handlers.add("subscriptions/listen", types.SubscriptionsListenRequestParams, self._listen)
        fleet.message_handlers.on_resource_update = self._notify_subscribers

    def drop(self, client: ClientSession) -> None:
        """End the subscriptions of a client of the older protocol.

        Args:
            client: the ended session.
        """
        for resource in list(self._subscriptions):
            self._unsubscribe_client(resource, client)

    async def _subscribe(
        self, caller: ClientCaller, params: types.SubscribeRequestParams
    ) -> types.EmptyResult:
        resource = self._resources.locate_resource(caller.client, params.uri)
        if self._subscriber(resource, caller.client) is None:
            subscriber = _Subscriber(caller.client, caller.context.session, params.uri)
            await self._acquire(resource, subscriber)
        return types.EmptyResult()

    async def _unsubscribe(
        self, caller: ClientCaller, params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        resource = self._resources.locate_resource(caller.client, params.uri)
        self._unsubscribe_client(resource, caller.client)
        return types.EmptyResult()

    def _unsubscribe_client(self, resource: _ServerAndUri, client: ClientSession) -> None:
        if (subscriber := self._subscriber(resource, client)) is not None:
            self._release(resource, subscriber)

    def _subscriber(self, resource: _ServerAndUri, client: ClientSession) -> _Subscriber | None:
        """The subscription of a client of the older protocol; None if it has none."""
        subscription = self._subscriptions.get(resource)
        for subscriber in () if subscription is None else subscription.subscribers:
            if subscriber.client is client and subscriber.session is not None:
                return subscriber
        return None

    async def _listen(
        self, caller: ClientCaller, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """A stream of changes of the resources that the client may read."""
        client = caller.client
        permitted = permitted_servers(self._fleet, client)
        acquired: list[tuple[_ServerAndUri, _Subscriber]] = []
        try:
            for uri in params.notifications.resource_subscriptions or ():
                resource = server_and_uri(uri)
                if resource is not None and resource[0] in permitted:
                    subscriber = _Subscriber(client, None, uri)
                    await self._acquire(resource, subscriber)
                    acquired.append((resource, subscriber))
            uris = [subscriber.client_uri for _, subscriber in acquired]
            honoured = types.SubscriptionFilter(resource_subscriptions=uris)
            return await self._stream(
                caller.context, params.model_copy(update={"notifications": honoured})
            )
        finally:
            for resource, subscriber in acquired:
                self._release(resource, subscriber)

    async def _notify_subscribers(self, server: str, uri: str) -> None:
        """Notify the subscribed clients that a resource has changed."""
        await self._bus.publish(ResourceUpdated(uri=public_uri(server, uri)))
        for resource, subscription in list(self._subscriptions.items()):
            # The changed resource may be a part of another one, such as a file in a folder.
            subscribed_server, subscribed_uri = resource
            folder = subscribed_uri.rstrip("/") + "/"
            if subscribed_server != server or not f"{uri}/".startswith(folder):
                continue
            for subscriber in list(subscription.subscribers):
                if server in permitted_servers(self._fleet, subscriber.client):
                    same = uri == subscribed_uri
                    uri_for_client = subscriber.client_uri if same else public_uri(server, uri)
                    await self._notify(resource, subscriber, uri_for_client)

    async def _notify(self, resource: _ServerAndUri, subscriber: _Subscriber, uri: str) -> None:
        if subscriber.session is None:
            return
        params = types.ResourceUpdatedNotificationParams(uri=uri)
        try:
            await subscriber.session.send_notification(
                types.ResourceUpdatedNotification(params=params)
            )
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._release(resource, subscriber)

    async def _acquire(self, resource: _ServerAndUri, subscriber: _Subscriber) -> None:
        """Add a subscription to a resource. The first one subscribes at the server.

        Raises:
            RequestError: there are too many subscriptions.
            UpstreamError: the server refuses.
        """
        subscription = self._subscriptions.get(resource)
        if subscription is None:
            if len(self._subscriptions) >= _MAX_RESOURCES:
                raise RequestError(
                    f"uri: there are already subscriptions to {_MAX_RESOURCES:,} resources; try "
                    "again later"
                )
            subscription = self._subscriptions[resource] = _ServerSubscription()
            self._fleet.background.start_soon(self._keep_subscribed, resource, subscription)
        subscription.subscribers.append(subscriber)
        try:
            await subscription.first_try_ended.wait()
        except BaseException:
            self._release(resource, subscriber)
            raise
        if subscription.problem is not None:
            self._release(resource, subscriber)
            raise subscription.problem

    def _release(self, resource: _ServerAndUri, subscriber: _Subscriber) -> None:
        """End a client's subscription, if it has not ended. The last one ends at the server."""
        subscription = self._subscriptions.get(resource)
        if subscription is None or subscriber not in subscription.subscribers:
            return
        subscription.subscribers.remove(subscriber)
        if not subscription.subscribers:
            subscription.cancel_scope.cancel()
            del self._subscriptions[resource]

    async def _keep_subscribed(
        self, resource: _ServerAndUri, subscription: _ServerSubscription
    ) -> None:
        """Subscribe at the server, also after a lost connection, until no client is left."""
        server, _ = resource
        wait = _FIRST_RENEWAL_WAIT_S
        with subscription.cancel_scope:
            while True:
                try:
                    await self._subscribe_once(resource, subscription)
                except (UpstreamError, ShortlistError) as error:
                    if not subscription.first_try_ended.is_set():
                        subscription.problem = error
                        break
                    _LOG.info("server %r: a subscription was lost: %s", server, error)
                await anyio.sleep(wait)
                wait = min(wait * 2, _MAX_RENEWAL_WAIT_S)
        subscription.first_try_ended.set()

    async def _subscribe_once(
        self, resource: _ServerAndUri, subscription: _ServerSubscription
    ) -> None:
        server, _ = resource
        upstream = self._fleet.upstreams.get(server)
        if upstream is None:
            # The server may be configured again while a client is subscribed.
            raise UpstreamError(f"server {server!r} was removed from the configuration")
        await upstream.follow(partial(self._follow_resource, upstream, resource, subscription))

    async def _follow_resource(
        self,
        upstream: Upstream,
        resource: _ServerAndUri,
        subscription: _ServerSubscription,
        client: Client,
        time_limit: TimeLimit,
    ) -> None:
        """Subscribe over this connection, and stay subscribed as long as it lasts."""
        server, uri = resource
        capability = client.server_capabilities.resources
        if capability is None or not capability.subscribe:
            raise UpstreamError(f"server {server!r} does not support subscriptions to resources")
        # The permissions may have changed while the server started.
        if not any(row.client.permits_server(server) for row in subscription.subscribers):
            raise RequestError(f"uri: no resource {public_uri(server, uri)!r:.200}")
        if client.protocol_version in MODERN_PROTOCOL_VERSIONS:
            try:
                async with client.listen(resource_subscriptions=[uri]) as changes:
                    subscription.first_try_ended.set()
                    with time_limit.paused():
                        while self._fleet.upstreams.get(server) is upstream:
                            if await _has_ended(changes):
                                break
            except SubscriptionLost as error:
                raise UpstreamError(f"server {server!r}: {error}") from error
            return
        # The client of a closed connection no longer gives its session.
        session = client.session
        request = types.SubscribeRequest(params=types.SubscribeRequestParams(uri=uri))
        await session.send_request(request, types.EmptyResult)
        subscription.first_try_ended.set()
        try:
            with time_limit.paused():
                while self._fleet.upstreams.get(server) is upstream:
                    await anyio.sleep(_CHECK_INTERVAL_S)
                    await session.send_request(types.PingRequest(), types.EmptyResult)
        finally:
            with anyio.move_on_after(_UNSUBSCRIBE_TIMEOUT_S, shield=True):
                await _unsubscribe(session, uri)


async def _has_ended(changes: Subscription) -> bool:
    """Wait while the connection receives changes. Returns whether the subscription has ended."""
    with anyio.move_on_after(_CHECK_INTERVAL_S):
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
