/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "server/settings.h"

#include <argp.h>
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/limits.h"
#include "base/mem.h"

enum kind { KIND_STR, KIND_BOOL, KIND_INT, KIND_NUM };

struct option_row {
    const char *name;
    enum kind kind;
    size_t offset;
    int64_t least, most;
    const char *arg, *help;
};

static const struct option_row rows[] = {
#define OPTION(field, name, kind, least, most, arg, help)                                          \
    {name, KIND_##kind, offsetof(struct settings, field), least, most, arg, help},
#include "server/options.def"
#undef OPTION
};

enum { ROWS = sizeof(rows) / sizeof(rows[0]), KEY_FIRST = 0x1000 };

void settings_default(struct settings *s)
{
    *s = (struct settings){
        .port = 27017,
        .bind = "127.0.0.1",
        .repl_set = "rs0",
        .oplog_size_mb = 1024,
        .max_connections = LIMIT_CONNECTIONS,
        .max_cursors = LIMIT_CURSORS,
        .max_sessions = LIMIT_LOGICAL_SESSIONS,
        .stall_seconds = 120,
    };
}

void settings_fini(struct settings *s)
{
    arena_fini(&s->strings);
}

static int set_int(const struct option_row *r, const char *value, int64_t *out, struct error *err)
{
    char *end;
    long long x;

    errno = 0;
    x = strtoll(value, &end, 10);
    if (errno != 0 || end == value || *end != '\0' || x < r->least || x > r->most)
        return error_set(err, ERR_BAD_VALUE, "%s: not a whole number from %lld to %lld: '%s'",
                         r->name, (long long)r->least, (long long)r->most, value);
    *out = x;
    return 0;
}

static int set_num(const struct option_row *r, const char *value, double *out, struct error *err)
{
    char *end;
    double x = strtod(value, &end);

    if (end == value || *end != '\0' || !isfinite(x) || x < (double)r->least || x > (double)r->most)
        return error_set(err, ERR_BAD_VALUE, "%s: not a number from %lld to %lld: '%s'", r->name,
                         (long long)r->least, (long long)r->most, value);
    *out = x;
    return 0;
}

static int set_bool(const struct option_row *r, const char *value, bool *out, struct error *err)
{
    if (strcmp(value, "true") == 0)
        *out = true;
    else if (strcmp(value, "false") == 0)
        *out = false;
    else
        return error_set(err, ERR_BAD_VALUE, "%s: neither true nor false: '%s'", r->name, value);
    return 0;
}

static int set_str(struct settings *s, const struct option_row *r, const char *value,
                   const char **out, struct error *err)
{
    if (*value == '\0')
        return error_set(err, ERR_BAD_VALUE, "%s: empty", r->name);
    *out = arena_strdup(&s->strings, value);
    return 0;
}

static int set_row(struct settings *s, const struct option_row *r, const char *value,
                   struct error *err)
{
    void *out = (char *)s + r->offset;

    switch (r->kind) {
    case KIND_INT:
        return set_int(r, value, out, err);
    case KIND_NUM:
        return set_num(r, value, out, err);
    case KIND_BOOL:
        return set_bool(r, value, out, err);
    default:
        return set_str(s, r, value, out, err);
    }
}

int settings_set(struct settings *s, const char *name, const char *value, struct error *err)
{
    for (size_t i = 0; i < ROWS; i++) {
        if (strcmp(rows[i].name, name) == 0)
            return set_row(s, &rows[i], value, err);
    }
    return error_set(err, ERR_INVALID_OPTIONS, "unknown setting '%s'", name);
}

/* --- the config file -------------------------------------------------------------------------- */

static const char *scalar(yaml_document_t *doc, int id)
{
    yaml_node_t *n = yaml_document_get_node(doc, id);

    return n != NULL && n->type == YAML_SCALAR_NODE ? (const char *)n->data.scalar.value : NULL;
}

static int apply_document(struct settings *s, const char *path, yaml_document_t *doc,
                          struct error *err)
{
    yaml_node_t *root = yaml_document_get_root_node(doc);

    if (root == NULL) /* an empty file */
        return 0;
    if (root->type != YAML_MAPPING_NODE)
        return error_set(err, ERR_BAD_VALUE, "%s: not a mapping of settings", path);
    for (yaml_node_pair_t *p = root->data.mapping.pairs.start; p < root->data.mapping.pairs.top;
         p++) {
        const char *name = scalar(doc, p->key), *value = scalar(doc, p->value);

        if (name == NULL || value == NULL)
            return error_set(err, ERR_BAD_VALUE, "%s: the value of '%s' is no scalar", path,
                             name == NULL ? "?" : name);
        if (strcmp(name, "config") == 0)
            return error_set(err, ERR_INVALID_OPTIONS, "%s: unknown setting 'config'", path);
        if (settings_set(s, name, value, err) != 0) {
            char text[ERROR_TEXT_MAX];

            snprintf(text, sizeof(text), "%.300s: %.600s", path, err->text);
            return error_set(err, err->code, "%s", text);
        }
    }
    return 0;
}

int settings_load(struct settings *s, const char *path, struct error *err)
{
    FILE *f = fopen(path, "re");
    yaml_parser_t parser;
    yaml_document_t doc;
    int rc;

    if (f == NULL)
        return error_set(err, ERR_BAD_VALUE, "cannot read %s: %s", path, strerror(errno));
    if (!yaml_parser_initialize(&parser))
        mem_out(sizeof(parser), __builtin_return_address(0));
    yaml_parser_set_input_file(&parser, f);
    if (yaml_parser_load(&parser, &doc)) {
        rc = apply_document(s, path, &doc, err);
        yaml_document_delete(&doc);
    } else {
        rc = error_set(err, ERR_FAILED_TO_PARSE, "%s: line %zu: %s", path,
                       parser.problem_mark.line + 1,
                       parser.problem == NULL ? "not YAML" : parser.problem);
    }
    yaml_parser_delete(&parser);
    fclose(f);
    return rc;
}

/* --- the command line ------------------------------------------------------------------------- */

struct given {
    const char *value[ROWS]; /* NULL: not given */
};

static error_t take_option(int key, char *arg, struct argp_state *state)
{
    struct given *g = state->input;

    if (key == ARGP_KEY_ARG)
        argp_error(state, "unexpected argument '%s'", arg);
    if (key < KEY_FIRST || key >= KEY_FIRST + (int)ROWS)
        return ARGP_ERR_UNKNOWN;
    g->value[key - KEY_FIRST] = arg == NULL ? "true" : arg;
    return 0;
}

static void print_version(FILE *stream, struct argp_state *state)
{
    (void)state;
    fprintf(stream, "runneld %s (MongoDB wire protocol of %s)\n", RUNNEL_VERSION, MONGO_VERSION);
}

int settings_check(const struct settings *s, struct error *err)
{
    if (s->memory == (s->dbpath != NULL))
        return error_set(err, ERR_INVALID_OPTIONS, "give either --dbpath DIR or --memory");
    if (s->advertise != NULL && strrchr(s->advertise, ':') == NULL)
        return error_set(err, ERR_BAD_VALUE, "advertise: not HOST:PORT: '%s'", s->advertise);
    if (strlen(s->repl_set) > 100 || strpbrk(s->repl_set, "/,&? ") != NULL)
        return error_set(err, ERR_BAD_VALUE, "repl-set: not a name: '%.100s'", s->repl_set);
    return 0;
}

int settings_parse(struct settings *s, int argc, char **argv, struct error *err)
{
    struct argp_option options[ROWS + 1] = {{0}};
    struct argp argp = {
        options, take_option, NULL, "A MongoDB-compatible server for change streams.",
        NULL,    NULL,        NULL};
    struct given given = {{NULL}};

    for (size_t i = 0; i < ROWS; i++)
        options[i] =
            (struct argp_option){rows[i].name, KEY_FIRST + (int)i, rows[i].arg, 0, rows[i].help, 0};
    argp_program_version_hook = print_version;
    settings_default(s);
    s->argc = argc;
    s->argv = argv;
    if (argp_parse(&argp, argc, argv, 0, NULL, &given) != 0)
        return error_set(err, ERR_INVALID_OPTIONS, "bad usage");
    for (size_t i = 0; i < ROWS; i++) {
        if (given.value[i] != NULL && strcmp(rows[i].name, "config") == 0)
            TRY_RETURN(settings_load(s, given.value[i], err));
    }
    for (size_t i = 0; i < ROWS; i++) {
        if (given.value[i] != NULL)
            TRY_RETURN(set_row(s, &rows[i], given.value[i], err));
    }
    return settings_check(s, err);
}
