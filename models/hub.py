"""Finds the files of a model: bundled, in a local folder, or on the Hugging Face hub."""

from __future__ import annotations

import contextlib
import platform
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .. import registry
from ..errors import MissingExtraError, ModelError

WEIGHTS_FOLDER = Path(__file__).resolve().parent / "weights"

_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
_SENTENCE_TRANSFORMERS = "sentence-transformers:"

_SETTINGS_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "config.json",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "1_Pooling/config.json",
)

_X86_FILES = ("model_qint8_avx512_vnni.onnx", "model_qint8_avx512.onnx")
_AVX2_FILES = ("model_quint8_avx2.onnx",)
_ARM_FILES = ("model_qint8_arm64.onnx",)
_ANY_CPU_FILES = ("model_quantized.onnx", "model_int8.onnx", "model.onnx")


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """The files of a model.

    Attributes:
        name: the requested name.
        folder: folder with tokenizer.json and the settings.
        onnx: the ONNX file to run.
    """

    name: str
    folder: Path
    onnx: Path


def bundled_names() -> tuple[str, ...]:
    """Names of the models that ship with the package."""
    return tuple(sorted(p.parent.name for p in WEIGHTS_FOLDER.glob("*/model.onnx")))


def find_model_files(spec: str, kind: str | None = None) -> ModelFiles:
    """Find the files of a model; only a hub name touches the network.

    A bundled name is looked up first, then a local folder, then the hub. ``org/name`` always means
    the hub's published files, even where the same model is bundled under its bare name.

    Args:
        spec: a bundled name, a local folder, or ``org/name`` on the hub.
        kind: kind of the model in the registry. The message lists its names.

    Raises:
        ModelError: there is no model of that name, or its files cannot be downloaded.
        MissingExtraError: it is a hub name and huggingface-hub is not installed.
    """
    if spec in bundled_names():
        return ModelFiles(spec, WEIGHTS_FOLDER / spec, WEIGHTS_FOLDER / spec / "model.onnx")
    folder = Path(spec).expanduser()
    if folder.is_dir():
        return _in_folder(spec, folder)
    if _HUB_NAME.fullmatch(spec):
        return _on_hub(spec)
    # Not before: looking for registered names reads the metadata of all installed packages.
    registered = "" if kind is None else ", ".join(registry.names(kind))
    raise ModelError(
        f"no model {spec!r}: it is neither bundled ({', '.join(bundled_names())}), nor a local "
        "folder, nor of the form 'org/name' of a hub model"
        + (f", nor a registered name ({registered})" if registered else "")
    )


def preferred_onnx(paths: Iterable[str]) -> str | None:
    """The published ONNX file that runs best on this CPU, or none if there is no ONNX file.

    Publishers name quantised files after the instruction set they are made for. Signed int8 files
    saturate on CPUs without VNNI, so there the unsigned one is taken.

    Args:
        paths: file paths in a repository or folder, with ``/``.
    """
    by_name: dict[str, str] = {}
    for path in sorted(paths, key=lambda p: (p.count("/"), p)):
        if path.endswith(".onnx"):
            by_name[path.rpartition("/")[2]] = path
    for name in (*_files_for_cpu(), *_ANY_CPU_FILES):
        if name in by_name:
            return by_name[name]
    return None


def _files_for_cpu() -> tuple[str, ...]:
    if platform.machine().lower() in {"arm64", "aarch64"}:
        return _ARM_FILES
    return (*_X86_FILES, *_AVX2_FILES) if _has_avx512_vnni() else (*_AVX2_FILES, *_X86_FILES)


def _has_avx512_vnni() -> bool:
    cpuinfo = Path("/proc/cpuinfo")
    return cpuinfo.is_file() and "avx512_vnni" in cpuinfo.read_text(errors="replace")


def _in_folder(spec: str, folder: Path) -> ModelFiles:
    paths = (*folder.glob("*.onnx"), *folder.glob("onnx/*.onnx"))
    onnx = preferred_onnx(path.relative_to(folder).as_posix() for path in paths)
    if onnx is None:
        raise ModelError(
            f"{folder}: no ONNX file there or in its 'onnx' folder; export the model, or load it "
            f"as '{_SENTENCE_TRANSFORMERS}{spec}'"
        )
    return ModelFiles(spec, folder, folder / onnx)


def _on_hub(repository: str) -> ModelFiles:
    try:
        import huggingface_hub
    except ImportError as error:
        raise MissingExtraError(f"the hub model {repository!r}", "hub") from error
    with contextlib.suppress(ModelError, FileNotFoundError, ValueError):
        # A snapshot that is already here is used as it is: no network, no silent new revision.
        cached = Path(huggingface_hub.snapshot_download(repository, local_files_only=True))
        if (cached / "tokenizer.json").is_file():
            return _in_folder(repository, cached)
    try:
        published = huggingface_hub.HfApi().list_repo_files(repository)
        onnx = preferred_onnx(published)
        settings_files = [name for name in _SETTINGS_FILES if name in published]
        folder = onnx and huggingface_hub.snapshot_download(
            repository, allow_patterns=[*settings_files, onnx]
        )
    except Exception as error:
        raise ModelError(
            f"cannot download {repository!r} from the hub ({type(error).__name__}: {error}). "
            "Check the name and the network; or download it elsewhere and give its folder; or use "
            f"a bundled model ({', '.join(bundled_names())}), which needs no network"
        ) from error
    if not (onnx and folder):
        raise ModelError(
            f"{repository} publishes no ONNX file; load it as "
            f"'{_SENTENCE_TRANSFORMERS}{repository}'"
        )
    return ModelFiles(repository, Path(folder), Path(folder) / onnx)
