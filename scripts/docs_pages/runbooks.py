"""`docs/runbooks.md`: what to do about each alert, from the annotations of the alert rules."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from docs_pages.markdown import made_from, page

_RULES: Final = "deploy/prometheus/sluice.rules.yml"
_INTRO: Final = """
# Runbooks

One section for each alert. "Seen from outside" is what clients notice. Whatever fails, no upload that was answered with
201 is affected, nothing that could not be checked is stored, and nothing is charged for an upload that failed. `detail`
is that of `GET /health/ready` with the metrics token, or of `sluice doctor`. The same texts are annotations of the
alert, so that a notification can show them.
"""


def runbooks_page() -> str:
    """Return the page."""
    groups = yaml.safe_load((Path(__file__).parents[2] / _RULES).read_text(encoding="utf-8"))["groups"]
    sections = [_section(rule) for group in groups for rule in group["rules"]]
    return page(made_from(_RULES), _INTRO, *sections)


def _section(rule: Mapping[str, Any]) -> str:
    texts = rule["annotations"]
    return (
        f"## {rule['alert']}\n\n{texts['meaning']}\n\n- **Seen from outside.** {texts['seen_from_outside']}\n"
        f"- **Look.** {texts['look']}\n- **Do.** {texts['do']}"
    )
