"""The log: one structured line per event, JSON for machines or text for people. Secrets never reach it: callers pass names and ids."""

import logging
import sys
from typing import Any, Literal

import structlog

log: structlog.stdlib.BoundLogger = structlog.get_logger("sluice")


def configure(level: str, form: Literal["auto", "json", "text"]) -> None:
    """Send the service's and the libraries' lines to standard error, in one form."""
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
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, structlog.processors.format_exc_info, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    log_level = logging.getLevelName(level.upper())
    logging.getLogger("sluice").setLevel(log_level)
    # What libraries say at `debug` holds values of SQL statements, headers and bodies: nobody may read those, whatever is set.
    root.setLevel(max(logging.INFO, log_level))
    for chatty in ("uvicorn.access", "botocore", "alembic", "asyncio"):
        logging.getLogger(chatty).setLevel(max(logging.WARNING, root.level))
