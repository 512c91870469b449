"""Example queries: the library for known servers, and what they gain in search."""
