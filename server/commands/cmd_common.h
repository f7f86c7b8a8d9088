/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What several command files need. */
#ifndef RUNNEL_SERVER_COMMANDS_CMD_COMMON_H
#define RUNNEL_SERVER_COMMANDS_CMD_COMMON_H

#include "query/cursor.h"
#include "server/command.h"

/* Only the simple collation is built: absent or {locale: "simple"}; else 238. */
int check_collation(struct op *op, struct bv collation) MUST_CHECK;

/* A hint: absent, a string or a document; empty ones count as absent. */
int check_hint(struct op *op, struct bv hint, struct bv *ret) MUST_CHECK;

/* let variables of a command, evaluated. `vars` and `ev` live in the op's arena. */
struct let_vars {
    struct expr_vars *vars; /* NULL: none given */
    struct eval *ev;
};
int command_let(struct op *op, struct bv let, struct let_vars *ret) MUST_CHECK;

/* Answers NamespaceExists-like checks on names a user may not create or write. */
int check_user_ns(struct op *op, const char *ns) MUST_CHECK;

#endif
