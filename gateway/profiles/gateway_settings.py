"""The gateway's own settings: the key `shortlist` of a client's file, or a TOML file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import BeforeValidator, Field, SecretStr, ValidationError, field_validator

from ...codemode.grants import Grant
from ...config import Config, resolve_paths
from ...errors import ConfigError
from ...gating.rules import Gate, read_gate
from ...settings import Glob, Section, validation_text
from ..clients.client_config import ClientConfig
from ..clients.config_file import ConfigFile
from ..clients.config_references import References

if TYPE_CHECKING:
    from ...retrieval.postgres.stored_texts import StoredTexts

#: Profile of clients that send no token.
DEFAULT_PROFILE = "default"


def _secret_token(value: Any) -> Any:
    # Checked here, because the message of a type error would quote the token.
    if isinstance(value, SecretStr):
        return value
    if not isinstance(value, str) or not value.strip():
        raise ValueError("must be a text that is not empty, such as '${MY_TOKEN}'")
    return SecretStr(value.strip())


def _description_table(value: Any) -> Any:
    """A list of `{"name", "description"}` as a table."""
    if not isinstance(value, list):
        return value
    table: dict[Any, Any] = {}
    for row in value:
        if not isinstance(row, Mapping) or set(row) != {"name", "description"}:
            raise ValueError("each row needs the keys `name` and `description`")
        table[str(row["name"])] = row["description"]
    return table


class VoteSettings(Section):
    """Which servers are asked about a request; each of them reads what the model searches for.

    Args:
        servers: globs of the servers that are asked. They may exclude their own tools.
        claims: globs of the asked servers that may claim a query. A claimed tool ranks first.
        calls: globs of the claiming servers whose claimed tool is called at once, without the
            model. The tool must be annotated as read-only and the claim must have arguments.
    """

    servers: tuple[Glob, ...] = ()
    claims: tuple[Glob, ...] = ()
    calls: tuple[Glob, ...] = ()


def _vote_table(value: Any) -> Any:
    """Replaces true by all servers, and false by none."""
    return {"servers": ("*",) if value else ()} if isinstance(value, bool) else value


class CodeSettings(Section):
    """Scripts of the model that call tools, by the meta-tool `run_code`.

    Args:
        on: whether there is `run_code`; it needs the extra `code`. True as soon as the table is
            written.
        deny: ids or globs of tools that scripts do not call. `deny`, `ask` and `flows` ignore
            letter case; `count` and `allow` match exactly.
        ask: ids or globs of tools that the user is asked about at every call.
        count: for ids or globs of tools, how many times one script may call the tool without
            asking.
        allow: ids or globs of tools that scripts call without asking. Here and in `count`, a tool
            with `destructiveHint` is allowed by its id only. The first of `deny`, `ask`, `count`
            and `allow` that names a tool decides. A tool that none of them names may be called
            if it is not destructive.
        flows: pairs of globs of server names: after a call to a server of the first glob, the
            script may not call a server of the second. `extract` is treated as a server.
        extract: shell command of a small model for `extract(value, kind)` in scripts: it reads a
            prompt on stdin and answers on stdout.
    """

    on: bool = True
    deny: tuple[Glob, ...] = ()
    ask: tuple[Glob, ...] = ()
    count: dict[Glob, Annotated[int, Field(ge=1)]] = Field(default_factory=dict)
    allow: tuple[Glob, ...] = ()
    flows: tuple[tuple[Glob, Glob], ...] = ()
    extract: str | None = Field(default=None, min_length=1)

    def grants(self) -> tuple[Grant, ...]:
        """What scripts may call. The first grant that matches a tool decides."""
        return (
            *(Grant(tools, "deny") for tools in self.deny),
            *(Grant(tools, "ask") for tools in self.ask),
            *(Grant(tools, "allow", most_calls) for tools, most_calls in self.count.items()),
            *(Grant(tools, "allow") for tools in self.allow),
        )

    def overridden_by(self, overrides: CodeSettings | None) -> CodeSettings:
        """These settings, with the keys that `overrides` sets replaced."""
        if overrides is None:
            return self
        names = (*overrides.model_fields_set, "on")
        return self.model_copy(update={name: getattr(overrides, name) for name in names})


def _code_table(value: Any) -> Any:
    """Replaces true by the default settings, and false by settings without scripts."""
    return {"on": value} if isinstance(value, bool) else value


class ProfileSettings(Section):
    """What one client may use.

    Args:
        servers: globs of server names.
        tools: globs of tool ids, `server/tool`.
        scopes: scopes granted to the client.
        rules: permission rules, as in the section `gate` of a configuration.
        votes: servers that are asked which of their tools fit a query (`_tool_gating`); true for
            all servers, without claims.
        code: scripts of this client: true, false, or a table whose keys replace those of `code`
            of the gateway.
        token: bearer token that selects this profile over HTTP; a reference, or plain text.
    """

    servers: tuple[Glob, ...] = ("*",)
    tools: tuple[Glob, ...] = ("*",)
    scopes: tuple[str, ...] = ()
    rules: tuple[dict[str, Any], ...] = ()
    votes: Annotated[VoteSettings, BeforeValidator(_vote_table)] = VoteSettings()
    code: Annotated[CodeSettings, BeforeValidator(_code_table)] | None = None
    token: Annotated[SecretStr, BeforeValidator(_secret_token)] | None = None

    @field_validator("rules")
    @classmethod
    def _check_rules(cls, rules: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
        _gate(rules)
        return rules

    def gate(self) -> Gate:
        """The rules as a gate."""
        return _gate(self.rules)


class GatewaySettings(Section):
    """How the gateway shows and runs the tools behind it.

    Args:
        profiles: permissions of each client, by name; without profiles, every client may use all
            tools.
        pinned: ids or globs of tools that clients always see directly.
        pass_through: all tools are shown directly if their definitions take less than this share
            of the context; 0 for never.
        context_tokens: size of the model's context window in tokens.
        result_tokens: a result of more tokens is stored, and read in parts. Its text, structured
            form and `_meta` each have this limit; a longer `_meta` is left out.
        media_bytes: most bytes of the images and sounds in one result, and of a binary resource;
            further ones are left out.
        split_call_tool: whether `read_tool`, which calls read-only tools, stands beside
            `call_tool`; `null` for clients that are known to permit tools by their names.
        approval_days: how many days an approval holds that a user wants remembered; 0 for never.
        ui_tools: whether tools with a user interface are always in the list of a client that says
            it shows such interfaces (MCP Apps).
        catalog: server name to description. Such a server is found by its description only, and
            starts when that is called. A list of `{"name", "description"}` works too.
        instructions: text added to the description of `search_tools`.
        code: whether the model may run scripts that call tools: true, or a table with what scripts
            may do. Off by default.
        idle_stop_s: a server is stopped after this many seconds without a call; `null` for never.
        events: file to which each search, call and server start is appended as a JSON line. The
            path is relative to the folder of the configuration.
        event_content: whether events contain queries, arguments and results. By default, they
            contain queries only, and only where the gateway serves this machine alone.
        metrics_token: bearer token for `/metrics`; a reference, or plain text. Without one,
            `/metrics` answers on this machine only, and only if no profile has a token.
        operator_token: bearer token for the page at `/inspect` over HTTP; a reference, or plain
            text. Who has it sees all definitions, and may approve them. Without one, there is no
            such page.
        timeouts: id or glob of tools to the seconds that a call may take without progress. The
            first match replaces the timeout of the server.
        engine: settings of the search engine, see `Config`. Paths are relative to the folder of the
            file that has them.

    Example:
        >>> GatewaySettings.make({"pinned": ["github/get_*"]}).pinned
        ('github/get_*',)
    """

    profiles: dict[str, ProfileSettings] = Field(default_factory=dict)
    pinned: tuple[str, ...] = ()
    pass_through: float = Field(default=0.03, ge=0, le=1)
    context_tokens: int = Field(default=200_000, ge=1)
    result_tokens: int = Field(default=10_000, ge=100)
    media_bytes: int = Field(default=10_000_000, ge=0)
    split_call_tool: bool | None = None
    approval_days: float = Field(default=30, ge=0, le=366)
    ui_tools: bool = True
    catalog: Annotated[dict[str, str], BeforeValidator(_description_table)] = Field(
        default_factory=dict
    )
    instructions: str = Field(default="", max_length=10_000)
    code: Annotated[CodeSettings, BeforeValidator(_code_table)] = CodeSettings(on=False)
    idle_stop_s: float | None = Field(default=600, gt=0, allow_inf_nan=False)
    events: str | None = Field(default=None, min_length=1)
    event_content: bool | None = None
    metrics_token: Annotated[SecretStr, BeforeValidator(_secret_token)] | None = None
    operator_token: Annotated[SecretStr, BeforeValidator(_secret_token)] | None = None
    timeouts: dict[Glob, Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]] = Field(
        default_factory=dict
    )
    engine: dict[str, Any] = Field(default_factory=dict)

    @field_validator("engine")
    @classmethod
    def _check_engine(cls, engine: dict[str, Any]) -> dict[str, Any]:
        try:
            Config(**engine)
        except ConfigError as error:
            raise ValueError(str(error)) from None
        return engine

    def engine_config(self) -> Config:
        """Configuration of the search engine."""
        return Config(**self.engine)

    def shared_texts(self) -> StoredTexts | None:
        """What all replicas of the gateway keep in the database of the catalog.

        None if no other engine shares the catalog. Then sessions and long results are in memory,
        and pins and lists of servers in files of the user.

        Raises:
            ConfigError: a variable of the connection string is not set.
            MissingExtraError: psycopg or pgvector is not installed.
        """
        index = self.engine_config().index
        if not index.is_shared or index.dsn is None:
            return None
        from ...retrieval.postgres.database import Database
        from ...retrieval.postgres.stored_texts import StoredTexts

        return StoredTexts(Database(index.dsn, index.tenant))

    @property
    def pins(self) -> Path | None:
        """The file of pins that `engine.trust` names, if it names one."""
        return self.engine_config().trust.pins

    def profile(self, name: str = DEFAULT_PROFILE) -> ProfileSettings:
        """A profile by name.

        Without any profiles, `default` permits everything. Otherwise an unknown name is an error,
        so that a misspelled profile never grants access.

        Raises:
            ConfigError: there is no such profile.
        """
        if name in self.profiles:
            return self.profiles[name]
        if not self.profiles and name == DEFAULT_PROFILE:
            return ProfileSettings()
        listed = ", ".join(self.profiles) or DEFAULT_PROFILE
        is_default = name == DEFAULT_PROFILE
        advice = '; for clients that name no profile, add "default": {}' if is_default else ""
        raise ConfigError(f"profiles: no profile {name!r:.80}; use one of: {listed}{advice}")

    @classmethod
    def make(cls, values: Mapping[str, Any]) -> Self:
        """Settings from a table.

        Raises:
            ConfigError: a setting is unknown or has a wrong value.
        """
        try:
            return cls.model_validate(dict(values))
        except ValidationError as error:
            raise ConfigError(validation_text(error)) from None


def read_gateway_settings(
    config: ClientConfig,
    settings: str | Path | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    home: Path | None = None,
) -> GatewaySettings:
    """Settings of a gateway, from the key `shortlist` of a client's file and a settings file.

    Args:
        config: the client's file.
        settings: TOML or JSON file of settings; each of its keys replaces the same key of
            `config.gateway_settings`.
        environment: variables that references in tokens name; those of this process by default.
        home: home directory; that of the user by default.

    Raises:
        ConfigError: a setting is wrong. The message never quotes a token.
    """
    values = _with_resolved_paths(config.gateway_settings, config.path)
    place = f"{config.path}: shortlist"
    if settings is not None:
        values |= _with_resolved_paths(ConfigFile.read(settings).values, Path(settings))
        place = str(settings)
    try:
        parsed = GatewaySettings.make(values)
        references = References(
            os.environ if environment is None else environment,
            Path.home() if home is None else home,
        )
        return _expand_tokens(parsed, references)
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from None


def _with_resolved_paths(values: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Settings of a file, with the paths of `engine` taken from its folder."""
    engine = values.get("engine")
    if not isinstance(engine, Mapping):
        return dict(values)
    return {**values, "engine": resolve_paths(engine, path.absolute().parent)}


def _expand_tokens(settings: GatewaySettings, references: References) -> GatewaySettings:
    profiles: dict[str, ProfileSettings] = {}
    places: dict[str, str] = {}

    def expand(place: str, reference: SecretStr | None) -> SecretStr | None:
        if reference is None:
            return None
        try:
            token = references.expand(reference.get_secret_value()).strip()
        except ConfigError as error:
            raise ConfigError(f"{place}: {error}") from None
        if not token:
            raise ConfigError(
                f"{place}: empty; give the token a value, because an empty one would admit "
                "every client"
            )
        if token in places:
            raise ConfigError(f"{place}: the same token as {places[token]}")
        places[token] = place
        return SecretStr(token)

    for name, profile in settings.profiles.items():
        token = expand(f"profiles.{name}.token", profile.token)
        profiles[name] = profile.model_copy(update={"token": token})
    own_tokens = {
        "metrics_token": expand("metrics_token", settings.metrics_token),
        "operator_token": expand("operator_token", settings.operator_token),
    }
    return settings.model_copy(update={"profiles": profiles, **own_tokens})


def _gate(rules: tuple[dict[str, Any], ...]) -> Gate:
    try:
        return read_gate({"rules": list(rules)})
    except ConfigError as error:
        raise ValueError(str(error).removeprefix("gate.")) from None
