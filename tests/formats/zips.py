"""Makes ZIP archives for tests."""

import io
import zipfile


def archive(*members: tuple[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as opened:
        for name, content in members:
            opened.writestr(name, content)
    return file.getvalue()
