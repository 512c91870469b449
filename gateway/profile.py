"""What one client of the gateway may use, and how tools are shown to it."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from ..catalog import Catalog
from ..errors import ConfigError
from .gateway_settings import GatewaySettings, ProfileSettings

_ALL = ("*",)


@dataclass(frozen=True, slots=True)
class Profile:
    """What one client may use, and how tools are shown to it.

    Args:
        servers: globs over names of servers.
        tools: globs over ids `server/tool`; both must match.
        scopes: granted to the client.
        pinned: ids or globs of tools that are shown directly.
        pass_through: share of the context below which all tools are shown directly.
        context_tokens: of the client's model.
        result_tokens: tokens of a result up to which it is passed through unchanged.
        operator: text in the description of `search_tools`.
    """

    servers: tuple[str, ...] = _ALL
    tools: tuple[str, ...] = _ALL
    scopes: frozenset[str] = frozenset()
    pinned: tuple[str, ...] = ()
    pass_through: float = 0.03
    context_tokens: int = 200_000
    result_tokens: int = 10_000
    operator: str = ""

    @classmethod
    def of(cls, settings: GatewaySettings, name: str, given: ProfileSettings) -> Profile:
        """A profile from the settings.

        Args:
            settings: of the gateway.
            name: of the profile, for messages.
            given: settings of the profile.

        Raises:
            ConfigError: the profile has rules or votes, which are not supported yet.
        """
        for unsupported in ("rules", "votes"):
            if getattr(given, unsupported):
                raise ConfigError(
                    f"shortlist.profiles.{name}.{unsupported}: not supported yet; put rules under "
                    "shortlist.engine.gate, where they apply to every profile"
                )
        return cls(
            given.servers,
            given.tools,
            frozenset(given.scopes),
            tuple(settings.pinned),
            settings.pass_through,
            settings.context_tokens,
            settings.result_tokens,
            settings.operator,
        )

    def allowed(self, catalog: Catalog) -> list[str] | None:
        """Ids of the tools that the profile allows; None for all.

        Args:
            catalog: the present version.
        """
        if self.servers == _ALL and self.tools == _ALL:
            return None
        return [
            tool.id
            for tool in catalog
            if _matches(tool.server or "", self.servers) and _matches(tool.id, self.tools)
        ]

    def opens(self, server: str) -> bool:
        """Whether the profile's globs leave anything of a server.

        Args:
            server: its name.
        """
        of_tools = tuple(glob.partition("/")[0] for glob in self.tools)
        return _matches(server, self.servers) and _matches(server, of_tools)


def _matches(text: str, globs: tuple[str, ...]) -> bool:
    return any(text == glob or fnmatchcase(text, glob) for glob in globs)
