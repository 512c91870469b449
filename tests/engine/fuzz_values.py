"""What the fuzzed public methods are given: mostly what they ask for, at times something else."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import strategies as st

from shortlist import Catalog, Gate, Rule, State, Tool
from shortlist.gating import Votes, after, requires_scope

SCRATCH = TemporaryDirectory(prefix="shortlist-fuzz-")
HERE = Path(SCRATCH.name)

SCHEMA = {
    "type": "object",
    "properties": {"id": {"type": "string"}, "count": {"type": "integer", "minimum": 1}},
    "required": ["id"],
}
TOOLS = [
    *(Tool(f"{verb}_{noun}", server, f"{verb} a {noun}", SCHEMA)
      for server, noun in (("mail", "message"), ("files", "folder"), ("github", "issue"))
      for verb in ("list", "create", "delete")),
    Tool("github/list_issue", None, "not of github"),
    Tool("検索", "字", "探す"),
]  # fmt: skip
GATE = Gate(
    [
        Rule(requires_scope("write"), tools="*/delete_*"),
        Rule(after("files/list_folder"), tools="files/create_folder"),
    ]
)
IDS = [tool.id for tool in TOOLS]


class _Odd:
    """An object of no kind that anything expects."""


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([0, -1, 10**30, 10**400, -(10**400), 1 << 62]),
    st.floats(),
    st.sampled_from([float("nan"), float("inf"), float("-inf"), 1e-320]),
    st.binary(max_size=8),
    st.sampled_from([_Odd(), len, Tool, object, ..., 1j]),
)
LONG_TEXTS = ("x" * 50_000, "字" * 50_000)


# Hypothesis keeps the `repr` of strategies for each example. That of these has up to a megabyte,
# that of a call, `_any_value()`, a few characters.
@st.composite
def _long_text(draw: st.DrawFn) -> str:
    return draw(st.sampled_from(LONG_TEXTS))


_TEXTS = st.one_of(
    st.text(st.characters(), max_size=8),
    st.text(st.characters(categories=["Cs", "Cc", "Cf", "Mn", "Zs"]), max_size=4),
    st.sampled_from(["", "\0", "\ud800", "*", "[", "a/*", "~2", *IDS]),
    _long_text(),
)
_WRONG = st.recursive(
    SCALARS | _TEXTS | st.sampled_from(TOOLS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.lists(_TEXTS, max_size=3).map(set),
        st.dictionaries(_TEXTS | st.integers(), inner, max_size=3),
    ),
    max_leaves=6,
)


@st.composite
def _any_text(draw: st.DrawFn) -> str:
    return draw(_TEXTS)


@st.composite
def _any_value(draw: st.DrawFn) -> object:
    return draw(_WRONG)


TEXTS, WRONG = _any_text(), _any_value()


def either(*right: Any) -> st.SearchStrategy[Any]:
    """Mostly what is asked for, at times something else."""
    fitting = [one if isinstance(one, st.SearchStrategy) else st.just(one) for one in right]
    chosen = st.one_of(*fitting, *fitting, WRONG)

    @st.composite
    def mostly(draw: st.DrawFn) -> Any:
        return draw(chosen)

    return mostly()


IDENTITY = either(st.sampled_from([*IDS, "list_message", "files__list_folder", "nope"]))
QUERY = either("list the messages", "delete a folder", "github/list_issue", TEXTS)
COUNT = either(None, 1, 3, 1_000)
TIER = either(None, "lexical")
ALLOWED = either(None, ["mail/*"], st.lists(IDENTITY, max_size=3))
STATE = either(None, State(), State(scopes={"write"}), State(called=("files/list_folder",)))
VOTES = either(
    None, Votes({"mail/list_message": "busy"}, ("files/list_folder", "nope")), Votes({}, ("nope",))
)
ARGUMENTS = either(None, {"id": "1"}, {"id": 1}, {"id": "1", "cuont": 2}, {1: 2}, [])
DEFINITIONS = either(
    TOOLS, TOOLS[:3], [], Catalog(TOOLS), st.lists(st.sampled_from(TOOLS), max_size=4)
)
SERVER = either(None, "mail", "github", "nobody")
MESSAGES = either(
    "list the messages",
    [{"role": "user", "content": "create an issue"}, {"role": "assistant", "content": "done"}],
    [{"role": "user", "content": [{"type": "text", "text": "x"}]}],
    st.lists(st.dictionaries(st.sampled_from(["role", "content"]), WRONG, max_size=2), max_size=2),
)
#: Never any text: what is written must stay in the scratch folder.
FOLDER = st.one_of(
    st.sampled_from(
        [HERE / "index", str(HERE / "index"), HERE / "x\0", "\0", "/dev/null", "/proc/self/x"]
    ),
    st.sampled_from([HERE / ("x" * 5_000), HERE / "\ud800"]),
    SCALARS.filter(lambda one: not isinstance(one, bytes)),
)
DOCUMENT = st.one_of(
    st.just([{"name": "t", "server": "s", "id": "x"}]),
    st.just({"tools": [{"name": "t", "inputSchema": SCHEMA}]}),
    st.just({"openapi": "3.0.0", "paths": {"/a": {"get": {}}}}),
    WRONG.filter(lambda one: not isinstance(one, str | bytes)),
    st.lists(
        st.dictionaries(
            st.sampled_from("id name server description input_schema parameters type".split()),
            WRONG,
            max_size=5,
        ),
        max_size=3,
    ),
)
SETTINGS = st.dictionaries(
    st.sampled_from(
        "tier k abstain must_offer active_tools pinned instructions pool pool_tokens in_use_tokens "
        "schema_tokens turn_tokens context_tokens pass_through nonsense".split()
    ),
    either(1, True, "auto", 0.5, ("mail/list_message",)),
    max_size=2,
)
CONFIG = st.dictionaries(
    st.sampled_from(
        ["tiers", "default_tier", "k", "gate", "trust", "session", "threads", "lexical"]
    ),
    either(["lexical"], "lexical", 3, {}, [], {"rules": [3]}, {"scan": False}),
    max_size=2,
)
