"""What a person is told when a command fails: one sentence and an exit code for each known fault. No trace is shown to them."""

from http import HTTPStatus

from sluice.cli.outcomes import CommandRefused, Exit
from sluice.db.database import DatabaseAway
from sluice.engines.sandbox import SandboxBroken
from sluice.engines.storage import StoreFault
from sluice.errors import SluiceError
from sluice.kit.secret_files import SecretFileRefused
from sluice.wiring.start import StartRefused


def worded(fault: BaseException) -> tuple[str, Exit] | None:
    """Answer the sentence and the exit code of a known fault, None of one that nobody expected."""
    match fault:
        case BaseExceptionGroup():
            return next((known for inner in fault.exceptions if (known := worded(inner)) is not None), None)
        case CommandRefused():
            return str(fault), fault.code
        case SluiceError():
            # 5xx is ours: the engine that was needed is away.
            code = Exit.FAILED if fault.status >= HTTPStatus.INTERNAL_SERVER_ERROR else Exit.REFUSED
            return f"{fault.message}: {'; '.join(fault.errors)}.", code
    sentence = _of_this_machine(fault)
    return None if sentence is None else (sentence, Exit.FAILED)


def _of_this_machine(fault: BaseException) -> str | None:
    """Answer the sentence of a fault that lies in the machine or in how the service is set up on it."""
    match fault:
        case StartRefused() | SecretFileRefused():
            return str(fault)
        case SandboxBroken():
            return f"The sandbox cannot be trusted on this machine: {fault}."
        case DatabaseAway():
            return f"The database is away: {fault}. Look at SLUICE_DATABASE_URL and SLUICE_DATA_DIR."
        case StoreFault():
            return f"The store fails: {fault}. Look at SLUICE_STORAGE_DIR and SLUICE_DATA_DIR."
        case OSError():
            what = fault.strerror or type(fault).__name__
            return f"{fault.filename}: {what}." if fault.filename else f"{what}."
    return None
