"""`docs/reports.md` names every field, check, advice and policy, and its examples are accepted."""

import json
import re
from typing import Final, get_args

from sluice.api.schemas.reports import FullReport, SenderReport
from sluice.contexts.policies import Mode, Policies
from sluice.uploads.reasons import WORDS, Advice
from sluice.uploads.rules import CHECKS, CheckOutcome
from sluice.uploads.values import VerdictOutcome
from tests.docs.pages import DOCS, blocks
from tests.rows import each_row

PAGE: Final = (DOCS / "reports.md").read_text(encoding="utf-8")
CODED: Final = set(re.findall(r"`([^`\n]+)`", PAGE))
EXAMPLES: Final = dict(re.findall(r"^\| `(\w+)` \| [^|]+ \| `(\{[^|]*\})` \|", PAGE, re.MULTILINE))
CODE_OF: Final = {words.check.removeprefix("policy."): reason for reason, words in WORDS.items()}


def test_page_names_every_field_check_and_outcome_and_what_a_sender_sees() -> None:
    policies = {name for name in CHECKS if name.startswith("policy.")}
    values = {*get_args(VerdictOutcome), *get_args(CheckOutcome), *get_args(Advice), *Mode}
    assert {*FullReport.model_fields, *CHECKS, *values} - policies <= CODED
    (row,) = re.findall(r"^\| scope `upload` alone \|(.*)\|$", PAGE, re.MULTILINE)
    assert re.findall(r"`(\w+)`", row) == list(SenderReport.model_fields)


@each_row("name", Policies.model_fields)
def test_policy_has_an_example_that_is_accepted_and_its_reason_code(name: str) -> None:
    assert getattr(Policies.model_validate({name: json.loads(EXAMPLES[name])}), name).mode is Mode.ENFORCE
    assert f"(reasons.md#{CODE_OF[name].value})" in PAGE


def test_example_of_a_context_with_policies_is_accepted() -> None:
    policies = Policies.model_validate(json.loads(blocks(PAGE, "json")[0])["policies"])
    assert (policies.encrypted, policies.image) != (None, None)
