/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Cursors over one table, on WiredTiger's.
 *
 * Inserts and removals go through a WiredTiger cursor with overwrite=false, which finds duplicates
 * and missing keys in the search that it makes anyway; reads and puts through a plain one. Either
 * is opened by its first use.
 *
 * The session keeps the WiredTiger cursors of the tables that it used last open, reset: opening one
 * costs more than a search. They would keep the table from being dropped, so a drop closes those of
 * idle sessions first, and is tried again when another session had one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/mem.h"
#include "storage/engine_internal.h"
#include "storage/table_write.h"

#define TABLE_PREFIX     "table:"
#define TABLE_PREFIX_LEN (sizeof(TABLE_PREFIX) - 1)

enum { KEPT_MAX = 8 }; /* per session */

struct tcursor {
    struct stx *t;
    struct tcursor *next, *prev; /* open: in t->cursors; closed: in a list of the session's */
    WT_CURSOR *wt;               /* reads and puts; NULL until needed */
    WT_CURSOR *strict;           /* overwrite=false; NULL until needed */
    enum table_kind kind;
    bool at;      /* positioned */
    uint64_t num; /* positioned by an exact search: the number found; else 0 */
    char uri[TABLE_URI_MAX];
};

void table_uri(const char *ident, char ret[static TABLE_URI_MAX])
{
    size_t n = strlen(ident) + 1;

    ASSERT(n <= TABLE_URI_MAX - TABLE_PREFIX_LEN);
    memcpy(ret, TABLE_PREFIX, TABLE_PREFIX_LEN);
    memcpy(ret + TABLE_PREFIX_LEN, ident, n);
}

static int fail(struct tcursor *c, int rc, const char *what)
{
    char text[TABLE_URI_MAX + 64];

    snprintf(text, sizeof(text), "%s %s", what, c->uri);
    return stx_fail(c->t, rc, text);
}

/* --- opening ------------------------------------------------------------------------------- */

static struct tcursor *take(struct stx *t)
{
    struct tcursor *c = t->session->free_cursors;

    if (c != NULL) {
        t->session->free_cursors = c->next;
        return c;
    }
    c = mem_must(sizeof(*c));
    return c;
}

/* Closes WiredTiger's cursors; the memory is kept. */
static void let_go(struct session *s, struct tcursor *c)
{
    if (c->wt != NULL)
        (void)c->wt->close(c->wt);
    if (c->strict != NULL)
        (void)c->strict->close(c->strict);
    c->next = s->free_cursors;
    s->free_cursors = c;
}

static struct tcursor *take_kept(struct session *s, const char *ident)
{
    for (struct tcursor **at = &s->kept; *at != NULL; at = &(*at)->next) {
        struct tcursor *c = *at;

        if (strcmp(c->uri + TABLE_PREFIX_LEN, ident) == 0) {
            *at = c->next;
            return c;
        }
    }
    return NULL;
}

static void keep(struct session *s, struct tcursor *c)
{
    struct tcursor **at = &s->kept;

    c->next = s->kept;
    s->kept = c;
    for (int i = 0; i < KEPT_MAX && *at != NULL; i++)
        at = &(*at)->next;
    if (*at != NULL) {
        c = *at;
        *at = NULL;
        let_go(s, c);
    }
}

void tcursor_forget(struct session *s, const char *ident)
{
    struct tcursor *c;

    while ((c = take_kept(s, ident)) != NULL)
        let_go(s, c);
}

void tcursor_free_all(struct tcursor *list)
{
    while (list != NULL) {
        struct tcursor *c = list;

        list = c->next;
        free(c);
    }
}

int tcursor_open(struct stx *t, const char *ident, enum table_kind kind, struct tcursor **ret)
{
    struct tcursor *c = take_kept(t->session, ident);

    if (c == NULL) {
        c = take(t);
        memset(c, 0, sizeof(*c));
        table_uri(ident, c->uri);
    }
    c->t = t;
    c->kind = kind;
    c->at = false;
    c->num = 0;
    c->prev = NULL;
    c->next = t->cursors;
    if (t->cursors != NULL)
        t->cursors->prev = c;
    t->cursors = c;
    *ret = c;
    return 0;
}

void tcursor_close(struct tcursor *c)
{
    struct stx *t;

    if (c == NULL)
        return;
    t = c->t;
    if (c->next != NULL)
        c->next->prev = c->prev;
    if (c->prev != NULL)
        c->prev->next = c->next;
    else
        t->cursors = c->next;
    if ((c->wt == NULL || c->wt->reset(c->wt) == 0) &&
        (c->strict == NULL || c->strict->reset(c->strict) == 0))
        keep(t->session, c);
    else
        let_go(t->session, c);
}

static int open_wt(struct tcursor *c, const char *config, WT_CURSOR **ret)
{
    WT_SESSION *wt = c->t->session->wt;
    int rc;

    if (*ret != NULL)
        return 0;
    rc = FAULT_ERROR(STORAGE_OPEN);
    if (rc != 0)
        return stx_fault(c->t, rc, "cannot open a table");
    rc = wt->open_cursor(wt, c->uri, NULL, config, ret);
    return rc == 0 ? 0 : fail(c, rc, "cannot open");
}

struct tcursor *tcursor_lost_position(struct tcursor *c)
{
    c->at = false;
    return c->next;
}

/* --- reading ------------------------------------------------------------------------------- */

static void set_num(struct tcursor *c, WT_CURSOR *wt, uint64_t key)
{
    ASSERT(c->kind != TABLE_BYTES);
    if (c->kind == TABLE_RECORDS)
        wt->set_key(wt, (int64_t)key);
    else
        wt->set_key(wt, key);
}

static void set_bytes(struct tcursor *c, WT_CURSOR *wt, struct bytes key)
{
    WT_ITEM item = {.data = key.p, .size = key.len};

    ASSERT(c->kind == TABLE_BYTES);
    wt->set_key(wt, &item);
}

static void set_value(WT_CURSOR *wt, struct bytes value)
{
    WT_ITEM item = {.data = value.p, .size = value.len};

    wt->set_value(wt, &item);
}

/* The end of every positioning call. */
static int moved(struct tcursor *c, int rc, bool *ret_found)
{
    int fault = FAULT_ERROR(STORAGE_READ);

    c->at = rc == 0 && fault == 0;
    c->num = 0;
    if (fault != 0)
        return stx_fault(c->t, fault, "cannot read");
    if (rc != 0 && rc != WT_NOTFOUND)
        return fail(c, rc, "cannot read");
    *ret_found = rc == 0;
    return 0;
}

/* The key is set. */
static int seek(struct tcursor *c, enum seek_mode mode, bool *ret_found)
{
    WT_CURSOR *wt = c->wt;
    int cmp, rc;

    if (mode == SEEK_EXACT)
        return moved(c, wt->search(wt), ret_found);
    rc = wt->search_near(wt, &cmp);
    if (rc != 0)
        return moved(c, rc, ret_found);
    if (mode == SEEK_GE || mode == SEEK_GT) {
        if (cmp < 0 || (cmp == 0 && mode == SEEK_GT))
            rc = wt->next(wt);
    } else {
        if (cmp > 0 || (cmp == 0 && mode == SEEK_LT))
            rc = wt->prev(wt);
    }
    return moved(c, rc, ret_found);
}

/* Rows that are looked up one by one are often neighbours, as records are in the order of an index
 * on a value that grows: a step costs a third of a search. False: it has to be searched for. */
static bool step_to(struct tcursor *c, uint64_t key)
{
    if (!c->at || c->num == 0 || (key != c->num + 1 && key != c->num - 1))
        return false;
    c->at = (key > c->num ? c->wt->next(c->wt) : c->wt->prev(c->wt)) == 0;
    c->num = 0;
    return c->at && tcursor_num(c) == key;
}

int tcursor_seek_num(struct tcursor *c, uint64_t key, enum seek_mode mode, bool *ret_found)
{
    TRY_RETURN(open_wt(c, NULL, &c->wt));
    if (mode == SEEK_EXACT && step_to(c, key)) {
        c->num = key;
        *ret_found = true;
        return 0;
    }
    set_num(c, c->wt, key);
    TRY_RETURN(seek(c, mode, ret_found));
    if (mode == SEEK_EXACT && *ret_found)
        c->num = key;
    return 0;
}

int tcursor_seek(struct tcursor *c, struct bytes key, enum seek_mode mode, bool *ret_found)
{
    TRY_RETURN(open_wt(c, NULL, &c->wt));
    set_bytes(c, c->wt, key);
    return seek(c, mode, ret_found);
}

/* WiredTiger's next and prev start at an end when the cursor has no position. */
static int reset(struct tcursor *c)
{
    int rc;

    TRY_RETURN(open_wt(c, NULL, &c->wt));
    rc = c->wt->reset(c->wt);
    return rc == 0 ? 0 : fail(c, rc, "cannot read");
}

int tcursor_first(struct tcursor *c, bool *ret_found)
{
    TRY_RETURN(reset(c));
    return moved(c, c->wt->next(c->wt), ret_found);
}

int tcursor_last(struct tcursor *c, bool *ret_found)
{
    TRY_RETURN(reset(c));
    return moved(c, c->wt->prev(c->wt), ret_found);
}

int tcursor_next(struct tcursor *c, bool *ret_found)
{
    return moved(c, c->at ? c->wt->next(c->wt) : WT_NOTFOUND, ret_found);
}

int tcursor_prev(struct tcursor *c, bool *ret_found)
{
    return moved(c, c->at ? c->wt->prev(c->wt) : WT_NOTFOUND, ret_found);
}

uint64_t tcursor_num(const struct tcursor *c)
{
    int64_t rid;
    uint64_t optime;
    int rc;

    ASSERT(c->at && c->kind != TABLE_BYTES);
    if (c->num != 0)
        return c->num;
    if (c->kind == TABLE_RECORDS) {
        rc = c->wt->get_key(c->wt, &rid);
        optime = (uint64_t)rid;
    } else {
        rc = c->wt->get_key(c->wt, &optime);
    }
    ASSERT(rc == 0);
    return optime;
}

struct bytes tcursor_key(const struct tcursor *c)
{
    WT_ITEM item;
    int rc;

    ASSERT(c->at && c->kind == TABLE_BYTES);
    rc = c->wt->get_key(c->wt, &item);
    ASSERT(rc == 0);
    return (struct bytes){item.data, item.size};
}

struct bytes tcursor_value(const struct tcursor *c)
{
    WT_ITEM item;
    int rc;

    ASSERT(c->at);
    rc = c->wt->get_value(c->wt, &item);
    ASSERT(rc == 0);
    return (struct bytes){item.data, item.size};
}

/* --- writing ------------------------------------------------------------------------------- */

/* Before each write: a lost transaction writes no more. The cursor loses its position. */
static int before_write(struct tcursor *c)
{
    struct stx *t = c->t;
    int rc = FAULT_ERROR(STORAGE_WRITE);

    if (rc != 0)
        return stx_fault(t, rc, "cannot write");
    if (t->lost)
        return fail(c, WT_ROLLBACK, "cannot write");
    t->written = true;
    c->at = false;
    return 0;
}

static int before_strict(struct tcursor *c)
{
    TRY_RETURN(before_write(c));
    return open_wt(c, "overwrite=false", &c->strict);
}

static int insert(struct tcursor *c, struct bytes value)
{
    int rc;

    set_value(c->strict, value);
    rc = c->strict->insert(c->strict);
    return rc == 0 ? 0 : fail(c, rc, "cannot insert into");
}

int tcursor_insert_num(struct tcursor *c, uint64_t key, struct bytes value)
{
    TRY_RETURN(before_strict(c));
    set_num(c, c->strict, key);
    return insert(c, value);
}

int tcursor_insert(struct tcursor *c, struct bytes key, struct bytes value)
{
    TRY_RETURN(before_strict(c));
    set_bytes(c, c->strict, key);
    return insert(c, value);
}

static int before_put(struct tcursor *c)
{
    TRY_RETURN(before_write(c));
    return open_wt(c, NULL, &c->wt);
}

static int put(struct tcursor *c, struct bytes value)
{
    int rc;

    set_value(c->wt, value);
    rc = c->wt->insert(c->wt);
    return rc == 0 ? 0 : fail(c, rc, "cannot write");
}

int tcursor_put_num(struct tcursor *c, uint64_t key, struct bytes value)
{
    TRY_RETURN(before_put(c));
    set_num(c, c->wt, key);
    return put(c, value);
}

int tcursor_put(struct tcursor *c, struct bytes key, struct bytes value)
{
    TRY_RETURN(before_put(c));
    set_bytes(c, c->wt, key);
    return put(c, value);
}

static int remove_key(struct tcursor *c, bool *ret_found)
{
    int rc = c->strict->remove(c->strict);

    if (rc != 0 && rc != WT_NOTFOUND)
        return fail(c, rc, "cannot remove from");
    if (ret_found != NULL)
        *ret_found = rc == 0;
    return 0;
}

int tcursor_remove_num(struct tcursor *c, uint64_t key, bool *ret_found)
{
    TRY_RETURN(before_strict(c));
    set_num(c, c->strict, key);
    return remove_key(c, ret_found);
}

int tcursor_remove(struct tcursor *c, struct bytes key, bool *ret_found)
{
    TRY_RETURN(before_strict(c));
    set_bytes(c, c->strict, key);
    return remove_key(c, ret_found);
}

/* Both keys are set: in c->wt and in `to`, which is closed here. */
static int truncate_range(struct tcursor *c, WT_CURSOR *to)
{
    WT_SESSION *wt = c->t->session->wt;
    int rc = wt->truncate(wt, NULL, c->wt, to, NULL);

    (void)c->wt->reset(c->wt);
    (void)to->close(to);
    return rc == 0 ? 0 : fail(c, rc, "cannot truncate");
}

static int before_truncate(struct tcursor *c, WT_CURSOR **ret_to)
{
    TRY_RETURN(before_write(c));
    TRY_RETURN(open_wt(c, NULL, &c->wt));
    *ret_to = NULL;
    return open_wt(c, NULL, ret_to);
}

int tcursor_truncate_num(struct tcursor *c, uint64_t from, uint64_t to)
{
    WT_CURSOR *end;

    if (from > to)
        return 0;
    TRY_RETURN(before_truncate(c, &end));
    set_num(c, c->wt, from);
    set_num(c, end, to);
    return truncate_range(c, end);
}

static int bytes_cmp(struct bytes a, struct bytes b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int cmp = n == 0 ? 0 : memcmp(a.p, b.p, n);

    return cmp != 0 ? cmp : (a.len > b.len) - (a.len < b.len);
}

int tcursor_truncate(struct tcursor *c, struct bytes from, struct bytes to)
{
    WT_CURSOR *end;

    if (bytes_cmp(from, to) > 0)
        return 0;
    TRY_RETURN(before_truncate(c, &end));
    set_bytes(c, c->wt, from);
    set_bytes(c, end, to);
    return truncate_range(c, end);
}
