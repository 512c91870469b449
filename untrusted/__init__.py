"""Bytes and values of strangers: their limits, and how they are read.

Strangers are servers, clients, scripts and models. Whatever reads their bytes or values takes its
limits from this table and its functions from this folder. A test looks for others.
"""

from __future__ import annotations

#: Most bytes of one message of a server or a client, and of an answer of an HTTP API.
MAX_MESSAGE_BYTES = 32 * 1024 * 1024
#: Most bytes of a document, a registration or a token of a login. They are read on the event loop.
MAX_LOGIN_BYTES = 1_000_000
#: Most values of one message: numbers, texts, lists, objects. They are read in about 0.1 s.
MAX_MESSAGE_VALUES = 300_000
#: Most objects of a server's message that become objects of Python's, such as parts of a result,
#: and most of a page of a list. Each takes up to 20 microseconds of the event loop.
MAX_MESSAGE_OBJECTS, MAX_PAGE_OBJECTS = 5_000, 20_000
#: Most values and characters of an argument, a result or another value that leaves a script.
MAX_SCRIPT_VALUES, MAX_SCRIPT_CHARS = 200_000, 8_000_000
#: Most requests of one client that wait for an answer. The end of its connection cancels all.
MAX_OPEN_REQUESTS = 1_000
#: Most levels of lists and objects in a script's value or a model's reply.
MAX_DEPTH = 100
#: Most characters of a text that are no characters of its encoding, or half of a surrogate pair.
#: Each takes as long as a hundred others.
MAX_DAMAGED_CHARS = 500_000
#: Most characters of a header that are read.
MAX_HEADER_CHARS = 1_000
#: Most characters of a model's answer that are read as JSON.
MAX_ANSWER_CHARS = 1_000_000
#: Most bytes or characters, and most values, that are read on the event loop: in about 1 ms. More
#: are read in a thread.
MAX_LOOP_CHARS, MAX_LOOP_VALUES = 65_536, 2_000
