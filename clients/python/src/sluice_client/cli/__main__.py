"""`python -m sluice_client.cli`: the same as the `sluice` command."""

from sluice_client.cli import main

main()
