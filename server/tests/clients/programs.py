"""A program of a user of the Python client. `server/tests/clients/test_python_client.py` has mypy read it, and nothing run it."""

from sluice_client import AsyncSluice, FileRejected, Sluice
from sluice_client.models import File, UploadedFile


def upload(path: str) -> UploadedFile | str:
    with Sluice("sl_live_x", base_url="https://sluice.example") as client:
        client.contexts.create("claims", "Claims", max_file_size_mb=5, reject_blank_files=True)
        try:
            return client.files.upload(path, context="claims", metadata={"claim": "C-7"}, progress=print)
        except FileRejected as rejection:
            return rejection.report.message if rejection.report else rejection.reason


def names() -> list[str]:
    with Sluice() as client:
        return [file.original_filename for file in client.files.list(context="claims", min_size=1)]


async def upload_async(path: str) -> tuple[UploadedFile, list[File]]:
    async with AsyncSluice() as client:
        stored = await client.files.upload(path, context="claims")
        return stored, [file async for file in client.files.list(context="claims")]


def wrong(client: Sluice) -> None:
    client.contexts.create("claims", "Claims", max_file_size_mb="5")  # type: ignore[arg-type]  # what mypy must find
    client.files.upload("a", nonsense=1)  # type: ignore[call-arg]  # what mypy must find
