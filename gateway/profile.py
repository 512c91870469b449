"""What one client of the gateway may use, and how tools are shown to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from ..catalog import Catalog
from ..codemode.grants import Flow, Grant
from ..config import Config
from ..engine import Engine
from ..gating import Gate, State, Votes
from ..view import View
from .called_names import CalledNames

if TYPE_CHECKING:
    from .gateway_settings import GatewaySettings, ProfileSettings

_ALL = ("*",)
_NO_RULES = Gate()


@dataclass(frozen=True, slots=True)
class Profile:
    """What one client may use, and how tools are shown to it.

    Args:
        name: of the profile.
        servers: globs over names of servers.
        tools: globs over ids `server/tool`; both must match.
        scopes: granted to the client.
        rules: conditions of tools for this client, beside those of the engine.
        asked: globs over names of servers that may leave out tools of their own, by their tool
            `_tool_gating`.
        trusted: globs over those of them whose claim of a request is ranked first.
        called: globs over those of them whose claimed tool is called without the model, if it only
            reads and the server gives its arguments.
        pinned: ids or globs of tools that are shown directly.
        split: whether there is one call tool each to read, to write and to destroy.
        pass_through: share of the context below which all tools are shown directly.
        context_tokens: of the client's model.
        result_tokens: tokens of a result up to which it is passed through unchanged.
        operator: text in the description of `search_tools`.
        code: whether there is `run_code`.
        grants: what scripts of `run_code` may call by themselves; the first that fits counts.
        flows: ways between servers that data must not take inside a script.
        extract: command of the small model of `extract` in scripts.
        observe: whether types of results are remembered for stubs.
    """

    name: str = "default"
    servers: tuple[str, ...] = _ALL
    tools: tuple[str, ...] = _ALL
    scopes: frozenset[str] = frozenset()
    rules: Gate = _NO_RULES
    asked: tuple[str, ...] = ()
    trusted: tuple[str, ...] = ()
    called: tuple[str, ...] = ()
    pinned: tuple[str, ...] = ()
    split: bool = False
    pass_through: float = 0.03
    context_tokens: int = 200_000
    result_tokens: int = 10_000
    operator: str = ""
    code: bool = False
    grants: tuple[Grant, ...] = ()
    flows: tuple[Flow, ...] = ()
    extract: str | None = None
    observe: bool = False

    @classmethod
    def of(cls, settings: GatewaySettings, name: str, given: ProfileSettings) -> Profile:
        """A profile from the settings.

        Args:
            settings: of the gateway.
            name: of the profile.
            given: settings of the profile.
        """
        code = settings.code.changed(given.code)
        return cls(
            name=name,
            servers=given.servers,
            tools=given.tools,
            scopes=frozenset(given.scopes),
            rules=given.gate(),
            asked=given.votes.servers,
            trusted=given.votes.claims,
            called=given.votes.calls,
            pinned=tuple(settings.pinned),
            split=settings.split_call_tool,
            pass_through=settings.pass_through,
            context_tokens=settings.context_tokens,
            result_tokens=settings.result_tokens,
            operator=settings.operator,
            code=code.on,
            grants=code.grants(),
            flows=tuple(Flow(source, target) for source, target in code.flows),
            extract=code.extract,
            observe=code.observe,
        )

    def allowed(self, catalog: Catalog) -> list[str] | None:
        """Ids of the tools that the profile allows; None for all.

        Args:
            catalog: the present version.
        """
        if self.servers == _ALL and self.tools == _ALL:
            return None
        servers = {name: self.names_server(name) for name in {tool.server for tool in catalog}}
        return [
            tool.id for tool in catalog if servers[tool.server] and matches(tool.id, self.tools)
        ]

    def names_server(self, name: str | None) -> bool:
        """Whether the profile's globs over servers match this one."""
        return matches(name or "", self.servers)


#: The profile of clients whose profile is gone: it permits nothing.
NOTHING = Profile("nothing", servers=(), tools=())


class ProfileViews:
    """The engine under one profile: every view of every session of it is made here.

    A view follows the profile and the catalog of that moment, so that a profile that changed holds
    in sessions that exist.

    Args:
        engine: over the tools of all servers.
        profile: present profile; assign another to change it.
        hidden: gives the ids of tools that are for user interfaces alone.
    """

    def __init__(
        self,
        engine: Engine,
        profile: Profile,
        hidden: Callable[[], frozenset[str]] = frozenset,
    ) -> None:
        self.engine = engine
        self.profile = profile
        self._hidden = hidden
        self._allowed: tuple[Catalog | None, Profile, frozenset[str] | None] = (None, profile, None)
        self._names: CalledNames | None = None

    @property
    def config(self) -> Config:
        """Of the engine."""
        return self.engine.config

    @property
    def catalog(self) -> Catalog:
        """The present version, permitted or not."""
        return self.engine.catalog

    @property
    def tiers(self) -> tuple[str, ...]:
        """Names of the tiers a request may ask for."""
        return self.engine.tiers

    def view(
        self,
        state: State,
        *,
        allowed: Iterable[str] | None = None,
        votes: Votes | None = None,
        apps: bool = False,
    ) -> View:
        """What the client may use now.

        Args:
            state: state of the agent; its scopes are those of the profile.
            allowed: further limit.
            votes: what servers say of their own tools.
            apps: whether tools that are for user interfaces alone count.
        """
        profile = self.profile
        state = replace(state, scopes=profile.scopes)
        view = self.engine.view(state, allowed=allowed, votes=votes, rules=profile.rules)
        ids = self._ids(view.catalog, profile)
        if ids is not None:
            view = view.limited(ids)
        hidden = frozenset() if apps else self._hidden()
        if hidden:
            view = view.limited(tool.id for tool in view.tools() if tool.id not in hidden)
        return view

    def after_call(self, state: State, tool_id: str) -> State:
        """The state once a call of this tool succeeded."""
        return self.engine.after_call(state, tool_id, rules=self.profile.rules)

    def names(self, catalog: Catalog) -> CalledNames:
        """The names by which tools of a catalog version may be called."""
        if self._names is None or self._names.catalog is not catalog:
            self._names = CalledNames(catalog)
        return self._names

    def allows(self, tool_id: str, view: View) -> bool:
        """Whether the profile's globs match a tool of a view's catalog, whatever else denies it."""
        ids = self._ids(view.catalog, self.profile)
        return tool_id in view.catalog if ids is None else tool_id in ids

    def waiting(self, view: View) -> int:
        """How many of the tools that the profile allows wait for an operator's approval."""
        return sum(self.allows(tool_id, view) for tool_id in self.engine.quarantined)

    def permits_server(self, name: str, view: View) -> bool:
        """Whether the client may see a server and use its resources and prompts.

        It may if it may use one of the server's tools. A server without tools has to be named by
        the profile; where the profile is limited to some tools, or a rule concerns all tools of
        the server, it is not permitted.

        Args:
            name: of the server.
            view: of this profile.
        """
        profile = self.profile
        if not profile.names_server(name):
            return False
        if any(tool.server == name for tool in view.catalog):
            return any(tool.server == name for tool in view.tools())
        rules = (*self.engine.config.gate.rules, *profile.rules.rules)
        return profile.tools == _ALL and not any(
            rule.condition is not None and rule.may_concern(name) for rule in rules
        )

    def _ids(self, catalog: Catalog, profile: Profile) -> frozenset[str] | None:
        known, of, ids = self._allowed
        if known is not catalog or of is not profile:
            listed = profile.allowed(catalog)
            ids = None if listed is None else frozenset(listed)
            self._allowed = catalog, profile, ids
        return ids


def matches(text: str, globs: Iterable[str]) -> bool:
    """Whether one of the globs matches a text exactly, letter case included."""
    return any(text == glob or fnmatchcase(text, glob) for glob in globs)
