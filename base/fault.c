/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/fault.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mutex.h"

enum action { ACT_OFF, ACT_KILL, ACT_WAIT, ACT_ERROR, ACT_FAIL };

static const char *const names[FAULT_COUNT] = {
#define FAULT_POINT(id, name, what) [FAULT_##id] = name,
#include "base/faults.def"
#undef FAULT_POINT
};

static struct {
    enum action action;
    long nth, hits;
    int code;
} points[FAULT_COUNT];

_Atomic int fault_armed;
static struct mutex fault_mx = {.mx = PTHREAD_MUTEX_INITIALIZER};
static pthread_cond_t fault_cv = PTHREAD_COND_INITIALIZER;

int fault_hit(enum fault_id id)
{
    int code = 0;

    mutex_lock(&fault_mx);
    if (points[id].action != ACT_OFF && ++points[id].hits >= points[id].nth) {
        if (points[id].action == ACT_KILL)
            kill(getpid(), SIGKILL);
        if (points[id].action == ACT_ERROR ||
            (points[id].action == ACT_FAIL && points[id].hits == points[id].nth))
            code = points[id].code;
        while (points[id].action == ACT_WAIT)
            mutex_wait(&fault_mx, &fault_cv, -1);
    }
    mutex_unlock(&fault_mx);
    return code;
}

static int find(const char *spec, size_t n)
{
    for (int i = 0; i < FAULT_COUNT; i++) {
        if (strlen(names[i]) == n && strncmp(names[i], spec, n) == 0)
            return i;
    }
    return -1;
}

static bool parse_action(const char *s, size_t n, enum action *ret, int *ret_code)
{
    if (n == 3 && strncmp(s, "off", n) == 0)
        *ret = ACT_OFF;
    else if (n == 4 && strncmp(s, "kill", n) == 0)
        *ret = ACT_KILL;
    else if (n == 4 && strncmp(s, "wait", n) == 0)
        *ret = ACT_WAIT;
    else if (n > 6 && strncmp(s, "error=", 6) == 0)
        *ret = ACT_ERROR;
    else if (n > 5 && strncmp(s, "fail=", 5) == 0)
        *ret = ACT_FAIL;
    else
        return false;
    if (*ret != ACT_ERROR && *ret != ACT_FAIL)
        return true;
    *ret_code = atoi(s + (*ret == ACT_ERROR ? 6 : 5));
    return *ret_code > 0;
}

int fault_set(const char *spec, struct error *err)
{
    size_t n = strcspn(spec, ":");
    int id = find(spec, n);
    const char *act = spec[n] == ':' ? spec + n + 1 : "";
    size_t act_len = strcspn(act, ":");
    enum action action;
    int code = 0, armed = 0;
    long nth = act[act_len] == ':' ? atol(act + act_len + 1) : 1;

    if (id < 0 || nth < 1 || !parse_action(act, act_len, &action, &code))
        return error_set(err, ERR_BAD_VALUE, "not a fault: '%s'", spec);
    mutex_lock(&fault_mx);
    if (action != ACT_WAIT || points[id].action != ACT_WAIT)
        points[id].hits = 0;
    points[id].action = action;
    points[id].nth = nth;
    points[id].code = code;
    for (int i = 0; i < FAULT_COUNT; i++)
        armed += points[i].action != ACT_OFF;
    atomic_store(&fault_armed, armed);
    pthread_cond_broadcast(&fault_cv);
    mutex_unlock(&fault_mx);
    return 0;
}

void fault_clear_all(void)
{
    mutex_lock(&fault_mx);
    memset(points, 0, sizeof(points));
    atomic_store(&fault_armed, 0);
    pthread_cond_broadcast(&fault_cv);
    mutex_unlock(&fault_mx);
}

long fault_hits(const char *name)
{
    int id = find(name, strlen(name));
    long n;

    if (id < 0)
        return -1;
    mutex_lock(&fault_mx);
    n = points[id].hits;
    mutex_unlock(&fault_mx);
    return n;
}
