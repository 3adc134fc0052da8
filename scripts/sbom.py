"""Write an SBOM of `requirements.lock` as CycloneDX 1.6 JSON: `python scripts/sbom.py build/sbom.json [--installed]`.

With `--installed` it has only the libraries that are installed beside this interpreter, as in an image.
"""

import json
import re
import sys
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, Final

_LOCK: Final = Path(__file__).parents[1] / "requirements.lock"
_PIN: Final = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)")
_HASH: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def bill_of_materials(lock: str) -> dict[str, Any]:
    """Return the SBOM: one component per pinned library, with the hashes of its allowed files.

    Not made by a library, because the tool that reads lock files drops their hashes.
    """
    components: list[dict[str, Any]] = []
    for line in lock.splitlines():
        if pin := _PIN.match(line):
            name, version = pin[1].lower(), pin[2]
            purl = f"pkg:pypi/{name}@{version}"
            components.append(
                {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl, "hashes": []}
            )
        elif (found := _HASH.search(line)) and components:
            components[-1]["hashes"].append({"alg": "SHA-256", "content": found[1]})
    root = {
        "type": "application",
        "bom-ref": "sluice",
        "name": "sluice",
        "licenses": [{"license": {"id": "Apache-2.0"}}],
    }
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": root},
        "components": components,
        "dependencies": [{"ref": "sluice", "dependsOn": [component["bom-ref"] for component in components]}],
    }


def main() -> None:
    """Write the SBOM to the file named by the first argument."""
    target = Path(sys.argv[1])
    target.parent.mkdir(parents=True, exist_ok=True)
    bill = bill_of_materials(_LOCK.read_text(encoding="utf-8"))
    if "--installed" in sys.argv[2:]:
        installed = {re.sub(r"[-_.]+", "-", found.name).lower() for found in distributions()}
        bill["components"] = [component for component in bill["components"] if component["name"] in installed]
        bill["dependencies"][0]["dependsOn"] = [component["bom-ref"] for component in bill["components"]]
    target.write_text(json.dumps(bill, indent=2) + "\n", encoding="utf-8")
    print(f"{target}: {len(bill['components'])} libraries")


if __name__ == "__main__":
    main()
