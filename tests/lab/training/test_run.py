from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


from shortlist.errors import EvaluationError  # noqa: E402
from shortlist.lab.publishing.record import read_record  # noqa: E402
from shortlist.lab.training import ablation  # noqa: E402
from shortlist.lab.training.batches import Mixture  # noqa: E402
from shortlist.lab.training.data import read_training_data  # noqa: E402
from shortlist.lab.training.encoder import main  # noqa: E402
from shortlist.lab.training.encoder_training import Training, near_twins  # noqa: E402
from shortlist.lab.training.evaluate import LabelledSet, evaluate  # noqa: E402
from shortlist.lab.training.recipe import Recipe, learning_rate_share  # noqa: E402
from shortlist.lab.training.text_encoder import TextEncoder  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Two threads wait for each other longer than they work on tensors this small."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def _training(toy_sets: Path, start: Path, out: Path, steps: int = 30) -> Training:
    recipe = Recipe(
        steps=steps,
        learning_rate=3e-3,
        averaging=0.8,
        mine_after=(0, 10),
        evaluate_every=10,
        mixture=Mixture(queries=24, self_supervised=0.3),
    )
    toy = toy_sets / "toy"
    data = read_training_data(toy_sets, caps={"plain": 10})
    device = torch.device("cpu")
    return Training(
        recipe,
        data,
        LabelledSet.read(toy / "judged_tools.jsonl", toy / "queries.jsonl"),
        near_twins(data, start, out, device),
        start=start,
        out=out,
        device=device,
    )


def test_bucketing_does_not_change_a_vector(start: Path) -> None:
    encoder = TextEncoder(start, torch.device("cpu"))
    texts = [" ".join(["song"] * (1 + i % 7)) + " folder" for i in range(70)]
    together = encoder.encode(texts, 32)
    alone = np.concatenate([encoder.encode([text], 32) for text in texts])
    np.testing.assert_allclose(together, alone, atol=2e-2)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)


def test_training_learns_and_keeps_the_best(toy_sets: Path, start: Path, tmp_path: Path) -> None:
    toy = toy_sets / "toy"
    labelled = LabelledSet.read(toy / "judged_tools.jsonl", toy / "queries.jsonl")
    before = evaluate(TextEncoder(start, torch.device("cpu")), labelled)["all"]
    record = _training(toy_sets, start, tmp_path, steps=20).run()
    assert [point["step"] for point in record.curve] == [10, 20]
    assert before["hit@1"] < 50
    assert max(point["all"]["hit@1"] for point in record.curve) > 80
    kept = evaluate(TextEncoder(tmp_path / "best", torch.device("cpu")), labelled)["all"]
    best = next(point for point in record.curve if point["step"] == record.best_step)
    assert kept == best["all"]
    assert (tmp_path / "best" / "model.safetensors").exists()
    written = json.loads((tmp_path / "record.json").read_text())
    assert written["best_step"] == record.best_step
    assert written["data"]["toy"]["requests"] == 25
    assert written["recipe"]["mixture"]["queries"] == 24


@pytest.mark.no_cover
def test_an_interrupted_run_ends_like_an_uninterrupted_one(
    toy_sets: Path, start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = _training(toy_sets, start, tmp_path / "whole").run()

    class Interrupted(Exception):
        pass

    broken = _training(toy_sets, start, tmp_path / "broken")
    update = broken._update

    def stop_at_twenty() -> float:
        if broken._step == 20:
            raise Interrupted
        return update()

    monkeypatch.setattr(broken, "_update", stop_at_twenty)
    with pytest.raises(Interrupted):
        broken.run()
    with pytest.raises(EvaluationError, match="a run with another recipe; remove it"):
        _training(toy_sets, start, tmp_path / "broken", steps=7).run()
    resumed = _training(toy_sets, start, tmp_path / "broken").run()

    def without_times(curve: list[dict[str, object]]) -> list[dict[str, object]]:
        return [{k: v for k, v in point.items() if k != "seconds"} for point in curve]

    assert without_times(resumed.curve) == without_times(whole.curve)


def test_learning_rate_warms_up_and_falls_to_zero() -> None:
    shares = [learning_rate_share(step / 100, 0.1) for step in range(101)]
    assert shares[0] == 0
    assert max(shares) == pytest.approx(1)
    assert shares.index(max(shares)) == 10
    assert shares[10:] == sorted(shares[10:], reverse=True)
    assert shares[-1] == pytest.approx(0)


def test_the_command_trains_and_prints_the_best(
    toy_sets: Path, start: Path, tmp_path: Path
) -> None:
    application = typer.Typer()
    application.command()(main)
    options = {
        "--data": toy_sets,
        "--development": toy_sets / "toy",
        "--start": start,
        "--out": tmp_path,
        "--steps": 4,
        "--queries": 12,
        "--mine-after": 0,
        "--unseen": 0.5,
        "--threads": 1,
    }
    arguments = [str(part) for option in options.items() for part in option]
    result = CliRunner().invoke(application, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    record = json.loads((tmp_path / "record.json").read_text())
    assert record["recipe"]["mine_after"] == [0]
    assert record["best_step"] == 4
    assert 0 <= record["unseen"]["all"]["hit@1"] <= record["unseen"]["all"]["recall@10"]
    assert f'"hit@1": {record["curve"][0]["all"]["hit@1"]}' in result.stdout


def test_the_ablation_trains_its_variants_and_records_them(
    toy_sets: Path, start: Path, tmp_path: Path
) -> None:
    evaluation = tmp_path / "eval"
    for name in ("mcp_dev", "livemcpbench"):
        shutil.copytree(toy_sets / "toy", evaluation / name)
    shutil.copy(toy_sets / "toy" / "judged_tools.jsonl", evaluation / "mcp_dev" / "tools.jsonl")
    functions = [
        {"name": f"song_{i}", "description": f"song {i}", "parameters": {}} for i in range(3)
    ]
    row = {
        "id": 0,
        "query": "song",
        "answers": json.dumps([{"name": "song_1", "arguments": {}}]),
        "tools": json.dumps(functions),
    }
    (evaluation / "xlam").mkdir()
    (evaluation / "xlam" / "xlam_first_1000.jsonl").write_text(json.dumps(row) + "\n")
    names = ["all but mining", "without this project's requests"]

    def run(steps: int = 2) -> None:
        ablation.main(
            data=toy_sets,
            evaluation=evaluation,
            start=start,
            out=tmp_path / "runs",
            seed=[0, 1],
            steps=steps,
            queries=8,
            unseen=0.3,
            only=names,
            results=tmp_path,
            threads=1,
        )

    run()
    record = read_record("ablation", tmp_path)
    assert [row[0] for row in record.table.rows] == names
    assert all("±" in str(cell) for row in record.table.rows for cell in row[1:])
    assert len(record.result["rows"]) == 4
    trained = {path: path.stat().st_mtime_ns for path in tmp_path.glob("runs/*/figures.json")}
    run()
    assert trained == {path: path.stat().st_mtime_ns for path in trained}
    with pytest.raises(EvaluationError, match="other settings"):
        run(steps=3)
