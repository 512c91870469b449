"""Reports which tools the scripts of each profile may call, before a script runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..catalog import Catalog
from ..codemode.grants import decision
from .gateway_settings import DEFAULT_PROFILE, GatewaySettings, ProfileSettings
from .profile import Profile


@dataclass(frozen=True, slots=True)
class ScriptGrants:
    """Which of a profile's tools its scripts may call.

    Args:
        profile: its name.
        allowed: number of tools that scripts call without asking.
        asked: ids of tools that the user is asked about.
        denied: ids of tools that scripts do not call.
        unmatched: patterns of the settings that match no tool.
    """

    profile: str
    allowed: int
    asked: tuple[str, ...]
    denied: tuple[str, ...]
    unmatched: tuple[str, ...]


def script_grants(settings: GatewaySettings, catalog: Catalog) -> Iterator[ScriptGrants]:
    """The grants of scripts, for each profile with `run_code`.

    Args:
        settings: settings of the gateway.
        catalog: tools of all servers.
    """
    given = settings.profiles or {DEFAULT_PROFILE: ProfileSettings()}
    for name, one in given.items():
        profile = Profile.of(settings, name, one)
        if not profile.code:
            continue
        ids = profile.allowed(catalog)
        tools = list(catalog) if ids is None else [catalog.get(one) for one in ids]
        made = {tool.id: decision(tool, profile.grants, 0).decision for tool in tools}
        yield ScriptGrants(
            name,
            sum(one == "allow" for one in made.values()),
            tuple(tool_id for tool_id, one in made.items() if one == "ask"),
            tuple(tool_id for tool_id, one in made.items() if one == "deny"),
            tuple(
                grant.tools
                for grant in profile.grants
                if not any(grant.concerns(tool) for tool in tools)
            ),
        )
