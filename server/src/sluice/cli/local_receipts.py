"""`sluice receipts rotate`: the keys on this machine that receipts are signed with."""

from sluice.cli.environment import task_settings
from sluice.kit.secret_files import SecretSetting
from sluice.receipts.signing import load_receipt_keys, receipt_keys_line, rotate_receipt_keys
from sluice.wiring.start import RECEIPT_KEYS, secret_place
from sluice_client.cli import output


def rotate() -> None:
    """Sign with a new key from now on. Keys in a setting are printed with the new one, as the setting takes them."""
    place = secret_place(task_settings(), RECEIPT_KEYS)
    if isinstance(place, SecretSetting):
        output.line(f"Start all servers with this {place}:")
        output.line(receipt_keys_line(place))
        return
    load_receipt_keys(place)
    output.line(f"Made the key {rotate_receipt_keys(place)}. Keep a copy of {place}.")
