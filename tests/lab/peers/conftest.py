"""A dozen tools that no sensible ranker can confuse."""

from __future__ import annotations

import pytest

from shortlist.catalog import Tool


def _text(description: str) -> dict[str, object]:
    return {"type": "string", "description": description}


@pytest.fixture(scope="session")
def tools() -> list[Tool]:
    def tool(server: str, name: str, description: str, **parameters: str) -> Tool:
        properties = {key: _text(text) for key, text in parameters.items()}
        return Tool(name, server, description, {"type": "object", "properties": properties})

    return [
        tool("@acme/github", "create_issue", "Open a new issue in a repository", title="headline"),
        tool("@acme/github", "merge_pull_request", "Merge a pull request into its base branch"),
        tool("slack", "post_message", "Post a chat message to a channel", channel="where to"),
        tool("slack", "list_channels", "List the channels of the workspace"),
        tool(
            "weather", "forecast", "Weather forecast for a city: rain, wind, temperature", city=""
        ),
        tool("files", "read_file", "Read the contents of a file from disk", path="absolute path"),
        tool("files", "delete_file", "Delete a file from disk", path="absolute path"),
        tool("maps", "route", "Driving directions between two addresses", start="", goal=""),
        tool("bank", "convert_currency", "Convert an amount between currencies", amount=""),
        tool("calendar", "create_event", "Schedule a meeting in the calendar", start=""),
        tool("music", "play_song", "Play a song by its title and artist", artist=""),
        tool("mail", "send_email", "Send an email with attachments", recipient="address"),
    ]
