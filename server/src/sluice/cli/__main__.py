"""`python -m sluice.cli`: the same as the `sluice` command."""

from sluice_client.cli import main

main()
