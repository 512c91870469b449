"""Definitions that a person should read: they name what an attack needs, and most are honest.

Nothing is quarantined for it, and no model sees it. Patterns of attacks do not generalise, so this
looks for the subject of a definition and not for its wording.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final

from ..catalog import Catalog, Tool
from .flag import Finding
from .pins import Pins
from .plain_form import plain_form, without_disguises
from .scan import Text, scanned_texts, sentences_with
from .scan_rules import CONCEPTS, LOOK_RULES, SECRET_VALUE_RULE

LOOK_CODES: Final[Mapping[str, str]] = {
    "names_other_tool": "names a tool of another server",
    "names_secret": "names a credential, a file of secrets or a card number",
    "names_conversation": "names the conversation or the system prompt",
    "new_tool": "is newer than the other tools of its server",
}
"""Code of a finding to what the definition does."""
#: A name of several words, which a text has only if it means the tool.
_TOOL_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[_-][A-Za-z0-9]+)+|[a-z]+(?:[A-Z][a-z]+)+")


def needs_look(catalog: Catalog, pins: Pins | None = None) -> dict[str, tuple[Finding, ...]]:
    """Tool id to why a person should read its definition, in order of the catalog.

    A definition that somebody approved is left out.

    Args:
        catalog: the tools; about 0.3 ms each, the first time.
        pins: the accepted definitions, with their ages; None if there are none.
    """
    pins = pins or Pins()
    first_ages = pins.first_ages()
    findings_by_id = _findings_by_id(catalog)
    # Without pins, no tool is new.
    tools = catalog if first_ages else map(catalog.get, findings_by_id)
    looks: dict[str, tuple[Finding, ...]] = {}
    for tool in tools:
        findings = [*findings_by_id.get(tool.id, ()), *_newness(tool, pins, first_ages)]
        if findings and not pins.approves(tool):
            first = {finding.code: finding for finding in reversed(findings)}
            looks[tool.id] = tuple(first[code] for code in LOOK_CODES if code in first)
    return looks


# The page asks again and again about one catalog, which never changes.
@lru_cache(maxsize=2)
def _findings_by_id(catalog: Catalog) -> Mapping[str, tuple[Finding, ...]]:
    """Tool id to what its texts name, of the tools that name something."""
    servers_by_name: dict[str, set[str]] = {}
    for tool in catalog:
        if _TOOL_NAME.fullmatch(tool.name):
            servers_by_name.setdefault(tool.name, set()).add(tool.server or "")
    findings: dict[str, tuple[Finding, ...]] = {}
    for tool in catalog:
        texts = scanned_texts(tool)
        named = _named_tools(tool.server or "", texts, servers_by_name)
        if of_tool := (*named, *_telling_sentences(texts)):
            findings[tool.id] = of_tool
    return findings


def _named_tools(
    server: str, texts: list[Text], servers_by_name: Mapping[str, set[str]]
) -> Iterator[Finding]:
    """Tools of other servers that the texts for models name."""
    for field in texts:
        if field.is_name:
            continue
        for name in _TOOL_NAME.findall(field.text):
            servers = servers_by_name.get(name)
            if servers and server not in servers:
                yield Finding("names_other_tool", "look", field.where, name)


def _telling_sentences(texts: list[Text]) -> list[Finding]:
    """What the texts say, besides the names of the server and of arguments.

    An argument `password` is what it takes to sign in, and so is what its description says of it.
    """
    texts = [
        text
        for text in texts
        if text.where == "name" or not (text.is_name or text.where.endswith(".required"))
    ]
    secret = CONCEPTS["secret_value"].expression
    texts_of_others = []
    for text in texts:
        owner = text.where.rpartition(".")[0].rpartition(".")[2]
        argument = plain_form(without_disguises(owner, is_identifier=True))
        if not (text.describes_argument and secret.search(argument)):
            texts_of_others.append(text)
    return [
        *sentences_with(texts, [rule for rule in LOOK_RULES if rule != SECRET_VALUE_RULE]),
        *sentences_with(texts_of_others, [SECRET_VALUE_RULE]),
    ]


def _newness(tool: Tool, pins: Pins, first_ages: Mapping[str, int]) -> Iterator[Finding]:
    age, first_age = pins.age(tool.id), first_ages.get(tool.server or "")
    if first_age is not None and (age is None or age > first_age):
        yield Finding("new_tool", "look", "name", tool.name)
