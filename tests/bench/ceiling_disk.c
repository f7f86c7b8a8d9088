/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Ceilings of writing: the disk's syncs, and WiredTiger's batches. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/bench/bare.h"
#include "tests/bench/bench.h"
#include "tests/bench/message.h"

enum { SYNC_BYTES = 4096, ENTRY_BYTES = DOC_BYTES + 133 };

/* As the log is written: an append that makes the file longer, then fdatasync. One behind the
 * other; or `rate` a second, each counted from when it was due, as deliveries are. */
void run_sync(void)
{
    static const char block[SYNC_BYTES];
    static struct hist h;
    double rate = arg_num("rate", 0);
    int64_t begin = now_ns(), end = begin + (int64_t)(arg_num("seconds", 1) * NS), at = begin;
    char path[4096];
    int fd;

    snprintf(path, sizeof(path), "%s/sync", arg_str("dir", NULL));
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        die(path);
    while (at < end) {
        int64_t was = await_due(begin, h.count, rate);

        if (write(fd, block, sizeof(block)) != sizeof(block) || fdatasync(fd) != 0)
            die("fdatasync");
        at = now_ns();
        hist_add(&h, at - was);
    }
    close(fd);
    (void)unlink(path);
    report_num("ops_per_second", (double)h.count * NS / (double)(at - begin));
    report_latency("", &h);
}

void run_bare_batch(void)
{
    uint64_t n = (uint64_t)arg_int("batch", 1000), id = 1;
    struct bare_session s;
    struct bare b;
    int64_t begin, end;

    bare_open(&b);
    bare_session_open(&b, &s);
    begin = now_ns();
    end = begin + (int64_t)(arg_num("seconds", 1) * NS);
    while (now_ns() < end) {
        bare_begin(&s);
        for (uint64_t i = 0; i < n; i++)
            bare_insert(&s, id++, DOC_BYTES, ENTRY_BYTES);
        bare_commit(&s);
        bare_sync(&s);
    }
    report_num("docs_per_second", (double)(id - 1) * NS / (double)(now_ns() - begin));
    bare_close(&b);
}
