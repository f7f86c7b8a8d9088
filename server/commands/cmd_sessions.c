/* SPDX-License-Identifier: GPL-3.0-or-later */
/* startSession and the commands that refresh, end and kill logical sessions. */
#include "server/sessions.h"

#include <stdlib.h>
#include <sys/random.h>

#include "base/limits.h"
#include "server/cursors.h"
#include "server/open.h"
#include "server/server.h"
#include "server/transactions.h"

int cmd_startSession(struct request *rq)
{
    struct bw *w = rq->reply;
    uint8_t uuid[16];
    struct bw id;
    struct bv lsid;

    if (getrandom(uuid, sizeof(uuid), 0) != sizeof(uuid))
        abort();
    uuid[6] = (uint8_t)((uuid[6] & 0x0F) | 0x40); /* version 4 */
    uuid[8] = (uint8_t)((uuid[8] & 0x3F) | 0x80);
    bw_init(&id, &rq->op.arena);
    bw_uuid(&id, "id", uuid);
    TRY_RETURN(session_lsid(rq, bw_done(&id), &lsid));
    TRY_RETURN(session_refresh(rq->server->sessions, &rq->op, lsid));
    bw_doc_begin(w, "id");
    bw_uuid(w, "id", uuid);
    bw_end(w);
    bw_i32(w, "timeoutMinutes", SESSION_TIMEOUT_MINUTES);
    return 0;
}

struct list_args {
    struct bv list;
};

/* The array of a command's first field, as completed lsids. */
static int parse_lsids(struct request *rq, const char *name, struct bv **ret, size_t *ret_n)
{
    struct op *op = &rq->op;
    struct list_args a = {BV_NONE};
    const struct field fields[] = {
        {name, F_ARRAY, offsetof(struct list_args, list), FIELD_REQUIRED}, {NULL, 0, 0, 0}};
    struct biter it;
    struct belem e;
    size_t n = 0, most;

    TRY_RETURN(fields_parse(op, name, fields, op->cmd, FIELDS_COMMAND, &a));
    most = bv_count(a.list);
    if (most > LIMIT_SESSION_IDS)
        return op_fail(op, ERR_BAD_VALUE, "%s takes at most %d sessions, got %zu", name,
                       LIMIT_SESSION_IDS, most);
    *ret = ARENA_TRY_ARRAY(&op->arena, struct bv, most + 1);
    if (*ret == NULL)
        return op_no_memory(op);
    for (it = biter(a.list); biter_next(&it, &e);)
        TRY_RETURN(session_lsid(rq, e.v, &(*ret)[n++]));
    *ret_n = n;
    return 0;
}

/* What belongs to these sessions: their transactions, then their cursors. */
static int end_all_of(struct request *rq, const struct bv *lsids, size_t n)
{
    struct lsid_key *keys = ARENA_TRY_ARRAY(&rq->op.arena, struct lsid_key, n + 1);

    if (keys == NULL)
        return op_no_memory(&rq->op);
    for (size_t i = 0; i < n; i++)
        keys[i] = lsid_key(lsids[i]);
    transactions_end_sessions(rq->server, keys, n, ERR_INTERRUPTED);
    cursors_kill_sessions(rq->server->cursors, keys, n);
    return 0;
}

int cmd_endSessions(struct request *rq)
{
    struct bv *lsids;
    size_t n;

    TRY_RETURN(parse_lsids(rq, "endSessions", &lsids, &n));
    TRY_RETURN(end_all_of(rq, lsids, n));
    for (size_t i = 0; i < n; i++)
        sessions_end(rq->server->sessions, lsids[i]);
    return 0;
}

int cmd_refreshSessions(struct request *rq)
{
    struct bv *lsids;
    size_t n;

    TRY_RETURN(parse_lsids(rq, "refreshSessions", &lsids, &n));
    for (size_t i = 0; i < n; i++)
        TRY_RETURN(session_refresh(rq->server->sessions, &rq->op, lsids[i]));
    return 0;
}

/* What has no session goes on. */
static int kill_all_sessions(struct request *rq)
{
    sessions_interrupt(rq->server->sessions, BV_NONE, rq);
    transactions_end_all(rq->server, rq, ERR_INTERRUPTED);
    cursors_kill_all_sessions(rq->server->cursors);
    return 0;
}

int cmd_killSessions(struct request *rq)
{
    struct bv *lsids;
    size_t n;

    TRY_RETURN(parse_lsids(rq, "killSessions", &lsids, &n));
    if (n == 0) /* all of this user, and there is only one */
        return kill_all_sessions(rq);
    for (size_t i = 0; i < n; i++)
        sessions_interrupt(rq->server->sessions, lsids[i], rq);
    return end_all_of(rq, lsids, n);
}

/* A list of patterns; without authentication every session belongs to the same nobody, so a
 * pattern that names users matches none of them. */
static int kill_by_pattern(struct request *rq, const char *name, const char *named)
{
    struct op *op = &rq->op;
    struct list_args a = {BV_NONE};
    const struct field fields[] = {
        {name, F_ARRAY, offsetof(struct list_args, list), FIELD_REQUIRED}, {NULL, 0, 0, 0}};
    struct biter it;
    struct belem e;
    bool all = bv_empty(bv_get(op->cmd, name));

    TRY_RETURN(fields_parse(op, name, fields, op->cmd, FIELDS_COMMAND, &a));
    for (it = biter(a.list); biter_next(&it, &e);) {
        struct bv lsid = bv_get(e.v, "lsid");

        if (e.v.type != BV_DOC)
            return op_fail(op, ERR_TYPE_MISMATCH, "%s takes an array of documents", name);
        if (lsid.type == BV_DOC) {
            TRY_RETURN(session_lsid(rq, lsid, &lsid));
            sessions_interrupt(rq->server->sessions, lsid, rq);
            TRY_RETURN(end_all_of(rq, &lsid, 1));
        } else if (bv_is_missing(bv_get(e.v, named))) {
            all = true;
        }
    }
    return all ? kill_all_sessions(rq) : 0;
}

int cmd_killAllSessions(struct request *rq)
{
    return kill_by_pattern(rq, "killAllSessions", "user");
}

int cmd_killAllSessionsByPattern(struct request *rq)
{
    return kill_by_pattern(rq, "killAllSessionsByPattern", "users");
}

/* {reapLogicalSessionCacheNow: 1, runnelMinutesLater: <n>}: as if it were so much later, for tests.
 */
int cmd_reapLogicalSessionCacheNow(struct request *rq)
{
    static const struct field fields[] = {{"runnelMinutesLater", F_INT, 0, 0}, {NULL, 0, 0, 0}};
    int64_t minutes = 0;

    TRY_RETURN(fields_parse(&rq->op, "reapLogicalSessionCacheNow", fields, rq->op.cmd,
                            FIELDS_COMMAND, &minutes));
    if (minutes < 0 || minutes > SESSION_TIMEOUT_MINUTES * 2)
        return op_fail(&rq->op, ERR_BAD_VALUE, "runnelMinutesLater is out of range");
    database_reap_sessions(rq->server, minutes * 60 * 1000000);
    return 0;
}
