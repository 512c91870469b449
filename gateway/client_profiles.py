"""The profiles of all clients, and the tokens that select them, from the gateway's settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from .gateway_settings import DEFAULT_PROFILE, GatewaySettings
from .profile import NOTHING, Profile


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

    @classmethod
    def of(
        cls, settings: GatewaySettings, name: str = DEFAULT_PROFILE, *, over_http: bool = False
    ) -> Self:
        """The profiles of the settings, also for `ClientSessions.change` after a change.

        Args:
            settings: settings of the gateway.
            name: profile of a client that sends no token.
            over_http: whether clients use HTTP. If any profile has a token, requests without one
                are refused, and `name` has no effect.

        Raises:
            ConfigError: there is no profile of this name.
        """
        tokens = {
            one: given.token.get_secret_value()
            for one, given in settings.profiles.items()
            if given.token is not None
        }
        profiles = {
            one: Profile.of(settings, one, given) for one, given in settings.profiles.items()
        }
        if over_http and tokens:
            return cls(NOTHING, profiles, tokens)
        return cls(Profile.of(settings, name, settings.profile(name)), profiles, tokens)
