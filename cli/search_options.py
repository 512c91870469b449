"""The options that `search` and `explain` share."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .console import note
from .options import ConfigOption, IndexOption, SourcesOption, usage
from .source import open_engine

if TYPE_CHECKING:
    from ..engine import Engine
    from ..view import View


@dataclass(frozen=True)
class SearchOptions:
    """Which tools are searched, in which tier, and what the caller may use."""

    index: IndexOption = None
    tools: SourcesOption = None
    config: ConfigOption = None
    tier: Annotated[
        str | None,
        typer.Option(
            metavar="TIER", help="lexical, fast, embed, hybrid, or a tier of the settings."
        ),
    ] = None
    k: Annotated[
        int | None,
        typer.Option(
            "-k", "--k", metavar="NUMBER", min=1, help="Number of tools to return at most."
        ),
    ] = None
    allow: Annotated[
        list[str] | None,
        typer.Option(metavar="ID|GLOB", help="Search only these tools, as 'github/*'; repeatable."),
    ] = None
    scope: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Scope granted to the agent; repeatable."),
    ] = None
    called: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Id of a tool that the agent called; repeatable."),
    ] = None
    milestone: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Milestone that the agent reached; repeatable."),
    ] = None
    fact: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[=VALUE]",
            help="Fact about the agent. The value is a number, true, false or text; true by "
            "default. Repeatable.",
        ),
    ] = None

    def open(self) -> tuple[Engine, View]:
        """The engine, and what the caller may use.

        Entries of `--allow` that match no tool are reported on stderr.

        Raises:
            BadParameter: both or neither of `--index` and `--tools`, no such tier, or an empty
                name.
        """
        from ..gating import State

        with usage("--scope, --called, --milestone, --fact"):
            state = State(
                frozenset(self.scope or ()),
                tuple(self.called or ()),
                frozenset(self.milestone or ()),
                dict(_fact(text) for text in self.fact or ()),
            )
        engine = open_engine(self.index, self.tools, self.config, self.tier)
        view = engine.view(state, allowed=self.allow)
        if view.unmatched:
            note(f"note: --allow: not in the catalog: {', '.join(view.unmatched)}")
        return engine, view


def with_search_options(command: Callable[..., None]) -> Callable[..., None]:
    """A command with the options of `SearchOptions` in place of its parameter `options`."""
    shared = inspect.signature(SearchOptions, eval_str=True).parameters
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
        parameters += shared.values() if name == "options" else [parameter]

    @wraps(command)
    def run(**values: Any) -> None:
        options = SearchOptions(**{name: values.pop(name) for name in shared})
        command(options=options, **values)

    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters]
    )
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


def _fact(text: str) -> tuple[str, Any]:
    name, given, value = text.partition("=")
    if not name:
        raise typer.BadParameter(f"--fact {text!r:.80}: no name; write NAME or NAME=VALUE")
    if not given:
        return name, True
    try:
        read = json.loads(value)
    except ValueError:
        return name, value
    return name, read if isinstance(read, str | bool | int | float) else value
