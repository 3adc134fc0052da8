#!/usr/bin/env bash
# Runs a make target on every supported Python that is installed: on PATH, or in pyenv. Each has a virtual environment of its own,
# that of PYTHON the one of VENV. A Python that is not installed is no failure; one whose libraries cannot be installed is.
# Usage: scripts/pythons.sh [TARGET...]     (default: quick; with OTHERS=1 without the Python of PYTHON)
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
targets=("${@:-quick}")
own=$("${PYTHON:-python3}" -c 'import sys; print("%d.%d" % sys.version_info[:2])')

# Run the targets on one Python. Return 3 if its libraries cannot be installed, 1 if a target fails.
try_python() {
    local version=$1 python=$2 venv=$3
    printf '\n%s\n' "$("$python" --version)"
    # Few of the libraries are loaded by the tests.
    if ! COMPILE='' make --no-print-directory PYTHON="$python" VENV="$venv" venv-dev; then
        printf 'Python %s: the pinned libraries cannot be installed.\n' "$version"
        return 3
    fi
    make --no-print-directory PYTHON="$python" VENV="$venv" "${targets[@]}" || return 1
}

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
versions=() processes=()
for version in 3.11 3.12 3.13 3.14; do
    python='' venv=.venv-$version
    for candidate in "$(command -v "python$version")" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python; do
        # A shim of pyenv is on PATH also when its version is not chosen.
        if [ -x "$candidate" ] && "$candidate" -c 'import ensurepip, venv' 2>/dev/null; then python=$candidate; fi
    done
    if [ "$version" = "$own" ]; then
        [ -z "${OTHERS:-}" ] || continue
        python=${PYTHON:-python3} venv=${VENV:-.venv}
    fi
    if [ -z "$python" ]; then
        printf 'Python %s is not installed: not tried.\n' "$version"
        continue
    fi
    # At the same time: most of it is one process that computes.
    try_python "$version" "$python" "$venv" >"$logs/$version" 2>&1 &
    versions+=("$version") processes+=($!)
done
failed=()
for number in "${!versions[@]}"; do
    version=${versions[number]}
    wait "${processes[number]}"
    case $? in
    0) cat "$logs/$version" && continue ;;
    3) failed+=("$version (libraries)") ;;
    *) failed+=("$version") ;;
    esac
    cat "$logs/$version" >&2
done
[ ${#failed[@]} = 0 ] || {
    printf 'failed on Python %s\n' "${failed[@]}" >&2
    exit 1
}
