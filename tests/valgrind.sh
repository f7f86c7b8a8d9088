#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Runs the server named by VALGRIND_RUNNELD under valgrind. A definite leak, a wild read or write, or a
# value used before it was set makes its exit code 98.
exec valgrind --quiet --error-exitcode=98 --leak-check=full --errors-for-leak-kinds=definite \
    --show-leak-kinds=definite --fair-sched=yes --num-callers=20 \
    --suppressions="$(dirname "$0")/valgrind.supp" "${VALGRIND_RUNNELD:-build/release/runneld}" "$@"
