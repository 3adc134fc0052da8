"""The settings of the service, read from `SLUICE_*`. Only wiring, `asgi` and the commands read them.

The order of the fields is that of `docs/settings.md`, which is generated from this file.
"""

import os
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self
from urllib.parse import unquote

from pydantic import Field, HttpUrl, SecretStr, ValidationInfo, field_validator, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from sluice.kit.secret_files import read_secret_file

# Comma-separated in the environment.
Names = Annotated[tuple[str, ...], NoDecode]

_ICAP: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}=icaps?://\S+")
_ENGINE: Final = re.compile(r"clamd|builtin|yara|icap:[a-z0-9][a-z0-9_-]{0,31}")
_CHECK: Final = re.compile(r"[a-z][a-z0-9_]{0,47}")
_FILE: Final = "file://"
_PREFIX: Final = "SLUICE_"
# Each may be in a file instead, whose path is in the variable with `_FILE` appended to its name.
FROM_FILES: Final = (
    "database_url",
    "migration_database_url",
    "redis_url",
    "storage_access_key_id",
    "storage_secret",
    "storage_secret_access_key",
    "console_oidc_client_secret",
    "metrics_token",
    "keyring",
    "link_secret",
    "signing_key",
    "receipt_keys",
)
# Variables that begin as settings do and are none: what commands read that talk to a service, `make audit`, tests, what
# Kubernetes puts into every container for a Service called `sluice`, and settings of earlier versions, without effect.
_OTHER_VARIABLES: Final = re.compile(
    "SLUICE_(URL|API_KEY|BUCKET_SECRET|PROFILE|CONFIG|CONTEXT|WEBHOOK_SECRET|AUDIT_OSV_URL"
    "|IMPORT_(ACCESS_KEY_ID|SECRET_ACCESS_KEY)"
    "|TEST_.*|MCP_.*"
    "|SERVICE_HOST|SERVICE_PORT(_.*)?|PORT_[0-9]+_(TCP|UDP)(_.*)?"
    "|CLAMD_PROBE_SECONDS|JWT_ISSUER|REDIS_POOL_SIZE|SCANNER_UNPACKED_MB|SIGNATURE_DAYS|VERDICT_CACHE_HOURS)"
)


class Settings(BaseSettings):
    """Settings of one process. Each is read from the environment as `SLUICE_` and its name in capitals."""

    model_config = SettingsConfigDict(env_prefix="SLUICE_", frozen=True, extra="ignore", hide_input_in_errors=True)

    # Start
    data_dir: Path = Field(
        Path(".data"),
        description="Folder of the embedded database, the local store, the spool and the key files. It is created if "
        "missing.",
    )
    host: str = Field("127.0.0.1", description="Address that the server listens on.")
    port: int = Field(8000, ge=0, le=65535, description="Port that the server listens on.")
    production: bool = Field(
        False,
        description="Refuse to start with conveniences meant for one machine: secret files created on the way, or the "
        "builtin scanner in place of a clamd that does not respond.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Lowest level of log lines that are written."
    )
    log_format: Literal["auto", "json", "text"] = Field(
        "auto",
        description="`json` for machines, `text` for people; `auto` writes text to a terminal and JSON elsewhere.",
    )
    processes: int | None = Field(
        None,
        ge=1,
        le=64,
        description="Processes of one server, which share its port and its limits: see [several "
        "processes](operations.md#several-processes). Default: half of the cores, at least 2 and at most 8; one with "
        "SQLite or one core.",
    )
    drain_seconds: float = Field(30.0, gt=0, description="Longest wait for requests in progress when the server stops.")

    # Give it a public address
    public_url: HttpUrl | None = Field(
        None,
        description="Address at which clients reach the service; links to the local store begin with it. Default: "
        "host and port.",
    )
    download_url: HttpUrl | None = Field(
        None,
        description="Address of a separate host for downloads, which leads to the same servers. Links to the local "
        "store then begin with it, that host serves nothing else, and other hosts serve no files.",
    )
    machine_url: HttpUrl | None = Field(
        None,
        description="Address at which external checks reach this machine, and no other one, to read the bytes of a "
        "file. Needed where several machines serve `SLUICE_PUBLIC_URL`. Default: that address.",
    )
    trusted_proxies: Names = Field(
        (),
        description="Addresses or networks, comma-separated, of proxies whose `X-Forwarded-For` and "
        "`X-Forwarded-Proto` are trusted. Empty: none.",
    )

    docs: bool = Field(
        True,
        description="Serve the API docs at `/docs` and the OpenAPI document at `/openapi.json`. `off`: neither.",
    )

    console: bool = Field(
        True,
        description="Serve the web console at `/console`. It needs an https address, or a browser on this machine. "
        "`off`: no page of it, and `/` leads to the API docs.",
    )

    # Use PostgreSQL
    database_url: SecretStr | None = Field(
        None, description="`postgresql://…` or `sqlite:///…`. Default: SQLite in the data folder."
    )
    migration_database_url: SecretStr | None = Field(
        None,
        description="The same PostgreSQL with the role that owns the tables, used for migrations only. "
        "`SLUICE_DATABASE_URL` then names a role that cannot change tables and sees the rows of one tenant at a time; "
        "`sluice migrate` grants it what it needs.",
    )
    database_pgbouncer: bool = Field(
        False,
        description="Set if PostgreSQL is reached through pgbouncer in transaction mode. No state is then kept on a "
        "connection between transactions.",
    )
    database_pool_size: int = Field(
        10, ge=1, le=200, description="PostgreSQL connections in each of the two pools of a server or a worker."
    )
    database_wait_seconds: float = Field(10.0, gt=0, description="Longest wait for a free connection of the pool.")
    database_connect_seconds: float = Field(5.0, gt=0, description="Longest wait for a new connection to PostgreSQL.")
    database_statement_seconds: float = Field(15.0, gt=0, description="Longest run of one statement on PostgreSQL.")
    database_lock_seconds: float = Field(
        10.0, gt=0, description="Longest wait on PostgreSQL for a row that another transaction has locked."
    )

    # Run several servers
    limiter: Literal["memory", "database", "redis"] = Field(
        "memory",
        description="Where the rate limits of contexts are counted: `memory` is exact within one server process, "
        "`database` and `redis` are exact across all servers that share one. A server of several processes counts in "
        "the database instead of in memory.",
    )
    redis_url: SecretStr | None = Field(
        None,
        description="Redis or Valkey for rate limits and clean verdicts: `redis://`, `rediss://` (TLS) or `unix://`, "
        "with user and password. Without one, each process caches its own verdicts.",
    )
    redis_seconds: float = Field(
        1.0,
        gt=0,
        description="Longest wait for a connection to Redis and for one reply; an upload waits at most four times as "
        "long.",
    )
    keyring: SecretStr | None = Field(
        None,
        description="The [keyring](operations.md#the-keys-folder) that seals credentials of buckets and secrets of "
        "webhooks, the same for all servers: what `sluice secrets keyring` prints. The file `buckets.json` is then "
        "neither made nor read. Default: that file.",
    )
    link_secret: SecretStr | None = Field(
        None, description="The secret that signs download links, as `links.hex` holds it. Default: that file."
    )
    signing_key: SecretStr | None = Field(
        None, description="The key with which `sluice token` signs, as `jwt.pem` holds it. Default: that file."
    )
    receipt_keys: SecretStr | None = Field(
        None, description="The keys that sign receipts, as `receipts.json` holds them. Default: that file."
    )
    worker_inside: bool = Field(
        True, description="Run the worker inside the server. Switch this off if `sluice work` runs."
    )

    # Store files in S3 or in a folder
    storage_dir: Path | None = Field(
        None, description="Folder of the local store. Default: `objects` in the data folder."
    )
    storage_bucket: str | None = Field(
        None,
        description="S3 bucket that is the platform's own store instead of the folder. Choose before the first "
        "upload: stored files stay where they are.",
    )
    storage_url: str | None = Field(
        None,
        pattern=r"^(file:///.+|(s3|gs)://[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]"
        r"|az://[a-z0-9]{3,24}/[a-z0-9-]{3,63}(\?.+)?)$",
        description="Store of the platform as one URL: `file:///folder`, `s3://bucket`, `az://account/container` or "
        "`gs://bucket`. Replaces `SLUICE_STORAGE_DIR` and `SLUICE_STORAGE_BUCKET`.",
    )
    storage_region: str = Field("us-east-1", description="Region of that bucket, if it is one of S3.")
    storage_endpoint: HttpUrl | None = Field(
        None, description="Address of that bucket's service, if it is not AWS, the public cloud of Azure, or Google."
    )
    storage_access_key_id: str | None = Field(
        None, description="Access key of that bucket, if it is one of S3, or HMAC key, if it is one of Google."
    )
    storage_secret_access_key: SecretStr | None = Field(None, description="Secret of that access key.")
    storage_secret: SecretStr | None = Field(
        None,
        description="What opens the bucket instead of an access key. Azure: an account key, a SAS token, or the secret "
        "of a client (`az://account/container?directory_id=…&client_id=…`). Google: the JSON of a service account's "
        "key.",
    )
    s3_connect_seconds: float = Field(5.0, gt=0, description="Longest wait for a connection to any bucket.")
    s3_request_seconds: float = Field(60.0, gt=0, description="Longest single request to a bucket.")
    s3_retries: int = Field(3, ge=0, le=10, description="Retries of one request to a bucket.")
    s3_rest_seconds: float = Field(
        10.0,
        ge=0,
        description="How long requests to a bucket are refused at once after three failures in a row.",
    )
    s3_multipart_mb: int = Field(
        8, ge=5, le=512, description="Objects larger than this are sent to a bucket in parts of this size."
    )

    # Let tenants bring their own buckets
    bucket_endpoint_hosts: Names = Field(
        (),
        description="Hosts (or host:port), comma-separated, that a tenant may name in `endpoint_url`; empty: AWS "
        "only. A name must resolve to public addresses, or to a network that is listed too (`10.0.0.0/8`); prefer "
        "https. The list is asked when a bucket is added and before each use: a bucket whose host was taken off it is "
        "unavailable.",
    )
    bucket_probe: bool = Field(True, description="Write, read and delete one small object before a bucket is added.")

    # Send webhooks
    webhook_hosts: Names = Field(
        (),
        description="Hosts (or host:port) and networks, comma-separated, that webhooks and external checks may reach "
        "although they are not public: a name must resolve into a listed network (`10.0.0.0/8`). Listed hosts may use "
        "http. Empty: https to public addresses only.",
    )

    # Scan for malware
    scanner: Names = Field(
        ("auto",),
        description="The engines that scan, comma-separated, at the same time: `clamd`, `icap:NAME` (see SLUICE_ICAP), "
        "`yara` (see SLUICE_YARA_RULES), `builtin` for Sluice's own rules, which see every file in any case. A file is "
        "clean if all say so. `auto` uses a clamd that responds and finds the test virus, else `builtin`. `off` "
        "refuses uploads to contexts that ask for a scan.",
    )
    scanner_optional: Names = Field(
        (),
        description="Those of SLUICE_SCANNER that do not have to reply: a file that they find infected is infected, "
        "and one that they cannot scan is judged by the others.",
    )
    clamd: Names = Field(
        ("unix:/run/clamav/clamd.ctl",),
        description="Addresses of clamd, comma-separated: `unix:/path` or `tcp:host:port`.",
    )
    clamd_connect_seconds: float = Field(2.0, gt=0, description="Longest wait for a connection to clamd.")
    clamd_stall_seconds: float = Field(10.0, gt=0, description="Longest silence of clamd during a scan.")
    clamd_scan_seconds: float = Field(300.0, gt=0, description="Longest scan as a whole.")
    clamd_concurrency: int = Field(8, ge=1, le=256, description="Scans in progress at once at each clamd.")
    icap: Names = Field(
        (),
        description="ICAP services, comma-separated: `NAME=icap://host:port/service`, `icaps` for TLS.",
    )
    icap_reqmod: Names = Field((), description="Names of the ICAP services that are asked by REQMOD, not RESPMOD.")
    icap_scan_seconds: float = Field(300.0, gt=0, description="Longest scan by an ICAP service.")
    icap_concurrency: int = Field(
        8, ge=1, le=256, description="Scans in progress at once at each ICAP service, unless it allows fewer."
    )
    icap_ca_file: Path | None = Field(
        None, description="Certificates, in PEM, that sign those of the ICAP services; without it, the system's."
    )
    yara_rules: Path | None = Field(
        None,
        description="Folder of YARA rules, `*.yar` and `*.yara`, for the engine `yara`. Changes take effect within a "
        "minute, and on SIGHUP at once (by several processes, or without a terminal).",
    )
    scanner_encrypted: Literal["allow", "incomplete"] = Field(
        "allow",
        description="What to do with a password-protected file, which no scanner can read: `allow` accepts it as an "
        "intact file, `incomplete` refuses it as `scan_incomplete`.",
    )
    verdict_cache: int = Field(
        50_000,
        ge=0,
        le=100_000_000,
        description="Number of clean verdicts in the cache, so that the same bytes are not scanned twice. 0: no cache.",
    )
    verdict_cache_per_tenant: bool = Field(
        False,
        description="Share nothing of the cache between tenants. Without it they share clamd's OK on the same "
        "bytes, so that a tenant can infer from the response time that another one has sent the same file.",
    )
    rescan_per_second: float = Field(
        5.0,
        ge=0,
        le=1000,
        description="Stored files that one worker scans again each second, one at a time, when the scanner has new "
        "signatures. 0: none.",
    )

    python_checks: Names = Field(
        (),
        description="Checks of your own, in Python, that are made of each file: names of entry points "
        "`sluice_inspect.checks` of installed packages, comma-separated. None is made because it is installed.",
    )

    # Sign in with OIDC
    oidc_issuer: str | None = Field(None, description="OIDC issuer whose tokens are accepted.")
    oidc_jwks_url: HttpUrl | None = Field(None, description="Address of that issuer's keys.")
    oidc_algorithms: Names = Field(
        ("RS256",), description="Algorithms, comma-separated, of that issuer: RS256, PS256, ES256, Ed25519, EdDSA."
    )
    oidc_rsa_bits: int = Field(
        2048,
        ge=2048,
        le=8192,
        description="Shortest RSA key of that issuer that is accepted. 3072 bits match the strength of everything "
        "else.",
    )
    oidc_provision: bool = Field(
        False, description="Create a tenant (plan `free`) on the first valid token that names an unknown one."
    )
    jwt_audience: str = Field("sluice", min_length=1, description="Audience that every token must name.")
    jwt_tenant_claim: str = Field(
        "tenant_id",
        min_length=1,
        description="Claim that names the tenant: 1 to 64 letters, digits, hyphens and underscores.",
    )
    jwt_default_scopes: Names = Field((), description="Scopes, comma-separated, of a token that names none.")

    console_oidc_client_id: str | None = Field(
        None,
        min_length=1,
        description="Client of the console at that issuer: people sign in to the console there. Its redirect address "
        "is `SLUICE_PUBLIC_URL` followed by `/console/oidc/callback`.",
    )
    console_oidc_client_secret: SecretStr | None = Field(
        None, description="Secret of that client. Without one it is a public client."
    )
    console_oidc_scopes: Names = Field(
        ("profile",),
        description="Scopes, comma-separated, that the console asks that issuer for beside `openid`, so that the ID "
        "token has the claims of `SLUICE_JWT_TENANT_CLAIM` and `scopes`.",
    )

    # Watch it
    metrics_token: SecretStr | None = Field(
        None,
        min_length=16,
        description="Token of 16 characters or more (`Authorization: Bearer …`) that `/metrics` and the details of "
        "`/health/ready` require. Without one, no client may read them.",
    )
    worker_port: int | None = Field(
        None,
        ge=0,
        le=65535,
        description="Port on SLUICE_HOST where `sluice work` serves `/health/live`, `/health/ready` and `/metrics`. "
        "Default: none.",
    )
    log_logins: bool = Field(
        False,
        description="Log `credential_believed` for each authenticated request too. Refused credentials are always "
        "logged.",
    )

    # Set limits
    connections: int = Field(
        1024,
        ge=1,
        le=65536,
        description="Open connections of a server. When all are taken, the one that has shown no sign of a request for "
        "the longest time gives way to a new one; if each serves a known caller, the new one gets 503. One tenant has "
        "at most half of those under way that other tenants leave; further requests get 429.",
    )
    connections_per_address: int | None = Field(
        None,
        ge=1,
        description="Open connections of one address (IPv6: of one /64 network); further ones get 503. Addresses of "
        "`SLUICE_TRUSTED_PROXIES` have no such limit. Default: half of `SLUICE_CONNECTIONS`.",
    )
    head_seconds: float = Field(10.0, gt=0, description="Longest time in which the head of a request must arrive.")
    body_idle_seconds: float = Field(
        30.0, gt=0, description="Longest pause of a client while it sends a body or receives a response."
    )
    body_bytes_per_second: int = Field(
        1024,
        ge=1,
        description="Lowest average rate of a body, required after the first `SLUICE_BODY_IDLE_SECONDS`, and at which "
        "a response must be read, required after four times as long.",
    )
    uploads_per_tenant: int = Field(
        64,
        ge=1,
        description="Uploads of one tenant in progress at once; further ones wait, at most four times as many. "
        "The limit is lower while the service is busy and others upload too.",
    )
    upload_wait_seconds: float = Field(60.0, gt=0, description="Longest wait of such an upload; then it gets 429.")
    resumable_mb: int = Field(
        20_480,
        ge=500,
        description="Bytes that the open resumable uploads of one tenant may have in all, in MiB, by their announced "
        "lengths; further ones get 429. They wait in the platform's own store.",
    )
    free_uploads_per_month: int = Field(500, ge=0, description="Uploads per calendar month (UTC) on the plan `free`.")
    validations_per_minute: int = Field(
        60, ge=1, le=10_000, description="Files that a tenant may validate in a minute without storing them."
    )
    failed_logins: int = Field(
        1000,
        ge=1,
        description="Failed credentials, and attempts to sign in with a passkey, per address and minute; further ones "
        "get 429.",
    )
    review_two_persons: bool = Field(
        False, description="A file leaves quarantine only when two persons decided the same: release or refuse."
    )

    # Decide how long data are kept
    purge_after_days: float = Field(30.0, ge=0, description="Days until the object of a deleted file is removed.")
    decision_days: float = Field(
        365.0, gt=0, description="Days for which the decision log is kept. It holds file names."
    )
    audit_days: float = Field(
        365.0, gt=0, description="Days for which the audit log is kept. It holds names of users and keys."
    )
    resumable_hours: float = Field(
        24.0, gt=0, description="Hours after which a resumable upload that was not finished is deleted with its bytes."
    )
    stale_parts_hours: float = Field(
        24.0,
        gt=0,
        description="Hours until a multipart upload that a crash left in a bucket is aborted. Must be longer than any "
        "upload takes.",
    )

    # Tune
    sandbox: Literal["auto", "strict", "seccomp", "limits-only"] = Field(
        "auto",
        description="Lowest accepted level of the checker's sandbox; the best level that works is used. `auto` "
        "requires at least `seccomp`.",
    )
    sandbox_workers: int = Field(
        0,
        ge=0,
        le=256,
        description="Checks at once. One that takes longer than five seconds makes room for another, for as many at "
        "most. 0: one per core, at least two.",
    )
    sandbox_files_per_worker: int = Field(
        500,
        ge=1,
        description="Files of one tenant that one checker process handles before it is replaced. 1: a process per "
        "file.",
    )
    sandbox_wall_seconds: float = Field(
        300.0,
        gt=0,
        description="Longest check of a small file by the clock, on a machine that is too busy; then the upload gets "
        "503. Large files get more in proportion to their size. What a file may cost is limited in processor time.",
    )
    sandbox_wait_seconds: float = Field(60.0, gt=0, description="Longest wait for a free checker process.")
    spool_memory_kb: int = Field(
        1024, ge=0, le=65536, description="Uploads up to this size are spooled in memory, larger ones on disk."
    )
    spool_mb: int = Field(
        8192,
        ge=2048,
        description="Bytes of large uploads (over 4 MiB) that are spooled at once, in MiB; one tenant may have a "
        "quarter of it. Further ones wait `SLUICE_UPLOAD_WAIT_SECONDS` in the middle of their body; then they get 503.",
    )
    spool_dir: Path | None = Field(
        None, description="Folder of spooled uploads (unlinked files). Default: `spool` in the data folder."
    )
    remember_seconds: float = Field(
        1.0,
        ge=0,
        le=10,
        description="How long uploads begin with a cached credential and context. Both are revalidated before any "
        "response, so a revocation takes effect at once; `0` switches the cache off.",
    )
    upload_lease_seconds: float = Field(
        900.0,
        gt=0,
        description="Longest time between reserving quota for a file and storing it; then the worker cleans up.",
    )
    ietf_uploads: bool = Field(
        False,
        description="Whether resumable uploads also speak the IETF's draft (interop versions 6 and 8), which may "
        "still change.",
    )
    worker_seconds: float = Field(5.0, gt=0, description="Pause of the worker when nothing is due.")

    # Test recovery
    failpoint: str | None = Field(
        None,
        description="Kill the process at this point: `NAME`, or `NAME:N` for the N-th time it is reached. For tests "
        "only.",
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003  (named by the library)
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return where settings come from: arguments, the environment, files that it names."""
        return init_settings, env_settings, _NamedFiles(settings_cls)

    @field_validator(
        "scanner",
        "scanner_optional",
        "clamd",
        "icap",
        "icap_reqmod",
        "python_checks",
        "trusted_proxies",
        "bucket_endpoint_hosts",
        "webhook_hosts",
        "jwt_default_scopes",
        "console_oidc_scopes",
        "oidc_algorithms",
        mode="before",
    )
    @classmethod
    def _split_names(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value

    @field_validator("scanner")
    @classmethod
    def _require_engines(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        is_alone = value in {("auto",), ("off",)}
        is_list = bool(value) and all(_ENGINE.fullmatch(name) for name in value) and len(set(value)) == len(value)
        if not (is_alone or is_list):
            found = ",".join(value) or "none"
            raise ValueError(
                f"expected auto, off, or a list of clamd, builtin, yara, icap:NAME, each once; found {found}"
            )
        return value

    @field_validator("icap")
    @classmethod
    def _require_icap_names(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for each in value:
            if not _ICAP.fullmatch(each):
                raise ValueError(f"expected NAME=icap://host:port/service, comma-separated; found {each!r}")
        names = [each.partition("=")[0] for each in value]
        if len(set(names)) < len(names):
            raise ValueError(f"expected each name once; found {', '.join(names)}")
        return value

    @field_validator("python_checks")
    @classmethod
    def _require_check_names(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not all(_CHECK.fullmatch(name) for name in value) or len(set(value)) < len(value):
            raise ValueError(f"expected names of small letters, digits and _, each once; found {', '.join(value)}")
        return value

    @model_validator(mode="after")
    def _require_known_engines(self) -> Self:
        named = [name.removeprefix("icap:") for name in self.scanner if name.startswith("icap:")]
        if stray := [name for name in named if name not in self.icap_addresses]:
            raise ValueError(f"SLUICE_SCANNER: expected names of SLUICE_ICAP behind icap:; found {', '.join(stray)}")
        if stray := [name for name in self.icap_addresses if name not in named]:
            raise ValueError(
                f"SLUICE_ICAP: expected names that SLUICE_SCANNER asks as icap:NAME; found {', '.join(stray)}"
            )
        if ("yara" in self.scanner) != (self.yara_rules is not None):
            has, lacks = ("SLUICE_SCANNER has yara", "SLUICE_YARA_RULES, its folder of rules,")
            if self.yara_rules is not None:
                has, lacks = ("SLUICE_YARA_RULES is set", "yara in SLUICE_SCANNER")
            raise ValueError(f"{has}, which needs {lacks} too")
        optional = [name for name in self.scanner if _ENGINE.fullmatch(name) and name != "builtin"]
        if stray := [name for name in self.scanner_optional if name not in optional]:
            raise ValueError(
                f"SLUICE_SCANNER_OPTIONAL: expected clamd, yara or icap:NAME of SLUICE_SCANNER; found "
                f"{', '.join(stray)}"
            )
        if stray := [name for name in self.icap_reqmod if name not in self.icap_addresses]:
            raise ValueError(f"SLUICE_ICAP_REQMOD: expected names of SLUICE_ICAP; found {', '.join(stray)}")
        return self

    @property
    def icap_addresses(self) -> dict[str, str]:
        """The addresses of the ICAP services, by name."""
        pairs = (each.partition("=") for each in self.icap)
        return {name: address for name, _, address in pairs}

    @field_validator("storage_url")
    @classmethod
    def _require_one_store(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and (info.data.get("storage_dir") or info.data.get("storage_bucket")):
            raise ValueError("expected without SLUICE_STORAGE_DIR and SLUICE_STORAGE_BUCKET, which mean the same")
        return value

    @property
    def resolved_database_url(self) -> str:
        """URL of the database, with the default filled in."""
        if self.database_url is not None:
            return self.database_url.get_secret_value()
        return f"sqlite:///{(self.data_dir / 'sluice.db').absolute()}"

    @property
    def resolved_public_url(self) -> str:
        """Address of the service, without a trailing slash."""
        if self.public_url is not None:
            return str(self.public_url).rstrip("/")
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    @property
    def resolved_download_url(self) -> str:
        """Address that download links begin with, without a trailing slash."""
        return self.resolved_public_url if self.download_url is None else str(self.download_url).rstrip("/")

    @property
    def resolved_storage_dir(self) -> Path:
        """Folder of the local store, with the default filled in."""
        if self.storage_url is not None and self.storage_url.startswith(_FILE):
            return Path(unquote(self.storage_url.removeprefix(_FILE)))
        return self.storage_dir or self.data_dir / "objects"

    @property
    def resolved_storage_url(self) -> str | None:
        """URL of the bucket that is the platform's own store, None for a folder."""
        if self.storage_url is not None:
            return None if self.storage_url.startswith(_FILE) else self.storage_url
        return None if self.storage_bucket is None else f"s3://{self.storage_bucket}"

    @property
    def resolved_spool_dir(self) -> Path:
        """Folder of the spool, with the default filled in."""
        return self.spool_dir or self.data_dir / "spool"

    @property
    def keys_dir(self) -> Path:
        """Folder of the secret files."""
        return self.data_dir / "keys"


class _NamedFiles(PydanticBaseSettingsSource):
    """Settings whose values are in files that the environment names (`SLUICE_DATABASE_URL_FILE`)."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:  # noqa: ARG002  (its name)
        """Return the content of the file, without white space around it. Raise `SecretFileRefused`."""
        path = os.environ.get(f"{_PREFIX}{field_name.upper()}_FILE")
        return None if path is None else read_secret_file(Path(path)).decode().strip(), field_name, False

    def __call__(self) -> dict[str, Any]:
        """Return the settings that are in files."""
        fields = self.settings_cls.model_fields
        found = {name: self.get_field_value(fields[name], name)[0] for name in FROM_FILES}
        return {name: value for name, value in found.items() if value is not None}


def unknown_variables(names: Iterable[str]) -> Mapping[str, str | None]:
    """Return those variables that begin as settings do and are none, each with the setting that is most alike."""
    settings = [f"{_PREFIX}{name.upper()}" for name in Settings.model_fields]
    settings += [f"{_PREFIX}{name.upper()}_FILE" for name in FROM_FILES]
    return {
        name: next(iter(get_close_matches(name, settings, 1, 0.75)), None)
        for name in sorted(names)
        if name.startswith(_PREFIX) and name not in settings and not _OTHER_VARIABLES.fullmatch(name)
    }
