#!/bin/sh
# Print claim.html with the address of a new upload token, good for an hour and three files. It needs curl.
set -eu
token=$(curl --fail-with-body -sS -H "Authorization: Bearer $SLUICE_API_KEY" -H 'Content-Type: application/json' \
  -d '{"context": "claims", "expires_in": 3600, "max_files": 3, "methods": ["form"]}' \
  "${SLUICE_URL:-http://127.0.0.1:8000}/api/v1/upload-tokens")
form_url=$(printf '%s' "$token" | sed -E 's/.*"form_url": ?"([^"]+)".*/\1/')
sed "s|FORM_URL|$form_url|" "$(dirname "$0")/claim.html"
