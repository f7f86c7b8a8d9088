/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "server/cursors.h"

struct cursors *cursors_new(void)
{
    return NULL;
}

void cursors_free(struct cursors *cs)
{
    (void)cs;
}

void cursor_unpin(struct request *rq)
{
    (void)rq;
}

void cursors_kill_all(struct cursors *cs, int code)
{
    (void)cs;
    (void)code;
}
