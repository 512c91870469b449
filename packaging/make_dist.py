"""Makes and checks everything that a release publishes, in `dist/`: `make dist`."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent
#: What the wheel and the source archive must have beside the code.
LICENSES = (
    "LICENSE",
    "models/weights/shortlist-embed/MODEL_CARD.md",
    "models/weights/shortlist-static/MODEL_CARD.md",
)
COMMAND = {"command": "uvx", "args": ["--from", "shortlist[gateway]", "shortlist", "serve"]}


class ReleaseError(Exception):
    """Something that a release must not have; the message says what."""


def build(out: Path) -> tuple[Path, Path]:
    """The wheel and the source archive, built and checked.

    Raises:
        ReleaseError: they cannot be built, or lack a file.
    """
    _run(sys.executable, "-m", "build", "--outdir", str(out), str(ROOT))
    wheel, archive = max(out.glob("*.whl")), max(out.glob("*.tar.gz"))
    _run(sys.executable, "-m", "twine", "check", "--strict", str(wheel), str(archive))
    with zipfile.ZipFile(wheel) as held:
        in_wheel = held.namelist()
    with tarfile.open(archive) as tar:
        in_archive = tar.getnames()
    for path, names in ((wheel, in_wheel), (archive, in_archive)):
        for license_file in LICENSES:
            if not any(name.endswith(license_file) for name in names):
                raise ReleaseError(f"{path.name}: {license_file} is missing")
    return wheel, archive


def write_server_json(out: Path, version: str, owner: str) -> Path:
    """The description for the registry of MCP servers."""
    made = out / "server.json"
    text = (FOLDER / "server.json").read_text(encoding="utf-8")
    made.write_text(text.replace("VERSION", version).replace("OWNER", owner), encoding="utf-8")
    return made


def write_bundle(out: Path, wheel: Path, version: str) -> Path:
    """The bundle for desktop clients: a manifest and the wheel, which uv installs."""
    made = out / f"shortlist-{version}.mcpb"
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as bundle:
        for source in sorted((FOLDER / "mcpb").iterdir()):
            text = source.read_text(encoding="utf-8")
            text = text.replace("VERSION", version).replace("WHEEL", wheel.name)
            bundle.writestr(source.name, text)
        bundle.write(wheel, wheel.name, zipfile.ZIP_STORED)
    return made


def write_links(out: Path) -> Path:
    """The links that add the gateway to a client with one click."""
    config = base64.b64encode(json.dumps(COMMAND).encode()).decode()
    cursor = f"cursor://anysphere.cursor-deeplink/mcp/install?name=shortlist&config={quote(config)}"
    vscode = f"vscode:mcp/install?{quote(json.dumps({'name': 'shortlist', **COMMAND}))}"
    made = out / "links.md"
    made.write_text(f"- [Add to Cursor]({cursor})\n- [Add to VS Code]({vscode})\n", "utf-8")
    return made


def make_dist(
    out: Annotated[Path, typer.Option("--out", help="Folder for what is made.")] = ROOT / "dist",
    owner: Annotated[
        str, typer.Option("--owner", help="Namespace in the registry, as io.github.NAME.")
    ] = "org.example",
) -> None:
    """Make and check the wheel, the source archive, the bundle and the descriptions."""
    out.mkdir(parents=True, exist_ok=True)
    for earlier in out.iterdir():
        earlier.unlink()
    wheel, archive = build(out)
    version = wheel.name.split("-")[1]
    container = out / "Containerfile"
    container.write_bytes((FOLDER / "Containerfile").read_bytes())
    bundle = write_bundle(out, wheel, version)
    described = (write_server_json(out, version, owner), write_links(out), container)
    for path in (wheel, archive, bundle, *described):
        typer.echo(f"{path.stat().st_size / 1e6:6.2f} MB  {path}")


def _run(*command: str) -> None:
    done = subprocess.run(  # noqa: S603 - programs of this file
        command, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise ReleaseError(f"{' '.join(command)}:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    typer.run(make_dist)
