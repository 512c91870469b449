"""`shortlist lab library`: writes the package's example queries for known servers.

Rows come from two places: authors who read definitions only, and the queries of training sets. All
rows are in one file of text; the package has them compressed, with the vectors of their queries.
The same files give the same rows, byte for byte.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...catalog import Tool, read_tools
from ...enrichment import ExampleQueryRow, read_example_queries
from ...enrichment.example_file import is_hostile
from ...enrichment.library import (
    LIBRARY_FOLDER,
    MAX_WORDS,
    MIN_COMMON_SERVER_NAMED,
    NUMBERS_FILE,
    ROWS_A_BLOCK,
    ROWS_FILE,
    Library,
    first_words,
    name_hash,
    parameter_names,
    similarity,
)
from ...evals.dataset import read_queries, read_tool_files
from ...models import Encoder, load_encoder

#: All rows as text, each with the words of its definition.
ALL_ROWS = Path(__file__).parent / "library_rows.jsonl"
#: File with a product and its servers in each line, for the training sets.
SERVERS = Path(__file__).parent / "library_servers.txt"
#: Least and most queries of a training tool.
LEAST_QUERIES, MAX_QUERIES = 2, 4


@dataclass(frozen=True, slots=True)
class LibraryRow:
    """One row, and the words of the definition it was written for.

    Args:
        row: the row, with the tool's id in the package. Its parameters are None where the
            definition has none that are known.
        words: see `first_words`.
    """

    row: ExampleQueryRow
    words: frozenset[int]

    @classmethod
    def of(cls, row: ExampleQueryRow, tool: Tool, parameters: frozenset[str] | None) -> LibraryRow:
        """A row for a definition.

        Args:
            row: with the tool's id in the package.
            tool: the definition.
            parameters: names of its parameters; None where they are not known.
        """
        names = None if parameters is None else tuple(sorted(parameters))
        changes = {"fingerprint": None, "parameters": names, "source": "library"}
        return cls(row.model_copy(update=changes), first_words(tool.description))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> LibraryRow:
        """A row of `ALL_ROWS`, whose key `words` has the words."""
        row = {name: value for name, value in values.items() if name != "words"}
        return cls(ExampleQueryRow.model_validate(row), frozenset(values["words"]))

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {**self.row.to_dict(), "words": sorted(self.words)}

    @property
    def tool_name(self) -> str:
        """Name of the tool."""
        return self.row.tool.rpartition("/")[2]

    @property
    def parameters(self) -> frozenset[str] | None:
        """Names of the parameters; None where they are not known."""
        return None if self.row.parameters is None else frozenset(self.row.parameters)


def read_rows(path: Path) -> list[LibraryRow]:
    """The rows of a file that `write_rows` wrote."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [LibraryRow.from_dict(json.loads(line)) for line in lines]


def write_rows(rows: Iterable[LibraryRow], path: Path) -> None:
    """Write rows as text, one a line."""
    lines = [json.dumps(row.to_dict(), ensure_ascii=False) + "\n" for row in rows]
    path.write_text("".join(lines), encoding="utf-8")


def authored(rows: Iterable[Path], definitions: Iterable[Path]) -> Iterator[LibraryRow]:
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
            yield LibraryRow.of(row, tool, parameter_names(tool))


def trained(folder: Path, products: Mapping[str, str]) -> Iterator[LibraryRow]:
    """Rows of a training set: tools with at least two queries that name no other tool.

    Args:
        folder: with `tools.jsonl` and `queries.jsonl`.
        products: server to product.
    """
    queries = single_tool_queries(folder)
    for tool in read_tool_files([folder / "tools.jsonl"])[0]:
        product, examples = products.get(tool.server or ""), queries.get(tool.id, ())
        if product is not None and len(examples) >= LEAST_QUERIES:
            row = ExampleQueryRow(tool=f"{product}/{tool.name}", queries=tuple(examples))
            yield LibraryRow.of(row, tool, parameter_names(tool) or None)


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


def chosen(rows: Iterable[LibraryRow]) -> list[LibraryRow]:
    """The rows that go into the library, in order of id.

    Left out are those of definitions too short to be recognised, those that the scan would
    quarantine, and those of a definition that an earlier row is already for.
    """
    kept: dict[str, LibraryRow] = {}
    by_name: dict[str, list[LibraryRow]] = defaultdict(list)
    for one in rows:
        size = len(one.words) + len(one.parameters or ())
        earlier = by_name[one.tool_name]
        if size < MIN_COMMON_SERVER_NAMED or one.row.tool in kept or is_hostile(one.row.text):
            continue
        if any(_is_alike(other, one) for other in earlier):
            continue
        earlier.append(one)
        kept[one.row.tool] = one
    return [kept[tool_id] for tool_id in sorted(kept)]


def _is_alike(one: LibraryRow, other: LibraryRow) -> bool:
    names = other.parameters or frozenset()
    return similarity(one.words, one.parameters, other.words, names, named=True) > 0


def build(rows: Sequence[LibraryRow], encoder: Encoder, out: Path) -> Library:
    """Write the folder of the library.

    Args:
        rows: see `chosen`.
        encoder: encoder of the queries.
        out: folder of the library.
    """
    texts = [one.row.queries or (one.row.when,) for one in rows]
    made = encoder.encode([text for part in texts for text in part], query=True)
    ends = np.cumsum([len(part) for part in texts])
    means = np.array([part.mean(axis=0) for part in np.split(made, ends[:-1])], np.float32)
    scales = np.abs(means).max(axis=1, initial=1e-9) / 127
    lines = [json.dumps(one.row.to_dict(), ensure_ascii=False) for one in rows]
    blocks = [
        zlib.compress("\n".join(lines[start : start + ROWS_A_BLOCK]).encode(), 9)
        for start in range(0, len(lines), ROWS_A_BLOCK)
    ]
    words = [sorted(one.words) + [0] * (MAX_WORDS - len(one.words)) for one in rows]
    numbers = {
        "names": np.array([name_hash(one.tool_name) for one in rows], np.uint32),
        "words": np.array(words, np.uint16),
        "vectors": np.round(means / scales[:, None]).astype(np.int8),
        "scales": scales.astype(np.float32),
        "starts": np.cumsum([0, *map(len, blocks)], dtype=np.uint32),
        "model": np.array(encoder.fingerprint),
    }
    content_hash = hashlib.sha256(b"".join(blocks))
    for values in numbers.values():
        content_hash.update(values.tobytes())
    out.mkdir(parents=True, exist_ok=True)
    (out / ROWS_FILE).write_bytes(b"".join(blocks))
    np.savez(out / NUMBERS_FILE, **numbers, fingerprint=np.array(content_hash.hexdigest()))
    return Library(out)


def main() -> None:
    """Write the rows, and print how many there are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=Path, nargs="+", default=(), help="new rows of authors")
    parser.add_argument(
        "--definitions", type=Path, nargs="+", default=(), help="folders of NAME.json"
    )
    parser.add_argument("--data", type=Path, help="folder with train, to add rows of its queries")
    parser.add_argument("--all-rows", type=Path, default=ALL_ROWS, help="file of all rows")
    parser.add_argument("--out", type=Path, default=LIBRARY_FOLDER)
    asked = parser.parse_args()
    written = [*read_rows(asked.all_rows), *authored(asked.rows, asked.definitions)]
    if asked.data is not None:
        products = read_products()
        for name in ("mcp", "mcp_crawl"):
            written += trained(asked.data / "train" / name, products)
    rows = chosen(written)
    write_rows(rows, asked.all_rows)
    library = build(rows, load_encoder("bundled"), asked.out)
    servers = len({one.row.tool.partition("/")[0] for one in rows})
    size = sum(path.stat().st_size for path in asked.out.iterdir())
    sys.stderr.write(
        f"{asked.out}: {len(library):,} tools of {servers} servers, {size:,} bytes; "
        f"{len(written) - len(rows):,} left out\n"
    )


if __name__ == "__main__":
    main()
