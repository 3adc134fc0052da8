"""Judge a good file and one of zeros of ten formats in locked processes, as a user of sluice-inspect does."""

import io
import sys

from sluice_inspect import Inspector
from sluice_inspect.registry import FORMATS

NAMES = ("png", "jpeg", "pdf", "docx", "xlsx", "zip", "csv", "html", "svg", "eml")


def main() -> int:
    """Print a line for each format; return 1 if a verdict is wrong."""
    wrong = 0
    with Inspector() as inspector:
        for each in (each for each in FORMATS if each.name in NAMES):
            content, filename = each.sample(), f"sample.{min(each.extensions)}"
            good = inspector.inspect(io.BytesIO(content), filename=filename)
            bad = inspector.inspect(io.BytesIO(bytes(len(content))), filename=filename)
            print(f"{each.name}: {good.reason}, its zeros {bad.reason}")
            wrong += good.reason != "ok" or not bad.is_refused
    frameworks = {"fastapi", "starlette", "django", "flask", "httpx", "sqlalchemy", "pydantic"} & sys.modules.keys()
    print(f"frameworks loaded: {len(frameworks)}")
    return 1 if wrong or frameworks else 0


if __name__ == "__main__":
    sys.exit(main())
