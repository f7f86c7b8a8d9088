/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Which entries concern which scope: one row per rule, and the names behind them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wconversion"
#include <bson/bson.h>
#pragma GCC diagnostic pop

#include "oplog/scope.h"

/* Scopes under test, in the order of the letters in a row's `seen`. */
static const struct scope scopes[] = {
    {SCOPE_COLLECTION, "db", "db.c", false, false, false}, /* c */
    {SCOPE_COLLECTION, "db", "db.c", true, false, false},  /* C */
    {SCOPE_DATABASE, "db", NULL, false, false, false},     /* d */
    {SCOPE_DATABASE, "db", NULL, true, false, false},      /* D */
    {SCOPE_CLUSTER, NULL, NULL, false, false, false},      /* a */
    {SCOPE_CLUSTER, NULL, NULL, true, false, false},       /* A */
    {SCOPE_DATABASE, "db", NULL, false, true, false},      /* s */
    {SCOPE_OPLOG, NULL, NULL, false, false, false},        /* o */
};
static const char letters[] = "cCdDaAso";

struct row {
    const char *entry; /* op, ns, o and what else matters, as extended JSON */
    const char *seen;  /* which scopes match it */
    const char *names; /* what scope_names gives, in order */
};

#define PREV(t)                                                                                    \
    "\"prevOpTime\":{\"ts\":{\"$timestamp\":{\"t\":" #t ",\"i\":0}},\"t\":{\"$numberLong\":\"-"    \
    "1\"}}"

static const struct row rows[] = {
    /* CRUD */
    {"{'op':'i','ns':'db.c','o':{'_id':1}}", "cCdDaAso", "db.c db"},
    {"{'op':'u','ns':'db.c','o':{'_id':1}}", "cCdDaAso", "db.c db"},
    {"{'op':'d','ns':'db.c','o':{'_id':1}}", "cCdDaAso", "db.c db"},
    {"{'op':'i','ns':'db.other','o':{}}", "dDaAso", "db.other db"},
    {"{'op':'i','ns':'db.c.d','o':{}}", "dDaAso", "db.c.d db"},
    {"{'op':'i','ns':'db.C','o':{}}", "dDaAso", "db.C db"},
    {"{'op':'i','ns':'db2.c','o':{}}", "aAo", "db2.c db2"},
    {"{'op':'i','ns':'d.c','o':{}}", "aAo", "d.c d"},
    {"{'op':'i','ns':'DB.c','o':{}}", "aAo", "DB.c DB"},
    {"{'op':'i','ns':'db.c','fromMigrate':true,'o':{}}", "o", "db.c db"},
    {"{'op':'i','ns':'db.c','fromMigrate':false,'o':{}}", "cCdDaAso", "db.c db"},
    /* internal databases and system collections */
    {"{'op':'i','ns':'admin.c','o':{}}", "o", "admin.c admin"},
    {"{'op':'i','ns':'config.c','o':{}}", "o", "config.c config"},
    {"{'op':'i','ns':'local.c','o':{}}", "o", "local.c local"},
    {"{'op':'i','ns':'admin2.c','o':{}}", "aAo", "admin2.c admin2"},
    {"{'op':'i','ns':'db.system.users','o':{}}", "o", "db.system.users db"},
    {"{'op':'i','ns':'db.systemic','o':{}}", "dDaAso", "db.systemic db"},
    {"{'op':'i','ns':'db.system.js','o':{}}", "so", "db.system.js db"},
    {"{'op':'i','ns':'db.system.buckets.x','o':{}}", "so", "db.system.buckets.x db"},
    {"{'op':'i','ns':'db.$x','o':{}}", "o", "db.$x db"},
    /* views are rows of system.views */
    {"{'op':'i','ns':'db.system.views','o':{'_id':'db.v'}}", "DAo", "db.system.views db"},
    {"{'op':'d','ns':'db.system.views','o':{'_id':'db.v'}}", "DAo", "db.system.views db"},
    {"{'op':'i','ns':'config.system.views','o':{}}", "o", "config.system.views config"},
    /* DDL */
    {"{'op':'c','ns':'db.$cmd','o':{'drop':'c'}}", "cCdDaAso", "db db.c"},
    {"{'op':'c','ns':'db.$cmd','o':{'drop':'x'}}", "dDaAso", "db db.x"},
    {"{'op':'c','ns':'db2.$cmd','o':{'drop':'c'}}", "aAo", "db2 db2.c"},
    {"{'op':'c','ns':'db.$cmd','o':{'drop':'system.views'}}", "o", "db db.system.views"},
    {"{'op':'c','ns':'admin.$cmd','o':{'drop':'c'}}", "o", "admin admin.c"},
    {"{'op':'c','ns':'db.$cmd','o':{'dropDatabase':1}}", "dDaAso", "db"},
    {"{'op':'c','ns':'db2.$cmd','o':{'dropDatabase':1}}", "aAo", "db2"},
    {"{'op':'c','ns':'db.$cmd','o':{'create':'c'}}", "CDAo", "db db.c"},
    {"{'op':'c','ns':'db.$cmd','o':{'create':'x'}}", "DAo", "db db.x"},
    {"{'op':'c','ns':'db.$cmd','o':{'createIndexes':'c','v':2}}", "CDAo", "db db.c"},
    {"{'op':'c','ns':'db.$cmd','o':{'commitIndexBuild':'c'}}", "CDAo", "db db.c"},
    {"{'op':'c','ns':'db.$cmd','o':{'startIndexBuild':'c'}}", "o", "db"},
    {"{'op':'c','ns':'db.$cmd','o':{'dropIndexes':'c','index':'a_1'}}", "CDAo", "db db.c"},
    {"{'op':'c','ns':'db.$cmd','o':{'collMod':'c'}}", "CDAo", "db db.c"},
    {"{'op':'c','ns':'db.c','o':{'drop':'c'}}", "o", "db db.c"},
    /* renames: source, target, into and out of hidden names */
    {"{'op':'c','ns':'db.$cmd','o':{'renameCollection':'db.c','to':'db.x'}}", "cCdDaAso",
     "db db.c db db.x db"},
    {"{'op':'c','ns':'db.$cmd','o':{'renameCollection':'db.x','to':'db.c'}}", "cCdDaAso",
     "db db.x db db.c db"},
    {"{'op':'c','ns':'db.$cmd','o':{'renameCollection':'db.x','to':'db.y'}}", "dDaAso",
     "db db.x db db.y db"},
    {"{'op':'c','ns':'db.$cmd','o':{'renameCollection':'db.x','to':'db2.c'}}", "dDaAso",
     "db db.x db db2.c db2"},
    {"{'op':'c','ns':'db.$cmd','o':{'renameCollection':'db.system.a','to':'db.system.b'}}", "o",
     "db db.system.a db db.system.b db"},
    {"{'op':'c','ns':'db.$cmd','o':{'renameCollection':'db.system.a','to':'db.y'}}", "dDaAso",
     "db db.system.a db db.y db"},
    /* transactions */
    {"{'op':'c','ns':'admin.$cmd','o':{'applyOps':[{'op':'i','ns':'db2.c','o':{}},"
     "{'op':'d','ns':'db.c','o':{}}]}}",
     "cCdDaAso", "db2.c db2 db.c db"},
    {"{'op':'c','ns':'admin.$cmd','o':{'applyOps':[{'op':'i','ns':'db2.c','o':{}}]}}", "aAo",
     "db2.c db2"},
    {"{'op':'c','ns':'admin.$cmd','o':{'applyOps':[{'op':'i','ns':'admin.c','o':{}}]}}", "o",
     "admin.c admin"},
    {"{'op':'c','ns':'admin.$cmd','o':{'applyOps':[]}}", "o", ""},
    {"{'op':'c','ns':'admin.$cmd','o':{'applyOps':[{'op':'c','ns':'db.$cmd','o':{'create':'c'}}]}}",
     "CDAo", "db db.c"},
    {"{'op':'c','ns':'admin.$cmd','o':{'applyOps':[{'op':'i','ns':'db.c','o':{}}],"
     "'partialTxn':true}}",
     "o", "db.c db"},
    {"{'op':'c','ns':'admin.$cmd','o':{'applyOps':[{'op':'i','ns':'db.c','o':{}}],"
     "'prepare':true}}",
     "o", "db.c db"},
    {"{'op':'c','ns':'admin.$cmd','o':{'applyOps':[{'op':'i','ns':'db2.x','o':{}}],'count':3}"
     "," PREV(7) "}",
     "cCdDaAso", "*"},
    {"{'op':'c','ns':'admin.$cmd','o':{'applyOps':[{'op':'i','ns':'db2.x','o':{}}]}," PREV(0) "}",
     "aAo", "db2.x db2"},
    {"{'op':'c','ns':'admin.$cmd','o':{'applyOps':[],'partialTxn':true}," PREV(7) "}", "o", "*"},
    {"{'op':'c','ns':'admin.$cmd','o':{'commitTransaction':1}}", "cCdDaAso", "*"},
    {"{'op':'c','ns':'admin.$cmd','o':{'abortTransaction':1}}", "o", "admin"},
    /* noops */
    {"{'op':'n','ns':'','o':{'msg':'periodic noop'}}", "o", ""},
    {"{'op':'n','ns':'db.c','o':{'msg':'x'}}", "o", ""},
};

/* The entry of a row, with what every entry has. */
static struct bv entry_of(struct op *op, const char *json)
{
    char *text = arena_strdup(&op->arena, json);
    bson_error_t error;
    bson_t *b;
    struct bw w;

    for (char *p = text; *p != '\0'; p++)
        *p = *p == '\'' ? '"' : *p;
    b = bson_new_from_json((const uint8_t *)text, -1, &error);
    if (b == NULL)
        fail_msg("%s: %s", text, error.message);
    bw_init(&w, &op->arena);
    bw_fields(&w, bv_doc(bson_get_data(b)));
    bw_ts(&w, "ts", 1);
    bson_destroy(b);
    return bw_done(&w);
}

struct collected {
    struct op *op;
    char *text;
};

static void collect(void *arg, const struct scope_name *name)
{
    struct collected *c = arg;
    struct arena *a = &c->op->arena;
    const char *text = name == NULL ? "*" : arena_strndup(a, name->p, name->len);

    if (name != NULL)
        assert_true(name->hash == name_hash(text));
    c->text = arena_printf(a, "%s%s%s", c->text, *c->text == '\0' ? "" : " ", text);
}

static void every_rule(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct collected c;
        struct oplog_row row;
        struct op op;
        char seen[sizeof(letters)] = "";
        size_t n = 0;

        op_init(&op);
        assert_true(oplog_parse(entry_of(&op, rows[i].entry), &row));
        for (size_t s = 0; s < sizeof(scopes) / sizeof(scopes[0]); s++) {
            if (scope_matches(&scopes[s], &row))
                seen[n++] = letters[s];
        }
        if (strcmp(seen, rows[i].seen) != 0)
            fail_msg("%s: seen by %s, not %s", rows[i].entry, seen, rows[i].seen);
        c = (struct collected){&op, arena_strdup(&op.arena, "")};
        scope_names(&row, collect, &c);
        if (strcmp(c.text, rows[i].names) != 0)
            fail_msg("%s: names %s, not %s", rows[i].entry, c.text, rows[i].names);
        scope_hash_row(&row);
        c.text = arena_strdup(&op.arena, "");
        scope_names(&row, collect, &c);
        assert_string_equal(c.text, rows[i].names);
        op_fini(&op);
    }
}

/* A stream that is woken or let through by name must find its name: matches implies names. */
static void a_match_implies_a_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char padded[512];

        snprintf(padded, sizeof(padded), " %s ", rows[i].names);
        if (strchr(rows[i].names, '*') != NULL)
            continue;
        if (strchr(rows[i].seen, 'C') != NULL)
            assert_non_null(strstr(padded, " db.c "));
        if (strchr(rows[i].seen, 'D') != NULL)
            assert_non_null(strstr(padded, " db "));
    }
}

static void names_too_long_concern_everything(void **state)
{
    struct collected c;
    struct oplog_row row = {.op = 'c', .ns = "db.$cmd"};
    struct op op;
    struct bw w;
    char longest[400];

    (void)state;
    op_init(&op);
    memset(longest, 'x', sizeof(longest));
    longest[sizeof(longest) - 1] = '\0';
    bw_init(&w, &op.arena);
    bw_str(&w, "drop", longest);
    row.o = bw_done(&w);
    c = (struct collected){&op, arena_strdup(&op.arena, "")};
    scope_names(&row, collect, &c);
    assert_string_equal(c.text, "db *");
    op_fini(&op);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rule),
        cmocka_unit_test(a_match_implies_a_name),
        cmocka_unit_test(names_too_long_concern_everything),
    };

    return cmocka_run_group_tests_name("oplog_scope", tests, NULL, NULL);
}
