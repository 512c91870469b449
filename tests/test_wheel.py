"""What the wheel holds: everything that users use, nothing that only measures the project."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import anyio
import pytest

from shortlist.gateway.clients.registry_entry import RegisteredServer, entry_of
from shortlist.lab.shipped import ROOT, shipped_files

from .gateway.real.clients import sdk2
from .gateway.real.packages import NotInstalledError, cache, npm, pypi
from .test_layers import MODULES, graph

#: Folders with Python code that only a checkout has.
CHECKOUT_ONLY = {"lab", "packaging", "tests"}
DATA = {
    "decision/bundled.json",
    "demo/catalog/database.json",
    "demo/catalog/filesystem.json",
    "demo/catalog/github.json",
    "demo/catalog/jira.json",
    "demo/catalog/slack.json",
    "demo/catalog/web.json",
    "demo/requests.json",
    "enrichment/library/numbers.npz",
    "enrichment/library/rows.zlib",
    "inspector/page/icon.svg",
    "inspector/page/page.css",
    "inspector/page/page.html",
    "inspector/page/page.js",
    "models/weights/cl100k_base.tiktoken",
    "models/weights/shortlist-embed/MODEL_CARD.md",
    "models/weights/shortlist-embed/model.onnx",
    "models/weights/shortlist-embed/quantization_loss.json",
    "models/weights/shortlist-embed/shortlist.json",
    "models/weights/shortlist-embed/tokenizer.json",
    "models/weights/shortlist-embed/training_record.json",
    "models/weights/shortlist-multilingual/MODEL_CARD.md",
    "models/weights/shortlist-multilingual/map.npy",
    "models/weights/shortlist-static/MODEL_CARD.md",
    "models/weights/shortlist-static/gram_rows.npy",
    "models/weights/shortlist-static/gram_scales.npy",
    "models/weights/shortlist-static/projection.npy",
    "models/weights/shortlist-static/query_rows.npy",
    "models/weights/shortlist-static/query_scales.npy",
    "models/weights/shortlist-static/static.json",
    "models/weights/shortlist-static/tool_places.npy",
    "models/weights/shortlist-static/tool_rows.npy",
    "models/weights/shortlist-static/tool_scales.npy",
    "py.typed",
}
#: Without the tables of static vectors and the library of example queries, which have limits of
#: their own.
MOST_BYTES = 20_500_000
MOST_TABLE_BYTES = 12_000_000
MOST_LIBRARY_BYTES = 4_000_000
#: Programs that install Python programs.
UV, PIPX = "uv==0.13.9", "pipx==1.18.4"
#: Checks bundles for desktop clients.
MCPB = "@anthropic-ai/mcpb@2.1.2"


def _checkout_only(path: str) -> bool:
    return any(path.startswith(f"{folder}/") for folder in CHECKOUT_ONLY)


def _module_path(module: str) -> str:
    return MODULES[module].relative_to(ROOT).as_posix()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from a copy of the checkout."""
    pytest.importorskip("setuptools")
    folder = tmp_path_factory.mktemp("wheel")
    left_out = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__", "docs")
    shutil.copytree(ROOT, folder / "checkout", ignore=left_out, symlinks=True)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    done = subprocess.run(
        [*build, "--wheel-dir", str(folder), str(folder / "checkout")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    [made] = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the import path, with what the wheel installs."""
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as held:
        held.extractall(folder)
    return folder


def _run(installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=installed,
        env={"PYTHONPATH": str(installed), "COLUMNS": "200"},
    )


def test_the_wheel_holds_the_files_that_the_configuration_names(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as held:
        names = {name for name in held.namelist() if ".dist-info/" not in name}
    assert names == {f"shortlist/{path.as_posix()}" for path in shipped_files()}


def test_the_wheel_is_small(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as held:
        library = sum(
            one.compress_size for one in held.infolist() if "enrichment/library/" in one.filename
        )
    assert library <= MOST_LIBRARY_BYTES
    assert wheel.stat().st_size - library <= MOST_BYTES + MOST_TABLE_BYTES


def test_data_is_named_file_by_file() -> None:
    data = {path.as_posix() for path in shipped_files() if path.suffix != ".py"}
    assert data == DATA


def test_every_module_is_shipped_or_known_to_stay_in_the_checkout() -> None:
    shipped = {path.as_posix() for path in shipped_files()}
    forgotten = {
        path for module in MODULES if not _checkout_only(path := _module_path(module))
    } - shipped
    assert forgotten == set()
    assert not any(map(_checkout_only, shipped))


def test_what_is_shipped_imports_nothing_that_is_not() -> None:
    wrong = [
        f"{module} imports {imported}"
        for module in MODULES
        if not _checkout_only(_module_path(module))
        for imported in graph()[module]
        if imported in MODULES and _checkout_only(_module_path(imported))
    ]
    assert wrong == []


def test_the_lab_says_that_it_needs_a_checkout(installed: Path) -> None:
    program = "from shortlist.cli import main; main()"
    found = _run(installed, "-c", program, "lab", "bench", "--quick")
    assert found.returncode == 1
    assert "shortlist lab needs a checkout" in found.stderr
    assert "lab" in _run(installed, "-c", program, "--help").stdout


def test_an_installed_package_evaluates(installed: Path) -> None:
    demo = "shortlist/demo/catalog/github.json"
    (installed / "queries.jsonl").write_text(
        '{"query": "list the open issues", "relevant": ["list_issues"]}\n', encoding="utf-8"
    )
    (installed / "lexical.toml").write_text('tiers = ["lexical"]\n', encoding="utf-8")
    program = "from shortlist.cli import main; main()"
    options = ("--tools", demo, "--queries", "queries.jsonl", "--engine-settings", "lexical.toml")
    found = _run(installed, "-c", program, "eval", *options, "--min", "recall@10=1")
    assert found.returncode == 0, found.stderr


def _program(package: str, name: str) -> str:
    try:
        return str(pypi(package) / name)
    except NotInstalledError as problem:
        pytest.skip(str(problem))


def _interpreter(version: str) -> str | None:
    """The Python of a version, on PATH or of pyenv; None if it is not installed."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    folders = [*pyenv.glob(f"versions/{version}.*/bin"), *os.environ["PATH"].split(os.pathsep)]
    # The shims of pyenv do not start a version that is not chosen.
    search_path = [str(folder) for folder in folders if not str(folder).endswith("/shims")]
    return shutil.which(f"python{version}", path=os.pathsep.join(search_path))


def _install_environment(home: Path) -> dict[str, str]:
    """Downloaded packages are kept for the next run; programs are installed below `home`."""
    return {
        **os.environ,
        "UV_CACHE_DIR": str(cache() / "uv"),
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_HTTP_TIMEOUT": "180",
        "PIPX_HOME": str(home / "pipx"),
        "PIPX_BIN_DIR": str(home / "bin"),
        "XDG_CACHE_HOME": str(home / "cache"),
        "XDG_STATE_HOME": str(home / "state"),
    }


async def _listed(command: list[str], environment: dict[str, str]) -> set[str]:
    """The tools of the gateway that this command starts."""
    with anyio.fail_after(300):
        async with sdk2(command, environment) as client:
            return {tool["name"] for tool in await client.tools()}


def _serve(home: Path) -> list[str]:
    """The arguments that serve a file without servers."""
    config = home / "mcp.json"
    config.write_text('{"mcpServers": {}}')
    return ["serve", "--config", str(config)]


@pytest.mark.long
@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13", "3.14"])
def test_the_wheel_runs_with_uvx(wheel: Path, tmp_path: Path, python: str) -> None:
    uv, environment = _program(UV, "uv"), _install_environment(tmp_path)
    program = _interpreter(python)
    if program is None:
        pytest.skip(f"Python {python} is not installed")
    uvx = [uv, "tool", "run", "--quiet", "--python", program]
    command = [*uvx, "--from", f"{wheel}[gateway]", "shortlist"]
    version = subprocess.run(
        [*command, "--version"], capture_output=True, text=True, env=environment, timeout=500
    )
    assert version.stdout.startswith("shortlist "), version.stderr
    tools = anyio.run(_listed, [*command, *_serve(tmp_path)], environment)
    assert {"search_tools", "call_tool"} <= tools


@pytest.mark.long
def test_the_wheel_runs_with_pipx(wheel: Path, tmp_path: Path) -> None:
    pipx, environment = _program(PIPX, "pipx"), _install_environment(tmp_path)
    done = subprocess.run(
        [pipx, "install", "--python", sys.executable, f"{wheel}[gateway]"],
        capture_output=True,
        text=True,
        env=environment,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    program = str(tmp_path / "bin" / "shortlist")
    tools = anyio.run(_listed, [program, *_serve(tmp_path)], environment)
    assert {"search_tools", "call_tool"} <= tools


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make dist` makes and checks."""
    out = tmp_path_factory.mktemp("dist")
    program = [sys.executable, str(ROOT / "packaging" / "make_dist.py"), "--out", str(out)]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.mark.long
def test_the_bundle_is_valid_and_serves(dist: Path, tmp_path: Path) -> None:
    [bundle] = dist.glob("*.mcpb")
    with zipfile.ZipFile(bundle) as held:
        held.extractall(tmp_path / "bundle")
    manifest = json.loads((tmp_path / "bundle" / "manifest.json").read_text())
    try:
        mcpb = npm(MCPB) / "mcpb"
    except NotInstalledError as problem:
        pytest.skip(str(problem))
    found = subprocess.run(
        [mcpb, "validate", str(tmp_path / "bundle" / "manifest.json")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout + found.stderr
    uv, environment = _program(UV, "uv"), _install_environment(tmp_path)
    (tmp_path / "mcp.json").write_text('{"mcpServers": {}}')
    given = {
        "__dirname": str(tmp_path / "bundle"),
        "user_config.servers": str(tmp_path / "mcp.json"),
    }
    arguments = []
    for argument in manifest["server"]["mcp_config"]["args"]:
        for name, value in given.items():
            argument = argument.replace(f"${{{name}}}", value)
        arguments.append(argument)
    command = [uv, *arguments[:1], "--python", sys.executable, *arguments[1:]]
    tools = anyio.run(_listed, command, environment)
    assert {"search_tools", "call_tool"} <= tools


@pytest.mark.long
def test_the_registry_entry_starts_the_package_that_was_made(dist: Path, tmp_path: Path) -> None:
    described = json.loads((dist / "server.json").read_text())
    made = entry_of(RegisteredServer.model_validate(described)).entry
    [wheel] = dist.glob("*.whl")
    version = described["version"]
    assert made["args"] == [
        *("--with", f"shortlist[gateway]=={version}", f"shortlist@{version}", "serve"),
        *("--config", "${CONFIG}"),
    ]
    # Until it is published, the same command with the file in place of the name.
    uv, environment = _program(UV, "uv"), _install_environment(tmp_path)
    arguments = [uv, "tool", "run", "--quiet", "--python", sys.executable]
    arguments += ["--with", f"{wheel}[gateway]", "--from", str(wheel), "shortlist"]
    served = [*arguments, *_serve(tmp_path)]
    assert {"search_tools", "call_tool"} <= anyio.run(_listed, served, environment)


@pytest.mark.long
def test_the_steps_of_the_container_install_and_serve(dist: Path, tmp_path: Path) -> None:
    lines = (dist / "Containerfile").read_text().splitlines()
    [install] = [line for line in lines if line.startswith("RUN python -m pip install")]
    [started] = [json.loads(line[4:]) for line in lines if line.startswith("CMD ")]
    venv.create(tmp_path / "venv", with_pip=True)
    programs = tmp_path / "venv" / "bin"
    environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    step = install[4:].replace("/packages/", f"{dist}/").replace("--no-cache-dir ", "")
    done = subprocess.run(step, shell=True, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    config = tmp_path / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {}}))
    serve = [part.replace("/home/shortlist/mcp.json", str(config)) for part in started]
    refused = subprocess.run(serve, capture_output=True, text=True, env=environment, timeout=100)
    assert "give each profile a token first" in refused.stderr
    local = [*serve[:-2]]
    assert {"search_tools", "call_tool"} <= anyio.run(
        _listed, [str(programs / "shortlist"), *local[1:]], environment
    )
