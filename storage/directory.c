/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "storage/directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define FORMAT_FILE     "RUNNEL"
#define FORMAT_TMP_FILE "RUNNEL.tmp"
#define LOCK_FILE       "RUNNEL.lock"
#define CLEAN_FILE      "RUNNEL.clean"

static int sys_fail(struct error *err, const char *what, const char *path)
{
    return error_set(err, ERR_OPERATION_FAILED, "cannot %s '%s': %s", what, path, strerror(errno));
}

static bool is_ours_before_format(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, LOCK_FILE) == 0 ||
           strcmp(name, FORMAT_TMP_FILE) == 0 || strcmp(name, "lost+found") == 0;
}

/* A directory without a format file must hold nothing that somebody else may miss. */
static int check_empty(int fd, const char *path, struct error *err)
{
    int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    struct dirent *entry;
    int rc = 0;

    if (dir == NULL) {
        rc = sys_fail(err, "read", path);
        if (copy >= 0)
            close(copy);
        return rc;
    }
    while (rc == 0 && (entry = readdir(dir)) != NULL) {
        if (!is_ours_before_format(entry->d_name))
            rc = error_set(err, ERR_ILLEGAL_OPERATION,
                           "the directory %s is not empty and was not made by runneld (it holds "
                           "'%s' and no file " FORMAT_FILE "); it is left as it is",
                           path, entry->d_name);
    }
    closedir(dir);
    return rc;
}

/* Reads the format file; *ret_format 0: there is none. */
static int read_format(int fd, const char *path, struct error *err, long *ret_format)
{
    char text[64] = "";
    int file = openat(fd, FORMAT_FILE, O_RDONLY | O_CLOEXEC);
    ssize_t n;
    char *end;
    long format = 0;

    if (file < 0 && errno == ENOENT) {
        *ret_format = 0;
        return 0;
    }
    if (file < 0)
        return sys_fail(err, "open " FORMAT_FILE " in", path);
    n = read(file, text, sizeof(text) - 1);
    close(file);
    if (n < 0)
        return sys_fail(err, "read " FORMAT_FILE " in", path);
    format = strncmp(text, "runnel-format ", 14) == 0 ? strtol(text + 14, &end, 10) : 0;
    if (format < 1 || *end != '\n')
        return error_set(err, ERR_ILLEGAL_OPERATION,
                         "the file " FORMAT_FILE " in the directory %s is not one that runneld "
                         "wrote; it is left as it is",
                         path);
    *ret_format = format;
    return 0;
}

static int check_format(int fd, const char *path, struct error *err, bool *ret_new)
{
    long format = 0;

    TRY_RETURN(read_format(fd, path, err, &format));
    if (format > DIRECTORY_FORMAT)
        return error_set(err, ERR_ILLEGAL_OPERATION,
                         "the directory %s has format %ld, made by a newer runneld; this one reads "
                         "formats up to %d; it is left as it is",
                         path, format, DIRECTORY_FORMAT);
    *ret_new = format == 0;
    return format == 0 ? check_empty(fd, path, err) : 0;
}

static int lock(struct directory *d, const char *path, struct error *err)
{
    char pid[32] = "";
    ssize_t n;

    d->lock_fd = openat(d->fd, LOCK_FILE, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (d->lock_fd < 0)
        return sys_fail(err, "create " LOCK_FILE " in", path);
    if (flock(d->lock_fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK)
            return sys_fail(err, "lock", path);
        n = pread(d->lock_fd, pid, sizeof(pid) - 1, 0);
        pid[n < 0 ? 0 : n] = '\0';
        return error_set(err, ERR_OBJECT_IS_BUSY,
                         "the directory %s is in use by another runneld (pid %s)", path,
                         atol(pid) > 0 ? pid : "unknown");
    }
    n = snprintf(pid, sizeof(pid), "%ld", (long)getpid());
    if (ftruncate(d->lock_fd, 0) != 0 || pwrite(d->lock_fd, pid, (size_t)n, 0) != n)
        return sys_fail(err, "write " LOCK_FILE " in", path);
    return 0;
}

/* Writes a small file so that it is whole or not there after a crash. */
static int write_file(int fd, const char *path, const char *name, const char *text,
                      struct error *err)
{
    size_t len = strlen(text);
    int file = openat(fd, FORMAT_TMP_FILE, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool ok;

    if (file < 0)
        return sys_fail(err, "create a file in", path);
    ok = write(file, text, len) == (ssize_t)len && fsync(file) == 0;
    ok = close(file) == 0 && ok;
    if (!ok || renameat(fd, FORMAT_TMP_FILE, fd, name) != 0 || fsync(fd) != 0)
        return sys_fail(err, "write a file in", path);
    return 0;
}

/* Makes the name of a new directory as durable as what will be in it. Who may not read the parent
 * cannot sync it either, and goes without. */
static int sync_parent(int fd, const char *path, struct error *err)
{
    int parent = openat(fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool ok;

    if (parent < 0)
        return errno == EACCES ? 0 : sys_fail(err, "open the parent of", path);
    ok = fsync(parent) == 0 || errno == EINVAL; /* EINVAL: a file system without such syncs */
    if (!ok)
        (void)sys_fail(err, "sync the parent of", path);
    close(parent);
    return ok ? 0 : ERR_OPERATION_FAILED;
}

/* The marker goes before anything is changed, so that it can never lie. */
static int take_clean_marker(struct directory *d, const char *path, bool is_new, struct error *err)
{
    if (unlinkat(d->fd, CLEAN_FILE, 0) == 0) {
        d->unclean = false;
        return fsync(d->fd) == 0 ? 0 : sys_fail(err, "sync", path);
    }
    if (errno != ENOENT)
        return sys_fail(err, "remove " CLEAN_FILE " in", path);
    d->unclean = !is_new;
    return 0;
}

static void release(struct directory *d)
{
    if (d->lock_fd >= 0)
        close(d->lock_fd);
    if (d->fd >= 0)
        close(d->fd);
    d->fd = d->lock_fd = -1;
}

int directory_open(const char *path, struct error *err, struct directory *ret)
{
    struct directory d = {.fd = -1, .lock_fd = -1};
    char text[64];
    bool is_new;
    int rc;

    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return sys_fail(err, "create the directory", path);
    d.fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (d.fd < 0)
        return sys_fail(err, "open the directory", path);
    TRY(check_format(d.fd, path, err, &is_new));
    TRY(lock(&d, path, err));
    /* Another process may have written the format file before we got the lock. */
    TRY(check_format(d.fd, path, err, &is_new));
    if (is_new) {
        TRY(sync_parent(d.fd, path, err));
        snprintf(text, sizeof(text), "runnel-format %d\n", DIRECTORY_FORMAT);
        TRY(write_file(d.fd, path, FORMAT_FILE, text, err));
    }
    TRY(take_clean_marker(&d, path, is_new, err));
    *ret = d;
    return 0;
fail:
    release(&d);
    return rc;
}

int directory_close(struct directory *d, bool clean, struct error *err)
{
    int rc = clean ? write_file(d->fd, "the data directory", CLEAN_FILE, "", err) : 0;

    release(d);
    return rc;
}
