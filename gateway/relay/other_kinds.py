"""Prompts, resources and skills of all servers, searched and used by models as tools are.

Each kind has an index of its own, with the searcher of the tools. Entries in the index of the tools
would change the scores of every tool.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from threading import Lock
from typing import Any
from urllib.parse import quote, unquote

import mcp.types as types
import numpy as np
from mcp.shared.uri_template import UriTemplate

from ...catalog import Tool
from ...engine import Engine
from ...errors import RequestError, ToolError, UnknownToolError
from ...gating import Refusal
from ...gating.condition import Mask
from ...gating.verdict import Verdict
from ...retrieval.catalog_index import Index
from ...view import View
from ..profiles.client_sessions import ClientCaller, ClientSession, permitted_servers
from ..upstream.fleet import Fleet
from ..upstream.server_lists import ResourcesAndPrompts
from ..upstream.skills import SKILL_SCHEME, Skill, skill_name, skill_tool
from .mcp_prompts import Prompts, public_name
from .resources import Resources, public_uri, server_and_uri

_LOG = logging.getLogger("shortlist.gateway")
_PROMPT_SCHEME = "prompt://"
#: Beginnings of the names of all entries. No id of a tool begins so, unless an operator gives a
#: server such a name.
_NAME_BEGINNINGS = (_PROMPT_SCHEME, SKILL_SCHEME, "shortlist://", "ui://")


class Kind(StrEnum):
    """What a server offers besides tools."""

    PROMPT = "prompt"
    RESOURCE = "resource"
    SKILL = "skill"


#: A server's definition of an entry.
Definition = types.Prompt | types.Resource | types.ResourceTemplate | Skill


@dataclass(frozen=True, slots=True)
class Entry:
    """A prompt, a resource, a resource template or a skill of a server.

    Args:
        kind: what it is.
        server: name of the server.
        definition: the server's definition, without hostile texts.
        tool: the entry in the form that is searched and checked. Its id is the name for models.
    """

    kind: Kind
    server: str
    definition: Definition
    tool: Tool


@dataclass(frozen=True, slots=True)
class _Version:
    """What the servers list, as it is searched.

    Args:
        lists: server to its lists.
        engines: kind to the engine over its entries. A kind without entries has none.
        entries: name for models to entry.
        skill_files: server and address of a file to the skill that it belongs to.
        pins_reload_count: how often the pins had changed.
    """

    lists: Mapping[str, ResourcesAndPrompts]
    engines: Mapping[Kind, Engine]
    entries: Mapping[str, Entry]
    skill_files: Mapping[tuple[str, str], Entry]
    pins_reload_count: int


class OtherKinds:
    """Finds, describes and uses prompts, resources and skills for models.

    Only what the servers list is used, and of that only what the scan does not flag. The client
    must be permitted to use the server. A skill that changed or that the scan flags is quarantined
    as a tool is. Its files are read with their accepted digests only.

    Args:
        fleet: the servers.
        prompts: gets prompts.
        resources: reads resources.
    """

    def __init__(self, fleet: Fleet, prompts: Prompts, resources: Resources) -> None:
        self._fleet = fleet
        self._prompts = prompts
        self._resources = resources
        self._lock = Lock()
        self._version = _Version({}, {}, {}, {}, 0)

    def close(self) -> None:
        """Stop encoding."""
        for engine in self._version.engines.values():
            engine.close()

    def views(self, client: ClientSession, server: str | None = None) -> dict[Kind, View]:
        """Kind to the entries that a client may use; without the kinds that have none.

        Args:
            client: session with the permissions.
            server: name of the only server that is wanted; all servers when None.
        """
        views = self._views(self._present_version(), client, server)
        return {kind: view for kind, view in views.items() if view.tools()}

    def is_name(self, name: str) -> bool:
        """Whether a name is that of an entry, and not of a tool."""
        return name.startswith(_NAME_BEGINNINGS) and name not in self._fleet.engine.catalog

    def details(self, client: ClientSession, name: str) -> Entry | Refusal | UnknownToolError:
        """The entry with a name from a search; or why there is none.

        Args:
            client: session with the permissions.
            name: its name.
        """
        version = self._present_version()
        view = self._views(version, client).get(_kind_of_name(name))
        if view is None:
            return UnknownToolError(name, ())
        outcome = view.details([name])[0]
        if not isinstance(outcome, Tool):
            return outcome
        return version.entries.get(outcome.id) or UnknownToolError(name, ())

    def check(
        self, client: ClientSession, name: str, arguments: object = None
    ) -> tuple[Verdict, Entry | None]:
        """The verdict on the use of an entry, and the entry if it may be used.

        Args:
            client: session with the permissions.
            name: name of the entry from a search, or an address that fits a template.
            arguments: arguments of the prompt or of the template.
        """
        version = self._present_version()
        view = self._views(version, client).get(_kind_of_name(name))
        if view is None:
            return Verdict("unknown", name), None
        entry = (
            version.entries.get(name)
            or _skill_with_file(name, version)
            or _template_for(name, version.entries.values(), view)
        )
        verdict = view.check(name if entry is None else entry.tool.id, arguments)
        if verdict.passed and entry is None:
            verdict = Verdict("unknown", name)
        return verdict, entry if verdict.passed else None

    async def use(
        self,
        caller: ClientCaller,
        name: str,
        entry: Entry,
        verdict: Verdict,
        params: types.CallToolRequestParams,
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Get a prompt, or read a resource or a file of a skill, as the result of a tool.

        Args:
            caller: the client's request.
            name: name that the model gave.
            entry: what it names.
            verdict: the verdict that permits it, with its arguments.
            params: parameters of the client's request, with its answers and state.

        Raises:
            RequestError: an argument of a template is missing, or a file is not the accepted one.
            UpstreamError: the server does not answer, or refuses.
        """
        rounds: dict[str, Any] = {
            "input_responses": params.input_responses,
            "request_state": params.request_state,
            "_meta": params.meta,
        }
        definition = entry.definition
        if isinstance(definition, types.Prompt):
            prompt_name = public_name(entry.server, definition.name)
            prompt = await self._prompts.get(
                caller,
                types.GetPromptRequestParams(
                    name=prompt_name, arguments=dict(verdict.arguments) or None, **rounds
                ),
            )
            if isinstance(prompt, types.InputRequiredResult):
                return prompt
            return _prompt_result(prompt)
        uri, digest = _server_uri(name, entry, verdict.arguments), None
        if isinstance(definition, Skill):
            if (digest := definition.digest_of(uri)) is None:
                raise RequestError(f"name: the skill {entry.tool.id} has no file {uri!r:.200}")
        elif (skill := self._version.skill_files.get((entry.server, uri))) is not None:
            raise RequestError(f"name: it is a file of the skill {skill.tool.id}; call that")
        resource = await self._resources.read(
            caller,
            types.ReadResourceRequestParams(uri=public_uri(entry.server, uri), **rounds),
            digest,
        )
        if isinstance(resource, types.InputRequiredResult):
            return resource
        return _resource_result(resource)

    def _present_version(self) -> _Version:
        """The version of what the servers list now. A changed list is indexed first."""
        with self._lock:
            servers = self._fleet.listed_tools.servers
            lists = {name: listed.safe_lists for name, listed in servers.items()}
            version = self._version
            if lists.keys() != version.lists.keys() or any(
                lists[server] is not version.lists[server] for server in lists
            ):
                self._version = self._indexed(lists, version.engines)
            elif version.pins_reload_count != self._fleet.pins_reload_count:
                reload_count = self._fleet.pins_reload_count
                if Kind.SKILL in version.engines:
                    version.engines[Kind.SKILL].reload_pins()
                self._version = replace(version, pins_reload_count=reload_count)
            return self._version

    def _indexed(
        self, lists: Mapping[str, ResourcesAndPrompts], engines: Mapping[Kind, Engine]
    ) -> _Version:
        # Before the pins are read: a later change is read again.
        reload_count = self._fleet.pins_reload_count
        entries: dict[str, Entry] = {}
        skill_files: dict[tuple[str, str], Entry] = {}
        for server, server_lists in lists.items():
            for entry in _entries_of(server, server_lists):
                first_entry = entries.setdefault(entry.tool.id, entry)
                if first_entry is entry and isinstance(entry.definition, Skill):
                    for file in entry.definition.files:
                        skill_files.setdefault((server, file.uri), entry)
        entries = {
            name: entry
            for name, entry in entries.items()
            if not isinstance(entry.definition, types.Resource)
            or (entry.server, entry.definition.uri) not in skill_files
        }
        engines = dict(engines)
        for kind in Kind:
            tools = [entry.tool for entry in entries.values() if entry.kind is kind]
            if kind in engines:
                engines[kind].replace(tools, wait=False)
            elif tools:
                pins = self._fleet.pins_path if kind is Kind.SKILL else None
                engines[kind] = self._fleet.engine._sibling(tools, pins=pins)
        return _Version(lists, engines, entries, skill_files, reload_count)

    def _views(
        self, version: _Version, client: ClientSession, server: str | None = None
    ) -> dict[Kind, View]:
        if not version.engines:
            return {}
        servers = set(permitted_servers(self._fleet, client))
        if server is not None:
            servers &= {server}
        return {
            kind: engine.view(visible=partial(_rows_of_servers, servers))
            for kind, engine in version.engines.items()
        }


def entry_fields(entry: Entry) -> dict[str, Any]:
    """The description of an entry as an object, without its name."""
    definition = entry.definition
    fields: dict[str, Any] = {"kind": str(entry.kind), "description": definition.description}
    if isinstance(definition, Skill):
        fields["files"] = [
            {"name": skill_name(entry.server, file.uri), "digest": file.digest}
            for file in definition.files
        ]
        return fields
    fields["title"] = definition.title
    if isinstance(definition, types.Prompt):
        fields["arguments"] = [
            argument.model_dump(exclude_none=True, include=_ARGUMENT_FIELDS)
            for argument in definition.arguments or ()
        ]
    else:
        fields["media_type"] = definition.mime_type
    if isinstance(definition, types.Resource):
        fields["bytes"] = definition.size
    if isinstance(definition, types.ResourceTemplate):
        fields["arguments"] = [{"name": name} for name in _variables(definition)]
    return {key: value for key, value in fields.items() if value}


def _server_uri(name: str, entry: Entry, arguments: Mapping[str, Any]) -> str:
    """The server's address of what a model reads.

    Args:
        name: name that the model gave.
        entry: what it names.
        arguments: arguments of a template.

    Raises:
        RequestError: an argument of a template is missing.
    """
    definition = entry.definition
    if isinstance(definition, Skill):
        return name.removeprefix(skill_name(entry.server, ""))
    if isinstance(definition, types.ResourceTemplate):
        if name == entry.tool.id:
            return _expanded(definition, arguments)
        located = server_and_uri(name)
        return name if located is None else located[1]
    assert isinstance(definition, types.Resource)
    return definition.uri


def _skill_with_file(name: str, version: _Version) -> Entry | None:
    """The skill that has the file with a name; None if none has."""
    if not name.startswith(SKILL_SCHEME):
        return None
    server, _, uri = name.removeprefix(SKILL_SCHEME).partition("/")
    return version.skill_files.get((unquote(server, errors="surrogatepass"), uri))


def _template_for(name: str, entries: Iterable[Entry], view: View) -> Entry | None:
    """The permitted template that an address fits; None if there is none."""
    for entry in entries:
        if not isinstance(entry.definition, types.ResourceTemplate):
            continue
        if not name.startswith(public_uri(entry.server, "")):
            continue
        try:
            fits = UriTemplate.parse(entry.tool.id).match(name) is not None
        except ValueError:
            # An invalid template fits no address.
            continue
        if fits and view.permits(entry.tool.id):
            return entry
    return None


_ARGUMENT_FIELDS = {"name", "description", "required"}


def _kind_of_name(name: str) -> Kind:
    if name.startswith(SKILL_SCHEME):
        return Kind.SKILL
    return Kind.PROMPT if name.startswith(_PROMPT_SCHEME) else Kind.RESOURCE


def _rows_of_servers(servers: set[str], index: Index) -> Mask:
    return np.array([tool.server in servers for tool in index.tools], np.bool_)


def _entries_of(server: str, lists: ResourcesAndPrompts) -> Iterator[Entry]:
    """The entries of a server. One that cannot be searched is logged and left out."""
    definitions: list[Definition] = [
        *lists.prompts,
        *lists.resources,
        *lists.templates,
        *lists.skills,
    ]
    for definition in definitions:
        try:
            yield entry_of(server, definition)
        except ToolError as error:
            _LOG.warning("server %r: %r is not searched: %s", server, definition.name, error)


def entry_of(server: str, definition: Definition) -> Entry:
    """The form in which a server's prompt, resource, template or skill is searched.

    Args:
        server: name of the server.
        definition: the server's definition, without hostile texts.

    Raises:
        ToolError: a text of it is too long.
    """
    if isinstance(definition, Skill):
        return Entry(Kind.SKILL, server, definition, skill_tool(server, definition))
    properties: dict[str, Any] = {}
    required: list[str] = []
    if isinstance(definition, types.Prompt):
        kind = Kind.PROMPT
        name = f"{_PROMPT_SCHEME}{quote(server, safe='', errors='surrogatepass')}/{definition.name}"
        for argument in definition.arguments or ():
            description = {"description": argument.description} if argument.description else {}
            properties[argument.name] = {"type": "string", **description}
        required = [argument.name for argument in definition.arguments or () if argument.required]
    elif isinstance(definition, types.Resource):
        kind, name = Kind.RESOURCE, public_uri(server, definition.uri)
    else:
        kind, name = Kind.RESOURCE, public_uri(server, definition.uri_template)
        properties = {variable: {"type": "string"} for variable in _variables(definition)}
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    tool = Tool(
        definition.name,
        server,
        definition.description or "",
        {**schema, "required": required} if required else schema,
        id=name,
        title=definition.title,
        annotations={"readOnlyHint": True},
    )
    return Entry(kind, server, definition, tool)


def _variables(template: types.ResourceTemplate) -> list[str]:
    try:
        return UriTemplate.parse(template.uri_template).variable_names
    except ValueError:
        return []


def _expanded(template: types.ResourceTemplate, arguments: Mapping[str, Any]) -> str:
    """The server's address for these arguments.

    Raises:
        RequestError: an argument is missing, or the template is invalid.
    """
    try:
        parsed = UriTemplate.parse(template.uri_template)
    except ValueError as error:
        raise RequestError(f"name: the template cannot be read: {error}") from error
    missing = [
        variable
        for variable in parsed.variable_names
        if variable not in arguments and variable not in parsed.query_variable_names
    ]
    if missing:
        raise RequestError(f"arguments: the address needs {', '.join(missing)}")
    return parsed.expand({name: str(value) for name, value in arguments.items()})


def _prompt_result(prompt: types.GetPromptResult) -> types.CallToolResult:
    """The messages of a prompt as content. Each says its role if one is not the user's."""
    names_roles = any(message.role != "user" for message in prompt.messages)
    content: list[types.ContentBlock] = []
    for message in prompt.messages:
        if names_roles:
            content.append(types.TextContent(type="text", text=f"{message.role}:"))
        content.append(message.content)
    return types.CallToolResult(content=content, _meta=prompt.meta)


def _resource_result(resource: types.ReadResourceResult) -> types.CallToolResult:
    content = [_content_block(part) for part in resource.contents]
    return types.CallToolResult(content=content, _meta=resource.meta)


def _content_block(
    part: types.TextResourceContents | types.BlobResourceContents,
) -> types.ContentBlock:
    if isinstance(part, types.TextResourceContents):
        return types.TextContent(type="text", text=part.text)
    media_type = part.mime_type or ""
    if media_type.startswith("image/"):
        return types.ImageContent(type="image", data=part.blob, mime_type=media_type)
    if media_type.startswith("audio/"):
        return types.AudioContent(type="audio", data=part.blob, mime_type=media_type)
    return types.EmbeddedResource(type="resource", resource=part)
