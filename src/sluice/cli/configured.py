"""The settings of a command, read from the environment, and the log that they ask for. The database is in `environment`."""

from pydantic import ValidationError
from pydantic_settings import SettingsError

from sluice.cli.outcomes import CommandRefused, Exit
from sluice.observe import log
from sluice.settings import Settings


def read_settings() -> Settings:
    """Answer the settings of the environment; raises `CommandRefused` naming every variable that is wrong."""
    try:
        return Settings()
    except ValidationError as fault:
        wrong = "; ".join(f"SLUICE_{'_'.join(map(str, error['loc'])).upper()}: {error['msg']}" for error in fault.errors())
        raise CommandRefused(f"The settings are wrong. {wrong}.", Exit.USAGE) from fault
    except SettingsError as fault:
        raise CommandRefused(f"The settings cannot be read: {fault}.", Exit.USAGE) from fault


def settings_for_a_task() -> Settings:
    """Answer the settings for a command that talks to a person: the log is silent unless `SLUICE_LOG_LEVEL` is `debug`."""
    settings = read_settings()
    log.configure("debug" if settings.log_level == "debug" else "critical", settings.log_format)
    return settings


def settings_for_a_service() -> Settings:
    """Answer the settings for a process that runs until it is told to end, and writes its log."""
    settings = read_settings()
    log.configure(settings.log_level, settings.log_format)
    return settings
