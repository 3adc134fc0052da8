"""`docs/cli.md`: every command of `sluice`. The commands and their help are declared in `sluice_client.cli` and `sluice.cli`."""

import re
from collections.abc import Iterator
from typing import Any

import typer

from docs_pages.markdown import anchor, fenced, made_from, page, table
from sluice_client.cli.app import app
from sluice_client.cli.output import EXIT_CODES
from sluice_client.cli.shell import ENVIRONMENT, FILES, leaves

_INTRO = """
# The command `sluice`

The same text as `sluice COMMAND --help`, and as `sluice man | man -l -`. Commands of the operator read the
[settings](settings.md) from the environment, as the service does, and work on the same data folder. Those with `--url`
send requests to a running service over HTTP.

## Find the service

The address and the key come from the first of these that names them:

1. the options `--url` and `--api-key`;
2. the profile that `--profile` names;
3. the variables `SLUICE_URL` and `SLUICE_API_KEY`;
4. the profile that `SLUICE_PROFILE` names, else the profile `default`.

`sluice login` makes a profile: it asks for the address and, hidden, for the key, tries the key, and keeps both. In
scripts, `sluice login --url https://files.example.com --with-key < key.txt`. The key goes into the keyring of the system
if the extra `keyring` is installed and a keyring works, else into a file of mode 0600. The key of a profile is sent to the
address of that profile only, whatever `--url` says.

```toml
# ~/.config/sluice/config.toml
[profiles.default]
url = "https://files.example.com"
key = "file"

[profiles.trial]
url = "http://127.0.0.1:8000"
key = "keyring"
```

## In scripts

- Data go to standard output, what is said about them to standard error. Where a command makes a key, a token or a
  secret, its text alone is on standard output.
- `--json` prints one line of JSON for each item of a list, none for an empty one, and one for anything else. An error is
  one line on standard error: `{"error": "…", "code": "not_found", "exit_code": 5}`; `code` is that of
  [errors](errors.md), or null.
- Nothing is asked without a terminal. What destroys something needs `--yes` there, and exits with 1 without it.
- `eval "$(sluice completion bash)"` completes commands and options; zsh and fish likewise.
"""


def cli_page() -> str:
    """Return the page."""
    root: Any = typer.main.get_command(app)
    commands = list(leaves(root, typer.Context(root), "sluice"))
    rows = [(f"[`{name}`](#{anchor(name)})", _first_sentence(command)) for name, command, _ in commands]
    sections = [block for name, command, context in commands for block in _section(name, command, context)]
    codes = [(str(int(code)), meaning) for code, meaning in EXIT_CODES.items()]
    return page(
        made_from("clients/python/src/sluice_client/cli and server/src/sluice/cli"),
        _INTRO,
        "## Exit codes",
        table(("Code", "Meaning"), codes),
        "## Variables and files",
        table(("Name", "Meaning"), [(f"`{name}`", meaning) for name, meaning in (ENVIRONMENT | FILES).items()]),
        "## Commands",
        root.help or "",
        table(("Command", "What it does"), rows),
        *sections,
    )


def _section(name: str, command: Any, context: typer.Context) -> Iterator[str]:
    yield f"## {name}"
    yield command.help or ""
    yield fenced("sh", f"{name} {' '.join(command.collect_usage_pieces(context))}")
    records = [record for parameter in command.get_params(context) if (record := parameter.get_help_record(context))]
    rows = [(f"`{words}`", meaning) for words, meaning in records if "--help" not in words]
    if rows:
        yield table(("Argument or option", "Meaning"), rows)


def _first_sentence(command: Any) -> str:
    return re.split(r"(?<=[.?!])\s", str(command.help or ""))[0]
