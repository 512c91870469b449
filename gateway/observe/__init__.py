"""What the gateway reports: events, metrics, token counts, inspections of servers.

`Observer` records events for the sinks.
"""
