"""Keys that the service keeps for itself: folders of a store in which no file is stored, and previews beside files."""

import re
from typing import Final

from sluice.storage.common import KEY_BYTES

INCOMING: Final = "_incoming"  # what has come of resumable uploads
EXPORTS: Final = "_exports"  # what export jobs write
PROBES: Final = ".sluice-probe"  # objects that try a store out
SERVICE_FOLDERS: Final = (INCOMING, EXPORTS, PROBES)
_OTHER: Final = "files"
_PREVIEW: Final = re.compile(r"\.preview-(?:200|1200)\.png\Z")
PREVIEW_SIDES: Final = (200, 1200)  # pixels


def is_in_service_folder(key: str) -> bool:
    """Return whether a key or a path is one of these folders, or lies below one."""
    return key.partition("/")[0] in SERVICE_FOLDERS


def outside_service_folders(key: str) -> str:
    """Return `key`, below a folder for such keys if it would lie in one of the service's."""
    return f"{_OTHER}/{key}" if is_in_service_folder(key) else key


def preview_key(object_key: str, side: int) -> str | None:
    """Return the key of the preview of a file whose longer side has `side` pixels, None if it would be too long."""
    key = f"{object_key}.preview-{side}.png"
    return key if len(key.encode()) <= KEY_BYTES else None


def without_preview(key: str) -> str:
    """Return the key of the file of a preview; any other key as it is."""
    return _PREVIEW.sub("", key)
