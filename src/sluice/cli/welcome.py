"""What `sluice serve` tells a person: where it serves, and on the first start the key and three lines to try. Text only."""

from typing import Final

from sluice.cli.first_key import FirstKey

_CONTEXT: Final = '{"context_key": "claims", "display_name": "Claims"}'


def curl_lines(url: str, api_key: str) -> tuple[str, str, str]:
    """Answer three shell lines that create a context, upload a file into it, and download the newest file.

    Each stands alone, needs nothing but curl and sed, and begins with `curl`. `api_key` may be a shell variable.
    """
    key = f'-H "Authorization: Bearer {api_key}"'
    newest = f"""curl -sS {key} '{url}/api/v1/files?page_size=1' | {_field("file_id")}"""
    link = f"""curl -sS {key} "{url}/api/v1/files/$({newest})" | {_field("download_url")}"""
    return (
        f"""curl -sS {key} -H 'Content-Type: application/json' -d '{_CONTEXT}' {url}/api/v1/contexts""",
        f"""curl -sS {key} -F context=claims -F 'file=Hello, Sluice!;filename=hello.txt' {url}/api/v1/files/upload""",
        f"""curl -sS "$({link})\"""",
    )


def welcome(first: FirstKey, url: str) -> str:
    """Answer what the first start shows: the only time that the key is seen."""
    create, upload, download = curl_lines(url, first.api_key)
    return f"""
Welcome to Sluice. This first start made a tenant and an admin key; the key is shown now and never again.

  tenant   {first.tenant_id} ({first.tenant_name}, plan {first.plan})
  api key  {first.api_key}

Three lines to try: create a context, upload a small file into it (your own: -F file=@NAME), download it.

{create}

{upload}

{download}
"""


def serving(url: str, data_dir: str) -> str:
    """Answer what every start shows."""
    return f"""Sluice serves {url}
  API docs  {url}/docs
  data      {data_dir}
Ctrl-C drains and stops."""


def _field(name: str) -> str:
    return f"""sed -E 's/.*"{name}":"([^"]+)".*/\\1/'"""
