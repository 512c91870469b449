"""Starts the gateway of the bundle."""

import sys

from shortlist.cli import main

sys.argv[1:1] = ["serve"]
main()
