#!/usr/bin/env bash
# Build wheel and source archive into dist/, install each into an empty environment, and upload a first file there.
# Without an argument also: the bill of materials and the section of the changelog. Needs a package index, or a folder
# of wheels: PIP_FIND_LINKS=folder PIP_NO_INDEX=1.
set -euo pipefail
cd "$(dirname "$0")/.."
bin="${VENV:-.venv}/bin"
version=$("$bin/python" -c 'import sluice; print(sluice.__version__)')
rm -rf dist
"$bin/python" -m hatchling build
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for built in "dist/sluice-$version-py3-none-any.whl" "dist/sluice-$version.tar.gz"; do
  rm -rf "$work/env"
  "$bin/python" -m venv "$work/env"
  # the pinned libraries first, each verified by its hash; then nothing but the archive itself
  "$work/env/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
  "$work/env/bin/pip" install --quiet --disable-pip-version-check --no-deps --no-build-isolation "$built"
  "$work/env/bin/pip" check
  "$bin/python" scripts/first_upload.py "$work/env/bin/sluice"
  echo "$built: installed, served, accepted a first upload"
done
[ "${1:-}" = wheel ] && exit 0
"$bin/python" scripts/sbom.py "dist/sluice-$version.sbom.json"
awk -v head="## $version" 'index($0, head) == 1 {on = 1} on && /^## / && index($0, head) != 1 {exit} on' CHANGELOG.md > "dist/CHANGES-$version.md"
[ -s "dist/CHANGES-$version.md" ] || { echo "CHANGELOG.md has no section for $version" >&2; exit 1; }
(cd dist && sha256sum sluice-* CHANGES-* > SHA256SUMS && cat SHA256SUMS)
