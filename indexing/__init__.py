"""One build of one catalog version, in the background or not."""
