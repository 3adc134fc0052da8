"""An external check of Sluice that accepts only PDF/A-2b, as veraPDF finds it (docker run -p 8080:8080 verapdf/rest)."""

import os
from typing import Any

import httpx
from function import content_of, server_for


def decide(question: dict[str, Any]) -> dict[str, Any]:
    """Accept a file if veraPDF finds no rule of PDF/A-2b that it breaks."""
    form = {"file": ("file.pdf", content_of(question), "application/pdf")}
    url, headers = f"{os.environ['VERAPDF_URL']}/api/validate/2b", {"Accept": "application/json"}
    response = httpx.post(url, files=form, headers=headers, timeout=50).raise_for_status()
    result = response.json()["report"]["jobs"][0]["validationResult"]
    (found,) = result if isinstance(result, list) else [result]  # one, or a list of one, by its version
    if found["compliant"] is True:
        return {"verdict": "accept"}
    failed = found["details"]["failedRules"]
    sentence = "This PDF cannot be archived. Please export it as PDF/A-2b."
    return {"verdict": "reject", "sentence": sentence, "code": "not_pdf_a", "details": {"failed_rules": failed}}


if __name__ == "__main__":
    server_for(decide, 8402).serve_forever()
