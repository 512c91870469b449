"""What the gateway reports: events, metrics, spans, token counts, inspections of servers.

`Observer` records events for the sinks.
"""
