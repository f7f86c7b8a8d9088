/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A disk that forgets what was not synced, for one directory.
 *
 * The program sees every write, truncation, creation, renaming and removal at once; the real files
 * get them only when the file, or for names the directory, is synced. So the death of the process
 * is a power cut: what it leaves is what POSIX promises and no more. (Real files are written
 * without fsync: a killed process does not lose the kernel's pages.)
 *
 * A new file lives as `.disk-<number>` until its name is synced; such leftovers go at the next
 * disk_new(). With `leak` some of what is unsynced reaches the real files early, as a kernel may
 * write back whenever it likes: 512-byte sectors of written pages, truncations, the oldest pending
 * operations on names. The disk can also die or fail by itself at a chosen operation.
 *
 * Thread-safe; one lock for all. Functions return 0 or an errno.
 */
#ifndef RUNNEL_TESTS_CRASH_DISK_H
#define RUNNEL_TESTS_CRASH_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct disk;
struct disk_file;

enum disk_op { DISK_READ, DISK_WRITE, DISK_SYNC, DISK_NAME, DISK_OPS };

struct disk_options {
    uint64_t seed;        /* of the leaks */
    unsigned leak;        /* of 1000 pages, truncations and names, so many leak; 0: none */
    uint64_t cut_at;      /* SIGKILL before the n-th step that changes a real file; 0: never */
    enum disk_op fail_op; /* the operation that fails */
    uint64_t fail_at;     /* at its n-th call; 0: never */
    int fail_errno;
};

/* What was done so far: calls by kind, and steps that changed a real file. */
struct disk_counts {
    uint64_t ops[DISK_OPS], steps;
};

/* `dir` must exist. Aborts when it cannot be read. */
struct disk *disk_new(const char *dir, const struct disk_options *o);
void disk_free(struct disk *d); /* forgets what was not synced */
void disk_counts(struct disk *d, struct disk_counts *ret);

/* Names are relative to the directory. A file stays while it has a name or is open. */
int disk_open(struct disk *d, const char *name, bool create, bool exclusive,
              struct disk_file **ret);
void disk_close(struct disk *d, struct disk_file *f);
bool disk_exists(struct disk *d, const char *name);
int disk_remove(struct disk *d, const char *name);
int disk_rename(struct disk *d, const char *from, const char *to); /* replaces `to` */
int disk_sync_names(struct disk *d);
/* Calls fn for every name that begins with prefix (NULL: all); not reentrant. */
void disk_list(struct disk *d, const char *prefix, void (*fn)(void *arg, const char *name),
               void *arg);

/* Reading behind the end is EIO. */
int disk_read(struct disk *d, struct disk_file *f, uint64_t at, void *buf, size_t len);
int disk_write(struct disk *d, struct disk_file *f, uint64_t at, const void *buf, size_t len);
int disk_truncate(struct disk *d, struct disk_file *f, uint64_t size); /* or extends, with 0s */
int disk_sync(struct disk *d, struct disk_file *f);
uint64_t disk_size(struct disk *d, struct disk_file *f);

#endif
