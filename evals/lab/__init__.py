"""The laboratory: what reproduces the figures that this project publishes. In the checkout only."""
