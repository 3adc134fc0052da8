"""A sentence and an exit code for the faults of the server's own code that a command may meet."""

# ruff: noqa: PLC0415  (the faults of engines are slow to load, and most commands meet none)

from sluice_client.cli.output import Exit, describe_fault, exit_of


def explain(fault: BaseException) -> tuple[str, Exit] | None:
    """Return one sentence and the exit code for a known fault, None for an unexpected one."""
    if isinstance(fault, BaseExceptionGroup):
        return next((known for inner in fault.exceptions if (known := explain(inner)) is not None), None)
    if (known := describe_fault(fault)) is not None:
        return known

    from sluice.db.database import DatabaseUnavailable
    from sluice.errors import SluiceError
    from sluice.kit.secret_files import SecretFileRefused
    from sluice.storage import StoreError
    from sluice.wiring.refusal import StartRefused
    from sluice_inspect.sandbox import SandboxBroken

    match fault:
        case SluiceError():
            return f"{fault.message}: {'; '.join(fault.errors)}.", exit_of(fault.status, fault.code)
        case StartRefused() | SecretFileRefused():
            return str(fault), Exit.ERROR
        case SandboxBroken():
            return f"The sandbox cannot be trusted on this machine: {fault}.", Exit.ERROR
        case DatabaseUnavailable():
            sentence = f"The database is unavailable: {fault}. Check SLUICE_DATABASE_URL and SLUICE_DATA_DIR."
            return sentence, Exit.UNAVAILABLE
        case StoreError():
            sentence = f"The store fails: {str(fault).rstrip('.')}. Check the SLUICE_STORAGE_ settings of the store."
            return sentence, Exit.UNAVAILABLE
    return None
