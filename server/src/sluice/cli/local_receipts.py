"""`sluice receipts rotate`: the keys on this machine that receipts are signed with."""

from sluice.cli.environment import task_settings
from sluice.receipts.signing import load_receipt_keys, rotate_receipt_keys
from sluice.wiring.start import RECEIPT_KEYS, secret_file
from sluice_client.cli import output


def rotate() -> None:
    """Sign with a new key from now on."""
    path = secret_file(task_settings(), RECEIPT_KEYS)
    load_receipt_keys(path)
    output.line(f"Made the key {rotate_receipt_keys(path)}. Keep a copy of {path}.")
