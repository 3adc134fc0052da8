#!/usr/bin/env bash
# Runs a make target on every supported Python that is installed: on PATH, or in pyenv. Each has a virtual environment of its own,
# that of PYTHON the one of VENV. A Python that is not installed is no failure; one whose libraries cannot be installed is.
# Usage: scripts/pythons.sh [TARGET...]     (default: quick)
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
targets=("${@:-quick}")
own=$("${PYTHON:-python3}" -c 'import sys; print("%d.%d" % sys.version_info[:2])')

failed=()
for version in 3.11 3.12 3.13 3.14; do
    python='' venv=.venv-$version
    for candidate in "$(command -v "python$version")" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python; do
        # A shim of pyenv is on PATH also when its version is not chosen.
        if [ -x "$candidate" ] && "$candidate" -c 'import ensurepip, venv' 2>/dev/null; then python=$candidate; fi
    done
    if [ "$version" = "$own" ]; then python=${PYTHON:-python3} venv=${VENV:-.venv}; fi
    if [ -z "$python" ]; then
        printf 'Python %s is not installed: not tried.\n' "$version"
        continue
    fi
    printf '\n%s\n' "$("$python" --version)"
    if ! make --no-print-directory PYTHON="$python" VENV="$venv" venv-dev; then
        printf 'Python %s: the pinned libraries cannot be installed.\n' "$version" >&2
        failed+=("$version (libraries)")
    elif ! make --no-print-directory PYTHON="$python" VENV="$venv" "${targets[@]}"; then
        failed+=("$version")
    fi
done
[ ${#failed[@]} = 0 ] || {
    printf 'failed on Python %s\n' "${failed[@]}" >&2
    exit 1
}
