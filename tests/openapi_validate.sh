#!/bin/sh
# Validates the committed documents with a public validator of OpenAPI 3.1, installed once into build/venv.
set -eu
cd "$(dirname "$0")/.."
venv=build/venv
if [ ! -x $venv/bin/openapi-spec-validator ]; then
    if ! python3 -m venv $venv || ! $venv/bin/pip -q --disable-pip-version-check install 'openapi-spec-validator==0.9.0'; then
        echo "openapi-spec-validator could not be installed (python3-venv and PyPI are needed)"
        exit 77
    fi
fi
for file in openapi/openapi.json openapi/actions.json; do
    $venv/bin/openapi-spec-validator --schema 3.1 $file
done
