"""The commands of the server, which `sluice_client.cli` finds by the entry point `sluice.commands`."""

from typing import Final

from sluice import __version__
from sluice.cli.faults import explain
from sluice_client.cli.server_commands import ServerCommands

COMMANDS: Final = ServerCommands(
    version=__version__,
    panels={
        "Service": {
            "serve": "sluice.cli.serve:serve",
            "work": "sluice.cli.serve:work",
            "init": "sluice.cli.init:init",
            "migrate": "sluice.cli.init:migrate",
            "health": "sluice.cli.health:health",
            "doctor": "sluice.cli.doctor:doctor",
            "audit": "sluice.cli.maintenance:audit",
            "backup": "sluice.cli.maintenance:backup",
            "restore": "sluice.cli.maintenance:restore",
            "migrate-bucket": "sluice.cli.maintenance:migrate_bucket",
            "demo": "sluice.cli.demo:demo",
        },
        "Files": {
            "check": "sluice.cli.check:check",
            "import": "sluice.cli.take_in:import_files",
        },
        "Tenant": {
            "apply": "sluice.cli.apply:apply",
        },
        "Access": {
            "tenants": "sluice.cli.tenants:group",
            "console": "sluice.cli.console:group",
            "token": "sluice.cli.token:token",
            "secrets": "sluice.cli.secrets:group",
        },
    },
    local={
        "hashes": "sluice.cli.local_hashes",
        "keys": "sluice.cli.local_keys",
        "quarantine": "sluice.cli.local_quarantine",
        "receipts": "sluice.cli.local_receipts",
    },
    explain=explain,
)
