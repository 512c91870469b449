"""Which line of a server's output is quoted when the server did not start."""

from __future__ import annotations

import pytest

from shortlist.gateway.connections.server_log import error_line

NODE = """
node:internal/modules/cjs/loader:1228
  throw err;
  ^

Error: Cannot find module '/srv/notes/index.js'
    at Module._resolveFilename (node:internal/modules/cjs/loader:1225:15)
    at node:internal/main/run_main_module:28:49 {
  code: 'MODULE_NOT_FOUND',
  requireStack: []
}

Node.js v20.18.1
"""
NPM = """
npm warn exec The following package was not found and will be installed: no-such-server
npm error code E404
npm error 404 Not Found - GET https://packages.example/no-such-server - Not found
npm error 404
npm error 404  'no-such-server@*' is not in this registry.
npm error 404
npm error 404 Note that you can also install from a
npm error 404 tarball, folder, http url, or git folder.
npm error A complete log of this run can be found in: /home/me/.npm/_logs/debug-0.log
"""
PYTHON = """
Traceback (most recent call last):
  File "/srv/notes/server.py", line 3, in <module>
    settings = Settings()
pydantic_core._pydantic_core.ValidationError: 1 validation error for Settings
token
  Field required [type=missing, input_value={}, input_type=dict]
    For further information visit https://errors.pydantic.dev/2.11/v/missing
"""
CHAIN = """
KeyError: 'NOTES_TOKEN'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/srv/notes/server.py", line 9, in main
RuntimeError: set NOTES_TOKEN
"""
GO = """
2026-11-22 20:00:01 INFO starting
Error: required flag(s) "token" not set
Usage:
  notes serve [flags]

Flags:
      --token string   required: token of the API
"""
LOG = """
{"level":"info","msg":"no cache was found, missing folder"}
{"level":"error","msg":"Invalid URL format"}
{"level":"info","msg":"closing"}
"""
SENTENCE = """
NOTES_TOKEN is required
Set it in the environment.
"""


@pytest.mark.parametrize(
    ("output", "line"),
    [
        (NODE, "Error: Cannot find module '/srv/notes/index.js'"),
        (
            NPM,
            "npm error 404 Not Found - GET https://packages.example/no-such-server - Not found",
        ),
        (
            PYTHON,
            "pydantic_core._pydantic_core.ValidationError: 1 validation error for Settings",
        ),
        (CHAIN, "RuntimeError: set NOTES_TOKEN"),
        (GO, 'Error: required flag(s) "token" not set'),
        (LOG, '{"level":"error","msg":"Invalid URL format"}'),
        (SENTENCE, "NOTES_TOKEN is required"),
        ("[2026-11-22] [ERROR] no such folder\nbye\n", "[2026-11-22] [ERROR] no such folder"),
        ("starting\nlistening\n", "listening"),
        ("  at x\n", "at x"),
        ("---\n\n", ""),
    ],
)
def test_the_line_that_says_what_is_wrong(output, line):
    assert error_line(output.splitlines()) == line
