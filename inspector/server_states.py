"""The state of each configured server, where it is known from, and what mends it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError
from ..gateway.attach.socket_folder import AttachError

if TYPE_CHECKING:
    from ..gateway.clients.client_config import ClientConfig
    from ..gateway.upstream.fleet import Fleet
    from .event_history import EventHistory

#: Code of a problem to what mends it. `{logs}` is the command that prints the server's stderr.
_REPAIRS = {
    "no_program": "Correct its entry, then start it.",
    "start_timeout": "It may need longer: set `start_timeout_s` in its entry. It wrote: {logs}",
    "flooded": "Update it, or disable it.",
    "list_unreadable": "Start it again. What it wrote: {logs}",
    "hangs": "It did not answer the last call: stop it; the next one starts it. It wrote: {logs}",
    "ended": "The next call starts it again. What it wrote: {logs}",
    "failed": "Read what it wrote, correct its entry, and start it: {logs}",
}
_NO_GATEWAY = (
    "No gateway of this file runs in the background, so servers cannot be started or stopped here; "
    "a gateway over HTTP shows them on its own page, /inspect."
)
_STATES_OF_EVENTS = "States are those of the last recorded event of each server."
#: States in which a server does not answer, and no call starts it.
_DOWN = ("failed", "hangs", "awaiting consent")
#: The state that is shown if several gateways of one file differ: the first of these.
_WORST_FIRST = (*_DOWN, "ended", "started")


#: What the page says about the servers of a saved index.
NO_STATES = {"states_from": "", "note": "", "config_problem": "", "commands": []}


class ServerStates:
    """The servers at one moment. Reads files and asks gateways: not for an event loop.

    Attributes:
        source: `here`, `gateway` (in the background), `events`, or "" if nothing is known.
        can_start: whether servers can be started and stopped from the page.
    """

    def __init__(
        self, config: ClientConfig, fleet: Fleet, history: EventHistory, *, serves_clients: bool
    ) -> None:
        self._config = config
        self._states = fleet.states()
        self.source = "here"
        if not serves_clients:
            reports = list(gateway_states(config))
            recorded = history.server_states()
            self.source = "gateway" if reports else "events" if recorded else ""
            for states in reports or [recorded]:
                self._add(states)
        self.can_start = self.source in ("here", "gateway")

    def _add(self, states: Mapping[str, Mapping[str, Any]]) -> None:
        """Take over states that are known better elsewhere."""
        for name, state in states.items():
            present = self._states.get(name)
            if present is not None and _severity(state) <= _severity(present):
                self._states[name] = {**present, **state}

    @property
    def down_servers(self) -> dict[str, str]:
        """Server that does not answer now to its state: a search marks its tools."""
        states = {name: str(state["state"]) for name, state in self._states.items()}
        return {name: state for name, state in states.items() if state in _DOWN}

    def to_dict(self) -> dict[str, Any]:
        """What the page says about all servers.

        `states_from` is the source, `note` one sentence about what the page cannot know or do,
        `config_problem` why the present file cannot be read, and `commands` do what the page does
        not.
        """
        from ..gateway.clients.config_file import ConfigFile

        note = "" if self.can_start else _NO_GATEWAY
        if self.source == "events":
            note = f"{note} {_STATES_OF_EVENTS}"
        problem = ""
        try:
            ConfigFile.read(self._config.path)
        except ConfigError as error:
            problem = f"{error}; the servers keep their old configuration"
        return {
            "states_from": self.source,
            "note": note,
            "config_problem": problem,
            "commands": [f"shortlist add NAME --registry URL{self._option}"],
        }

    def rows(self) -> dict[str, dict[str, Any]]:
        """Server to its state, problems, what mends it, and the actions that work."""
        rows = {name: self._row(name, state) for name, state in self._states.items()}
        for spec in self._config.servers:
            if spec.disabled:
                rows[spec.name] = _row("disabled", actions=["enable"])
        for name, problem in self._config.unusable_servers.items():
            if name not in rows:
                rows[name] = _row("not usable", problems=[problem], actions=["disable"])
                rows[name]["repair"] = "Correct its entry in the configuration."
        return rows

    def _row(self, name: str, state: Mapping[str, Any]) -> dict[str, Any]:
        actions = ["disable"]
        if self.can_start:
            actions.insert(0, "stop" if state["state"] in ("started", "hangs") else "start")
        problems = [*state.get("problems", ()), *self._stderr_lines(name, state["state"])]
        row = _row(state["state"], problems=problems, actions=actions)
        row["state_at"] = state.get("at")
        if state["state"] == "awaiting consent":
            row["repair"] = f"Log in: shortlist auth login {shlex.quote(name)}{self._option}"
        elif state["state"] in _REPAIRS or state.get("code"):
            logs = f"shortlist logs {shlex.quote(name)}"
            key = state["state"] if state["state"] in ("hangs", "ended") else state.get("code")
            repair = _REPAIRS.get(key or "failed", _REPAIRS["failed"])
            row["repair"] = repair.format(logs=logs)
        return row

    def _stderr_lines(self, name: str, state: str) -> Iterator[str]:
        """The line of a failed program's log that says what is wrong."""
        from ..gateway.connections.server_log import LogTail

        for spec in self._config.servers:
            if spec.name == name and spec.transport == "stdio" and state == "failed":
                line = LogTail(spec, new_only=False).reason()
                if line:
                    yield f"stderr: {line}"

    @property
    def _option(self) -> str:
        return f" --config {shlex.quote(str(self._config.path))}"


def gateway_states(
    config: ClientConfig, action: str = "show", server: str = ""
) -> Iterator[Mapping[str, Any]]:
    """The servers of each background gateway of a file that answers, as `Fleet.states` has them.

    Args:
        config: the file.
        action: `show`, or `start` or `stop` for a server of each of them.
        server: that server.

    Raises:
        ConfigError: a gateway has no such server.
    """
    if sys.platform == "win32":
        return
    from ..gateway.attach.running_gateway import (
        GREETING_TIMEOUT_S,
        START_TIMEOUT_S,
        ask,
        running_gateways,
    )

    try:
        gateways = list(running_gateways(config.path))
    except (AttachError, OSError):
        return
    timeout_s = START_TIMEOUT_S if action == "start" else GREETING_TIMEOUT_S
    for gateway in gateways:
        answer = ask(gateway, timeout_s=timeout_s, action=action, server=server) or {}
        if action != "show" and "error" in answer:
            raise ConfigError(str(answer["error"]))
        if isinstance(states := answer.get("servers"), Mapping):
            yield states


def _row(state: str, *, problems: Any = (), actions: list[str]) -> dict[str, Any]:
    return {
        "state": state,
        "state_at": None,
        "problems": list(problems),
        "repair": "",
        "actions": actions,
    }


def _severity(state: Mapping[str, Any]) -> int:
    """Place of a state in `_WORST_FIRST`."""
    name = state["state"]
    return _WORST_FIRST.index(name) if name in _WORST_FIRST else len(_WORST_FIRST)
