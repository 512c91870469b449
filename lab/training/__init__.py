"""Training recipes for the bundled models: data, batches, loss, runs. Needs the extra `lab`."""
