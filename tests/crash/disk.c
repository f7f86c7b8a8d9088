/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "disk_internal.h"

#define HIDDEN ".disk-"

void *disk_take(size_t size)
{
    void *p = calloc(1, size);

    if (p == NULL)
        abort();
    return p;
}

static char *copy(const char *s)
{
    char *p = s == NULL ? NULL : strdup(s);

    if (s != NULL && p == NULL)
        abort();
    return p;
}

uint64_t disk_random(struct disk *d, uint64_t below)
{
    d->random ^= d->random << 13;
    d->random ^= d->random >> 7;
    d->random ^= d->random << 17;
    return d->random % below;
}

bool disk_leaks(struct disk *d)
{
    return d->o.leak > 0 && disk_random(d, 1000) < d->o.leak;
}

/* Before each change of a real file. */
void disk_step(struct disk *d)
{
    if (++d->counts.steps == d->o.cut_at)
        kill(getpid(), SIGKILL);
}

/* 0, or the error that this call is to meet. */
static int begin(struct disk *d, enum disk_op op)
{
    uint64_t n = ++d->counts.ops[op];

    if (op != d->o.fail_op || n != d->o.fail_at)
        return 0;
    fprintf(stderr, "{\"disk\":\"failed\",\"op\":%d,\"call\":%llu}\n", (int)op,
            (unsigned long long)n);
    return d->o.fail_errno;
}

/* --- names --------------------------------------------------------------------------------- */

static void real_name(const struct disk_file *f, char ret[static 40])
{
    snprintf(ret, 40, HIDDEN "%llu", (unsigned long long)f->number);
}

static void forget(struct disk_file *f)
{
    file_drop_pages(f, 0);
    close(f->fd);
    free(f);
}

static void maybe_forget(struct disk_file *f)
{
    if (f->handles == 0 && f->names == 0)
        forget(f);
}

static struct name **find(struct disk *d, const char *text)
{
    struct name **at = &d->names;

    while (*at != NULL && strcmp((*at)->text, text) != 0)
        at = &(*at)->next;
    return at;
}

static void add_name(struct disk *d, const char *text, struct disk_file *f)
{
    struct name *n = disk_take(sizeof(*n) + strlen(text) + 1);

    strcpy(n->text, text);
    n->file = f;
    n->next = d->names;
    d->names = n;
    f->names++;
}

/* Takes a name away; its file stays open or pending, or goes. */
static void remove_name(struct name **at)
{
    struct name *n = *at;
    struct disk_file *f = n->file;

    *at = n->next;
    free(n);
    f->names--;
    maybe_forget(f);
}

/* A real file that is gone was removed by the server itself, as it does with what WiredTiger has
 * forgotten. */
static int apply(struct disk *d, const struct pending *p)
{
    char hidden[40];
    int rc;

    disk_step(d);
    if (p->linked != NULL)
        real_name(p->linked, hidden);
    if (p->to == NULL)
        rc = unlinkat(d->dir_fd, p->from, 0);
    else
        rc = renameat(d->dir_fd, p->linked != NULL ? hidden : p->from, d->dir_fd, p->to);
    return rc == 0 || errno == ENOENT ? 0 : errno;
}

/* The oldest n operations reach the disk, in their order. */
static int apply_some(struct disk *d, uint64_t n)
{
    while (d->pending != NULL && n-- > 0) {
        struct pending *p = d->pending;
        int rc = apply(d, p);

        if (rc != 0)
            return rc;
        d->pending = p->next;
        if (d->pending == NULL)
            d->pending_end = &d->pending;
        if (p->linked != NULL) {
            p->linked->names--;
            maybe_forget(p->linked);
        }
        free(p->from);
        free(p->to);
        free(p);
    }
    return 0;
}

static int add_pending(struct disk *d, struct disk_file *linked, const char *from, const char *to)
{
    struct pending *p = disk_take(sizeof(*p));

    p->linked = linked;
    p->from = copy(from);
    p->to = copy(to);
    if (linked != NULL)
        linked->names++;
    *d->pending_end = p;
    d->pending_end = &p->next;
    return disk_leaks(d) ? apply_some(d, 1 + disk_random(d, 4)) : 0;
}

static int create(struct disk *d, const char *name, struct disk_file **ret)
{
    struct disk_file *f = disk_take(sizeof(*f));
    char hidden[40];

    f->number = d->next_number++;
    real_name(f, hidden);
    f->fd = openat(d->dir_fd, hidden, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (f->fd < 0) {
        free(f);
        return errno;
    }
    add_name(d, name, f);
    *ret = f;
    return add_pending(d, f, NULL, name);
}

/* --- the interface ------------------------------------------------------------------------- */

int disk_open(struct disk *d, const char *name, bool may_create, bool exclusive,
              struct disk_file **ret)
{
    struct disk_file *f = NULL;
    struct name *n;
    int rc = 0;

    pthread_mutex_lock(&d->mx);
    n = *find(d, name);
    if (n != NULL && may_create && exclusive)
        rc = EEXIST;
    else if (n != NULL)
        f = n->file;
    else if (!may_create)
        rc = ENOENT;
    else if ((rc = begin(d, DISK_NAME)) == 0)
        rc = create(d, name, &f);
    if (rc == 0) {
        f->handles++;
        *ret = f;
    }
    pthread_mutex_unlock(&d->mx);
    return rc;
}

void disk_close(struct disk *d, struct disk_file *f)
{
    pthread_mutex_lock(&d->mx);
    f->handles--;
    maybe_forget(f);
    pthread_mutex_unlock(&d->mx);
}

bool disk_exists(struct disk *d, const char *name)
{
    bool found;

    pthread_mutex_lock(&d->mx);
    found = *find(d, name) != NULL;
    pthread_mutex_unlock(&d->mx);
    return found;
}

int disk_remove(struct disk *d, const char *name)
{
    struct name **at;
    int rc;

    pthread_mutex_lock(&d->mx);
    at = find(d, name);
    rc = *at == NULL ? ENOENT : begin(d, DISK_NAME);
    if (rc == 0) {
        rc = add_pending(d, NULL, name, NULL); /* first: `name` may be the entry's own text */
        remove_name(at);
    }
    pthread_mutex_unlock(&d->mx);
    return rc;
}

int disk_rename(struct disk *d, const char *from, const char *to)
{
    struct name **at;
    int rc;

    pthread_mutex_lock(&d->mx);
    at = find(d, from);
    rc = *at == NULL ? ENOENT : begin(d, DISK_NAME);
    if (rc == 0) {
        struct disk_file *f = (*at)->file;
        struct name **old = find(d, to);

        if (*old != NULL && (*old)->file != f)
            remove_name(old);
        add_name(d, to, f);
        remove_name(find(d, from));
        rc = add_pending(d, NULL, from, to);
    }
    pthread_mutex_unlock(&d->mx);
    return rc;
}

int disk_sync_names(struct disk *d)
{
    int rc;

    pthread_mutex_lock(&d->mx);
    rc = begin(d, DISK_SYNC);
    if (rc == 0)
        rc = apply_some(d, UINT64_MAX);
    pthread_mutex_unlock(&d->mx);
    return rc;
}

void disk_list(struct disk *d, const char *prefix, void (*fn)(void *arg, const char *name),
               void *arg)
{
    pthread_mutex_lock(&d->mx);
    for (struct name *n = d->names; n != NULL; n = n->next) {
        if (prefix == NULL || strncmp(n->text, prefix, strlen(prefix)) == 0)
            fn(arg, n->text);
    }
    pthread_mutex_unlock(&d->mx);
}

int disk_read(struct disk *d, struct disk_file *f, uint64_t at, void *buf, size_t len)
{
    int rc;

    pthread_mutex_lock(&d->mx);
    rc = begin(d, DISK_READ);
    if (rc == 0)
        rc = file_read(f, at, buf, len);
    pthread_mutex_unlock(&d->mx);
    return rc;
}

int disk_write(struct disk *d, struct disk_file *f, uint64_t at, const void *buf, size_t len)
{
    int rc;

    pthread_mutex_lock(&d->mx);
    rc = begin(d, DISK_WRITE);
    if (rc == 0)
        rc = file_write(d, f, at, buf, len);
    pthread_mutex_unlock(&d->mx);
    return rc;
}

int disk_truncate(struct disk *d, struct disk_file *f, uint64_t size)
{
    int rc;

    pthread_mutex_lock(&d->mx);
    rc = begin(d, DISK_WRITE);
    if (rc == 0)
        rc = file_truncate(d, f, size);
    pthread_mutex_unlock(&d->mx);
    return rc;
}

int disk_sync(struct disk *d, struct disk_file *f)
{
    int rc;

    pthread_mutex_lock(&d->mx);
    rc = begin(d, DISK_SYNC);
    if (rc == 0)
        rc = file_sync(d, f);
    pthread_mutex_unlock(&d->mx);
    return rc;
}

uint64_t disk_size(struct disk *d, struct disk_file *f)
{
    uint64_t size;

    pthread_mutex_lock(&d->mx);
    size = f->size;
    pthread_mutex_unlock(&d->mx);
    return size;
}

void disk_counts(struct disk *d, struct disk_counts *ret)
{
    pthread_mutex_lock(&d->mx);
    *ret = d->counts;
    pthread_mutex_unlock(&d->mx);
}

/* --- beginning and end --------------------------------------------------------------------- */

static void find_file(struct disk *d, const char *name)
{
    struct disk_file *f;
    struct stat st;
    int fd;

    if (strncmp(name, HIDDEN, strlen(HIDDEN)) == 0) { /* its name was never synced */
        (void)unlinkat(d->dir_fd, name, 0);
        return;
    }
    fd = openat(d->dir_fd, name, O_RDWR | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0)
        abort();
    f = disk_take(sizeof(*f));
    f->fd = fd;
    f->number = d->next_number++;
    f->size = f->shines = (uint64_t)st.st_size;
    add_name(d, name, f);
}

struct disk *disk_new(const char *dir, const struct disk_options *o)
{
    struct disk *d = disk_take(sizeof(*d));
    struct dirent *e;
    DIR *list;

    pthread_mutex_init(&d->mx, NULL);
    d->o = *o;
    d->random = o->seed * 2654435761U + 88172645463325252U;
    d->pending_end = &d->pending;
    d->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    list = opendir(dir);
    if (d->dir_fd < 0 || list == NULL)
        abort();
    while ((e = readdir(list)) != NULL) {
        if (e->d_type == DT_REG)
            find_file(d, e->d_name);
    }
    closedir(list);
    return d;
}

void disk_free(struct disk *d)
{
    while (d->pending != NULL) {
        struct pending *p = d->pending;

        d->pending = p->next;
        if (p->linked != NULL) {
            p->linked->names--;
            maybe_forget(p->linked);
        }
        free(p->from);
        free(p->to);
        free(p);
    }
    while (d->names != NULL)
        remove_name(&d->names);
    close(d->dir_fd);
    pthread_mutex_destroy(&d->mx);
    free(d);
}
