"""A local web page for operators: why a tool was found or not, what changed, what it costs."""
