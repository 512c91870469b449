"""`shortlist lab library`: writes the package's example queries for known servers.

Rows come from two places: authors who read definitions only, and the queries of training sets. A
tool of an evaluation set gets no row, so that these sets measure unknown tools. The same input
files give the same rows, byte for byte.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...catalog import Tool, read_tools
from ...enrichment import ExampleQueryRow, read_example_queries
from ...enrichment.example_file import is_hostile
from ...enrichment.library import (
    LIBRARY_FOLDER,
    MAX_WORDS,
    MIN_COMMON,
    NUMBERS_FILE,
    ROWS_FILE,
    Library,
    first_words,
    parameter_names,
    similarity,
)
from ...evals.dataset import read_queries, read_tool_files
from ...evals.xlam_rows import XlamRow, stream_rows
from ...models import Encoder, load_encoder

#: File with a product and its servers in each line, for the training sets.
SERVERS = Path(__file__).parent / "library_servers.txt"
#: Least and most queries of a training tool.
LEAST_QUERIES, MAX_QUERIES = 2, 4


@dataclass(frozen=True, slots=True)
class Written:
    """One row with the definition it was written for.

    Args:
        row: the row, with the tool's id in the package.
        tool: its definition.
        parameters: names of its parameters; None where they are not known.
    """

    row: ExampleQueryRow
    tool: Tool
    parameters: frozenset[str] | None


def authored(rows: Iterable[Path], definitions: Iterable[Path]) -> Iterator[Written]:
    """Rows of authors.

    Args:
        rows: files of rows; a tool's id is `server/name`, a server's the name of its file.
        definitions: answers to `tools/list`, one file a server; folders of them.
    """
    tools = {
        tool.id: tool
        for folder in definitions
        for path in sorted(folder.glob("*.json"))
        for tool in read_tools(path, server=path.stem, strict=False).tools
    }
    for row in read_example_queries(rows):
        if tool := tools.get(row.tool):
            yield Written(row, tool, parameter_names(tool))


def trained(folder: Path, products: Mapping[str, str]) -> Iterator[Written]:
    """Rows of a training set: tools with at least two queries that name no other tool.

    Args:
        folder: with `tools.jsonl` and `queries.jsonl`.
        products: server to product.
    """
    queries = single_tool_queries(folder)
    for tool in read_tool_files([folder / "tools.jsonl"])[0]:
        product, examples = products.get(tool.server or ""), queries.get(tool.id, ())
        if product is not None and len(examples) >= LEAST_QUERIES:
            row = ExampleQueryRow(
                tool=f"{product}/{tool.name}", queries=tuple(examples), source="library"
            )
            yield Written(row, tool, parameter_names(tool) or None)


def single_tool_queries(folder: Path) -> dict[str, list[str]]:
    """Queries of a training set by the one tool they name, at most four, English first."""
    catalog, _ = read_tool_files([folder / "tools.jsonl"])
    english: dict[str, list[str]] = defaultdict(list)
    others: dict[str, list[str]] = defaultdict(list)
    for query in read_queries([folder / "queries.jsonl"], catalog).queries:
        if len(query.relevant) == 1:
            foreign = query.fields.get("style") == "other-language"
            (others if foreign else english)[query.relevant[0]].append(query.text)
    return {
        tool_id: [*english[tool_id], *others[tool_id]][:MAX_QUERIES]
        for tool_id in {**english, **others}
    }


def read_products(path: Path = SERVERS) -> dict[str, str]:
    """Server to product, from lines with a product and its servers."""
    products: dict[str, str] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            product, *servers = line.split()
            products |= dict.fromkeys(servers, product)
    return products


class HeldOut:
    """The tools of evaluation sets, which get no row.

    Args:
        tools: those that are known with their definitions.
        names: names of further tools, of which only the name is compared.
    """

    def __init__(self, tools: Iterable[Tool], names: Iterable[str]) -> None:
        self._names = frozenset(names)
        self._tools: dict[str, list[Tool]] = defaultdict(list)
        for tool in tools:
            self._tools[tool.name].append(tool)

    @classmethod
    def read(cls, data: Path) -> HeldOut:
        """Those of mcp_dev's judged tools, livemcpbench and xlam."""
        files = (data / "mcp_dev" / "judged_tools.jsonl", data / "livemcpbench" / "tools.jsonl")
        tools = [
            tool for path in files for tool in read_tools(path, strict=False, keep_ids=True).tools
        ]
        rows = stream_rows(data / "xlam" / "xlam_first_1000.jsonl")
        names = (
            str(function["name"])
            for row in rows
            if isinstance(row, XlamRow)
            for function in row.functions
        )
        return cls(tools, names)

    def holds(self, written: Written) -> bool:
        """Whether a tool is one of them: by name and parameters, or by name and description."""
        tool = written.tool
        return tool.name in self._names or any(
            parameter_names(other) == parameter_names(tool) or _alike(written, other) > 0
            for other in self._tools.get(tool.name, ())
        )


def chosen(written: Iterable[Written], held_out: HeldOut) -> list[Written]:
    """The rows that go into the library, in order of id.

    Left out are rows of evaluation tools, those of definitions too short to be recognised, those
    that the scan would quarantine, and those of a definition that an earlier row is already for.
    """
    kept: dict[str, Written] = {}
    by_name: dict[str, list[Written]] = defaultdict(list)
    for one in written:
        size = len(first_words(one.tool.description)) + len(one.parameters or ())
        earlier = by_name[one.tool.name]
        if size < MIN_COMMON or one.row.tool in kept or is_hostile(one.row.text):
            continue
        if held_out.holds(one) or any(_alike(other, one.tool) > 0 for other in earlier):
            continue
        earlier.append(one)
        kept[one.row.tool] = one
    return [kept[tool_id] for tool_id in sorted(kept)]


def build(rows: Sequence[Written], encoder: Encoder, out: Path) -> Library:
    """Write the folder of rows.

    Args:
        rows: see `chosen`.
        encoder: encoder of the queries.
        out: folder of the library.
    """
    full = [
        one.row.model_copy(
            update={
                "fingerprint": None,
                "parameters": None if one.parameters is None else tuple(sorted(one.parameters)),
                "source": "library",
            }
        )
        for one in rows
    ]
    made = encoder.encode([text for row in full for text in row.queries or (row.when,)], query=True)
    ends = np.cumsum([len(row.queries or (row.when,)) for row in full])
    means = [part.mean(axis=0) for part in np.split(made, ends[:-1])]
    _write(
        out,
        full,
        [first_words(one.tool.description) for one in rows],
        np.array(means, np.float32),
        encoder.fingerprint,
    )
    return Library(out)


def _write(
    folder: Path,
    rows: Iterable[ExampleQueryRow],
    words: Iterable[frozenset[int]],
    vectors: NDArray[np.float32],
    model: str,
) -> None:
    """Write a library.

    Args:
        folder: folder of the library.
        rows: in the order of the file.
        words: words of the description of each, see `first_words`.
        vectors: mean of the vectors of the queries of each, shape (n, dim).
        model: fingerprint of the encoder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(row.to_dict(), ensure_ascii=False) + "\n" for row in rows]
    (folder / ROWS_FILE).write_text("".join(lines), encoding="utf-8")
    scales = np.abs(vectors).max(axis=1, initial=1e-9) / 127
    np.savez(
        folder / NUMBERS_FILE,
        words=np.array([sorted(one) + [0] * (MAX_WORDS - len(one)) for one in words], np.uint16),
        vectors=np.round(vectors / scales[:, None]).astype(np.int8),
        scales=scales.astype(np.float32),
        model=np.array(model),
    )


def _alike(written: Written, tool: Tool) -> float:
    return similarity(
        first_words(written.tool.description),
        written.parameters,
        first_words(tool.description),
        parameter_names(tool),
        named=True,
    )


def main() -> None:
    """Write the rows, and print how many there are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=Path, nargs="+", required=True, help="rows of authors")
    parser.add_argument(
        "--definitions", type=Path, nargs="+", required=True, help="folders of NAME.json"
    )
    parser.add_argument("--data", type=Path, required=True, help="folder with train and eval")
    parser.add_argument("--out", type=Path, default=LIBRARY_FOLDER)
    asked = parser.parse_args()
    products = read_products()
    sets = (asked.data / "train" / "mcp", asked.data / "train" / "mcp_crawl")
    written = [*authored(asked.rows, asked.definitions)]
    for folder in sets:
        written += trained(folder, products)
    rows = chosen(written, HeldOut.read(asked.data / "eval"))
    library = build(rows, load_encoder("bundled"), asked.out)
    servers = len({one.row.tool.partition("/")[0] for one in rows})
    size = sum(path.stat().st_size for path in asked.out.iterdir())
    sys.stderr.write(
        f"{asked.out}: {len(library):,} tools of {servers} servers, {size:,} bytes; "
        f"{len(written) - len(rows):,} left out\n"
    )


if __name__ == "__main__":
    main()
