"""The baseline that Sluice is compared with: FastAPI, UploadFile, hashlib, Pillow, clamd's INSTREAM, boto, SQLAlchemy.

Written as such services usually are: correct on the happy path, with a key, a context, a size limit, a blank check, a
content check, a scan, an object in a bucket (or a file in a folder) and a row. It has no rate limit, no plan, no
sandbox and no recovery, and does not wait for the disk.
"""

import asyncio
import hashlib
import io
import json
import os
import socket
import struct
import uuid
import zipfile
from pathlib import Path
from typing import Annotated, Any

import botocore.session
from botocore.config import Config
from fastapi import FastAPI, Form, Header, HTTPException, UploadFile
from fastapi.concurrency import run_in_threadpool
from PIL import Image
from sqlalchemy import BigInteger, select, update
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from bench.baseline_key import ACCESS_KEY, BUCKET, CONTEXT, KEY, SECRET_KEY

_FOLDER = Path(os.environ["BASELINE_FOLDER"])
_CLAMD = os.environ.get("BASELINE_CLAMD", "")
_S3 = os.environ.get("BASELINE_S3", "")
"""Address of the store. When it is empty, files are stored in the folder."""

engine = create_async_engine(os.environ["BASELINE_DATABASE"], pool_size=10, max_overflow=20)
Session = async_sessionmaker(engine, expire_on_commit=False)
s3 = _S3 and botocore.session.get_session().create_client(  # what boto3.client returns
    "s3",
    endpoint_url=_S3,
    aws_access_key_id=ACCESS_KEY,
    aws_secret_access_key=SECRET_KEY,
    region_name="us-east-1",
    config=Config(max_pool_connections=50, s3={"addressing_style": "path"}),
)


class Base(DeclarativeBase):
    """The base class of all tables."""


class Key(Base):
    """An API key and its tenant."""

    __tablename__ = "keys"
    hash: Mapped[bytes] = mapped_column(primary_key=True)
    tenant: Mapped[str]
    revoked: Mapped[bool]


class Context(Base):
    """A context with its rules and its used storage."""

    __tablename__ = "contexts"
    id: Mapped[int] = mapped_column(primary_key=True)
    tenant: Mapped[str]
    key: Mapped[str]
    extensions: Mapped[str]
    max_mb: Mapped[int]
    used: Mapped[int] = mapped_column(BigInteger)


class StoredFile(Base):
    """One stored file."""

    __tablename__ = "files"
    id: Mapped[str] = mapped_column(primary_key=True)
    tenant: Mapped[str]
    context: Mapped[str]
    name: Mapped[str]
    content_type: Mapped[str]
    size: Mapped[int] = mapped_column(BigInteger)
    sha256: Mapped[str]
    meta: Mapped[dict[str, Any]] = mapped_column(JSONB)


async def set_up() -> None:
    """Create the tables, the key and the context."""
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    async with Session() as session, session.begin():
        session.add(Key(hash=_hash(KEY), tenant="t", revoked=False))
        session.add(Context(id=1, tenant="t", key=CONTEXT, extensions="png,zip,bin", max_mb=500, used=0))
    await engine.dispose()


app = FastAPI()


@app.get("/health/live")
async def health() -> dict[str, str]:
    """Report that the service runs."""
    return {"status": "ok"}


@app.post("/api/v1/files/upload", status_code=201)
async def upload(
    file: UploadFile,
    context: Annotated[str, Form()],
    metadata: Annotated[str, Form()] = "{}",
    authorization: Annotated[str, Header()] = "",
) -> dict[str, Any]:
    """Check one file and store it."""
    async with Session() as session:
        key = await session.scalar(
            select(Key).where(Key.hash == _hash(authorization.removeprefix("Bearer ")), Key.revoked.is_(False))
        )
    if key is None:
        raise HTTPException(401, "Invalid or missing API key")
    async with Session() as session:
        rules = await session.scalar(select(Context).where(Context.tenant == key.tenant, Context.key == context))
    if rules is None:
        raise HTTPException(404, "Resource not found")
    meta = json.loads(metadata)
    data = await file.read()
    name = file.filename or ""
    if (
        name.rpartition(".")[2] not in rules.extensions.split(",")
        or len(data) > rules.max_mb << 20
        or not data.strip(b"\0 \r\n")
    ):
        raise HTTPException(422, "File rejected")
    digest = hashlib.sha256(data).hexdigest()
    await run_in_threadpool(_check, name, data)
    if _CLAMD and await run_in_threadpool(_scan, data) != "OK":
        raise HTTPException(422, "File rejected")
    file_id = uuid.uuid4().hex
    await run_in_threadpool(_put, f"{key.tenant}/{context}/{file_id}", data, file.content_type or "")
    async with Session() as session, session.begin():
        await session.execute(update(Context).where(Context.id == rules.id).values(used=Context.used + len(data)))
        row = {
            "id": file_id,
            "tenant": key.tenant,
            "context": context,
            "name": name,
            "size": len(data),
            "sha256": digest,
        }
        session.add(StoredFile(**row, content_type=file.content_type or "", meta=meta))
    return {"status": "SUCCESS", "data": {"file_id": file_id, "size_bytes": len(data)}}


def _hash(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()


def _check(name: str, data: bytes) -> None:
    if name.endswith(".png"):
        Image.open(io.BytesIO(data)).load()
    elif name.endswith(".zip") and zipfile.ZipFile(io.BytesIO(data)).testzip() is not None:
        raise HTTPException(422, "File rejected")


def _put(key: str, data: bytes, content_type: str) -> None:
    if s3:
        s3.put_object(Bucket=BUCKET, Key=key, Body=data, ContentType=content_type)
    else:
        (_FOLDER / key.replace("/", "-")).write_bytes(data)


def _scan(data: bytes) -> str:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(_CLAMD)
        connection.sendall(b"zINSTREAM\0")
        for start in range(0, len(data), 65536):
            chunk = data[start : start + 65536]
            connection.sendall(struct.pack("!I", len(chunk)) + chunk)
        connection.sendall(struct.pack("!I", 0))
        return connection.recv(4096).rstrip(b"\0").decode().rpartition(" ")[2]


if __name__ == "__main__":
    asyncio.run(set_up())
