"""Programs that measure the project's published figures and train its models; checkout only."""
