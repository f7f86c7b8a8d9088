/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The bytes of one file: unsynced pages over what the real file holds. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "disk_internal.h"

/* --- pages --------------------------------------------------------------------------------- */

static struct page **slot(struct disk_file *f, uint64_t number)
{
    struct page **at = &f->pages[number % BUCKETS];

    while (*at != NULL && (*at)->number != number)
        at = &(*at)->next;
    return at;
}

/* What the real file holds of a page, zeros behind it. */
static int read_real(struct disk_file *f, uint64_t number, uint8_t bytes[PAGE])
{
    uint64_t at = number * PAGE;
    size_t want = at >= f->shines ? 0 : f->shines - at < PAGE ? (size_t)(f->shines - at) : PAGE;
    size_t got = 0;

    while (got < want) {
        ssize_t n = pread(f->fd, bytes + got, want - got, (off_t)(at + got));

        if (n < 0)
            return errno;
        if (n == 0)
            break;
        got += (size_t)n;
    }
    memset(bytes + got, 0, PAGE - got);
    return 0;
}

static int page_of(struct disk_file *f, uint64_t number, struct page **ret)
{
    struct page **at = slot(f, number);

    if (*at == NULL) {
        int rc;

        *at = disk_take(sizeof(**at));
        (*at)->number = number;
        rc = read_real(f, number, (*at)->bytes);
        if (rc != 0) {
            free(*at);
            *at = NULL;
            return rc;
        }
    }
    *ret = *at;
    return 0;
}

void file_drop_pages(struct disk_file *f, uint64_t from)
{
    for (size_t i = 0; i < BUCKETS; i++) {
        struct page **at = &f->pages[i];

        while (*at != NULL) {
            struct page *p = *at;

            if (p->number < from) {
                at = &p->next;
                continue;
            }
            *at = p->next;
            free(p);
        }
    }
}

static int put(struct disk *d, struct disk_file *f, const struct page *p, size_t from, size_t len)
{
    uint64_t at = p->number * PAGE + from;

    if (at >= f->size)
        return 0;
    if (len > f->size - at)
        len = (size_t)(f->size - at);
    disk_step(d);
    return pwrite(f->fd, p->bytes + from, len, (off_t)at) == (ssize_t)len ? 0 : EIO;
}

/* Some sectors of a page reach the disk, some do not. */
static int leak_page(struct disk *d, struct disk_file *f, const struct page *p)
{
    uint64_t which = disk_random(d, 1U << (PAGE / SECTOR));
    int rc = 0;

    for (size_t i = 0; i < PAGE / SECTOR && rc == 0; i++) {
        if (which & (1U << i))
            rc = put(d, f, p, i * SECTOR, SECTOR);
    }
    return rc;
}

/* --- the four operations ------------------------------------------------------------------- */

int file_read(struct disk_file *f, uint64_t at, uint8_t *buf, size_t len)
{
    if (at + len > f->size)
        return EIO;
    while (len > 0) {
        uint64_t number = at / PAGE;
        size_t from = (size_t)(at % PAGE);
        size_t n = len < PAGE - from ? len : PAGE - from;
        struct page *p = *slot(f, number);
        uint8_t real[PAGE];

        if (p == NULL) {
            int rc = read_real(f, number, real);

            if (rc != 0)
                return rc;
        }
        memcpy(buf, (p == NULL ? real : p->bytes) + from, n);
        at += n;
        buf += n;
        len -= n;
    }
    return 0;
}

int file_write(struct disk *d, struct disk_file *f, uint64_t at, const uint8_t *buf, size_t len)
{
    if (at + len > f->size)
        f->size = at + len;
    while (len > 0) {
        size_t from = (size_t)(at % PAGE);
        size_t n = len < PAGE - from ? len : PAGE - from;
        struct page *p;
        int rc = page_of(f, at / PAGE, &p);

        if (rc != 0)
            return rc;
        memcpy(p->bytes + from, buf, n);
        if (disk_leaks(d) && (rc = leak_page(d, f, p)) != 0)
            return rc;
        at += n;
        buf += n;
        len -= n;
    }
    return 0;
}

static int cut_real(struct disk *d, struct disk_file *f, uint64_t size)
{
    struct stat st;

    if (fstat(f->fd, &st) != 0)
        return errno;
    if ((uint64_t)st.st_size == size)
        return 0;
    disk_step(d);
    return ftruncate(f->fd, (off_t)size) == 0 ? 0 : errno;
}

int file_truncate(struct disk *d, struct disk_file *f, uint64_t size)
{
    if (size < f->size && size % PAGE != 0) { /* the rest of the last page reads as zeros */
        struct page *p;
        int rc = page_of(f, size / PAGE, &p);

        if (rc != 0)
            return rc;
        memset(p->bytes + size % PAGE, 0, PAGE - size % PAGE);
    }
    if (size < f->size)
        file_drop_pages(f, (size + PAGE - 1) / PAGE);
    if (size < f->shines)
        f->shines = size;
    f->size = size;
    return disk_leaks(d) ? cut_real(d, f, f->shines) : 0;
}

int file_sync(struct disk *d, struct disk_file *f)
{
    struct stat st;
    int rc = 0;

    if (fstat(f->fd, &st) != 0)
        return errno;
    if ((uint64_t)st.st_size > f->shines)
        rc = cut_real(d, f, f->shines);
    for (size_t i = 0; i < BUCKETS && rc == 0; i++) {
        for (struct page *p = f->pages[i]; p != NULL && rc == 0; p = p->next)
            rc = put(d, f, p, 0, PAGE);
    }
    if (rc == 0)
        rc = cut_real(d, f, f->size);
    if (rc != 0)
        return rc;
    f->shines = f->size;
    file_drop_pages(f, 0);
    return 0;
}
