#!/usr/bin/env bash
# Creates a virtual environment from a hash-pinned lock file, with the distributions of this repository installed. Does nothing when it is up to date.
# Usage: scripts/venv.sh requirements.lock|requirements-dev.lock     PYTHON is the interpreter (default python3), VENV the folder (default .venv); with an empty COMPILE, modules are compiled when they are loaded.
set -euo pipefail
cd "$(dirname "$0")/.."
lock=$1
python=${PYTHON:-python3}
venv=${VENV:-.venv}

die() {
    printf '%s\n' "$1" >&2
    exit 1
}

command -v "$python" >/dev/null || die "$python was not found: install Python 3.11 or newer, or choose one with make PYTHON=…"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    die "Sluice needs Python 3.11 or newer and $python is $("$python" -c 'import platform; print(platform.python_version())'): choose one with make PYTHON=…"

# A hash of the lock file, the interpreter and the folder, since a venv cannot be moved.
fingerprint() {
    "$python" - "$1" <<'END'
import hashlib, pathlib, sys
fingerprint = pathlib.Path(sys.argv[1]).read_bytes() + f"{sys.version} {pathlib.Path.cwd()}".encode()
print(hashlib.sha256(fingerprint).hexdigest())
END
}
is_current() { [ "$(cat "$venv/.made-of-$1" 2>/dev/null)" = "$(fingerprint "$1")" ]; }

# The development lock contains the other one, with the same versions.
is_current "$lock" && exit 0
[ "$lock" = requirements.lock ] && is_current requirements-dev.lock && exit 0

if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv </dev/null
    else
        die "$python cannot make virtual environments; on Debian: sudo apt-get install python3-venv"
    fi
fi

printf 'Creating %s from %s.\n' "$venv" "$lock"
if ! is_current requirements.lock; then
    "$python" -m venv --clear "$venv"
fi
pip=("$venv/bin/python" -m pip --disable-pip-version-check --no-input --quiet)
# uv checks the same hashes in a tenth of pip's time. It does not read the configuration of pip: where it fails, pip installs.
"${pip[@]}" install --require-hashes --requirement scripts/uv.txt || true
if ! [ -x "$venv/bin/uv" ] || ! "$venv/bin/uv" pip install --quiet ${COMPILE---compile-bytecode} --python "$venv/bin/python" --require-hashes --requirement "$lock"; then
    "${pip[@]}" install --require-hashes --requirement "$lock"
fi
"${pip[@]}" install --no-deps --no-build-isolation --editable inspect --editable clients/python --editable server
fingerprint "$lock" >"$venv/.made-of-$lock"
