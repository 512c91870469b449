"""Training recipes for the bundled models: data, batches, loss, evaluation. Needs the extra `train`."""
