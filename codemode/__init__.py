"""Code mode: a model writes a short program over its tools."""
