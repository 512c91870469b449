"""Which definitions may be shown: text that gives orders, definitions that changed."""
