#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# usage: setup-peers.sh BUILD-DIR: SecantusDB for the benchmark, each part where it can be had.
#
# The Python server and its package go to BUILD-DIR/bench-venv. The Rust server is no part of the
# package: it is built from its crate, with cargo, into BUILD-DIR/bench-peers, which takes some ten
# minutes once. SECANTUS_RUST=0 leaves it out.
set -u

package_version=0.7.0b3
crate_version=0.5.3-beta.196
here=$(dirname "$0")
build=$1

mkdir -p "$build"
if [ ! -x "$build/bench-venv/bin/secantusd-py" ]; then
    echo "secantusdb==$package_version" >"$build/bench-requirements.txt"
    "$here/setup-venv.sh" "$build/bench-venv" "$build/bench-requirements.txt" ||
        echo "secantusdb: not to be had here"
fi
if [ "${SECANTUS_RUST:-1}" != 0 ] && [ ! -x "$build/bench-peers/bin/secantusd-rs" ] &&
    [ ! -e "$build/bench-peers/failed" ]; then
    mkdir -p "$build/bench-peers"
    # Its manifest asks for a newer compiler than the code needs.
    cargo install --quiet secantus-mdb --version "$crate_version" --ignore-rust-version \
        --root "$build/bench-peers" </dev/null || {
        echo "secantus-mdb: cannot be built here; the Python server stands in for it"
        touch "$build/bench-peers/failed"
    }
fi
exit 0
