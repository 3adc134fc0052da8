"""The rules of the `builtin` scanner engine: known threats looked for in unpacked bytes. Not an antivirus. Runs in the sandbox."""
