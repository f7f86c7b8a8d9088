#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# usage: install-deps.sh build|test|node|lint|perf|tidy|valgrind
# Installs the Debian packages of one purpose that are missing; prints nothing when none is.
set -eu

case "${1:-}" in
build)
    packages="gcc make libc6-dev pkg-config libwiredtiger-dev libbson-dev libssl-dev
        libpcre2-dev libyaml-dev libintelrdfpmath-dev libjemalloc-dev tzdata"
    [ -z "${WT_PREFIX:-}" ] || packages=$(echo "$packages" | sed 's/libwiredtiger-dev//')
    ;;
test) packages="libcmocka-dev libmongoc-dev python3 python3-venv" ;;
node)
    # Any Node with npm will do, also one that is not Debian's.
    if command -v node >/dev/null && command -v npm >/dev/null; then exit 0; fi
    packages="nodejs npm"
    ;;
lint) packages="clang clang-format cppcheck python3" ;;
perf) packages="valgrind python3" ;;
tidy) packages="clang-tidy" ;;
valgrind) packages="valgrind" ;;
*)
    echo "usage: $0 build|test|node|lint|perf|tidy|valgrind" >&2
    exit 2
    ;;
esac

missing=""
for p in $packages; do
    state=$(dpkg-query -W -f='${db:Status-Status}' "$p" 2>/dev/null || true)
    [ "$state" = installed ] || missing="$missing $p"
done
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null; then
    echo "not a Debian system: please install the equivalents of:$missing" >&2
    exit 1
fi
as_root=""
if [ "$(id -u)" != 0 ]; then
    as_root="sudo"
    command -v sudo >/dev/null || { echo "please install as root:$missing" >&2; exit 1; }
fi
echo "installing:$missing"
install_missing() {
    # $missing and $as_root are lists of words
    $as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends $missing </dev/null >/dev/null
}
if [ "$1" = node ]; then
    # Optional: a failure is reported by the caller, once.
    install_missing 2>/dev/null && exit 0
    $as_root apt-get update -qq </dev/null
    install_missing
    exit $?
fi
install_missing 2>/dev/null || {
    $as_root apt-get update -qq </dev/null
    install_missing
}
