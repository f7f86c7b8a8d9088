/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Making, parking and ending requests; the command table; names in commands. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/mem.h"
#include "server/concerns.h"
#include "server/cursors.h"
#include "server/executor.h"
#include "server/failpoints.h"
#include "server/server.h"
#include "server/transactions.h"

enum { REUSED_MAX = 8 };

/* Ended requests of this thread, each with a small arena chunk, so that the common request needs
 * no malloc. */
static _Thread_local struct request *reused;
static _Thread_local int nreused;

struct request *request_new(struct server *s, struct conn *c)
{
    struct request *rq = reused;

    if (rq != NULL) {
        reused = rq->next;
        nreused--;
        op_renew(&rq->op);
        memset((char *)rq + sizeof(rq->op), 0, sizeof(*rq) - sizeof(rq->op));
    } else {
        rq = mem_must_zero(1, sizeof(*rq));
        op_init(&rq->op);
    }
    rq->op.runs = 1;
    rq->op.server = s;
    rq->op.request = rq;
    rq->op.waiter.wake = request_waiter_wake;
    rq->op.stuck = request_stuck;
    rq->op.database = atomic_load(&s->database);
    rq->op.connection_id = c == NULL ? 0 : (uint64_t)c->id;
    rq->server = s;
    rq->conn = c;
    parking_init(&rq->parking);
    return rq;
}

void request_begin(struct request *rq)
{
    struct {
        struct envelope env;
        struct bw reply;
    } *run = arena_alloc(&rq->op.arena, sizeof(*run));

    memset(&run->env, 0, sizeof(run->env));
    run->env.txn_number = -1;
    write_concern_implicit(&run->env.wc);
    bw_init(&run->reply, &rq->op.arena);
    rq->env = &run->env;
    rq->reply = &run->reply;
}

static void free_resume(struct op *op)
{
    if (op->resume != NULL && op->resume_free != NULL)
        op->resume_free(op->resume);
    op->resume = NULL;
    op->resume_free = NULL;
}

void request_free(struct request *rq)
{
    if (rq == NULL)
        return;
    ASSERT(rq->op.unpark == NULL && rq->cursor == NULL && rq->session == NULL);
    free_resume(&rq->op);
    failpoint_release(rq);
    if (rq->raw_owned) {
        atomic_fetch_sub_explicit(&rq->server->counters.in_flight_bytes, (int64_t)rq->raw_len,
                                  memory_order_relaxed);
        free((void *)(uintptr_t)rq->raw);
    }
    if (nreused < REUSED_MAX) {
        arena_reset(&rq->op.arena);
        rq->next = reused;
        reused = rq;
        nreused++;
        return;
    }
    op_fini(&rq->op);
    free(rq);
}

void request_thread_end(void)
{
    while (reused != NULL) {
        struct request *rq = reused;

        reused = rq->next;
        op_fini(&rq->op);
        free(rq);
    }
    nreused = 0;
}

void request_rest(struct request *rq)
{
    op_rest(&rq->op);
    rq->env = NULL;
    rq->reply = NULL;
}

static void clear_results(struct request *rq)
{
    struct op *op = &rq->op;

    op_wake(op);
    arena_reset(&op->arena);
    rq->env = NULL;
    rq->reply = NULL;
    op->err->code = 0;
    op->read_optime = 0;
    if (!rq->goes_on)
        op->wrote_optime = op->ack_visible = op->ack_durable = op->ack_flush = 0;
    op->database = atomic_load(&rq->server->database);
    rq->write_concern_error = BV_NONE;
    rq->ack_deadline_us = 0;
    rq->exhaust_reply = false;
    rq->close_after = false;
}

void request_rerun(struct request *rq, enum wake_reason woken)
{
    clear_results(rq);
    rq->op.woken = woken;
    if (woken != WAKE_NONE)
        rq->op.runs++;
}

void request_again(struct request *rq)
{
    rq->goes_on = false;
    clear_results(rq);
    free_resume(&rq->op);
    failpoint_release(rq);
    rq->phase = REQUEST_RUN;
    rq->op.runs = 1;
    rq->op.woken = WAKE_NONE;
    rq->op.start_us = clock_mono_us();
    rq->op.deadline_us = rq->op.park_deadline_us = rq->park_start_us = 0;
}

void request_end(struct request *rq)
{
    cursor_unpin(rq);
    transaction_drop(rq);
    session_checkin(rq);
}

/* --- the command table ------------------------------------------------------------------------ */

static const struct command commands[] = {
#define COMMAND(name, flags, help) {#name, cmd_##name, flags, help},
#include "server/commands.def"
#undef COMMAND
};

static const struct {
    const char *alias, *name;
} aliases[] = {
#define ALIAS(alias, name) {#alias, #name},
#include "server/aliases.def"
#undef ALIAS
};

/* A perfect order is not asked of the table: 128 buckets of a hash over it, made once. */
enum { HASH_SIZE = 512 };

static uint32_t hash_name(const char *s)
{
    uint32_t h = 2166136261u;

    while (*s != '\0')
        h = (h ^ (uint8_t)*s++) * 16777619u;
    return h ^ (h >> 13);
}

struct name_slot {
    const char *name;
    const struct command *cmd;
};

static struct name_slot name_table[HASH_SIZE];
static pthread_once_t name_table_once = PTHREAD_ONCE_INIT;

static struct name_slot *name_slot(const char *name)
{
    uint32_t i = hash_name(name) % HASH_SIZE;

    while (name_table[i].name != NULL && strcmp(name_table[i].name, name) != 0)
        i = (i + 1) % HASH_SIZE;
    return &name_table[i];
}

static void fill_name_table(void)
{
    _Static_assert(NCOMMANDS + sizeof(aliases) / sizeof(aliases[0]) < HASH_SIZE / 2,
                   "the name table is too full");
    for (size_t i = 0; i < NCOMMANDS; i++)
        *name_slot(commands[i].name) = (struct name_slot){commands[i].name, &commands[i]};
    for (size_t i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++)
        *name_slot(aliases[i].alias) =
            (struct name_slot){aliases[i].alias, name_slot(aliases[i].name)->cmd};
}

const struct command *command_find(const char *name)
{
    pthread_once(&name_table_once, fill_name_table);
    return name_slot(name)->cmd;
}

const struct command *command_at(size_t i)
{
    return i < NCOMMANDS ? &commands[i] : NULL;
}

size_t command_index(const struct command *cmd)
{
    return (size_t)(cmd - commands);
}

/* --- names ------------------------------------------------------------------------------------ */

int check_db_name(struct op *op, const char *db)
{
    size_t n = strlen(db);

    if (n == 0)
        return op_fail(op, ERR_INVALID_NAMESPACE, "Invalid database name: ''");
    if (n > LIMIT_DB_NAME || strpbrk(db, "/\\. \"$*<>:|?") != NULL)
        return op_fail(op, ERR_INVALID_NAMESPACE, "Invalid database name: '%.200s'", db);
    return 0;
}

int check_coll_name(struct op *op, const char *db, const char *coll)
{
    size_t n = strlen(coll);

    if (n == 0)
        return op_fail(op, ERR_INVALID_NAMESPACE, "Invalid namespace specified '%s.'", db);
    if (coll[0] == '.')
        return op_fail(op, ERR_INVALID_NAMESPACE, "Collection names cannot start with '.': %.300s",
                       coll);
    if (strchr(coll, '$') != NULL && strcmp(coll, "oplog.$main") != 0)
        return op_fail(op, ERR_INVALID_NAMESPACE, "Invalid collection name: %.300s", coll);
    if (strlen(db) + 1 + n > LIMIT_NS)
        return op_fail(op, ERR_INVALID_NAMESPACE,
                       "Fully qualified namespace is too long. Namespace: %.300s.%.300s Max: %d",
                       db, coll, LIMIT_NS);
    return 0;
}

char *ns_join(struct arena *a, const char *db, const char *coll)
{
    size_t n = strlen(db), m = strlen(coll) + 1;
    char *ns = arena_alloc(a, n + 1 + m);

    memcpy(ns, db, n);
    ns[n] = '.';
    memcpy(ns + n + 1, coll, m);
    return ns;
}

int request_ns(struct request *rq, const char **ret_ns, const char **ret_coll)
{
    struct op *op = &rq->op;
    struct belem e;
    struct bv v = bv_first(op->cmd, &e);
    const char *coll;
    uint32_t n;

    if (v.type != BV_STRING)
        return op_fail(op, ERR_INVALID_NAMESPACE, "collection name has invalid type %s",
                       bv_type_name(v.type));
    coll = bv_str(v, &n);
    if (memchr(coll, 0, n) != NULL)
        return op_fail(op, ERR_INVALID_NAMESPACE,
                       "namespaces cannot have embedded null characters");
    TRY_RETURN(check_coll_name(op, op->db, coll));
    *ret_ns = ns_join(&op->arena, op->db, coll);
    *ret_coll = *ret_ns + strlen(op->db) + 1;
    return 0;
}
