#!/bin/sh
# Brings uv from PyPI: bring_uv.sh DIR leaves DIR/uv and DIR/uvx, of the version and with one of the hashes in uv.txt beside this script. The index,
# its certificates and proxies are pip's own settings. Nothing is done where the host has uv already, or DIR has this version; where it cannot be
# brought that is said, and the exit status is 0: everything but Python projects works without.
set -u
here=$(dirname "$0")
to=$1
version=$(sed -n 's/^uv==\([^ ]*\).*/\1/p' "$here/uv.txt")
for folder in /usr/local/bin /usr/bin; do
    [ ! -x $folder/uv ] || exit 0
done
[ "$(cat "$to/uv.version" 2>/dev/null)" != "$version" ] || exit 0
mkdir -p "$to" && work=$(mktemp -d "$to/bringing-XXXXXX") || exit 0
trap 'rm -rf "$work"' EXIT
bring() {
    python3 -m venv "$work/venv" &&
        timeout 120 "$work/venv/bin/pip" -q --disable-pip-version-check --retries 1 --timeout 15 download --no-deps \
            --only-binary :all: --require-hashes -r "$here/uv.txt" -d "$work" &&
        python3 -m zipfile -e "$work"/uv-*.whl "$work/wheel" &&
        chmod 755 "$work"/wheel/*/scripts/uv "$work"/wheel/*/scripts/uvx &&
        mv -f "$work"/wheel/*/scripts/uv "$work"/wheel/*/scripts/uvx "$to/" && echo "$version" >"$to/uv.version"
}
if ! bring >"$work/log" 2>&1; then
    echo "uv $version could not be brought: Python projects in workspaces do without it, until the next try. $(grep -m1 ERROR "$work/log" || tail -1 "$work/log")"
fi
