from __future__ import annotations

import shutil
import sys
from pathlib import Path

import huggingface_hub
import numpy as np
import pytest

from shortlist.errors import MissingExtraError, ModelError
from shortlist.models import hub, load_encoder, load_reranker
from shortlist.models.hub import WEIGHTS_FOLDER, bundled_names, find_model_files, preferred_onnx

PUBLISHED = [
    ".gitattributes",
    "1_Pooling/config.json",
    "config.json",
    "model.safetensors",
    "onnx/model.onnx",
    "onnx/model_O3.onnx",
    "onnx/model_qint8_arm64.onnx",
    "onnx/model_qint8_avx512_vnni.onnx",
    "onnx/model_quint8_avx2.onnx",
    "tokenizer.json",
    "tokenizer_config.json",
]


@pytest.mark.parametrize(
    ("machine", "vnni", "chosen"),
    [
        ("x86_64", True, "onnx/model_qint8_avx512_vnni.onnx"),
        ("x86_64", False, "onnx/model_quint8_avx2.onnx"),
        ("aarch64", False, "onnx/model_qint8_arm64.onnx"),
        ("arm64", False, "onnx/model_qint8_arm64.onnx"),
    ],
)
def test_the_quantized_file_suits_the_cpu(
    monkeypatch: pytest.MonkeyPatch, machine: str, vnni: bool, chosen: str
) -> None:
    monkeypatch.setattr(hub.platform, "machine", lambda: machine)
    monkeypatch.setattr(hub, "_has_avx512_vnni", lambda: vnni)
    assert preferred_onnx(PUBLISHED) == chosen


@pytest.mark.parametrize(
    ("paths", "chosen"),
    [
        (["onnx/model.onnx", "onnx/model_quantized.onnx", "onnx/model_fp16.onnx"], 1),
        (["onnx/model.onnx", "onnx/model_int8.onnx"], 1),
        (["model.onnx", "onnx/model_fp16.onnx"], 0),
    ],
)
def test_plain_names_work_on_any_cpu(paths: list[str], chosen: int) -> None:
    assert preferred_onnx(paths) == paths[chosen]


def test_no_onnx_file_is_none() -> None:
    assert preferred_onnx(["model.safetensors", "onnx/readme.md"]) is None


def test_the_bare_name_is_bundled_and_the_hub_name_is_the_hub(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(hub, "_on_hub", lambda name: asked.append(name))
    assert find_model_files("shortlist-embed").folder == WEIGHTS_FOLDER / "shortlist-embed"
    assert bundled_names() == ("shortlist-embed",)
    find_model_files("someone/shortlist-embed")
    assert asked == ["someone/shortlist-embed"]


class FakeHub:
    """Serves a folder as if it were a repository of the hub."""

    def __init__(self, repository: Path, cache: Path) -> None:
        self.repository = repository
        self.cache = cache
        self.downloads: list[list[str]] = []

    def snapshot_download(
        self, name: str, *, local_files_only: bool = False, allow_patterns: list[str] | None = None
    ) -> str:
        folder = self.cache / name.replace("/", "--")
        if local_files_only:
            if not folder.is_dir():
                raise huggingface_hub.errors.LocalEntryNotFoundError("nothing cached")
            return str(folder)
        assert allow_patterns is not None
        self.downloads.append(allow_patterns)
        for pattern in allow_patterns:
            (folder / pattern).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(self.repository / pattern, folder / pattern)
        return str(folder)

    def list_repo_files(self, _: str) -> list[str]:
        files = (path for path in self.repository.rglob("*") if path.is_file())
        return sorted(path.relative_to(self.repository).as_posix() for path in files)


@pytest.fixture
def fake_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeHub:
    fake = FakeHub(Path(__file__).parent / "tiny_reranker", tmp_path)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", fake.snapshot_download)
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: fake)
    return fake


NAME = "mixedbread-ai/mxbai-rerank-xsmall-v1"


def test_a_hub_reranker_is_fetched_once_and_only_what_it_needs(fake_hub: FakeHub) -> None:
    reranker = load_reranker(NAME)
    assert reranker.name == NAME
    wanted = {"tokenizer.json", "tokenizer_config.json", "config.json"}
    assert [set(files) for files in fake_hub.downloads] == [{*wanted, "onnx/model_quantized.onnx"}]
    again = load_reranker(NAME)
    assert len(fake_hub.downloads) == 1
    np.testing.assert_array_equal(again.score("a", ["b"]), reranker.score("a", ["b"]))


def test_a_hub_model_without_onnx_says_what_to_do(fake_hub: FakeHub, tmp_path: Path) -> None:
    fake_hub.repository = tmp_path / "torch-only"
    fake_hub.repository.mkdir()
    (fake_hub.repository / "model.safetensors").touch()
    with pytest.raises(ModelError, match=f"'sentence-transformers:{NAME}'"):
        load_reranker(NAME)


def test_a_failed_download_says_what_to_do(
    fake_hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(_: str) -> list[str]:
        raise ConnectionError("no route to host")

    monkeypatch.setattr(fake_hub, "list_repo_files", unreachable)
    with pytest.raises(ModelError, match=r"no route to host.*give its folder.*bundled"):
        load_encoder(NAME)


def test_the_hub_needs_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtraError, match=r"\[hub\]"):
        load_encoder(NAME)


def test_an_unknown_name_lists_what_is_bundled() -> None:
    with pytest.raises(ModelError, match=r"no model 'minilm'.*shortlist-embed"):
        load_encoder("minilm")


def test_a_folder_without_onnx_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no ONNX file"):
        load_encoder(str(tmp_path))


def test_a_folder_without_tokenizer_is_an_error(tmp_path: Path) -> None:
    shutil.copy(WEIGHTS_FOLDER / "shortlist-embed" / "model.onnx", tmp_path)
    with pytest.raises(ModelError, match=r"no tokenizer\.json"):
        load_encoder(str(tmp_path))
