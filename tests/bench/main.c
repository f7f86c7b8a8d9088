/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "tests/bench/bench.h"

static const struct workload {
    const char *name, *args, *help;
    void (*run)(void);
} workloads[] = {
#define WORKLOAD(name, args, help) {#name, args, help, run_##name},
#include "tests/bench/workloads.def"
#undef WORKLOAD
};

static int nargs;
static char **args;
static const char *open_list; /* the list that report_pair() adds to */
static bool reported;

int64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * NS + ts.tv_nsec;
}

int64_t await_due(int64_t begin_ns, uint64_t i, double rate)
{
    int64_t now = now_ns(), due = rate > 0 ? begin_ns + (int64_t)((double)i * NS / rate) : now;
    struct timespec ts = {due / NS, due % NS};

    if (due > now)
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
    return due;
}

void die(const char *what)
{
    fprintf(stderr, "bench: %s: %s\n", what, errno == 0 ? "failed" : strerror(errno));
    exit(1);
}

const char *arg_str(const char *key, const char *otherwise)
{
    size_t n = strlen(key);

    for (int i = 0; i < nargs; i++) {
        if (strncmp(args[i], key, n) == 0 && args[i][n] == '=')
            return args[i] + n + 1;
    }
    if (otherwise == NULL) {
        fprintf(stderr, "bench: %s=... must be given\n", key);
        exit(2);
    }
    return otherwise;
}

int64_t arg_int(const char *key, int64_t otherwise)
{
    const char *s = arg_str(key, "");

    return *s == '\0' ? otherwise : strtoll(s, NULL, 10);
}

double arg_num(const char *key, double otherwise)
{
    const char *s = arg_str(key, "");

    return *s == '\0' ? otherwise : strtod(s, NULL);
}

static void report_key(const char *key)
{
    if (open_list != NULL)
        printf("]");
    open_list = NULL;
    printf("%s\"%s\":", reported ? "," : "{", key);
    reported = true;
}

void report_num(const char *key, double x)
{
    report_key(key);
    printf("%.9g", x);
}

void report_pair(const char *key, double a, double b)
{
    bool first = open_list == NULL;

    if (first)
        report_key(key);
    open_list = key;
    printf("%s[%.9g,%.9g]", first ? "[" : ",", a, b);
}

void report_latency(const char *prefix, const struct hist *h)
{
    static const struct {
        const char *name;
        double share;
    } points[] = {{"p50_us", 0.5}, {"p99_us", 0.99}, {"p999_us", 0.999}, {"max_us", 1}};
    char key[64];

    for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
        snprintf(key, sizeof(key), "%s%s", prefix, points[i].name);
        report_num(key, (double)hist_percentile(h, points[i].share) / 1000);
    }
}

int64_t server_cpu_ns(void)
{
    clockid_t id;
    struct timespec ts;
    int pid = (int)arg_int("pid", 0);

    if (pid == 0 || clock_getcpuclockid(pid, &id) != 0 || clock_gettime(id, &ts) != 0)
        return 0;
    return ts.tv_sec * NS + ts.tv_nsec;
}

static void usage(void)
{
    fprintf(stderr, "usage: bench WORKLOAD [key=value]...\n");
    for (size_t i = 0; i < sizeof(workloads) / sizeof(workloads[0]); i++)
        fprintf(stderr, "  %-12s %-32s %s\n", workloads[i].name, workloads[i].args,
                workloads[i].help);
}

/* Ten thousand watchers need as many descriptors. */
static void raise_limits(void)
{
    struct rlimit lim;

    if (getrlimit(RLIMIT_NOFILE, &lim) == 0) {
        lim.rlim_cur = lim.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &lim);
    }
}

int main(int argc, char **argv)
{
    raise_limits();
    nargs = argc - 2;
    args = argv + 2;
    for (size_t i = 0; argc > 1 && i < sizeof(workloads) / sizeof(workloads[0]); i++) {
        if (strcmp(workloads[i].name, argv[1]) != 0)
            continue;
        workloads[i].run();
        if (reported)
            printf("%s}\n", open_list == NULL ? "" : "]");
        return 0;
    }
    usage();
    return 2;
}
