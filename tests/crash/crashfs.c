/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * WiredTiger's files on the disk of disk.h. Linked into a server of its own (runneld-crashfs): the
 * wiredtiger_open() here takes the place of the library's for that binary and calls it with this
 * file system. The server that users run holds nothing of it.
 *
 * RUNNEL_CRASHFS in the environment says how the disk behaves, as words with numbers:
 *     seed=N leak=N cut=N fail-read=N fail-write=N fail-sync=N fail-name=N errno=N
 * (disk.h has their meaning). Without it the disk only forgets what was not synced. At the end of
 * a clean stop a line on stderr says how many calls and steps there were.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <wiredtiger.h>
#include <wiredtiger_ext.h>

#include "disk.h"

struct handle {
    WT_FILE_HANDLE wt;      /* first: WiredTiger hands it back to us */
    struct disk_file *file; /* NULL: the directory */
};

static WT_FILE_SYSTEM file_system;
static struct disk *disk;
static struct disk_options options;

/* --- settings ------------------------------------------------------------------------------ */

static void set_fail(enum disk_op op, uint64_t n)
{
    options.fail_op = op;
    options.fail_at = n;
}

static void set(const char *word, uint64_t n)
{
    static const char *const fails[DISK_OPS] = {"fail-read", "fail-write", "fail-sync",
                                                "fail-name"};

    for (int i = 0; i < DISK_OPS; i++) {
        if (strcmp(word, fails[i]) == 0) {
            set_fail((enum disk_op)i, n);
            return;
        }
    }
    if (strcmp(word, "seed") == 0)
        options.seed = n;
    else if (strcmp(word, "leak") == 0)
        options.leak = (unsigned)n;
    else if (strcmp(word, "cut") == 0)
        options.cut_at = n;
    else if (strcmp(word, "errno") == 0)
        options.fail_errno = (int)n;
    else
        abort();
}

static void read_settings(void)
{
    const char *env = getenv("RUNNEL_CRASHFS");
    char *text = strdup(env == NULL ? "" : env), *save = NULL;

    options = (struct disk_options){.fail_errno = EIO};
    for (char *w = strtok_r(text, " ", &save); w != NULL; w = strtok_r(NULL, " ", &save)) {
        char *value = strchr(w, '=');

        if (value == NULL)
            abort();
        *value = '\0';
        set(w, strtoull(value + 1, NULL, 10));
    }
    free(text);
}

/* --- open files ---------------------------------------------------------------------------- */

static struct disk_file *file_of(WT_FILE_HANDLE *h)
{
    return ((struct handle *)h)->file;
}

static int fh_close(WT_FILE_HANDLE *h, WT_SESSION *session)
{
    (void)session;
    if (file_of(h) != NULL)
        disk_close(disk, file_of(h));
    free(h->name);
    free(h);
    return 0;
}

static int fh_lock(WT_FILE_HANDLE *h, WT_SESSION *session, bool lock)
{
    (void)h;
    (void)session;
    (void)lock;
    return 0;
}

static int fh_read(WT_FILE_HANDLE *h, WT_SESSION *session, wt_off_t at, size_t len, void *buf)
{
    (void)session;
    return disk_read(disk, file_of(h), (uint64_t)at, buf, len);
}

static int fh_write(WT_FILE_HANDLE *h, WT_SESSION *session, wt_off_t at, size_t len,
                    const void *buf)
{
    (void)session;
    return disk_write(disk, file_of(h), (uint64_t)at, buf, len);
}

static int fh_size(WT_FILE_HANDLE *h, WT_SESSION *session, wt_off_t *ret)
{
    (void)session;
    *ret = (wt_off_t)disk_size(disk, file_of(h));
    return 0;
}

static int fh_truncate(WT_FILE_HANDLE *h, WT_SESSION *session, wt_off_t size)
{
    (void)session;
    return disk_truncate(disk, file_of(h), (uint64_t)size);
}

static int fh_extend(WT_FILE_HANDLE *h, WT_SESSION *session, wt_off_t size)
{
    if (disk_size(disk, file_of(h)) >= (uint64_t)size)
        return 0;
    return fh_truncate(h, session, size);
}

/* The library's own files answer a failed sync with a panic, since it must not be tried again. */
static int fh_sync(WT_FILE_HANDLE *h, WT_SESSION *session)
{
    int rc = file_of(h) == NULL ? disk_sync_names(disk) : disk_sync(disk, file_of(h));

    (void)session;
    return rc == 0 ? 0 : WT_PANIC;
}

/* --- names --------------------------------------------------------------------------------- */

/* All of the library's files are in one directory; a path's last part is the file. */
static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL ? path : slash + 1;
}

static int sync_if(uint32_t durable, int rc)
{
    if (rc != 0 || durable == 0)
        return rc;
    return disk_sync_names(disk) == 0 ? 0 : WT_PANIC;
}

static struct handle *new_handle(const char *path)
{
    struct handle *h = calloc(1, sizeof(*h));

    if (h == NULL || (h->wt.name = strdup(path)) == NULL)
        abort();
    h->wt.file_system = &file_system;
    h->wt.close = fh_close;
    h->wt.fh_extend = fh_extend;
    h->wt.fh_lock = fh_lock;
    h->wt.fh_read = fh_read;
    h->wt.fh_size = fh_size;
    h->wt.fh_sync = fh_sync;
    h->wt.fh_truncate = fh_truncate;
    h->wt.fh_write = fh_write;
    return h;
}

static int fs_open_file(WT_FILE_SYSTEM *fs, WT_SESSION *session, const char *path,
                        WT_FS_OPEN_FILE_TYPE type, uint32_t flags, WT_FILE_HANDLE **ret)
{
    bool create = (flags & WT_FS_OPEN_CREATE) != 0;
    struct handle *h = new_handle(path);
    int rc = 0;

    (void)fs;
    if (type != WT_FS_OPEN_FILE_TYPE_DIRECTORY) {
        bool had = disk_exists(disk, base_of(path));

        rc = disk_open(disk, base_of(path), create, (flags & WT_FS_OPEN_EXCLUSIVE) != 0, &h->file);
        rc = sync_if(had ? 0 : flags & WT_FS_OPEN_DURABLE, rc);
    }
    if (rc != 0) {
        (void)fh_close(&h->wt, session);
        return rc;
    }
    *ret = &h->wt;
    return 0;
}

static int fs_exist(WT_FILE_SYSTEM *fs, WT_SESSION *session, const char *path, bool *ret)
{
    (void)fs;
    (void)session;
    *ret = disk_exists(disk, base_of(path));
    return 0;
}

static int fs_remove(WT_FILE_SYSTEM *fs, WT_SESSION *session, const char *path, uint32_t flags)
{
    (void)fs;
    (void)session;
    return sync_if(flags & WT_FS_DURABLE, disk_remove(disk, base_of(path)));
}

static int fs_rename(WT_FILE_SYSTEM *fs, WT_SESSION *session, const char *from, const char *to,
                     uint32_t flags)
{
    (void)fs;
    (void)session;
    return sync_if(flags & WT_FS_DURABLE, disk_rename(disk, base_of(from), base_of(to)));
}

static int fs_size(WT_FILE_SYSTEM *fs, WT_SESSION *session, const char *path, wt_off_t *ret)
{
    struct disk_file *f;
    int rc = disk_open(disk, base_of(path), false, false, &f);

    (void)fs;
    (void)session;
    if (rc != 0)
        return rc;
    *ret = (wt_off_t)disk_size(disk, f);
    disk_close(disk, f);
    return 0;
}

struct list {
    char **names;
    uint32_t n, most;
};

static void add_to_list(void *arg, const char *name)
{
    struct list *l = arg;

    if (l->n == l->most)
        return;
    l->names = realloc(l->names, (l->n + 1) * sizeof(*l->names));
    if (l->names == NULL || (l->names[l->n++] = strdup(name)) == NULL)
        abort();
}

static int list(const char *prefix, uint32_t most, char ***ret, uint32_t *ret_n)
{
    struct list l = {.most = most};

    disk_list(disk, prefix, add_to_list, &l);
    *ret = l.names;
    *ret_n = l.n;
    return 0;
}

static int fs_list(WT_FILE_SYSTEM *fs, WT_SESSION *session, const char *dir, const char *prefix,
                   char ***ret, uint32_t *ret_n)
{
    (void)fs;
    (void)session;
    (void)dir;
    return list(prefix, UINT32_MAX, ret, ret_n);
}

static int fs_list_single(WT_FILE_SYSTEM *fs, WT_SESSION *session, const char *dir,
                          const char *prefix, char ***ret, uint32_t *ret_n)
{
    (void)fs;
    (void)session;
    (void)dir;
    return list(prefix, 1, ret, ret_n);
}

static int fs_list_free(WT_FILE_SYSTEM *fs, WT_SESSION *session, char **names, uint32_t n)
{
    (void)fs;
    (void)session;
    while (n > 0)
        free(names[--n]);
    free(names);
    return 0;
}

/* --- beginning and end --------------------------------------------------------------------- */

static int fs_terminate(WT_FILE_SYSTEM *fs, WT_SESSION *session)
{
    struct disk_counts c;

    (void)fs;
    (void)session;
    disk_counts(disk, &c);
    fprintf(stderr,
            "{\"disk\":\"closed\",\"reads\":%llu,\"writes\":%llu,\"syncs\":%llu,\"names\":%llu,"
            "\"steps\":%llu}\n",
            (unsigned long long)c.ops[DISK_READ], (unsigned long long)c.ops[DISK_WRITE],
            (unsigned long long)c.ops[DISK_SYNC], (unsigned long long)c.ops[DISK_NAME],
            (unsigned long long)c.steps);
    disk_free(disk);
    disk = NULL;
    return 0;
}

/* Called by the library while it opens, before it touches a file. */
int crashfs_load(WT_CONNECTION *connection, WT_CONFIG_ARG *config);

int crashfs_load(WT_CONNECTION *connection, WT_CONFIG_ARG *config)
{
    (void)config;
    file_system = (WT_FILE_SYSTEM){
        .fs_directory_list = fs_list,
        .fs_directory_list_single = fs_list_single,
        .fs_directory_list_free = fs_list_free,
        .fs_exist = fs_exist,
        .fs_open_file = fs_open_file,
        .fs_remove = fs_remove,
        .fs_rename = fs_rename,
        .fs_size = fs_size,
        .terminate = fs_terminate,
    };
    return connection->set_file_system(connection, &file_system, NULL);
}

int wiredtiger_open(const char *home, WT_EVENT_HANDLER *handler, const char *config,
                    WT_CONNECTION **ret)
{
    int (*original)(const char *, WT_EVENT_HANDLER *, const char *, WT_CONNECTION **);
    char with[1024];

    original = (int (*)(const char *, WT_EVENT_HANDLER *, const char *, WT_CONNECTION **))dlsym(
        RTLD_NEXT, "wiredtiger_open");
    if (original == NULL)
        abort();
    if (home == NULL) /* in memory there are no files */
        return original(home, handler, config, ret);
    read_settings();
    disk = disk_new(home, &options);
    snprintf(with, sizeof(with), "%s,extensions=[local={entry=crashfs_load,early_load=true}]",
             config);
    return original(home, handler, with, ret);
}
