#!/usr/bin/env bash
# Makes .venv from a hash-pinned lock, with this project in it. Does nothing when that is done and the lock has not changed.
# Usage: scripts/venv.sh requirements.lock|requirements-dev.lock     PYTHON chooses the interpreter (default python3).
set -euo pipefail
cd "$(dirname "$0")/.."
lock=$1
python=${PYTHON:-python3}

die() {
    printf '%s\n' "$1" >&2
    exit 1
}

command -v "$python" >/dev/null || die "There is no $python: install Python 3.11 or newer, or choose one with make PYTHON=…"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    die "Sluice needs Python 3.11 or newer and $python is $("$python" -c 'import platform; print(platform.python_version())'): choose one with make PYTHON=…"

# What a venv was made of: the lock, the interpreter, and where it stands, since a venv cannot be moved.
made_of() {
    "$python" - "$1" <<'END'
import hashlib, pathlib, sys
made_of = pathlib.Path(sys.argv[1]).read_bytes() + f"{sys.version} {pathlib.Path.cwd()}".encode()
print(hashlib.sha256(made_of).hexdigest())
END
}
is_made() { [ "$(cat ".venv/.made-of-$1" 2>/dev/null)" = "$(made_of "$1")" ]; }

# The lock for development holds all of the other, in the same versions.
is_made "$lock" && exit 0
[ "$lock" = requirements.lock ] && is_made requirements-dev.lock && exit 0

if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv </dev/null
    else
        die "$python cannot make virtual environments; on Debian: sudo apt-get install python3-venv"
    fi
fi

printf 'Making .venv from %s, once.\n' "$lock"
if ! is_made requirements.lock; then
    "$python" -m venv --clear .venv
fi
pip=(.venv/bin/python -m pip --disable-pip-version-check --no-input --quiet)
"${pip[@]}" install --require-hashes --requirement "$lock"
"${pip[@]}" install --no-deps --no-build-isolation --editable .
made_of "$lock" >".venv/.made-of-$lock"
