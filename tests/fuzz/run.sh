#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# usage: run.sh BUILD SECONDS JOBS [NAME...]
# Runs the fuzz targets (all, or those named: "match" is fuzz_match) for SECONDS each, JOBS at a time.
# What they find is left in BUILD/findings; what they learn stays in BUILD/corpus for the next run.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$1 seconds=$2 jobs=$3
shift 3
[ $# -gt 0 ] || set -- $(cd tests/fuzz && ls fuzz_*.c | sed 's/^fuzz_//; s/\.c$//')

mkdir -p "$build/findings" "$build/logs"
# Every name in the tables is a word worth trying.
grep -hoE '"\$?[A-Za-z][A-Za-z0-9.-]*"' query/*.def query/change_stream_parse.c query/index_spec.c \
    server/options.def query/update_push.c | sort -u >"$build/words.dict"
printf '"%s"\n' '{' '}' '[' ']' '$$ROOT' '$$this' '$a' '$a.b' "'" 'date(' 'ts(' 'oid(' 'bin(' 'scope(' \
    'code(' 'symbol(' NaN Inf MinKey MaxKey undefined null true 1.5m 2147483647 9223372036854775807 \
    '-9223372036854775808L' 1e308 .0 '.\x24' '\x24[]' '\x24[x]' >>"$build/words.dict"

fuzz_one() {
    local name=$1 build=$2 seconds=$3 bin="$2/tests/fuzz/fuzz_$1" corpus="$2/corpus/$1"
    mkdir -p "$corpus"
    if "$bin" -max_total_time="$seconds" -max_len=4096 -timeout=20 -rss_limit_mb=2048 -dict="$build/words.dict" \
        -artifact_prefix="$build/findings/$name-" -print_final_stats=1 \
        "$corpus" "tests/fuzz/corpus/$name" >"$build/logs/$name" 2>&1; then
        echo "  $name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$build/logs/$name") runs"
    else
        tail -60 "$build/logs/$name"
        echo "FUZZ $name: found something; the input is in $build/findings"
        return 1
    fi
}
export -f fuzz_one
export UBSAN_OPTIONS=print_stacktrace=1
export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1 LSAN_OPTIONS=suppressions=tests/lsan.supp:print_suppressions=0
printf '%s\n' "$@" | xargs -P "$jobs" -I{} bash -c "fuzz_one {} '$build' '$seconds'"
