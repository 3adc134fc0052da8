"""The log: one structured line per event, as JSON or as text. Callers pass names and ids, never secrets."""

import logging
import sys
from typing import Any, Literal

import structlog

log: structlog.stdlib.BoundLogger = structlog.get_logger("sluice")


def configure(level: str, form: Literal["auto", "json", "text"]) -> None:
    """Write the log of the service and its libraries to standard error, in one format."""
    as_text = form == "text" or (form == "auto" and sys.stderr.isatty())
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    renderer: Any = structlog.dev.ConsoleRenderer() if as_text else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                renderer,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    log_level = logging.getLevelName(level.upper())
    logging.getLogger("sluice").setLevel(log_level)
    # Libraries log values of SQL statements, headers and bodies at `debug`: those never reach the log, whatever is set.
    root.setLevel(max(logging.INFO, log_level))
    # So are addresses of webhooks, which may hold a token: httpx logs each at `info`.
    for library in ("uvicorn.access", "botocore", "alembic", "asyncio", "httpx", "httpcore"):
        logging.getLogger(library).setLevel(max(logging.WARNING, root.level))
