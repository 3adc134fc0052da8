#!/usr/bin/env bash
# Asks whether a pinned library has a known vulnerability. Fails when one has. Where no index with advisories can be reached it says so and
# passes: that is no property of the code. SLUICE_AUDIT_OSV_URL asks an OSV service there in place of the index (https://api.osv.dev/v1/query).
set -uo pipefail
cd "$(dirname "$0")/.."

service=()
[ -n "${SLUICE_AUDIT_OSV_URL:-}" ] && service=(--vulnerability-service osv --osv-url "$SLUICE_AUDIT_OSV_URL")
said=$(timeout 120 .venv/bin/python -m pip_audit --requirement requirements.lock --require-hashes --disable-pip \
    --progress-spinner off --timeout 5 "${service[@]}" 2>&1)
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
