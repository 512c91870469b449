"""Votes of servers on their own tools for one turn: the `_tool_gating` convention, made safe.

A server may exclude its own tools from a turn (`exclude`), or ask that one of them is put first
(`claim`). Tools without a vote are included. Only servers that you add are asked. Late and invalid
votes do not count.
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from ..catalog import Catalog
from ..catalog.text_cleaning import visible_line
from ..errors import ConfigError
from ..retrieval.selection import VoterFailure

if TYPE_CHECKING:
    import asyncio

#: Name of the tool a server votes with; never indexed, listed or callable.
VOTING_TOOL = "_tool_gating"
#: Default milliseconds that a turn waits for votes.
VOTE_TIMEOUT_MS = 50.0
_ACTIONS = ("include", "exclude", "claim")
#: Maximum number of votes of a server, beyond two for each of its tools.
_EXTRA_VOTES_READ = 16
#: Maximum number of reported failures of a server.
_MAX_FAILURES = 5
_MAX_REASON_CHARS = 200


@dataclass(frozen=True, slots=True)
class Ballot:
    """The question to a server: which of your tools do you exclude or claim for this query?

    Args:
        server: name of the server.
        query: the text of the query.
        tools: names of its tools in the catalog.
    """

    server: str
    query: str
    tools: Sequence[str]


@dataclass(frozen=True, slots=True)
class Vote:
    """The vote of a server on one tool.

    Args:
        tool: its name, or its id.
        action: `include`, `exclude` or `claim`.
        reason: for operators; a model sees a fixed sentence.
    """

    tool: str
    action: str
    reason: str = ""


class Voter(Protocol):
    """Asks one server; must not block the event loop."""

    def __call__(self, ballot: Ballot, /) -> Awaitable[Iterable[Vote]]:
        """The votes of the server."""
        ...


@dataclass(frozen=True, slots=True)
class Votes:
    """The collected votes of servers for one turn: which of their own tools they exclude or claim.

    An excluded tool is denied for this turn. A claimed tool ranks first, if it is permitted.
    See `docs/gate.md`.

    Args:
        excluded: id of each tool left out, to the server's reason, which only operators see.
        claimed: ids of the claimed tools, in order. Only the first server with a permitted claim
            counts.
        failures: votes that do not count, with the reason.

    Example:
        >>> from shortlist import Engine, Tool
        >>> from shortlist.gating import Votes
        >>> engine = Engine.from_tools([Tool("send_mail", "mail")], tiers=["lexical"])
        >>> votes = Votes(excluded={"mail/send_mail": "maintenance"})
        >>> engine.view(votes=votes).refusal("mail/send_mail").kind
        'excluded'
    """

    excluded: Mapping[str, str] = field(default_factory=dict)
    claimed: tuple[str, ...] = ()
    failures: tuple[VoterFailure, ...] = ()


class Voters:
    """The servers that are asked before a turn.

    Args:
        voters: server name to the function that asks it. No other server votes.
        trusted: names of the servers that may claim.
        timeout_ms: time limit for all servers together, in milliseconds.

    Raises:
        ConfigError: a trusted server is not in `voters`, or the time limit is not a number above 0.
    """

    def __init__(
        self,
        voters: Mapping[str, Voter],
        *,
        trusted: Iterable[str] = (),
        timeout_ms: float = VOTE_TIMEOUT_MS,
    ) -> None:
        self._voters = dict(voters)
        self._trusted = frozenset([trusted] if isinstance(trusted, str) else trusted)
        self._timeout = timeout_ms
        if strangers := sorted(self._trusted - self._voters.keys()):
            raise ConfigError(f"trusted: {', '.join(strangers)}: no voter of that server")
        if isinstance(timeout_ms, bool) or not timeout_ms > 0:
            raise ConfigError(f"timeout_ms: {timeout_ms!r}; a number of milliseconds above 0")

    async def collect(self, query: str, catalog: Catalog) -> Votes:
        """Ask all servers at the same time. A server's failure never raises.

        Args:
            query: the text of the query; it is sent to each server.
            catalog: the catalog version.
        """
        import asyncio  # 30 ms of a start

        names: dict[str, list[str]] = {}
        ids: dict[tuple[str, str], list[str]] = {}
        for tool in catalog:
            if (server := tool.server or "") in self._voters:
                names.setdefault(server, []).append(tool.name)
                for name in {tool.name, tool.id}:
                    ids.setdefault((server, name), []).append(tool.id)
        tasks = {
            server: asyncio.ensure_future(
                _ask_voter(self._voters[server], Ballot(server, query, names[server]))
            )
            for server in self._voters
            if server in names
        }
        if not tasks:
            return Votes()
        try:
            await asyncio.wait(tasks.values(), timeout=self._timeout / 1e3)
        finally:
            for task in tasks.values():
                # A voter may ignore being cancelled; the turn does not wait for it.
                task.cancel()
                task.add_done_callback(_retrieve_exception)
        count = _VoteCount(ids, self._trusted)
        for server, task in tasks.items():
            if not task.done() or task.cancelled():
                count.fail(server, f"did not answer in {self._timeout:g} ms")
            elif (error := task.exception()) is not None:
                quote = f"{type(error).__name__}: {error}"
                count.fail(server, "could not be asked", quote=quote)
            else:
                for vote in task.result():
                    count.add(server, vote)
        return count.votes()


def without_voting_tools(catalog: Catalog) -> Catalog:
    """The catalog without the voting tools; the same object if there are none."""
    votes = [tool.id for tool in catalog if tool.name == VOTING_TOOL]
    return catalog.remove(votes) if votes else catalog


class _VoteCount:
    """Counts the votes.

    Args:
        ids: server and name or id to the ids of its tools that have it.
        trusted: names of the servers that may claim.
    """

    def __init__(
        self, ids: Mapping[tuple[str, str], Sequence[str]], trusted: Collection[str]
    ) -> None:
        self._ids, self._trusted = ids, trusted
        self._excluded: dict[str, str] = {}
        self._claimed: dict[str, None] = {}
        self._failures: dict[str, list[VoterFailure]] = {}

    def fail(self, server: str, reason: str, tool: str | None = None, quote: object = "") -> None:
        failures = self._failures.setdefault(server, [])
        if len(failures) < _MAX_FAILURES:
            failures.append(VoterFailure(server, reason, tool, _clean_reason(quote)))

    def add(self, server: str, vote: object) -> None:
        if not isinstance(vote, Vote) or not all(
            isinstance(text, str) for text in (vote.tool, vote.action, vote.reason)
        ):
            self.fail(server, "answers with something that is no Vote", quote=f"{vote!r:.80}")
            return
        ids = self._ids.get((server, vote.tool), ())
        if vote.action not in _ACTIONS:
            reason = f"an action is none of {', '.join(_ACTIONS)}"
            self.fail(server, reason, ids[0] if ids else None, quote=f"{vote.action!r:.80}")
        elif not ids:
            self.fail(server, "speaks of a tool that is not its own", quote=vote.tool)
        elif vote.action == "exclude":
            self._excluded.update(dict.fromkeys(ids, _clean_reason(vote.reason)))
        elif vote.action == "claim" and server not in self._trusted:
            self.fail(server, "is not trusted to claim a turn", ids[0])
        elif vote.action == "claim":
            self._claimed.update(dict.fromkeys(ids))

    def votes(self) -> Votes:
        failures = tuple(
            failure
            for failures_of_server in self._failures.values()
            for failure in failures_of_server
        )
        return Votes(self._excluded, tuple(self._claimed), failures)


async def _ask_voter(voter: Voter, ballot: Ballot) -> Sequence[object]:
    return list(islice(await voter(ballot), 2 * len(ballot.tools) + _EXTRA_VOTES_READ))


def _clean_reason(text: object) -> str:
    """A server's text, cleaned and shortened to one line for operators."""
    return visible_line(str(text)[: 2 * _MAX_REASON_CHARS])[:_MAX_REASON_CHARS]


def _retrieve_exception(task: asyncio.Future[Sequence[object]]) -> None:
    """Retrieve the exception of an abandoned task, so that the event loop does not report it."""
    if not task.cancelled():
        task.exception()
