"""Commands that need the gateway: its servers, its clients, its secrets."""
