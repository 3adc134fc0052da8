"""A form whose files go through Sluice before the application sees them: FastAPI."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException, Request, UploadFile
from fastapi.responses import HTMLResponse

from sluice_client import AsyncSluice, FileRejected, SluiceError

FORM = """<!doctype html><title>Claim</title>
<form action="/claims" method="post" enctype="multipart/form-data"><input type="file" name="file"><button>Send</button></form>"""


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Keep one client, with its connections, for all requests. It reads SLUICE_URL and SLUICE_API_KEY."""
    async with AsyncSluice() as app.state.sluice:
        yield


app = FastAPI(lifespan=lifespan)


@app.get("/", response_class=HTMLResponse)
async def form() -> str:
    """Show the form."""
    return FORM


@app.post("/claims", status_code=201)
async def send(request: Request, file: UploadFile) -> dict[str, str]:
    """Store the file, or answer with the sentence for its sender."""
    sluice: AsyncSluice = request.app.state.sluice
    try:
        stored = await sluice.files.upload(file.file, filename=file.filename or "file", context="claims")
    except FileRejected as rejection:
        raise HTTPException(400, rejection.report.message if rejection.report else rejection.message) from rejection
    except SluiceError as error:
        raise HTTPException(503, "Files cannot be received now. Please try again in a few minutes.") from error
    return {"file_id": stored.file_id}  # what the application keeps
