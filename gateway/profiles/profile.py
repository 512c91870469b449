"""What each client of the gateway may use, by which names it calls tools.

And which token selects its profile.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, Self

import numpy as np

from ...catalog import Catalog
from ...catalog.pattern import any_grants, is_wild
from ...codemode.grants import Flow, Grant, deciding_grant
from ...config import Config
from ...engine import Engine
from ...gating import Gate, State, Votes
from ...gating.condition import Mask
from ...loaders.providers import provider_name
from ...retrieval.catalog_index import Index
from ...view import View
from .gateway_settings import DEFAULT_PROFILE, GatewaySettings, ProfileSettings
from .long_results import ResultLimits

#: Names of the gateway's own tools.
SEARCH_TOOLS, GET_TOOL_DETAILS, CALL_TOOL = "search_tools", "get_tool_details", "call_tool"
READ_TOOL, LIST_SERVERS = "read_tool", "list_servers"
READ_RESULT, RUN_CODE = "read_result", "run_code"
#: Most characters of the name of a tool that is shown directly: 60 with `mcp__shortlist__`, the
#: prefix that clients put before it.
MAX_DIRECT_NAME_CHARS = 44


def direct_name(tool_id: str) -> str:
    """The name of a directly shown tool. It depends only on the id and is unique."""
    return provider_name(tool_id, MAX_DIRECT_NAME_CHARS)


class CallNames:
    """The names of one catalog version: `server__tool`, and those of tools shown directly.

    Args:
        catalog: the version.
    """

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._ids: dict[str, list[str]] = {}
        for tool in catalog:
            for name in {direct_name(tool.id), f"{tool.server}__{tool.name}"}:
                self._ids.setdefault(name, []).append(tool.id)

    def resolve(self, name: str, view: View) -> str:
        """The id of the tool with a name. An unknown name is returned unchanged.

        Args:
            name: id, or one of the other names; an id wins over them.
            view: if several tools have this name, the one that the view permits is chosen.
        """
        if name in self.catalog:
            return name
        ids = [tool_id for tool_id in self._ids.get(name, []) if view.exists(tool_id)]
        permitted = [tool_id for tool_id in ids if view.permits(tool_id)]
        chosen = permitted or sorted(ids)[:1]
        return chosen[0] if len(chosen) == 1 else name


_EVERYTHING = ("*",)
_NO_RULES = Gate()


@dataclass(frozen=True, slots=True)
class Profile:
    """What one client may use, and how tools are shown to it.

    Args:
        name: name of the profile.
        servers: globs over names of servers.
        tools: globs over ids `server/tool`; both must match.
        scopes: scopes granted to the client.
        rules: permission rules for this client, in addition to those of the engine.
        vote_servers: globs over names of servers that may exclude their own tools, with the tool
            `_tool_gating`.
        vote_claims: globs over these servers whose claimed tools rank first.
        vote_calls: globs over the claiming servers whose claimed tool is called without the model,
            if it is read-only and the claim has arguments.
        pinned: ids or globs of tools that are always shown directly.
        split_call_tool: whether `read_tool` stands beside `call_tool`; None where the client is
            known to permit tools by name.
        ui_tools: whether a client that shows user interfaces always sees the tools that have one.
        pass_through: all tools are shown directly if their definitions take less than this share of
            the context.
        context_tokens: size of the model's context window in tokens.
        result_tokens: a result of more tokens is stored, and read in parts.
        media_bytes: most bytes of the images and sounds in one result.
        operator_text: text added to the description of `search_tools`.
        has_run_code: whether there is `run_code`.
        grants: which tools scripts may call. The first matching grant decides.
        flows: pairs of servers between which scripts must not pass data.
        extract_command: command of the small model for `extract` in scripts.
    """

    name: str = "default"
    servers: tuple[str, ...] = _EVERYTHING
    tools: tuple[str, ...] = _EVERYTHING
    scopes: frozenset[str] = frozenset()
    rules: Gate = _NO_RULES
    vote_servers: tuple[str, ...] = ()
    vote_claims: tuple[str, ...] = ()
    vote_calls: tuple[str, ...] = ()
    pinned: tuple[str, ...] = ()
    split_call_tool: bool | None = None
    ui_tools: bool = True
    pass_through: float = 0.03
    context_tokens: int = 200_000
    result_tokens: int = 10_000
    media_bytes: int = 10_000_000
    operator_text: str = ""
    has_run_code: bool = False
    grants: tuple[Grant, ...] = ()
    flows: tuple[Flow, ...] = ()
    extract_command: str | None = None
    #: Hash of all settings, the same in every process that reads the same configuration.
    fingerprint: str = field(init=False, repr=False, compare=False)

    @classmethod
    def of(cls, settings: GatewaySettings, name: str, profile_settings: ProfileSettings) -> Profile:
        """A profile from the settings.

        Args:
            settings: settings of the gateway.
            name: name of the profile.
            profile_settings: settings of the profile.
        """
        code = settings.code.overridden_by(profile_settings.code)
        return cls(
            name=name,
            servers=profile_settings.servers,
            tools=profile_settings.tools,
            scopes=frozenset(profile_settings.scopes),
            rules=profile_settings.gate(),
            vote_servers=profile_settings.votes.servers,
            vote_claims=profile_settings.votes.claims,
            vote_calls=profile_settings.votes.calls,
            pinned=tuple(settings.pinned),
            split_call_tool=settings.split_call_tool,
            ui_tools=settings.ui_tools,
            pass_through=settings.pass_through,
            context_tokens=settings.context_tokens,
            result_tokens=settings.result_tokens,
            media_bytes=settings.media_bytes,
            operator_text=settings.instructions,
            has_run_code=code.on,
            grants=code.grants(),
            flows=tuple(Flow(source, target) for source, target in code.flows),
            extract_command=code.extract,
        )

    def allowed_ids(self, catalog: Catalog) -> list[str] | None:
        """Ids of the tools that the profile allows; None for all.

        Args:
            catalog: the present catalog.
        """
        if self.servers == _EVERYTHING and self.tools == _EVERYTHING:
            return None
        servers = {name: self.matches_server(name) for name in {tool.server for tool in catalog}}
        return [
            tool.id for tool in catalog if servers[tool.server] and any_grants(tool.id, self.tools)
        ]

    def __post_init__(self) -> None:
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.init}
        values |= {"scopes": sorted(self.scopes), "rules": self.rules.to_dict()}
        digest = hashlib.sha256(repr(values).encode("utf-8", "surrogatepass")).hexdigest()
        object.__setattr__(self, "fingerprint", digest[:32])

    def result_limits(self, chars: int | None = None) -> ResultLimits:
        """The limits of one result.

        Args:
            chars: limit in characters from the tool's definition; None if it sets none.
        """
        return ResultLimits(tokens=self.result_tokens, media_bytes=self.media_bytes, chars=chars)

    def matches_server(self, name: str | None) -> bool:
        """Whether the profile's globs match a server."""
        return any_grants(name or "", self.servers)


#: The profile of clients whose profile was removed. It permits nothing.
PROFILE_WITHOUT_TOOLS = Profile("nothing", servers=(), tools=())


@dataclass(frozen=True, slots=True, eq=False)
class _VisibleRowsCache:
    """Rows of a catalog version that exist for a profile's clients, and what they depend on.

    Args:
        index: the catalog version.
        profile: the profile.
        hidden_ids: ids of the tools that were hidden.
        mask: true for each row that exists, shape (n,); None if all do.
    """

    index: Index
    profile: Profile
    hidden_ids: frozenset[str]
    mask: Mask | None


class ProfileViews:
    """Makes the views of all sessions of one profile.

    A view uses the profile and the catalog of that moment. So a changed profile applies to existing
    sessions.

    Args:
        engine: engine with the tools of all servers.
        profile: the present profile; assign another to change it.
        hidden_ids: returns the ids of tools that no model may see, such as those for user
            interfaces alone.
    """

    def __init__(
        self,
        engine: Engine,
        profile: Profile,
        hidden_ids: Callable[[], frozenset[str]] = frozenset,
    ) -> None:
        self.engine = engine
        self.profile = profile
        self._hidden_ids = hidden_ids
        #: Catalog and profile of the last call of `_allowed_ids`, and its result.
        self._allowed_ids_cache: tuple[Catalog | None, Profile, frozenset[str] | None] = (
            None,
            profile,
            None,
        )
        #: Whether tools for user interfaces are included, to the last rows that exist.
        self._visible_rows_cache: dict[bool, _VisibleRowsCache] = {}
        self._call_names_cache: CallNames | None = None

    @property
    def config(self) -> Config:
        """Of the engine."""
        return self.engine.config

    @property
    def catalog(self) -> Catalog:
        """The present catalog, with denied tools."""
        return self.engine.catalog

    @property
    def tiers(self) -> tuple[str, ...]:
        """Names of the tiers that a search may use."""
        return self.engine.tiers

    def view(
        self,
        state: State,
        *,
        allowed: Iterable[str] | None = None,
        votes: Votes | None = None,
        with_app_tools: bool = False,
    ) -> View:
        """What the client may use now.

        For the client, tools outside the profile's globs do not exist. A model does not see tools
        for user interfaces alone either.

        Args:
            state: earlier calls and facts. The scopes are replaced by those of the profile.
            allowed: ids or globs that limit the tools further.
            votes: votes of the servers about their own tools.
            with_app_tools: whether tools for user interfaces alone are included.
        """
        profile = self.profile
        state = replace(state, scopes=profile.scopes)
        visible = partial(self._visible_rows, profile=profile, with_app_tools=with_app_tools)
        return self.engine.view(
            state, allowed=allowed, votes=votes, rules=profile.rules, visible=visible
        )

    def after_call(self, state: State, tool_id: str) -> State:
        """The state after a successful call of this tool."""
        return self.engine.after_call(state, tool_id, rules=self.profile.rules)

    def call_names(self, catalog: Catalog) -> CallNames:
        """Names that clients may use for the tools of a catalog version."""
        if self._call_names_cache is None or self._call_names_cache.catalog is not catalog:
            self._call_names_cache = CallNames(catalog)
        return self._call_names_cache

    def profile_allows(self, tool_id: str, view: View) -> bool:
        """Whether the profile's globs match a tool. Rules and quarantine are not checked."""
        ids = self._allowed_ids(view.catalog, self.profile)
        return tool_id in view.catalog if ids is None else tool_id in ids

    def quarantined_ids(self, view: View) -> list[str]:
        """Ids of the quarantined tools that the profile's globs match."""
        return [
            tool_id for tool_id in self.engine.quarantined if self.profile_allows(tool_id, view)
        ]

    def permits_server(self, name: str, view: View) -> bool:
        """Whether the client may see a server and use its resources and prompts.

        It may if it may use one of the server's tools. A server without tools must match the
        profile's globs. It is denied if the profile is limited to some tools, or if a rule applies
        to all tools of the server.

        Args:
            name: name of the server.
            view: a view of this profile.
        """
        profile = self.profile
        if not profile.matches_server(name):
            return False
        if name in view.catalog.servers:
            return bool(view.tools(name))
        rules = (*self.engine.config.gate.rules, *profile.rules.rules)
        return profile.tools == _EVERYTHING and not any(
            rule.condition is not None and rule.may_concern(name) for rule in rules
        )

    def _visible_rows(self, index: Index, profile: Profile, *, with_app_tools: bool) -> Mask | None:
        """Rows that exist for the client, shape (n,); None if all do. The last mask is kept."""
        hidden_ids = frozenset() if with_app_tools else self._hidden_ids()
        last = self._visible_rows_cache.get(with_app_tools)
        if (
            last is not None
            and last.index is index
            and last.profile is profile
            and last.hidden_ids == hidden_ids
        ):
            return last.mask
        ids = self._allowed_ids(index.catalog, profile)
        mask = None
        if ids is not None or hidden_ids:
            mask = np.array(
                [
                    (ids is None or tool.id in ids) and tool.id not in hidden_ids
                    for tool in index.tools
                ],
                np.bool_,
            )
        self._visible_rows_cache[with_app_tools] = _VisibleRowsCache(
            index, profile, hidden_ids, mask
        )
        return mask

    def _allowed_ids(self, catalog: Catalog, profile: Profile) -> frozenset[str] | None:
        cached_catalog, cached_profile, ids = self._allowed_ids_cache
        if cached_catalog is not catalog or cached_profile is not profile:
            allowed = profile.allowed_ids(catalog)
            ids = None if allowed is None else frozenset(allowed)
            self._allowed_ids_cache = catalog, profile, ids
        return ids


@dataclass(frozen=True, slots=True)
class ClientProfiles:
    """The profiles of all clients.

    Args:
        default: profile of a client that sends no token.
        profiles: name to profile.
        tokens: profile's name to the bearer token that selects it over HTTP.
    """

    default: Profile
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    tokens: Mapping[str, str] = field(default_factory=dict, repr=False)

    def for_operators(self) -> dict[str, Profile]:
        """Name to profile, for operators: the default first, unless it permits nothing."""
        default = {} if self.default is PROFILE_WITHOUT_TOOLS else {self.default.name: self.default}
        return {**default, **self.profiles}

    @classmethod
    def of(
        cls,
        settings: GatewaySettings,
        name: str = DEFAULT_PROFILE,
        *,
        over_http: bool = False,
        attached: bool = False,
    ) -> Self:
        """The profiles of the settings, also for `ClientSessions.replace_profiles` after a change.

        Args:
            settings: settings of the gateway.
            name: profile of a client that sends no token.
            over_http: whether clients use HTTP. If any profile has a token, requests without one
                are refused, and `name` has no effect.
            attached: whether each client names its profile itself. Then `default` need not exist.

        Raises:
            ConfigError: there is no profile of this name.
        """
        tokens = {
            profile_name: profile.token.get_secret_value()
            for profile_name, profile in settings.profiles.items()
            if profile.token is not None
        }
        profiles = {
            profile_name: Profile.of(settings, profile_name, profile)
            for profile_name, profile in settings.profiles.items()
        }
        if (over_http and tokens) or (attached and profiles and name not in profiles):
            return cls(default=PROFILE_WITHOUT_TOOLS, profiles=profiles, tokens=tokens)
        return cls(
            default=Profile.of(settings, name, settings.profile(name)),
            profiles=profiles,
            tokens=tokens,
        )


@dataclass(frozen=True, slots=True)
class ScriptGrants:
    """Which of a profile's tools its scripts may call.

    Args:
        profile_name: name of the profile.
        allowed_count: number of tools that scripts call without asking.
        asked_ids: ids of tools that the user is asked about.
        denied_ids: ids of tools that scripts do not call.
        unmatched_patterns: patterns of the settings that match no tool.
        suggested_allow: value of the setting `allow` with which scripts would call these tools
            too, without asking: the present value, and the ids of the tools that are asked about
            only because they are destructive. Empty if there are no such tools.
        settings_table: the table of the settings in which `allow` holds for this profile.
    """

    profile_name: str
    allowed_count: int
    asked_ids: tuple[str, ...]
    denied_ids: tuple[str, ...]
    unmatched_patterns: tuple[str, ...]
    suggested_allow: tuple[str, ...]
    settings_table: str

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "profile": self.profile_name,
            "allowed": self.allowed_count,
            "asked": self.asked_ids,
            "denied": self.denied_ids,
            "unmatched": self.unmatched_patterns,
            "allow": self.suggested_allow,
            "table": self.settings_table,
        }


def script_grants(
    settings: GatewaySettings, catalog: Catalog, quarantined: Collection[str] = ()
) -> Iterator[ScriptGrants]:
    """The grants of scripts, for each profile with `run_code`.

    Args:
        settings: settings of the gateway.
        catalog: tools of all servers.
        quarantined: ids of the tools that no script calls for now.
    """
    profiles = settings.profiles or {DEFAULT_PROFILE: ProfileSettings()}
    for name, profile_settings in profiles.items():
        profile = Profile.of(settings, name, profile_settings)
        if not profile.has_run_code:
            continue
        ids = profile.allowed_ids(catalog)
        tools = list(catalog) if ids is None else [catalog.get(tool_id) for tool_id in ids]
        # Tool to the grant that decides about its first call.
        grants = {tool.id: deciding_grant(tool, profile.grants, call_count=0) for tool in tools}
        configured_patterns = {grant.tools for grant in profile.grants}
        # An id with a wildcard would allow more than its tool.
        ids_to_allow = [
            tool_id
            for tool_id in _ids_with(grants, "ask")
            if grants[tool_id].tools not in configured_patterns
            and tool_id not in quarantined
            and not is_wild(tool_id)
        ]
        present_allow = [grant.tools for grant in profile.grants if grant.is_unlimited]
        yield ScriptGrants(
            profile_name=name,
            allowed_count=len(_ids_with(grants, "allow")),
            asked_ids=_ids_with(grants, "ask"),
            denied_ids=_ids_with(grants, "deny"),
            unmatched_patterns=tuple(
                grant.tools
                for grant in profile.grants
                if not any(grant.matches(tool) for tool in tools)
            ),
            suggested_allow=(*present_allow, *ids_to_allow) if ids_to_allow else (),
            settings_table=f"profiles.{name}.code" if settings.profiles else "code",
        )


def _ids_with(grants: Mapping[str, Grant], decision_name: str) -> tuple[str, ...]:
    return tuple(tool_id for tool_id, grant in grants.items() if grant.decision == decision_name)
