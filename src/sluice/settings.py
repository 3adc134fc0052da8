"""The catalogue of settings: every knob of the service, read from `SLUICE_*`. Read in wiring, `asgi` and the commands only.

`docs/settings.md` is made from this file; a test holds it to that.
"""

from pathlib import Path
from typing import Annotated, Final, Literal
from urllib.parse import unquote

from pydantic import Field, HttpUrl, SecretStr, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

Names = Annotated[tuple[str, ...], NoDecode]
"""A comma-separated list in the environment."""
_FILE: Final = "file://"
_S3: Final = "s3://"


class Settings(BaseSettings):
    """Settings of one process. Each is read from the environment as `SLUICE_` and its name in capitals."""

    model_config = SettingsConfigDict(env_prefix="SLUICE_", frozen=True, extra="ignore", hide_input_in_errors=True)

    host: str = Field("127.0.0.1", description="Address that the server listens on.")
    port: int = Field(8000, ge=0, le=65535, description="Port that the server listens on.")
    data_dir: Path = Field(
        Path(".data"),
        description="Folder of the embedded database, the local store, the spool and the key files. Made when missing.",
    )
    public_url: HttpUrl | None = Field(
        None,
        description="Address under which clients reach the service; local download links begin with it, or with `SLUICE_DOWNLOAD_URL`. "
        "Default: host and port.",
    )
    download_url: HttpUrl | None = Field(
        None,
        description="Address of another host for downloads alone: local links begin with it, that host answers nothing else, and other hosts "
        "hand out no file. It leads to the same servers.",
    )
    production: bool = Field(
        False,
        description="Refuse to start on conveniences meant for one machine: secret files made on the way, a builtin scanner that nobody chose.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="Least severe log line that is written.")
    log_format: Literal["auto", "json", "text"] = Field(
        "auto", description="`json` for machines, `text` for people; `auto` writes text to a terminal."
    )
    log_logins: bool = Field(
        False,
        description="Write a line `credential_believed` for each request that was let in too. Refused credentials always have one.",
    )

    metrics_token: SecretStr | None = Field(
        None,
        min_length=16,
        description="Token, 16 characters or more, that `/metrics` asks for (`Authorization: Bearer …`). Without one it answers only requests from this machine that "
        "came through no proxy, and nobody with `SLUICE_PRODUCTION`.",
    )
    worker_port: int | None = Field(
        None,
        ge=0,
        le=65535,
        description="Port on SLUICE_HOST where `sluice work` answers `/health/live`, `/health/ready` and `/metrics`. Default: nowhere.",
    )

    database_url: SecretStr | None = Field(
        None, description="`postgresql://…` or `sqlite:///…`. Default: SQLite in the data folder."
    )
    migration_database_url: SecretStr | None = Field(
        None,
        description="The same PostgreSQL as its tables' owner, for migrations alone. `SLUICE_DATABASE_URL` then names a role that cannot "
        "change tables and is held to one tenant's rows at a time; `sluice migrate` grants it what it needs.",
    )
    database_pool_size: int = Field(10, ge=1, le=200, description="Connections to PostgreSQL kept by one process.")
    database_wait_seconds: float = Field(10.0, gt=0, description="Longest wait for one of these connections to be free.")
    database_connect_seconds: float = Field(5.0, gt=0, description="Longest wait for a new connection to PostgreSQL.")
    database_statement_seconds: float = Field(15.0, gt=0, description="Longest run of one statement on PostgreSQL.")
    database_lock_seconds: float = Field(
        10.0, gt=0, description="Longest wait on PostgreSQL for a row that another transaction holds."
    )
    database_pgbouncer: bool = Field(
        False,
        description="PostgreSQL is reached through a pgbouncer in transaction mode: nothing is kept on a connection between transactions.",
    )

    limiter: Literal["memory", "database", "redis"] = Field(
        "memory",
        description="Where the rate limits of contexts are counted: `memory` is exact within one server process, `database` and `redis` "
        "across all that share one.",
    )
    redis_url: SecretStr | None = Field(
        None,
        description="Redis or Valkey of the limiter and of clean verdicts: `redis://`, `rediss://` (TLS) or `unix://`, with user and password. "
        "Without one, each process keeps its own verdicts.",
    )
    redis_seconds: float = Field(
        1.0, gt=0, description="Longest wait for a connection to Redis and for one answer; an upload waits four times that at most."
    )
    redis_pool_size: int = Field(50, ge=1, le=1000, description="Connections to Redis kept by one process.")

    storage_dir: Path | None = Field(None, description="Folder of the local store. Default: `objects` in the data folder.")
    storage_bucket: str | None = Field(
        None,
        description="S3 bucket that is the platform's own store instead of the folder. Choose before the first upload: files stay where they are.",
    )
    storage_url: str | None = Field(
        None,
        pattern=r"^(file:///.+|s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9])$",
        description="Either of the two in one: `file:///folder` or `s3://bucket`, without the other settings of its name.",
    )
    storage_region: str = Field("us-east-1", description="Region of that bucket.")
    storage_endpoint: HttpUrl | None = Field(None, description="Address of another S3 service than AWS for that bucket.")
    storage_access_key_id: str | None = Field(None, description="Access key of that bucket.")
    storage_secret_access_key: SecretStr | None = Field(None, description="Secret of that access key.")
    bucket_probe: bool = Field(True, description="Write, read and delete one small object before a bucket is added.")
    bucket_endpoint_hosts: Names = Field(
        (),
        description="Hosts (or host:port), comma-separated, that a tenant may name in `endpoint_url`. Empty: AWS only. A name must lead to "
        "public addresses, or into a network that is listed too (`10.0.0.0/8`), judged when a bucket is added and before each use; prefer https.",
    )
    s3_connect_seconds: float = Field(5.0, gt=0, description="Longest wait for a connection to a bucket.")
    s3_request_seconds: float = Field(60.0, gt=0, description="Longest single request to a bucket.")
    s3_retries: int = Field(3, ge=0, le=10, description="Retries of one request to a bucket.")
    s3_rest_seconds: float = Field(
        10.0,
        ge=0,
        description="For so long a bucket that failed three times in a row is left alone: requests to it are refused at once.",
    )
    s3_multipart_mb: int = Field(8, ge=5, le=512, description="Objects larger than this go to a bucket in parts of this size.")

    scanner: Literal["auto", "clamd", "builtin", "off"] = Field(
        "auto",
        description="`clamd` needs one; `builtin` uses Sluice's own rules; `auto` prefers a reachable clamd that tells what it skips (AlertExceedsMax yes); "
        "`off` refuses uploads into contexts that ask for a scan.",
    )
    clamd: Names = Field(
        ("unix:/run/clamav/clamd.ctl",),
        description="Addresses of clamd, comma-separated: `unix:/path` or `tcp:host:port`.",
    )
    clamd_connect_seconds: float = Field(2.0, gt=0, description="Longest wait for a connection to clamd.")
    clamd_stall_seconds: float = Field(10.0, gt=0, description="Longest silence of clamd during a scan.")
    clamd_scan_seconds: float = Field(300.0, gt=0, description="Longest scan as a whole.")
    scanner_encrypted: Literal["allow", "incomplete"] = Field(
        "allow",
        description="What a password-protected file is to the scanner, which cannot look inside: let in as an intact file, or "
        "refused as `scan_incomplete`.",
    )
    scanner_unpacked_mb: int = Field(
        256,
        ge=1,
        le=2048,
        description="Memory for what clamd does not see and is unpacked for it, attachments of PDFs for one. At most two scans at once "
        "take so much; the others take up to 8 MB each.",
    )
    clamd_concurrency: int = Field(8, ge=1, le=256, description="Scans under way at once at each clamd.")
    clamd_probe_seconds: float = Field(
        300.0, gt=0, description="How often each clamd is tried on the EICAR test virus and on what it must not call clean."
    )
    verdict_cache: int = Field(
        50_000, ge=0, le=100_000_000, description="Clean verdicts kept, so that the same bytes are not scanned twice. 0: none."
    )
    verdict_cache_hours: float = Field(
        24.0, gt=0, description="Longest time for which a clean verdict is kept. New signatures end it at once."
    )
    verdict_cache_per_tenant: bool = Field(
        False,
        description="Keep clean verdicts apart for each tenant: none can then tell by the time it takes that another has sent the same file.",
    )
    signature_days: float = Field(7.0, gt=0, description="Age of clamd's signatures from which the health page says `degraded`.")

    sandbox: Literal["auto", "strict", "seccomp", "limits-only"] = Field(
        "auto",
        description="Least level of the checker's sandbox; the best that works is taken. `auto` asks for at least `seccomp`.",
    )
    sandbox_workers: int = Field(0, ge=0, le=256, description="Checker processes. 0: one per core, at least two.")
    sandbox_files_per_worker: int = Field(
        500, ge=1, description="Files of one tenant that one checker process sees before it is replaced. 1: a process per file."
    )
    sandbox_wall_seconds: float = Field(
        30.0, gt=0, description="Longest check of a small file; large files get more by their size."
    )
    sandbox_wait_seconds: float = Field(60.0, gt=0, description="Longest wait for a free checker process.")

    spool_memory_kb: int = Field(
        1024, ge=0, le=65536, description="Uploads up to this size are spooled in memory, larger ones on disk."
    )
    spool_dir: Path | None = Field(
        None, description="Folder of spooled uploads (unlinked files). Default: `spool` in the data folder."
    )
    uploads_per_tenant: int = Field(
        64,
        ge=1,
        description="Uploads of one tenant that are under way at once; more wait their turn. Fewer while others upload too and the service is busy.",
    )
    upload_wait_seconds: float = Field(60.0, gt=0, description="Longest wait for that turn; then 429.")
    remember_seconds: float = Field(
        1.0,
        ge=0,
        le=10,
        description="How long uploads go ahead on a credential and a context that an earlier upload asked for. Both are confirmed before anything is answered, so what is revoked or changed holds at once; `0` asks every time.",
    )
    connections: int = Field(
        1024, ge=1, description="Connections that the server holds at once; more are answered with 503 and closed."
    )
    head_seconds: float = Field(10.0, gt=0, description="Longest time in which the head of a request comes in.")
    body_idle_seconds: float = Field(
        30.0, gt=0, description="Longest silence of a client within its body, or while it should take the answer."
    )
    body_bytes_per_second: int = Field(
        1024, ge=1, description="Least speed of a body on the whole, after as much grace as silence is allowed."
    )
    upload_lease_seconds: float = Field(
        900.0, gt=0, description="Longest time between reserving room for a file and its being stored; then the worker cleans up."
    )
    free_uploads_per_month: int = Field(500, ge=0, description="Uploads per calendar month (UTC) on the plan `free`.")

    rescan_per_second: float = Field(
        5.0,
        ge=0,
        le=1000,
        description="Stored files that one worker scans again in a second, one at a time, when the scanner has new signatures. 0: none.",
    )
    stale_parts_hours: float = Field(
        24.0,
        gt=0,
        description="Hours after which an upload in parts that a crash left unfinished in a bucket is aborted. More than any upload takes.",
    )
    purge_after_days: float = Field(30.0, ge=0, description="Days after which the object of a deleted file is removed.")
    test_file_hours: float = Field(24.0, gt=0, description="Hours after which files uploaded with a test key are removed.")
    decision_days: float = Field(365.0, gt=0, description="Days for which the decision log is kept. It holds file names.")
    audit_days: float = Field(365.0, gt=0, description="Days for which the audit trail is kept. It holds names of users and keys.")
    worker_seconds: float = Field(5.0, gt=0, description="Pause of the worker when nothing was due.")
    worker_inside: bool = Field(True, description="Run the worker inside the server. Switch off where `sluice work` runs.")

    jwt_issuer: str = Field("sluice", min_length=1, description="Issuer of locally signed tokens (`sluice token`).")
    jwt_audience: str = Field("sluice", min_length=1, description="Audience that every token must name.")
    jwt_tenant_claim: str = Field("tenant_id", min_length=1, description="Claim that names the tenant.")
    jwt_default_scopes: Names = Field((), description="Scopes, comma-separated, of a token that names none.")
    oidc_issuer: str | None = Field(None, description="OIDC issuer whose tokens are accepted.")
    oidc_jwks_url: HttpUrl | None = Field(None, description="Address of that issuer's keys.")
    oidc_algorithms: Names = Field(
        ("RS256",), description="Algorithms, comma-separated, of that issuer: RS256, PS256, ES256, EdDSA."
    )
    oidc_rsa_bits: int = Field(
        2048,
        ge=2048,
        le=8192,
        description="Shortest RSA key of that issuer that is believed. 3072 bits are as strong as the rest is.",
    )
    oidc_provision: bool = Field(
        False, description="Make a tenant (plan `free`) on the first valid token that names an unknown one."
    )
    trusted_proxies: Names = Field(
        (),
        description="Addresses or networks, comma-separated, of proxies whose `X-Forwarded-For` is believed. Empty: nobody's.",
    )
    failed_logins: int = Field(1000, ge=1, description="Failed credentials per address and minute; beyond them 429.")

    failpoint: str | None = Field(
        None,
        description="For tests of recovery alone: the process kills itself at this point, `NAME` or `NAME:N` for the N-th time it gets there.",
    )

    drain_seconds: float = Field(30.0, gt=0, description="Longest wait for uploads under way when the server stops.")

    @field_validator("clamd", "trusted_proxies", "bucket_endpoint_hosts", "jwt_default_scopes", "oidc_algorithms", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value

    @field_validator("storage_url")
    @classmethod
    def _alone(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and (info.data.get("storage_dir") or info.data.get("storage_bucket")):
            raise ValueError("expected without SLUICE_STORAGE_DIR and SLUICE_STORAGE_BUCKET, which say the same")
        return value

    @property
    def resolved_database_url(self) -> str:
        """The database, with the default filled in."""
        if self.database_url is not None:
            return self.database_url.get_secret_value()
        return f"sqlite:///{(self.data_dir / 'sluice.db').absolute()}"

    @property
    def resolved_public_url(self) -> str:
        """The address for links, without a slash at its end."""
        if self.public_url is not None:
            return str(self.public_url).rstrip("/")
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    @property
    def resolved_download_url(self) -> str:
        """The address that download links begin with, without a slash at its end."""
        return self.resolved_public_url if self.download_url is None else str(self.download_url).rstrip("/")

    @property
    def resolved_storage_dir(self) -> Path:
        """The local store, with the default filled in."""
        if self.storage_url is not None and self.storage_url.startswith(_FILE):
            return Path(unquote(self.storage_url.removeprefix(_FILE)))
        return self.storage_dir or self.data_dir / "objects"

    @property
    def resolved_storage_bucket(self) -> str | None:
        """The S3 bucket that is the platform's own store, None for the folder."""
        if self.storage_url is not None and self.storage_url.startswith(_S3):
            return self.storage_url.removeprefix(_S3)
        return self.storage_bucket

    @property
    def resolved_spool_dir(self) -> Path:
        """The spool, with the default filled in."""
        return self.spool_dir or self.data_dir / "spool"

    @property
    def keys_dir(self) -> Path:
        """Folder of the secret files that the first start makes."""
        return self.data_dir / "keys"
