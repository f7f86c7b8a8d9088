#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# usage: setup-node.sh DIR VERSIONS: the client programs that the installed Node can run.
# Without Node or npm, or where they cannot be installed, DIR stays empty and their tests skip.
set -eu

dir=$1
versions=$2
mkdir -p "$dir"
if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
    echo "no Node with npm: tests of mongosh and the Node driver will be skipped"
    exit 0
fi
major=$(node -p 'process.versions.node.split(".")[0]')
# The first row whose Node is not newer than the installed one.
packages=$(awk -v have="$major" '!/^#/ && NF && $1 <= have { $1 = ""; print; exit }' "$versions")
if [ -z "$packages" ]; then
    echo "Node $major is too old: tests of mongosh and the Node driver will be skipped"
    exit 0
fi
# mongosh's OpenID client became an ES module, which Node 18 cannot require(); it is not used here.
override=""
[ "$major" -ge 20 ] || override=', "overrides": {"openid-client": "5.7.1"}'
echo "{\"private\": true$override}" >"$dir/package.json"
if ! npm install --prefix "$dir" --no-audit --no-fund --ignore-scripts --loglevel=error \
    $packages </dev/null; then
    echo "npm install failed: tests of mongosh and the Node driver will be skipped"
    rm -rf "$dir/node_modules"
fi
