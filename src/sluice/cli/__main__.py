"""`python -m sluice.cli`: the same as the `sluice` command."""

from sluice.cli.command import main

main()
