#!/usr/bin/env bash
# Build wheel and source archive into dist/, install each into an empty environment, and upload a first file there.
# Then the same in an empty Debian, where the tools for it are. Without an argument also: both clients, each type-checked and run by
# a user's program where nothing else of this repository is, the slim image, the bill of materials, the section of the changelog, and what the release
# is verified by (scripts/attest.py). SLUICE_RELEASE_KEY names the SSH key that signs, SIGNED=yes demands one. The provenance has the
# builder SLUICE_RELEASE_BUILDER and the times SLUICE_RELEASE_STARTED and SLUICE_RELEASE_FINISHED (2026-01-31T12:00:00Z), if they are set.
# Needs a package index, or a folder of wheels: PIP_FIND_LINKS=folder PIP_NO_INDEX=1.
set -euo pipefail
cd "$(dirname "$0")/.."

die() {
  printf '%s\n' "$1" >&2
  exit 1
}

# What would stop the release at its end stops it here, minutes earlier.
if [ "${1:-}" != wheel ]; then
  [ -z "${SIGNED:-}" ] || [ -n "${SLUICE_RELEASE_KEY:-}" ] || die "SIGNED is set and SLUICE_RELEASE_KEY names no key: nothing was built."
  [ -z "${SLUICE_RELEASE_KEY:-}" ] || [ -f "$SLUICE_RELEASE_KEY" ] || die "SLUICE_RELEASE_KEY names a file that does not exist: $SLUICE_RELEASE_KEY"
  [ -z "${SLUICE_RELEASE_KEY:-}" ] || command -v ssh-keygen >/dev/null || die "ssh-keygen was not found: install OpenSSH (Debian: openssh-client)"
  commit=$(git rev-parse --verify HEAD) || die "A release is built from a commit, and this is no Git repository."
  [ -z "$(git status --porcelain)" ] || die "The provenance would name a commit that is not what is built: commit or remove what \`git status\` lists."
  started=${SLUICE_RELEASE_STARTED:-$(date -u +%FT%TZ)}
fi
# Two builds of a commit give the same bytes. Without a repository hatchling uses a time of its own.
if epoch=$(git log -1 --format=%ct 2>/dev/null); then export SOURCE_DATE_EPOCH=$epoch; fi

bin=$(cd "${VENV:-.venv}/bin" && pwd)
version=$("$bin/python" -c 'import sluice; print(sluice.__version__)')
rm -rf dist
for part in inspect clients/python server; do (cd "$part" && "$bin/python" -m hatchling build -d "$OLDPWD/dist"); done
"$bin/python" scripts/attest.py requirements dist
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for built in "dist/sluice_inspect-$version-py3-none-any.whl" "dist/sluice_inspect-$version.tar.gz"; do
  rm -rf "$work/inspect"
  "$bin/python" -m venv "$work/inspect"
  "$work/inspect/bin/pip" install --quiet --disable-pip-version-check "$built"
  (cd "$work" && inspect/bin/python "$OLDPWD/scripts/release/inspect_files.py")
  echo "$built: installed, judged ten formats in locked processes"
done
for built in "dist/sluice-$version-py3-none-any.whl" "dist/sluice-$version.tar.gz"; do
  rm -rf "$work/env"
  "$bin/python" -m venv "$work/env"
  install=("$work/env/bin/pip" install --quiet --disable-pip-version-check --no-deps)
  if [ "${built##*.}" = whl ]; then
    "${install[@]}" --require-hashes --find-links dist -r "dist/requirements-$version.txt"
  else
    # the pinned libraries first, each verified by its hash; then nothing but the archives themselves
    "${install[@]}" --require-hashes -r requirements.lock
    "${install[@]}" --no-build-isolation "dist/sluice_inspect-$version.tar.gz" "dist/sluice_client-$version.tar.gz" "$built"
  fi
  "$work/env/bin/pip" check
  "$bin/python" scripts/first_upload.py "$work/env/bin/sluice"
  echo "$built: installed, served, accepted a first upload"
done
"$bin/python" scripts/image.py --wheel "dist/sluice-$version-py3-none-any.whl"
[ "${1:-}" = wheel ] && exit 0

for built in dist/sluice_client-*.whl dist/sluice_client-*.tar.gz; do
  rm -rf "$work/client"
  "$bin/python" -m venv "$work/client"
  "$work/client/bin/pip" install --quiet --disable-pip-version-check "$built[cli]" mypy
  (cd "$work" && client/bin/mypy --strict --no-incremental --cache-dir /dev/null "$OLDPWD/scripts/release/client.py")
  "$bin/python" scripts/first_upload.py "$work/env/bin/sluice" "$work/client/bin/python" scripts/release/client.py
  "$bin/python" scripts/first_upload.py "$work/env/bin/sluice" "$work/client/bin/sluice" upload README.md --context claims
  echo "$built: installed, type-checked, uploaded, read a rejection, uploaded by the command"
done
if command -v npm >/dev/null; then
  npm ci --prefix clients/typescript --no-audit --no-fund --ignore-scripts --silent
  (cd clients/typescript && npm pack --silent --pack-destination ../../dist)
  mkdir "$work/node"
  cp scripts/release/client.mts "$work/node"
  echo '{"private": true, "type": "module"}' > "$work/node/package.json"
  (cd "$work/node" && npm install --no-audit --no-fund --ignore-scripts --silent "$OLDPWD"/dist/sluice-client-*.tgz typescript@5.9.3 @types/node@20 &&
    npx --no-install tsc --strict --target es2022 --module nodenext --lib es2023,dom client.mts)
  "$bin/python" scripts/first_upload.py "$work/env/bin/sluice" node "$work/node/client.mjs"
  echo "dist/$(cd dist && ls sluice-client-*.tgz): installed, type-checked, uploaded, read a rejection"
else
  echo "skipped: the client for TypeScript needs npm" >&2
fi

"$bin/python" scripts/image.py --archive "dist/sluice-$version-image.tar.gz"
"$bin/python" scripts/sbom.py "dist/sluice-$version.sbom.json"
awk -v head="## $version" 'index($0, head) == 1 {on = 1} on && /^## / && index($0, head) != 1 {exit} on' CHANGELOG.md > "dist/CHANGES-$version.md"
[ -s "dist/CHANGES-$version.md" ] || die "CHANGELOG.md has no section for $version"
"$bin/python" scripts/attest.py sign dist --commit "$commit" --started "$started" --finished "${SLUICE_RELEASE_FINISHED:-$(date -u +%FT%TZ)}" \
  ${SLUICE_RELEASE_BUILDER:+--builder "$SLUICE_RELEASE_BUILDER"}
cat dist/SHA256SUMS
