/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What the workloads of the benchmark client share: arguments, the report, time, ends of the road.
 *
 *     bench WORKLOAD [key=value]...
 *
 * runs one workload of workloads.def and prints one JSON object on one line. `uri` names the server
 * (mongodb://host:port); `pid` its process, when its CPU time is wanted; `coll` the collection.
 */
#ifndef RUNNEL_TESTS_BENCH_BENCH_H
#define RUNNEL_TESTS_BENCH_BENCH_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/bench/hist.h"

#define NS 1000000000LL

#define WORKLOAD(name, args, help) void run_##name(void);
#include "tests/bench/workloads.def"
#undef WORKLOAD

int64_t now_ns(void);
/* Waits until the i-th of `rate` a second is due; the time from which it counts. Rate 0: now. */
int64_t await_due(int64_t begin_ns, uint64_t i, double rate);
/* Says what failed, with errno's text, and ends the process. */
void __attribute__((noreturn)) die(const char *what);

/* --- arguments: key=value ------------------------------------------------------------------------
 */

/* NULL `otherwise`: the argument must be given. */
const char *arg_str(const char *key, const char *otherwise);
int64_t arg_int(const char *key, int64_t otherwise);
double arg_num(const char *key, double otherwise);

/* --- the report: fields of the one JSON object ---------------------------------------------------
 */

void report_num(const char *key, double x);
/* A list of pairs: call with each pair, in order; the list ends with the next other field. */
void report_pair(const char *key, double a, double b);
/* p50, p99, p99.9 and the maximum in microseconds, as <prefix>p50_us and so on. */
void report_latency(const char *prefix, const struct hist *h);

/* --- the server's process ------------------------------------------------------------------------
 */

int64_t server_cpu_ns(void); /* 0 without `pid` */

#endif
