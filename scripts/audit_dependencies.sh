#!/usr/bin/env bash
# Asks the index whether a pinned library has a known vulnerability. Fails when one has. Where no index with advisories can be reached it
# says so and passes: that is no property of the code.
set -uo pipefail
cd "$(dirname "$0")/.."

tools=.audit
if [ ! -d "$tools" ]; then
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-input --target "$tools" 'pip-audit>=2.10,<3' 2>/dev/null ||
        { rm -rf "$tools"; echo 'Not audited: pip-audit cannot be installed here.'; exit 0; }
fi
said=$(PYTHONPATH=$PWD/$tools timeout 120 .venv/bin/python -m pip_audit --requirement requirements.lock --require-hashes --disable-pip \
    --progress-spinner off --timeout 5 2>&1)
code=$?
unknown=$(grep -c 'could not be audited' <<<"$said")
if [ $code = 0 ] && [ "$unknown" = 0 ]; then
    echo 'No pinned library has a known vulnerability.'
elif [ $code = 0 ]; then
    echo "Not audited: the index that can be reached here knows no advisories for $unknown libraries."
elif grep -qE 'GHSA-|PYSEC-|CVE-' <<<"$said"; then
    printf '%s\n' "$said"
    exit 1
else
    echo 'Not audited: no index with advisories can be reached.'
fi
