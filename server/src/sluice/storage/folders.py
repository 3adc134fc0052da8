"""The folders of a store that the service keeps for itself: it deletes there, and no file is stored in one."""

from typing import Final

INCOMING: Final = "_incoming"  # what has come of resumable uploads
EXPORTS: Final = "_exports"  # what export jobs write
PROBES: Final = ".sluice-probe"  # objects that try a store out
SERVICE_FOLDERS: Final = (INCOMING, EXPORTS, PROBES)
_OTHER: Final = "files"


def is_in_service_folder(key: str) -> bool:
    """Return whether a key or a path is one of these folders, or lies below one."""
    return key.partition("/")[0] in SERVICE_FOLDERS


def outside_service_folders(key: str) -> str:
    """Return `key`, below a folder for such keys if it would lie in one of the service's."""
    return f"{_OTHER}/{key}" if is_in_service_folder(key) else key
