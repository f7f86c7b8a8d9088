/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * SIGKILL on the way from a write to its acknowledgement, at every fault point there is.
 *
 * A child writes with eight threads; each write puts a row into a table of its own and its entry
 * into the oplog. What is acknowledged as durable goes, with its optime, through a pipe to the
 * parent before the next write. After the kill the parent opens the directory and checks:
 * every acknowledged write is in table and oplog once, at its optime; table and oplog agree also
 * about the others; the next optime is above all that the child ever handed out.
 */
#include "oplog_util.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/fault.h"
#include "oplog/oplog_internal.h"

enum { WRITERS = 8, SEQ = 1 << 20 };

#define DATA "crash-data"

/* One line of the pipe: an acknowledged write, or (id -1) an optime that was handed out. */
struct said {
    int64_t id;
    uint64_t optime;
};

/* --- the child ----------------------------------------------------------------------------- */

struct writer {
    struct db *d;
    int index, pipe;
};

static void say(int fd, int64_t id, uint64_t optime)
{
    struct said s = {id, optime};

    if (write(fd, &s, sizeof(s)) != sizeof(s))
        _exit(5);
}

/* The last thing before the commit: the parent learns of the optime whatever comes. */
static int say_optime(void *arg, struct stx *t, uint64_t first)
{
    struct writer *w = arg;

    (void)t;
    say(w->pipe, -1, first);
    return 0;
}

static uint64_t write_one(struct writer *w, struct op *op, int64_t id)
{
    struct oplog_op e = {.op = 'i', .ns = "db.a", .uuid = test_uuid, .stmt_id = -1};
    struct tcursor *c;
    struct stx *t;
    uint64_t first;

    e.o = small_doc(op, id, 40);
    e.pre_image = small_doc(op, id, 10);
    OK(stx_begin(w->d->engine, op, &t));
    OK(tcursor_open(t, DATA, TABLE_RECORDS, &c));
    OK(tcursor_insert_num(c, (uint64_t)id, (struct bytes){e.o.p, e.o.len}));
    tcursor_close(c);
    OK(oplog_commit(w->d->oplog, op, t, &e, 1, say_optime, w, &first));
    return first;
}

static void *write_and_tell(void *arg)
{
    struct writer *w = arg;
    struct parked p;

    parked_init(&p);
    for (int64_t i = 1;; i++) {
        int64_t id = (int64_t)w->index * SEQ + i;
        uint64_t optime = write_one(w, &p.op, id);

        p.op.ack_durable = optime;
        p.op.ack_visible = optime;
        while (oplog_wait_ack(w->d->oplog, &p.op) == INT_PARK) {
            if (!parked_wait(&p))
                _exit(6);
        }
        say(w->pipe, id, optime);
        arena_reset(&p.op.arena);
    }
    return NULL;
}

static void child(const char *path, const char *fault, int fd)
{
    struct db d = {.path = strdup(path)};
    struct writer w[WRITERS];
    pthread_t t[WRITERS];
    struct error err;

    db_reopen(&d, &roomy);
    if (engine_table_create(d.engine, DATA, TABLE_RECORDS, true, &err) != 0)
        _exit(3);
    if (fault != NULL && fault_set(fault, &err) != 0)
        _exit(4);
    for (int i = 0; i < WRITERS; i++) {
        w[i] = (struct writer){&d, i + 1, fd};
        pthread_create(&t[i], NULL, write_and_tell, &w[i]);
    }
    for (;;)
        pause();
}

/* --- the parent ---------------------------------------------------------------------------- */

struct heard {
    struct said *acked;
    size_t n, cap;
    uint64_t highest; /* optime ever handed out */
};

static void hear(struct heard *h, const struct said *s)
{
    if (s->optime > h->highest)
        h->highest = s->optime;
    if (s->id < 0)
        return;
    if (h->n == h->cap) {
        h->cap = h->cap == 0 ? 1024 : h->cap * 2;
        h->acked = realloc(h->acked, h->cap * sizeof(*h->acked));
        assert_non_null(h->acked);
    }
    h->acked[h->n++] = *s;
}

/* Reads until the child is gone; after `kill_after` lines (0: never) it is killed from here. */
static void listen_to(struct heard *h, int fd, pid_t pid, size_t kill_after)
{
    size_t lines = 0;
    struct said s;
    int status;

    while (read(fd, &s, sizeof(s)) == sizeof(s)) {
        hear(h, &s);
        if (++lines == kill_after)
            kill(pid, SIGKILL);
    }
    assert_true(waitpid(pid, &status, 0) == pid);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        fail_msg("the child ended with status %x", (unsigned)status);
}

static void check_acked(struct db *d, struct op *op, const struct heard *h)
{
    struct tcursor *c;
    struct stx *t;
    bool found;

    OK(stx_begin(d->engine, op, &t));
    OK(tcursor_open(t, DATA, TABLE_RECORDS, &c));
    for (size_t i = 0; i < h->n; i++) {
        struct bv entry, image;
        struct oplog_row row;

        OK(tcursor_seek_num(c, (uint64_t)h->acked[i].id, SEEK_EXACT, &found));
        assert_true(found);
        OK(oplog_get(d->oplog, op, h->acked[i].optime, &op->arena, &entry));
        assert_true(oplog_parse(entry, &row));
        assert_true(bv_i64(bv_get(row.o, "_id")) == h->acked[i].id);
        OK(image_get(d->oplog, op, h->acked[i].optime, 0, &op->arena, &image));
        assert_true(bv_i64(bv_get(image, "_id")) == h->acked[i].id);
        arena_reset(&op->arena);
    }
    tcursor_close(c);
    stx_rollback(t);
}

/* Every row has one entry and every entry its row. */
static void check_agreement(struct db *d, struct op *op)
{
    const struct scope s = {SCOPE_COLLECTION, "db", "db.a", false, false, false};
    struct oplog_reader *r;
    struct oplog_row row;
    struct tcursor *c;
    struct stx *t;
    int64_t entries = 0, rows = 0;
    uint64_t last = 0;
    bool found;

    OK(stx_begin(d->engine, op, &t));
    OK(tcursor_open(t, DATA, TABLE_RECORDS, &c));
    OK(oplog_reader_open(d->oplog, op, 0, &s, false, &r));
    for (;;) {
        OK(oplog_reader_next(r, &row, &found));
        if (!found)
            break;
        assert_true(row.optime > last);
        last = row.optime;
        entries++;
        OK(tcursor_seek_num(c, (uint64_t)bv_i64(bv_get(row.o, "_id")), SEEK_EXACT, &found));
        assert_true(found);
        assert_memory_equal(tcursor_value(c).p, row.o.p, row.o.len);
    }
    oplog_reader_close(r);
    OK(tcursor_first(c, &found));
    while (found) {
        rows++;
        OK(tcursor_next(c, &found));
    }
    assert_true(rows == entries);
    tcursor_close(c);
    stx_rollback(t);
}

static void check(const char *path, const struct heard *h)
{
    struct db d = {.path = strdup(path)};
    struct op op;

    op_init(&op);
    db_reopen(&d, &roomy);
    check_acked(&d, &op, h);
    check_agreement(&d, &op);
    assert_true(oplog_complete(d.oplog));
    assert_true(put(&d, &op, "db.b", 1) > h->highest);
    await_durable(&d, op.wrote_optime);
    db_close(&d);
    free(d.path);
    op_fini(&op);
}

/* Each round goes on with the directory of the one before; `least`: acknowledged writes that there
 * must have been, so that the test is about something. */
static void kill_and_check(const char *path, const char *fault, size_t kill_after, size_t least)
{
    struct heard h = {0};
    int fds[2];
    pid_t pid;

    assert_int_equal(pipe(fds), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(fds[0]);
        child(path, fault, fds[1]);
    }
    close(fds[1]);
    listen_to(&h, fds[0], pid, kill_after);
    close(fds[0]);
    assert_true(h.n >= least);
    check(path, &h);
    free(h.acked);
}

static void at_every_fault_point(void **state)
{
    static const struct {
        const char *fault;
        size_t least;
    } rounds[] = {
        {"optimeTaken:kill:200", 100},  {"commitBefore:kill:200", 100},
        {"commitAfter:kill:200", 100},  {"flushBefore:kill:30", 20},
        {"flushAfter:kill:30", 20},     {"optimeTaken:kill:1", 0},
        {"commitAfter:kill:1", 0},      {"flushAfter:kill:1", 0},
        {"storageWrite:kill:1001", 50},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rounds) / sizeof(rounds[0]); i++) {
        char *path = temp_dir();

        kill_and_check(path, rounds[i].fault, 0, rounds[i].least);
        remove_dir(path);
    }
}

static void at_any_time(void **state)
{
    (void)state;
    for (size_t i = 0; i < 5; i++) {
        char *path = temp_dir();

        kill_and_check(path, NULL, 300 + 157 * i, 50);
        remove_dir(path);
    }
}

/* --- the ceiling --------------------------------------------------------------------------- */

/* Optimes that were handed out but whose entries did not survive are not handed out again, though
 * the clock stands still or goes back between the runs. */
static void optimes_are_not_reused_after_a_crash(void **state)
{
    char *path = temp_dir();
    int fds[2];
    uint64_t highest = 0, optime;
    struct op op;
    struct db d = {.path = path};
    pid_t pid;
    int status;

    (void)state;
    assert_int_equal(pipe(fds), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct error err;

        op_init(&op);
        db_reopen(&d, &roomy);
        clock_test_shift_wall(-3600 * 1000);          /* there are optimes for an hour */
        if (fault_set("flushBefore:wait", &err) != 0) /* nothing more becomes durable */
            _exit(3);
        for (int i = 0; i < 50; i++)
            optime = put(&d, &op, "db.a", i);
        say(fds[1], -1, optime);
        kill(getpid(), SIGKILL);
    }
    close(fds[1]);
    {
        struct said s;

        assert_true(read(fds[0], &s, sizeof(s)) == sizeof(s));
        highest = s.optime;
    }
    assert_true(waitpid(pid, &status, 0) == pid);
    close(fds[0]);
    clock_test_shift_wall(-10 * 1000);
    op_init(&op);
    db_reopen(&d, &roomy);
    assert_true(oplog_allocated(d.oplog) > highest);
    assert_true(oplog_allocated(d.oplog) - highest < (5ULL << 32)); /* and not far above */
    db_close(&d);
    /* after a clean stop there is no gap */
    db_reopen(&d, &roomy);
    optime = oplog_allocated(d.oplog);
    db_close(&d);
    db_reopen(&d, &roomy);
    assert_true(oplog_allocated(d.oplog) == optime + 1); /* "new primary" */
    clock_test_shift_wall(10 * 1000);
    db_remove(&d);
    op_fini(&op);
}

/* A sync that fails may have lost data: nothing is acknowledged after it, the process ends. */
static void a_failed_sync_ends_the_process(void **state)
{
    char *path = temp_dir();
    pid_t pid = fork();
    int status;

    (void)state;
    assert_true(pid >= 0);
    if (pid == 0) {
        struct db d = {.path = path};
        struct parked p;
        struct error err;

        if (freopen("/dev/null", "w", stderr) == NULL)
            _exit(3);
        db_reopen(&d, &roomy);
        if (fault_set("flushBefore:error=8", &err) != 0)
            _exit(4);
        parked_init(&p);
        p.op.ack_durable = put(&d, &p.op, "db.a", 1);
        while (oplog_wait_ack(d.oplog, &p.op) == INT_PARK)
            (void)parked_wait(&p);
        _exit(0);
    }
    assert_true(waitpid(pid, &status, 0) == pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    remove_dir(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(at_every_fault_point),
        cmocka_unit_test(at_any_time),
        cmocka_unit_test(optimes_are_not_reused_after_a_crash),
        cmocka_unit_test(a_failed_sync_ends_the_process),
    };

    return cmocka_run_group_tests_name("oplog_crash", tests, NULL, NULL);
}
