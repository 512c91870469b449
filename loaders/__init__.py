"""What the model gets to read: the summary pool, full schemas, and where each goes in the prompt."""
