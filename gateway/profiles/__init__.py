"""What each client may use: settings, profiles, and its session.

`ClientSessions.of` gives the `ClientSession` of a request, which decides permissions.
"""
