"""A conversation: what it asks for, and the tools it keeps."""
