"""What keeps agents from finding, choosing or calling the tools of a server, and what to change."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass

from ..catalog import Tool
from ..engine import Engine
from ..enrichment.library import Library
from ..loaders.summaries import repeats_name, summarize
from ..models import load_encoder
from ..text import identifiers_as_words, search_terms
from ..trust import Trust, quarantined

#: Known tools that are searched beside a server's own, for each first sentence.
_KNOWN_TOOLS_A_QUERY = 10
#: A description of at most so many terms that repeats the name says nothing else.
_THIN_TERMS = 2
#: Terms of arguments that need no description.
_PLAIN_ARGUMENTS = frozenset(
    search_terms(
        "limit offset page size count cursor start end max min sort order direction timeout query "
        "url path id ids name title text content description message number format language locale "
        "reason comment note slug skip k email"
    )
)


@dataclass(frozen=True, slots=True)
class LintFinding:
    """One thing to change in a definition.

    Args:
        rule: name of the rule.
        tool_id: the tool.
        problem: what is wrong.
        change: what the author of the server can change.
    """

    rule: str
    tool_id: str
    problem: str
    change: str


def finding_counts(tools: Sequence[Tool]) -> dict[str, str]:
    """Server to the number of findings of each rule that needs no search; "" for no server."""
    servers = {tool.id: tool.server or "" for tool in tools}
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for finding in definition_findings(tools):
        counts[servers[finding.tool_id]][finding.rule] += 1
    return {
        server: ", ".join(f"{rule} {number:,}" for rule, number in sorted(by_rule.items()))
        for server, by_rule in counts.items()
    }


def definition_findings(tools: Sequence[Tool]) -> Iterator[LintFinding]:
    """What the definitions themselves lack; nothing is searched and no model is loaded.

    Args:
        tools: tools with unique ids.

    Example:
        >>> from shortlist import Tool
        >>> from shortlist.evals.definition_lint import definition_findings
        >>> [finding.rule for finding in definition_findings([Tool("run_it", "mine")])]
        ['description_missing']
    """
    change = "Say what it returns or changes, and when to use it and not a similar tool."
    ids_by_description: dict[tuple[str | None, str], list[str]] = {}
    ids_by_arguments: dict[tuple[str | None, tuple[str, ...]], list[str]] = {}
    terms_of_names = set().union(*(_terms(tool.name) for tool in tools))
    for tool in tools:
        description = " ".join(tool.description.split())
        ids_by_description.setdefault((tool.server, description), []).append(tool.id)
        arguments_say_more = any(parameter.description.strip() for parameter in tool.parameters)
        if not description:
            yield LintFinding("description_missing", tool.id, "it has no description", change)
        elif (
            not arguments_say_more
            and len(_terms(description)) <= _THIN_TERMS
            and repeats_name(description, f"{tool.name} {tool.title or ''}")
        ):
            problem = f'its description, "{description}", only repeats its name'
            yield LintFinding("description_repeats_name", tool.id, problem, change)
        if arguments := tuple(_unexplained_arguments(tool, terms_of_names)):
            ids_by_arguments.setdefault((tool.server, arguments), []).append(tool.id)
    for (_, description), ids in ids_by_description.items():
        if description and len(ids) > 1 and "deprecated" not in description.lower():
            problem = f"its description is also that of {', '.join(ids[1:])}"
            yield LintFinding("description_repeated", ids[0], problem, change)
    for (_, arguments), ids in ids_by_arguments.items():
        others = f", as in {', '.join(ids[1:])}" if len(ids) > 1 else ""
        yield LintFinding(
            "argument_unexplained",
            ids[0],
            f"nothing says what to pass as {', '.join(arguments)}{others}",
            "Describe each of them: what it means, its format, an example.",
        )


def scan_findings(tools: Sequence[Tool]) -> Iterator[LintFinding]:
    """The tools that shortlist would quarantine until an operator approves them."""
    for tool_id, flag in quarantined(Trust().flags(tools)).items():
        yield LintFinding(
            "quarantined",
            tool_id,
            f"the scan finds what reads like hidden instructions: {'; '.join(flag.reasons)}",
            "Reword the quoted text: until an operator approves it, agents do not see the tool.",
        )


def search_findings(tools: Sequence[Tool], library: Library) -> Iterator[LintFinding]:
    """Tools whose own first sentence finds another tool first, and has no word that differs.

    A tool is searched by its definition alone, as that of an unknown server is, among the other
    tools and the nearest known ones.

    Args:
        tools: tools with unique ids.
        library: the known tools.

    Raises:
        ModelError: the bundled encoder cannot be loaded.
    """
    purposes = {tool.id: summarize(tool) for tool in tools if tool.description.strip()}
    if not purposes:
        return
    own_ids = {tool.id for tool in tools}
    by_id = {tool.id: tool for tool in (*tools, *_known_tools(tools, purposes.values(), library))}
    settings = {"index": {"example_queries": []}, "trust": {"scan": False}}
    engine = Engine.from_tools(by_id.values(), **settings)
    for tool_id, purpose in purposes.items():
        first = by_id[engine.search(purpose, tier="hybrid", k=1).ids[0]]
        says_the_same = (
            sorted(_terms_in_order(purpose)) == sorted(_terms_in_order(summarize(first)))
            if first.id in own_ids
            else _terms(purpose) <= _terms_of_tool(first)
        )
        if says_the_same and first.id != tool_id:
            yield LintFinding(
                "another_tool_first",
                tool_id,
                f'its own first sentence, "{purpose}", finds {first.id} first',
                f"Begin with what this tool does, or works on, and {first.id} does not.",
            )


def _known_tools(tools: Sequence[Tool], purposes: Iterable[str], library: Library) -> list[Tool]:
    """The known tools nearest to texts, without those of products that the tools name."""
    own_terms = set().union(*(_terms(tool.server or "") | _terms_of_tool(tool) for tool in tools))
    vectors = load_encoder("bundled").encode(list(purposes), query=True)
    known_tools = []
    for row in library.nearest_rows(vectors, _KNOWN_TOOLS_A_QUERY):
        product, _, name = row["tool"].rpartition("/")
        if own_terms.isdisjoint(_terms(product.partition("-")[0])):
            # The last query is an imperative line, as a description begins.
            description = f"{row['requests'][-1]}. {row.get('when', '')}"
            properties = {parameter: {} for parameter in row.get("parameters", ())}
            known_tools.append(Tool(name, product, description, {"properties": properties}))
    return known_tools


def _unexplained_arguments(tool: Tool, terms_of_names: Set[str]) -> Iterator[str]:
    """Arguments without a description, with a name that nothing explains.

    Args:
        tool: the tool; its own words explain an argument.
        terms_of_names: terms of the names of all tools. They explain ids and names of things:
            another tool gives them.
    """
    explained = _terms_of_tool(tool) | _PLAIN_ARGUMENTS
    properties = tool.input_schema.get("properties", {})
    parameters = tool.parameters
    for parameter in parameters:
        name, schema = parameter.name, properties.get(parameter.name)
        if (
            parameter.path == name
            and not parameter.description.strip()
            and not parameter.enum
            and isinstance(schema, dict)
            and "default" not in schema
            and schema.get("type") != "boolean"
            and not any(
                inner.path.startswith((f"{name}.", f"{name}[")) for inner in tool.parameters
            )
        ):
            terms = _terms(name)
            if not terms.isdisjoint(("id", "name")):
                terms -= terms_of_names
            if not terms <= explained:
                yield name


def _terms(text: str) -> set[str]:
    return set(_terms_in_order(text))


def _terms_in_order(text: str) -> list[str]:
    return search_terms(identifiers_as_words(text))


def _terms_of_tool(tool: Tool) -> set[str]:
    return _terms(f"{tool.name} {tool.title or ''} {tool.description}")
