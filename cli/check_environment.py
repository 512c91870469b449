"""Checks of the environment: what is installed, and whether what is bundled works."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from typing import Literal

from ..errors import ShortlistError, install_command

Status = Literal["ok", "note", "warn", "fail"]
_REQUIREMENT = re.compile(
    r"(?P<package>[A-Za-z0-9._-]+)(?:\[(?P<extras>[^]]*)\])?[^;]*"
    r"(?:;.*\bextra == ['\"](?P<extra>[^'\"]+)['\"])?"
)
_OWN_PACKAGE = "shortlist"
_SAMPLE_QUERY = "List the open pull requests of a repository"


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check.

    Args:
        name: name of the check.
        status: `note` is worth knowing, `warn` costs quality, `fail` stops shortlist from working.
        summary: the finding in one line.
        details: all single findings.
    """

    name: str
    status: Status
    summary: str
    details: tuple[str, ...] = ()


def check_environment() -> Iterator[Check]:
    """The checks that need no catalog, in order; the last ones load the bundled models."""
    yield Check(
        "python",
        "ok",
        f"{platform.python_implementation()} {platform.python_version()} on "
        f"{platform.system()} {platform.machine()}",
        (sys.executable,),
    )
    yield _packages()
    yield _runtime()
    yield _extras()
    yield _gateways()
    yield _secrets()
    for name, check in (("encoder", _encoder), ("vocabulary", _vocabulary), ("tiers", _tiers)):
        try:
            yield check()
        except ShortlistError as error:
            yield Check(name, "fail", str(error))


def _requirements(extra: str = "") -> list[str]:
    """Packages that an extra needs, or with "" the core; extras of extras included."""
    needed: list[str] = []
    for line in requires(_OWN_PACKAGE) or ():
        match = _REQUIREMENT.match(line)
        if match is None or (match["extra"] or "") != extra:
            continue
        if match["package"] == _OWN_PACKAGE:
            for part in (match["extras"] or "").split(","):
                needed += _requirements(part.strip())
        else:
            needed.append(match["package"])
    return needed


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _packages() -> Check:
    versions = {package: _installed(package) for package in _requirements()}
    missing = [
        package for package, installed_version in versions.items() if installed_version is None
    ]
    details = tuple(
        f"{package} {installed_version or 'is missing'}"
        for package, installed_version in versions.items()
    )
    shortlist_version = f"shortlist {version(_OWN_PACKAGE)}"
    if missing:
        line = (
            f"{shortlist_version}; missing: {', '.join(missing)}: pip install {' '.join(missing)}"
        )
        return Check("packages", "fail", line, details)
    return Check(
        "packages", "ok", f"{shortlist_version} and the {len(versions)} packages it needs", details
    )


def _runtime() -> Check:
    import onnxruntime

    from ..models.onnx_models import default_threads

    providers = onnxruntime.get_available_providers()
    return Check(
        "onnxruntime",
        "ok" if "CPUExecutionProvider" in providers else "fail",
        f"{onnxruntime.__version__}, {default_threads()} threads per query, "
        f"{os.cpu_count()} cores; providers: {', '.join(providers)}",
    )


def _extras() -> Check:
    details = []
    for extra in metadata(_OWN_PACKAGE).get_all("Provides-Extra") or ():
        missing = [package for package in _requirements(extra) if _installed(package) is None]
        state = install_command(extra) if missing else "installed"
        details.append(f"{extra}: {state}")
    installed = [line.partition(":")[0] for line in details if line.endswith("installed")]
    return Check("extras", "ok", f"installed: {', '.join(installed) or 'none'}", tuple(details))


def _gateways() -> Check:
    """The gateways in the background, which clients of this user share."""
    if sys.platform == "win32":
        return Check("gateways", "ok", "on Windows, none runs in the background")
    from ..gateway.attach.running_gateway import running_gateways

    try:
        gateways = list(running_gateways())
    except ShortlistError as error:
        return Check("gateways", "warn", f"clients cannot share one: {error}")
    details = tuple(
        f"process {gateway.pid}: {gateway.config}, log {gateway.log}" for gateway in gateways
    )
    return Check("gateways", "note" if gateways else "ok", f"{len(gateways)} running", details)


def _secrets() -> Check:
    """Where secrets of configurations and logins to servers are kept."""
    from ..gateway.connections.secret_store import FILE_VARIABLE, SecretsFile, secret_store

    try:
        store = secret_store()
        if isinstance(store, SecretsFile):
            store.get("", "")
            document = store.document()
            is_encrypted = "encrypted" in document if document else store.passphrase is not None
        else:
            backend = store.library().get_keyring()
    except ShortlistError as error:
        return Check("secrets", "fail", str(error))
    if not isinstance(store, SecretsFile):
        if backend.priority <= 0:
            line = f"this machine has no keyring; name a file in {FILE_VARIABLE} to keep them there"
            return Check("secrets", "note", line)
        return Check("secrets", "ok", f"in the system keyring ({backend.name})")
    if is_encrypted:
        return Check("secrets", "ok", f"in {store.path}, encrypted")
    if store.passphrase is not None:
        return Check("secrets", "note", f"in {store.path}, encrypted from the next secret on")
    return Check("secrets", "note", f"in {store.path}, mode 0600, not encrypted")


def _encoder() -> Check:
    from ..config import Config
    from ..models import load_encoder

    encoder = load_encoder(Config().model_arguments(Config().encoder)[0])
    length = float((encoder.encode([_SAMPLE_QUERY])[0] ** 2).sum()) ** 0.5
    line = f"{encoder.name}, {encoder.dim} dimensions, fingerprint {encoder.fingerprint[:16]}"
    if abs(length - 1) > 1e-3:
        return Check("encoder", "fail", f"{line}: a vector has length {length:.3f}, not 1")
    return Check("encoder", "ok", line)


def _vocabulary() -> Check:
    from ..models import TokenCounter

    count = TokenCounter().count(_SAMPLE_QUERY)
    return Check("vocabulary", "ok", f"cl100k_base counts {count} tokens in {_SAMPLE_QUERY!r}")


def _tiers() -> Check:
    """Every tier answers from the demo's smallest server, and is the one that ran."""
    from .. import demo
    from ..engine import Engine

    tools = [tool for tool in demo.load_catalog() if tool.server == "filesystem"]
    engine = Engine.from_tools(tools)
    answers = [engine.search("rename a file", tier=tier) for tier in engine.tiers]
    replaced = [answer for answer in answers if answer.tier != answer.tier_asked]
    details = tuple(
        f"{answer.tier_asked}: "
        + (answer.tier_reason or f"{len(answer)} tools in {answer.total_ms:.1f} ms")
        for answer in answers
    )
    if replaced:
        names = ", ".join(f"{answer.tier_asked} runs as {answer.tier}" for answer in replaced)
        return Check("tiers", "warn", names, details)
    return Check("tiers", "ok", f"{', '.join(engine.tiers)} answer", details)
