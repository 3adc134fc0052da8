"""What a user of `sluice-client` writes: uploads, and reads why a file was rejected. Run and type-checked by release.sh."""

import os

from sluice_client import FileRejected, Sluice

sent: list[int] = []
with Sluice(os.environ["SLUICE_API_KEY"], base_url=os.environ["SLUICE_URL"]) as client:
    stored = client.files.upload(
        b"Hello, Sluice!", filename="hello.txt", context="claims", progress=lambda now, _all: sent.append(now)
    )
    try:
        client.files.upload(b"", filename="empty.txt", context="claims")
    except FileRejected as rejection:
        if rejection.reason != "blank_document":
            raise
    else:
        raise SystemExit("an empty file was accepted")
    if not sent or stored.file_id not in [file.file_id for file in client.files.list(context="claims")]:
        raise SystemExit("the upload has no progress, or its file is not listed")
