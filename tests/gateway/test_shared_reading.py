"""What a client read from one replica of the gateway is known to the others."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from shortlist.gateway.profiles.profile import Profile
from shortlist.gateway.server import Gateway
from shortlist.loaders.levels import Level

from .fake_servers import FakeServer, fleet_of, tool

#: A request of the stateless protocol.
REQUEST = SimpleNamespace(
    scope={},
    headers={"mcp-session-id": "one", "mcp-protocol-version": "2026-07-28"},
)


class Texts(dict):
    """The shared texts, in memory."""

    def read(self, kind, key):
        return self.get((kind, key))

    def change(self, kind, key, change, *, kept_s=None):
        self[kind, key] = change(self.get((kind, key)))


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.mark.anyio
async def test_what_one_replica_showed_counts_as_read_at_the_next_one(tmp_path):
    files, texts = FakeServer("files", [tool("read_file", "Read a file.")]), Texts()
    async with fleet_of(tmp_path, files) as fleet:
        first, second = (
            Gateway(fleet, Profile(pass_through=0.0), shared=texts).sessions.session_of(REQUEST)
            for _ in range(2)
        )
        assert first.shared_record is not None
        first.note_read((one, Level.SIGNATURE) for one in first.view().tools())
        second.read_record()
        assert second.session.level("files/read_file") == "signature"
