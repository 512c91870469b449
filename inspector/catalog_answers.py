"""Answers about the catalog and trust: servers, tools, one definition, what waits for approval."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from textwrap import shorten
from threading import Lock
from typing import Any

from ..catalog import Catalog, Tool
from ..enrichment.library import Library
from ..loaders.levels import definition_text
from ..loaders.token_tax import TokenTax, token_tax
from ..retrieval.search.twins import Twins, near_twins
from ..trust import LOOK_CODES, Flag, Pins, needs_look
from ..trust.plain_form import plain_form, sentences, without_disguises
from ..trust.scan import texts_of_tool
from .server_states import NO_STATES
from .subject import GatewaySubject, Subject

#: Tools of one page of a list.
MAX_PAGE_ROWS = 100
_MAX_SUMMARY_CHARS = 160
#: Tools of a selection, for the tokens of a turn.
OFFERED_COUNT = 5
#: Characters of a sentence that have to agree with a finding.
_COMPARED_CHARS = 60


@dataclass(frozen=True, slots=True)
class CatalogFacts:
    """What takes long to compute of one catalog version.

    Args:
        catalog: the version.
        tax: tokens of its definitions.
        twins: tool id to the ids of tools with almost the same text.
        library_servers: server to the known servers that its tools belong to.
    """

    catalog: Catalog
    tax: TokenTax
    twins: dict[str, tuple[str, ...]]
    library_servers: dict[str, dict[str, int]]


class CatalogAnswers:
    """Answers about the present catalog of a subject. Thread-safe."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._facts: CatalogFacts | None = None
        self._lock = Lock()

    def facts(self) -> CatalogFacts:
        """The facts of the present catalog, computed once for each version."""
        catalog = self._subject.engine.catalog
        with self._lock:
            if self._facts is None or self._facts.catalog is not catalog:
                self._facts = _compute_facts(catalog)
            return self._facts

    def servers(self) -> dict[str, Any]:
        """All servers with states, tools, tokens and warnings; the dearest first."""
        subject, facts = self._subject, self.facts()
        levels = _flag_counts(facts.catalog, subject.engine.flags)
        names = [server or "" for server in facts.catalog.servers]
        states = subject.server_states() if isinstance(subject, GatewaySubject) else None
        rows = {} if states is None else states.rows()
        names += [name for name in rows if name not in names]
        servers = []
        for name in names:
            tools, tokens = facts.tax.server_tokens.get(name, (0, 0))
            servers.append(
                {
                    "name": name,
                    **(rows.get(name) or {"state": None, "problems": [], "actions": []}),
                    "tools": tools,
                    "tokens": tokens,
                    "quarantined": levels["quarantine", name],
                    "warned": levels["warn", name],
                    "known_as": facts.library_servers.get(name, {}),
                }
            )
        return {
            "servers": sorted(
                servers,
                key=lambda server: (not server["problems"], -server["tokens"], server["name"]),
            ),
            **(NO_STATES if states is None else states.to_dict()),
            "tools": len(facts.catalog),
            "tokens": facts.tax.total_tokens,
            "encoding": facts.tax.encoding,
            "collisions": [
                {"id": clash.id, "kept_as": clash.kept_as, "identical": clash.identical}
                for clash in facts.catalog.collisions
            ],
            "twins": sorted(set(facts.twins.values()), key=lambda ids: (-len(ids), ids))[
                :MAX_PAGE_ROWS
            ],
        }

    def tools(self, server: str | None, text: str, start: int) -> dict[str, Any]:
        """A page of tools, in order of their tokens.

        Args:
            server: name of a server; None for all.
            text: what the id or the description contains, without letter case.
            start: number of tools before this page.
        """
        facts, lowered_text = self.facts(), text.casefold()
        flags = self._subject.engine.flags
        matching = [
            tool
            for tool in facts.catalog
            if (server is None or (tool.server or "") == server)
            and (lowered_text in tool.id.casefold() or lowered_text in tool.description.casefold())
        ]
        matching.sort(key=lambda tool: (-facts.tax.tool_tokens[tool.id], tool.id))
        return {
            "count": len(matching),
            "start": start,
            "tools": [
                {
                    "id": tool.id,
                    "summary": shorten(tool.description, _MAX_SUMMARY_CHARS, placeholder="…"),
                    "tokens": facts.tax.tool_tokens[tool.id],
                    "level": flags[tool.id].level if tool.id in flags else None,
                    "twins": len(facts.twins.get(tool.id, ())),
                }
                for tool in matching[start : start + MAX_PAGE_ROWS]
            ],
        }

    def ids(self, text: str) -> list[str]:
        """At most `MAX_PAGE_ROWS` ids that contain a text, without letter case."""
        lowered_text = text.casefold()
        ids = (tool.id for tool in self._subject.engine.catalog)
        return list(
            islice(
                (tool_id for tool_id in ids if lowered_text in tool_id.casefold()), MAX_PAGE_ROWS
            )
        )

    def tool(self, tool_id: str) -> dict[str, Any]:
        """One definition: as the model sees it, as the server sent it, and all that is known.

        Raises:
            UnknownToolError: no such tool.
        """
        subject, facts = self._subject, self.facts()
        tool = facts.catalog.get(tool_id)
        flag = subject.engine.flags.get(tool.id)
        examples = subject.engine.view().admission.index.example_queries.get(tool.id)
        match = Library().find(tool)
        return {
            "id": tool.id,
            "fingerprint": tool.fingerprint,
            "tokens": facts.tax.tool_tokens[tool.id],
            "model_sees": _indented(
                json.loads(definition_text(tool.name, tool.description, tool.input_schema))
            ),
            "server_sent": _indented(self._as_server_sent(tool)),
            "cleaned": list(tool.cleaned),
            "flag": _flag_answer(flag),
            "quarantined": subject.engine.quarantined.get(tool.id),
            "twins": [other for other in facts.twins.get(tool.id, ()) if other != tool.id],
            "known_as": None if match is None else match.row.tool,
            "examples": [] if examples is None else list(examples.queries),
        }

    def _as_server_sent(self, tool: Tool) -> Any:
        """The definition as its server listed it last; as it was indexed, without a gateway."""
        if isinstance(self._subject, GatewaySubject):
            listed = self._subject.fleet.saved_listing(tool.server or "")
            for sent in () if listed is None else listed.tools:
                if sent.name == tool.name:
                    return sent.model_dump(mode="json", by_alias=True, exclude_none=True)
        return tool.to_dict()

    def trust(self) -> dict[str, Any]:
        """Everything that is quarantined, changed, or offered with a warning.

        Raises:
            PinsError: the file of pins cannot be read.
        """
        subject = self._subject
        catalog, flags = subject.engine.catalog, subject.engine.flags
        quarantined = subject.engine.quarantined
        pins = Pins() if subject.pins is None else Pins.read(subject.pins, missing_ok=True)
        changed_ids = {change.tool_id for change in pins.changes(catalog)}
        flagged_ids = flags.keys() | quarantined.keys()
        named_ids = [tool.id for tool in catalog if tool.id in flagged_ids]
        ids = [tool_id for tool_id in named_ids if tool_id in quarantined]
        warned = [tool_id for tool_id in named_ids if tool_id not in quarantined]
        looks = {
            tool_id: findings
            for tool_id, findings in needs_look(catalog, pins).items()
            if tool_id not in flags and tool_id not in quarantined
        }
        return {
            "pins": None if subject.pins is None else str(subject.pins),
            "pinned": len(pins),
            "new": sum(tool.id not in pins for tool in catalog) if len(pins) else 0,
            "quarantined": [
                {
                    "id": tool_id,
                    "code": flags[tool_id].code if tool_id in flags else "by the operator",
                    "reason": quarantined[tool_id],
                    "changed": tool_id in changed_ids,
                }
                for tool_id in ids
            ],
            "warned": [
                {"id": tool_id, "reasons": list(flags[tool_id].reasons)}
                for tool_id in warned[:MAX_PAGE_ROWS]
            ],
            "warnings": len(warned),
            "needs_look": [
                {
                    "id": id_,
                    "reasons": [f"{LOOK_CODES[each.code]}: {each.text}" for each in looks[id_]],
                }
                for id_ in islice(looks, MAX_PAGE_ROWS)
            ],
            "looks": len(looks),
        }

    def review(self, tool_id: str) -> dict[str, Any]:
        """What an operator reads before an approval: marked sentences, and the difference.

        Raises:
            UnknownToolError: no such tool.
            PinsError: the file of pins cannot be read.
        """
        subject = self._subject
        tool = subject.engine.catalog.get(tool_id)
        flag = subject.engine.flags.get(tool.id)
        pins = Pins() if subject.pins is None else Pins.read(subject.pins, missing_ok=True)
        change = pins.change(tool)
        return {
            "id": tool.id,
            "fingerprint": tool.fingerprint,
            "pinned": pins.fingerprint(tool.id) or "",
            "flag": _flag_answer(flag),
            "reason": subject.engine.quarantined.get(tool.id),
            "fields": _marked_fields(tool, flag),
            "change": None
            if change is None
            else {
                "pinned": change.pinned,
                "now": change.now,
                "advice": change.advice,
                "parts": [
                    {"part": part.part, "kind": part.kind, "lines": _side_by_side(part.lines())}
                    for part in change.parts
                ],
            },
            "definition": _indented(tool.to_dict()),
            "can_approve": subject.pins is not None,
        }


def _compute_facts(catalog: Catalog) -> CatalogFacts:
    tools = catalog.in_id_order
    groups = [tuple(tools[row].id for row in rows) for rows in Twins.of(tools).groups()]
    groups += near_twins(tools)
    twins: dict[str, tuple[str, ...]] = {}
    for group in sorted(groups, key=len, reverse=True):
        for tool_id in group:
            twins.setdefault(tool_id, group)
    return CatalogFacts(
        catalog=catalog,
        tax=token_tax(catalog, k=OFFERED_COUNT, encoding="cl100k_base"),
        twins=twins,
        library_servers=Library().servers(catalog),
    )


def _flag_counts(catalog: Catalog, flags: Any) -> Counter[tuple[str, str]]:
    return Counter(
        (flags[tool.id].level, tool.server or "") for tool in catalog if tool.id in flags
    )


def _flag_answer(flag: Flag | None) -> dict[str, Any] | None:
    if flag is None:
        return None
    return {
        "level": flag.level,
        "code": flag.code,
        "sentence": flag.sentence,
        "change": flag.change,
        "findings": [finding.to_dict() for finding in flag.findings],
    }


def _marked_fields(tool: Tool, flag: Flag | None) -> list[dict[str, Any]]:
    """The texts of a definition in sentences; those that a finding quotes are marked."""
    quotes: dict[str, list[tuple[str, str]]] = {}
    for finding in () if flag is None else flag.findings:
        where = finding.where.removesuffix(" (encoded)")
        quotes.setdefault(where, []).append((finding.code, " ".join(finding.text.split())))
    fields = []
    for field in texts_of_tool(tool):
        quoted = quotes.get(field.where, [])
        marked = [
            {
                "text": sentence,
                "codes": _codes_quoting(sentence, quoted, is_identifier=field.is_name),
            }
            for sentence in sentences(field.text)
        ]
        if quoted and not any(sentence["codes"] for sentence in marked):
            # The finding was hidden, as in encoded text: the whole field is what to read.
            marked = [{"text": field.text, "codes": sorted({code for code, _ in quoted})}]
        fields.append({"where": field.where, "sentences": marked})
    return fields


def _codes_quoting(
    sentence: str, quoted: Iterable[tuple[str, str]], *, is_identifier: bool
) -> list[str]:
    """The rules whose quote is this sentence."""
    text = " ".join(plain_form(without_disguises(sentence, is_identifier=is_identifier)).split())
    return sorted(
        {
            code
            for code, quote in quoted
            if quote and (quote[:_COMPARED_CHARS] in text or text[:_COMPARED_CHARS] in quote)
        }
    )


def _side_by_side(lines: list[str]) -> list[dict[str, str | None]]:
    """Lines of a difference side by side: sentences before and now."""
    pairs: list[dict[str, str | None]] = []
    removed: list[str] = []
    added: list[str] = []

    def pair_up() -> None:
        for place in range(max(len(removed), len(added))):
            before = removed[place] if place < len(removed) else None
            now = added[place] if place < len(added) else None
            pairs.append({"before": before, "now": now})
        removed.clear()
        added.clear()

    for line in lines:
        if line.startswith("- "):
            removed.append(line[2:])
        elif line.startswith("+ "):
            added.append(line[2:])
        else:
            pair_up()
            pairs.append({"before": line[2:], "now": line[2:]})
    pair_up()
    return pairs


def _indented(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
