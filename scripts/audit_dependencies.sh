#!/usr/bin/env bash
# Checks the pinned libraries for known vulnerabilities and fails when there is one. When no index with advisories can be
# reached, it prints a notice and passes. SLUICE_AUDIT_OSV_URL names an OSV service to query instead of the index, such as
# https://api.osv.dev/v1/query. The argument is the Python of an environment with pip-audit.
set -uo pipefail
cd "$(dirname "$0")/.."

service=()
[ -n "${SLUICE_AUDIT_OSV_URL:-}" ] && service=(--vulnerability-service osv --osv-url "$SLUICE_AUDIT_OSV_URL")
output=$(timeout 120 "${1:-.venv/bin/python}" -m pip_audit --requirement requirements.lock --require-hashes --disable-pip \
    --progress-spinner off --timeout 5 "${service[@]}" 2>&1)
code=$?
unknown=$(grep -c 'could not be audited' <<<"$output")
if [ $code = 0 ] && [ "$unknown" = 0 ]; then
    echo 'No pinned library has a known vulnerability.'
elif [ $code = 0 ]; then
    echo "Not audited: the index that can be reached here knows no advisories for $unknown libraries."
elif grep -qE 'GHSA-|PYSEC-|CVE-' <<<"$output"; then
    printf '%s\n' "$output"
    exit 1
else
    echo 'Not audited: no index with advisories can be reached.'
fi
