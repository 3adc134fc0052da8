"""Whether OCR works on this machine, in a locked worker."""
# Apart from `text`: the server starts no process to read the text of a file.

import base64
import hashlib
from datetime import date
from typing import Final

from sluice_inspect.ocr.languages import find_installed
from sluice_inspect.sandbox import Sandbox
from sluice_inspect.sandbox.launch import private_file
from sluice_inspect.sandbox.sealed import Sealed
from sluice_inspect.sandbox.text import TextAnswer, TextUnavailable, ask_text
from sluice_inspect.text_questions import Question, Words

# “Sluice 42”, drawn in 150 × 40 pixels.
_PICTURE: Final = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAJYAAAAoAQAAAAA0uj5KAAAA6UlEQVR42t2SMU7DQBBF3zomSYPkjiYSOQJSmpS+CRyBniJ7BI4Q"
    "OAgyVHRxkT6LlCJFEE5iIdtydijGLBK5AGLKpz/z54/GCL/rGHFa/51tTpgMgVcASkk6tg2Colkq8/3AXN3pqh4wBSCL+sE3L/Od"
    "fYEk+PYAVtmdZV4AEHMEIL92mTBqVDccq6eBlEpZvAaYe4u37JVFHoBbaGGtzDh1M9RdnhguPgAQyp8bxN8x3s+5Vxaukl4eZKy9"
    "LVBw8/gG+FR1idGtJIXWKjv7bEaOq4cnoNYp4ge7arJws2eRgzMi0po//n9fIj1UObO421wAAAAASUVORK5CYII="
)


async def try_ocr(sandbox: Sandbox) -> str:
    """Have a locked worker read a small picture by OCR. Return what is wrong, or nothing, also without OCR."""
    installed = find_installed()
    if installed is None:
        return ""
    question = Question((Words(("42",)),), (), (), date.min)
    with private_file() as file:
        file.write(_PICTURE)
        file.flush()
        sealed = Sealed(file.fileno(), len(_PICTURE), hashlib.sha256(_PICTURE).digest())
        language = sorted(installed.languages, key=lambda code: (code != "en", code))[:1]
        try:
            found = await ask_text(sandbox, sealed, question, filename="42.png", tenant_id="self-test", ocr=language)
        except TextUnavailable as fault:
            return f"OCR does not work here: {fault}"
    return "" if isinstance(found, TextAnswer) and found.found else f"OCR does not read a sample here: {found}"
