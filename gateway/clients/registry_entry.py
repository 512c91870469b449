"""A server's entry for `mcpServers`, out of a registry that has the official registry's API.

A registry is text of strangers: its answer is bounded, the program that an entry starts is one of
four that run packages, and the caller shows the entry to a person before it is written. What a
registry says to that program is refused if it runs other code than the package, or opens more of
this machine to it.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Annotated, Any
from urllib.parse import quote, urlsplit

import httpx2
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from ...errors import ConfigError
from ...untrusted.json_bytes import read_json

#: Bytes of an answer that are read, and seconds that a registry may take.
_MAX_BYTES = 2_000_000
_PATIENCE_S = 20.0
#: Servers that a search names.
_MAX_NAMED = 10


class _Registered(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, frozen=True, extra="ignore")


class _Input(_Registered):
    name: str = ""
    value: str | None = None
    default: str | None = None
    value_hint: str | None = None
    type: str = ""
    is_required: bool = False
    is_secret: bool = False


def _list_or_nothing(value: object) -> object:
    return [] if value is None else value


_Inputs = Annotated[list[_Input], BeforeValidator(_list_or_nothing), Field(default_factory=list)]


class _Transport(_Registered):
    type: str
    url: str = ""
    headers: _Inputs


class _Package(_Registered):
    registry_type: str
    identifier: str
    version: str = ""
    transport: _Transport
    runtime_arguments: _Inputs
    package_arguments: _Inputs
    environment_variables: _Inputs


class RegisteredServer(_Registered):
    """A server as a registry describes it, in the form of a `server.json`."""

    name: str
    description: str = ""
    version: str = ""
    packages: Annotated[list[_Package], BeforeValidator(_list_or_nothing)] = []
    remotes: Annotated[list[_Transport], BeforeValidator(_list_or_nothing)] = []


@dataclass(frozen=True, slots=True)
class RegistryEntry:
    """The entry of a registered server.

    Attributes:
        name: name for the entry: the last part of the registered name.
        entry: the entry for `mcpServers`.
        variables: variables that the entry refers to, and that the user has to set.
    """

    name: str
    entry: dict[str, Any]
    variables: tuple[str, ...]


def find_registered(registry: str, name: str) -> RegisteredServer:
    """Look a server up in a registry.

    Args:
        registry: address of the registry, such as `https://registry.example`.
        name: full name, such as `io.github.owner/weather`, or a word of it.

    Raises:
        ConfigError: the registry cannot be read, or does not have exactly one such server.
    """
    if urlsplit(registry).scheme not in ("http", "https"):
        raise ConfigError(f"--registry: an address with http or https, not {registry!r:.200}")
    servers = f"{registry.rstrip('/')}/v0.1/servers"
    if "/" in name:
        answer = _get(f"{servers}/{quote(name, safe='')}/versions/latest")
        return _server_of(answer, servers)
    rows = _get(f"{servers}?search={quote(name)}&version=latest&limit=100").get("servers")
    found = [_server_of(row, servers) for row in rows if isinstance(row, Mapping)] if rows else []
    same_name = [server for server in found if server.name.rpartition("/")[2] == name]
    chosen = same_name if len(same_name) == 1 else found
    if len(chosen) != 1:
        named = ", ".join(server.name for server in found[:_MAX_NAMED])
        what_to_do = f"give one of these names: {named}" if named else "it has no such server"
        raise ConfigError(f"{registry}: {len(found)} servers for {name!r:.100}; {what_to_do}")
    return chosen[0]


def _get(url: str) -> Mapping[str, Any]:
    end = monotonic() + _PATIENCE_S
    try:
        with httpx2.stream("GET", url, timeout=_PATIENCE_S) as response:
            body = b""
            for chunk in response.iter_bytes():
                body += chunk
                if monotonic() > end:
                    raise ConfigError(f"{url}: no whole answer within {_PATIENCE_S:g} s")
                if len(body) > _MAX_BYTES:
                    raise ConfigError(f"{url}: the answer is larger than {_MAX_BYTES:,} bytes")
    except httpx2.HTTPError as error:
        raise ConfigError(f"{url}: cannot be read: {error}") from error
    if response.status_code != httpx2.codes.OK:
        raise ConfigError(f"{url}: the registry answers {response.status_code}")
    try:
        answer = read_json(body)
    except ValueError:
        answer = None
    if not isinstance(answer, Mapping):
        raise ConfigError(f"{url}: no answer of a registry")
    return answer


def _server_of(row: Mapping[str, Any], source: str) -> RegisteredServer:
    try:
        return RegisteredServer.model_validate(row.get("server", row))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ConfigError(f"{source}: {place}: {first['msg']}; no entry of a registry") from None


def entry_of(server: RegisteredServer) -> RegistryEntry:
    """The entry that starts a server, or connects to it.

    A package comes before an address, because it runs on the user's machine. Values that the user
    has to give become references such as `${API_KEY}`.

    Raises:
        ConfigError: the gateway can neither start nor reach it, it would read a variable, a file
            or a secret of this machine that nobody is asked for, or it would run other code or get
            more of this machine than its package does.

    Example:
        >>> from shortlist.gateway.clients.registry_entry import RegisteredServer, entry_of
        >>> package = {
        ...     "registryType": "npm",
        ...     "identifier": "weather-mcp",
        ...     "version": "1.2.0",
        ...     "transport": {"type": "stdio"},
        ...     "environmentVariables": [{"name": "WEATHER_KEY", "isRequired": True}],
        ... }
        >>> server = RegisteredServer(name="org.example/weather", packages=[package])
        >>> entry_of(server).entry["args"], entry_of(server).variables
        (['-y', 'weather-mcp@1.2.0'], ('WEATHER_KEY',))
    """
    references = _References()
    entry = next(_entries(server, references), None)
    if entry is None:
        kinds = {package.registry_type for package in server.packages}
        kinds |= {remote.type for remote in server.remotes}
        listed = ", ".join(sorted(kinds)) or "nothing"
        raise ConfigError(
            f"{server.name}: it has {listed:.200}; the gateway starts packages of npm, pypi, nuget "
            "and oci that speak over stdio, and connects to streamable-http and sse"
        )
    if server.description:
        entry["description"] = server.description[:200]
    _check_references(server.name, entry, references.names)
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", server.name.rpartition("/")[2]).strip("-") or "server"
    return RegistryEntry(name, entry, tuple(references.names))


def _check_references(name: str, entry: Mapping[str, Any], variables: Iterable[str]) -> None:
    """Refuse references of the registry's own, such as `${file:~/.ssh/id_rsa}` in a header."""
    text = json.dumps(entry, ensure_ascii=False)
    for variable in variables:
        text = text.replace(f"${{{variable}}}", "")
    if (start := text.find("${")) >= 0:
        raise ConfigError(
            f"{name}: its entry would read {text[start : start + 80]!r} of this machine; do not "
            "use it, or write the entry yourself"
        )


def _entries(server: RegisteredServer, references: _References) -> Iterator[dict[str, Any]]:
    """What the gateway can use of a server, the preferred one first."""
    for package in server.packages:
        if package.transport.type == "stdio" and package.registry_type in _COMMANDS:
            yield _entry_of_package(server.name, package, references)
    for remote in server.remotes:
        kind = {"streamable-http": "http", "sse": "sse"}.get(remote.type)
        if kind and urlsplit(remote.url).scheme in ("http", "https"):
            headers = references.values_of(remote.headers)
            url = references.filled(remote.url)
            yield {"type": kind, "url": url} | ({"headers": headers} if headers else {})


class _References:
    """Values of inputs; what the user has to give becomes a reference to a variable."""

    def __init__(self) -> None:
        self.names: dict[str, None] = {}

    def of(self, name: str) -> str:
        variable = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_").upper() or "VALUE"
        self.names[variable] = None
        return f"${{{variable}}}"

    def value(self, given: _Input, name: str) -> str | None:
        if given.value is not None:
            return self.filled(given.value)
        if given.default is not None and not given.is_secret:
            return given.default
        return self.of(name) if given.is_required or given.is_secret else None

    def filled(self, text: str) -> str:
        return re.sub(r"\{([^{}]+)\}", lambda match: self.of(match[1]), text)

    def values_of(self, inputs: Iterable[_Input]) -> dict[str, str]:
        values = {given.name: self.value(given, given.name) for given in inputs if given.name}
        return {name: value for name, value in values.items() if value is not None}

    def arguments(self, inputs: Iterable[_Input]) -> Iterator[str]:
        for given in inputs:
            name = given.name.lstrip("-") or given.value_hint or "argument"
            value = self.value(given, name)
            if given.type == "named" and (value is not None or given.is_required):
                yield given.name
            if value is not None:
                yield value


#: The program that runs a package, and its arguments before those of the registry.
_COMMANDS: Mapping[str, tuple[str, ...]] = {
    "npm": ("npx", "-y"),
    "pypi": ("uvx",),
    "nuget": ("dnx", "--yes"),
    "oci": ("docker", "run", "--interactive", "--rm"),
}
#: What a registry may say to that program: whole arguments, and options with a pattern that their
#: value must fit. All others may run other code, or open more of this machine to it.
_HARMLESS_ARGUMENTS: Mapping[str, frozenset[str]] = {
    "npm": frozenset(("-y", "--yes", "-q", "--quiet")),
    "pypi": frozenset(("-q", "--quiet", "--isolated", "--refresh")),
    "nuget": frozenset(("-y", "--yes")),
    "oci": frozenset(("run", "-i", "--interactive", "--rm", "--init", "--read-only")),
}
_REFERENCE = r"\$\{\w+\}"
#: A folder that the user names, mounted; several parts of `--mount` in any order.
_VOLUME = rf"{_REFERENCE}(:[\w./-]+(:(ro|rw))?)?"
_MOUNT_PART = rf"type=(bind|tmpfs)|(src|source)={_REFERENCE}|(dst|destination|target)=[^,]+"
_MOUNT = rf"{_REFERENCE}|({_MOUNT_PART}|readonly|ro)(,({_MOUNT_PART}|readonly|ro))*"
#: The package itself, with its extras and a version; `PACKAGE` stands for its name.
_SAME_PACKAGE = r"PACKAGE(\[[\w,.-]+\])?((==|@)[\w.+!-]+)?"
_HARMLESS_OPTIONS: Mapping[str, Mapping[str, str]] = {
    "npm": dict.fromkeys(("-p", "--package"), _SAME_PACKAGE),
    "pypi": {
        **dict.fromkeys(("--with", "--from"), _SAME_PACKAGE),
        **dict.fromkeys(("-p", "--python"), r"[0-9.]+"),
    },
    "nuget": {},
    "oci": {
        **dict.fromkeys(("-e", "--env"), r"\w+=.*"),
        **dict.fromkeys(("-v", "--volume"), _VOLUME),
        "--mount": _MOUNT,
        **dict.fromkeys(("--network", "--net"), "none|bridge"),
        **dict.fromkeys(("--pull", "--platform", "--cap-drop"), r"[\w./-]+"),
        **dict.fromkeys(("-m", "--memory", "--cpus", "--pids-limit", "--shm-size"), r"[\w.]+"),
        **dict.fromkeys(("-w", "--workdir", "--tmpfs"), r"/[\w./-]*"),
    },
}
#: A package of the program's own index: no path, no address, no option.
_IDENTIFIERS: Mapping[str, str] = {
    "npm": r"(@[\w~][\w.~-]*/)?[\w~][\w.~-]*(@[\w.+^~-]+)?",
    "pypi": r"[A-Za-z0-9][\w.-]*(\[[\w,.-]+\])?((@|==)[\w.+!-]+)?",
    "nuget": r"[A-Za-z0-9][\w.-]*(@[\w.+-]+)?",
    "oci": r"[A-Za-z0-9][\w./:@-]*",
}
_VERSION = r"(\w[\w.+!-]*)?"
#: Variables by which the programs, or what they load, run other code or send it elsewhere.
_STEERING_VARIABLE = re.compile(
    r"PATH|PATHEXT|COMSPEC|HOME|USERPROFILE|APPDATA|SHELL|ENV|BASH_ENV|.*_PROXY|.*_CA_BUNDLE"
    r"|SSL_CERT_.*|XDG_.*|LD_.*|DYLD_.*|SSH_(AUTH_SOCK|ASKPASS)|GIT_(SSH|CONFIG|EXEC|PROXY|ASK).*"
    r"|NODE_(OPTIONS|PATH|EXTRA_CA_CERTS|TLS_.*)|NPM_CONFIG_.*|UV_.*|PIP_.*|VIRTUAL_ENV"
    r"|PYTHON(PATH|HOME|STARTUP|USERBASE|EXECUTABLE|PLATLIBDIR|BREAKPOINT|PYCACHEPREFIX|WARNINGS)"
    r"|DOTNET_(?!ENVIRONMENT).*|COR_.*|CORECLR_.*|NUGET_.*|DOCKER_.*|PERL5.*|RUBY(LIB|OPT)",
    re.IGNORECASE,
)


def _entry_of_package(
    server_name: str, package: _Package, references: _References
) -> dict[str, Any]:
    command, *options = _COMMANDS[package.registry_type]
    env = references.values_of(package.environment_variables)
    given = [*references.arguments(package.runtime_arguments)]
    refused = [*_refused_values(package), *_refused_arguments(package, given)]
    refused += [
        f"{name}={value}"
        for name, value in env.items()
        if _STEERING_VARIABLE.fullmatch(name) and not re.fullmatch(_REFERENCE, value)
    ]
    options += [argument for argument in given if argument not in options]
    separator, has_version = "@", package.version and "@" not in package.identifier[1:]
    if package.registry_type == "oci":
        separator, has_version = ":", package.version and ":" not in package.identifier
        options += [part for name in env for part in ("--env", name)]
    identifier = package.identifier + (separator + package.version if has_version else "")
    own_arguments = [*references.arguments(package.package_arguments)]
    if own_arguments and package.registry_type == "nuget":
        own_arguments.insert(0, "--")  # dnx takes its own options after the package, too
    arguments = [*options, identifier, *own_arguments]
    if refused:
        raise ConfigError(
            f"{server_name}: the registry wants {shlex.join(refused):.300}, by which {command} may "
            "run other code or open more of this machine than the package needs; do not use it, or "
            "write an entry yourself with what you accept of: "
            f"{shlex.join([command, *arguments]):.1000}"
        )
    return {"command": command, "args": arguments} | ({"env": env} if env else {})


def _refused_values(package: _Package) -> Iterator[str]:
    """The package and its version, if they are no names in the index of the program."""
    if not re.fullmatch(_IDENTIFIERS[package.registry_type], package.identifier, re.ASCII):
        yield package.identifier
    if not re.fullmatch(_VERSION, package.version, re.ASCII):
        yield package.version


def _refused_arguments(package: _Package, arguments: Iterable[str]) -> Iterator[str]:
    """The arguments for the program that are not known to be harmless."""
    patterns, rest = _HARMLESS_OPTIONS[package.registry_type], iter(arguments)
    for argument in rest:
        name, is_joined, value = argument.partition("=")
        if argument in _HARMLESS_ARGUMENTS[package.registry_type]:
            continue
        if name not in patterns:
            # An argument that the user gives as a whole is the user's.
            if not re.fullmatch(_REFERENCE, argument, re.ASCII):
                yield argument
            continue
        if not is_joined:
            value = next(rest, "")
        pattern = patterns[name].replace("PACKAGE", re.escape(package.identifier))
        if not re.fullmatch(pattern, value, re.ASCII | re.DOTALL):
            yield from (argument,) if is_joined else (argument, value)
