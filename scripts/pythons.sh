#!/usr/bin/env bash
# Runs a make target on every supported Python that is installed: on PATH, or in pyenv. Each has a virtual environment of its own.
# Usage: scripts/pythons.sh [TARGET...]     (default: quick)
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
targets=("${@:-quick}")

failed=()
for version in 3.11 3.12 3.13 3.14; do
    python=''
    for candidate in "$(command -v "python$version")" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python; do
        # A shim of pyenv is on PATH also when its version is not chosen.
        if [ -x "$candidate" ] && "$candidate" -c 'import ensurepip, venv' 2>/dev/null; then python=$candidate; fi
    done
    if [ -z "$python" ]; then
        printf 'Python %s is not installed: not tried.\n' "$version"
        continue
    fi
    printf '\n%s\n' "$("$python" --version)"
    make --no-print-directory PYTHON="$python" VENV=".venv-$version" "${targets[@]}" || failed+=("$version")
done
[ ${#failed[@]} = 0 ] || {
    printf 'failed on Python %s\n' "${failed[@]}" >&2
    exit 1
}
