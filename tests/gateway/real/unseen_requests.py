"""How the gateway finds tools for requests written from the names of servers and tools only.

    python -m shortlist.tests.gateway.real.unseen_requests [--record]

Forty requests over eleven servers that no other test and no choice used. They were committed before
any search was run. Do not change them to improve a ranking. A row of `unseen_requests.jsonl` has
the parts of one request; each part names the tools that are right for it.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import anyio

from shortlist.evals.lab.record import Record, provenance, write_record
from shortlist.evals.report import Table

from .clients import sdk2
from .gateway_process import Setup, over_http
from .material import refill
from .servers import SERVERS, RealServer, entries

UNSEEN = (
    RealServer("kubernetes", "mcp-server-kubernetes@4.1.7", "mcp-server-kubernetes"),
    RealServer(
        "slack",
        "@modelcontextprotocol/server-slack@2025.4.25",
        "mcp-server-slack",
        env={"SLACK_BOT_TOKEN": "xoxb-x", "SLACK_TEAM_ID": "T1"},
    ),
    RealServer(
        "trello",
        "@delorenj/mcp-server-trello@1.8.1",
        "mcp-server-trello",
        env={"TRELLO_API_KEY": "x", "TRELLO_TOKEN": "x"},
    ),
    RealServer(
        "airtable",
        "airtable-mcp-server@1.14.0",
        "airtable-mcp-server",
        env={"AIRTABLE_API_KEY": "pat1.x"},
    ),
    RealServer(
        "datadog",
        "@winor30/mcp-server-datadog@1.8.0",
        "mcp-server-datadog",
        env={"DATADOG_API_KEY": "x", "DATADOG_APP_KEY": "x"},
    ),
    RealServer("godot", "@coding-solo/godot-mcp@0.1.1", "godot-mcp"),
    RealServer(
        "google-maps",
        "@modelcontextprotocol/server-google-maps@0.6.2",
        "mcp-server-google-maps",
        env={"GOOGLE_MAPS_API_KEY": "x"},
    ),
    RealServer("blender", "blender-mcp==2.0.0", "blender-mcp"),
    RealServer("ableton", "ableton-mcp==1.4.5", "ableton-mcp"),
    RealServer(
        "powerpoint",
        "office-powerpoint-mcp-server==2.0.7",
        "ppt_mcp_server",
        requires=("mcp<2",),
    ),
    RealServer("redis", "redis-mcp-server==0.5.1", "redis-mcp-server"),
)
