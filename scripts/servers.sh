#!/usr/bin/env bash
# Installs the servers that the tests start, libarchive, the readers of archives and the fonts of previews, when they are
# missing and this is root on Debian; otherwise prints the packages. Never fails: a test whose server is missing is skipped. Arguments are further packages.
set -uo pipefail

have() {
    case $1 in
    postgresql) compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || command -v initdb >/dev/null ;;
    radosgw | ceph-mon | ceph-osd) command -v "$1" >/dev/null ;;
    ceph-common) command -v ceph >/dev/null && command -v radosgw-admin >/dev/null ;;
    clamav-daemon) command -v clamd >/dev/null ;;
    nginx-light) command -v nginx >/dev/null || [ -x /usr/sbin/nginx ] ;;
    pgbouncer | haproxy) command -v "$1" >/dev/null || [ -x "/usr/sbin/$1" ] ;;
    etcd-server) command -v etcd >/dev/null ;;
    python3-psycopg2) [ -d /usr/lib/python3/dist-packages/psycopg2 ] ;;
    tesseract-ocr) command -v tesseract >/dev/null ;;
    groff-base) command -v groff >/dev/null ;;
    openssh-client) command -v ssh-keygen >/dev/null ;;
    libarchive-tools) command -v bsdtar >/dev/null ;;
    p7zip-full) command -v 7z >/dev/null ;;
    poppler-utils) command -v pdftoppm >/dev/null ;;
    libc-icap-mod-virus-scan) compgen -G '/usr/lib/*/c_icap/virus_scan.so' >/dev/null ;;
    fonts-dejavu-core) [ -f /usr/share/fonts/truetype/dejavu/DejaVuSans.ttf ] ;;
    libfribidi0) PATH=$PATH:/sbin ldconfig -p | grep 'libfribidi\.so\.0' >/dev/null ;;
    clamav-testfiles) [ -d /usr/share/clamav-testfiles ] ;;
    libarchive13) PATH=$PATH:/sbin ldconfig -p | grep 'libarchive\.so\.13' >/dev/null ;;
    *) command -v "$1" >/dev/null ;;
    esac
}

# The OIDC issuer of the tests, the emulator of Azure, Helm, the clients in their pages, a verifier of webhooks, the
# compiler of the TypeScript client and the types of Next.js are npm packages.
# Without npm or its registry, their tests are skipped.
install_packages() {
    local folder
    for folder in "${0%/*}/../server/tests/servers/oidc" "${0%/*}/../server/tests/servers/azure" "${0%/*}/../server/tests/deploy/helm" "${0%/*}/../server/tests/browser" "${0%/*}/../clients/typescript" "${0%/*}/../examples/nextjs"; do
        # Anew, too, if a package was added since they were installed.
        if command -v npm >/dev/null && [ ! "$folder/node_modules/.package-lock.json" -nt "$folder/package-lock.json" ]; then
            # Optional packages are binaries of Next.js that no test needs.
            npm ci --omit=optional --prefix "$folder" --no-audit --no-fund --ignore-scripts --silent </dev/null >/dev/null 2>&1 || rm -rf "$folder/node_modules"
        fi
    done
}

install_missing() {
    if ! command -v apt-get >/dev/null; then
        printf 'Tests that need these are skipped (Debian package names): %s\n' "$*"
    elif [ "$(id -u)" != 0 ]; then
        printf 'Tests that need these are skipped; install them with: sudo apt-get install --no-install-recommends %s\n' "$*"
    else
        printf 'Installing the servers of the tests: %s\n' "$*"
        export DEBIAN_FRONTEND=noninteractive
        { apt-get update -qq && apt-get install -y -qq --no-install-recommends "$@"; } </dev/null >/dev/null ||
            printf 'They could not be installed; tests that need them are skipped.\n'
    fi
}

# Debian's shell for tests takes half of the processor time of the whole browser.
browser=chromium-headless-shell
if have chromium && ! have "$browser" || ! grep -qs '^ID=debian' /etc/os-release; then browser=chromium; fi

missing=()
for package in postgresql radosgw ceph-mon ceph-osd ceph-common clamav-daemon clamav-testfiles c-icap libc-icap-mod-virus-scan redis-server pgbouncer haproxy nginx-light libarchive13 npm curl prometheus libarchive-tools p7zip-full poppler-utils tesseract-ocr fonts-dejavu-core libfribidi0 unzip busybox "$browser" zsh fish groff-base openssh-client "$@"; do
    have "$package" || missing+=("$package")
done
[ ${#missing[@]} = 0 ] || install_missing "${missing[@]}"
install_packages
exit 0
