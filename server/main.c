/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Start and stop of runneld. */
#include <errno.h>
#include <netdb.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/heap.h"
#include "base/log.h"
#include "server/cursors.h"
#include "server/executor.h"
#include "server/open.h"
#include "server/rw_defaults.h"
#include "server/server.h"
#include "server/sessions.h"
#include "server/snapshots.h"
#include "server/top.h"
#include "server/transactions.h"

enum { BACKLOG = 1024 };

static int fail(const char *what, const char *why)
{
    log_event(LOG_FATAL, "server", what, {"reason", LOG_STR(why)}, );
    return EXIT_FAILURE;
}

static bool is_loopback(const struct addrinfo *ai)
{
    char host[NI_MAXHOST];

    if (getnameinfo(ai->ai_addr, ai->ai_addrlen, host, sizeof(host), NULL, 0, NI_NUMERICHOST) != 0)
        return false;
    return strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0;
}

static bool is_wildcard(const char *bind_address)
{
    return strcmp(bind_address, "0.0.0.0") == 0 || strcmp(bind_address, "::") == 0;
}

static int bound_port(int fd)
{
    struct sockaddr_storage ss;
    socklen_t len = sizeof(ss);
    char port[NI_MAXSERV];

    if (getsockname(fd, (struct sockaddr *)&ss, &len) != 0 ||
        getnameinfo((struct sockaddr *)&ss, len, NULL, 0, port, sizeof(port), NI_NUMERICSERV) != 0)
        return 0;
    return atoi(port);
}

/* The TCP socket, not yet announced. */
static int open_tcp(struct server *s, struct error *err, int *ret_fd)
{
    const struct settings *set = &s->settings;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *ai;
    char port[16];
    int one = 1, fd, rc;

    snprintf(port, sizeof(port), "%d", (int)set->port);
    rc = getaddrinfo(set->bind, port, &hints, &ai);
    if (rc != 0)
        return error_set(err, ERR_HOST_NOT_FOUND, "bind %s: %s", set->bind, gai_strerror(rc));
    fd = socket(ai->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (fd < 0 || bind(fd, ai->ai_addr, ai->ai_addrlen) != 0 || listen(fd, BACKLOG) != 0) {
        rc = error_set(err, ERR_SOCKET_EXCEPTION, "listen on %s port %s: %s", set->bind, port,
                       strerror(errno));
        if (fd >= 0)
            close(fd);
        freeaddrinfo(ai);
        return rc;
    }
    if (!is_loopback(ai))
        log_event(LOG_WARNING, "network",
                  "listening beyond this machine, and there is no authentication",
                  {"bind", LOG_STR(set->bind)}, );
    freeaddrinfo(ai);
    s->port = bound_port(fd);
    *ret_fd = fd;
    return 0;
}

static int open_unix(const char *path, struct error *err, int *ret_fd)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    struct stat st;
    int fd;

    if (strlen(path) >= sizeof(un.sun_path))
        return error_set(err, ERR_BAD_VALUE, "unix-socket: the path is too long: %.200s", path);
    strcpy(un.sun_path, path);
    if (lstat(path, &st) == 0 && S_ISSOCK(st.st_mode))
        unlink(path); /* of a process that is gone; a living one holds the directory's lock */
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&un, sizeof(un)) != 0 ||
        chmod(path, S_IRUSR | S_IWUSR) != 0 || listen(fd, BACKLOG) != 0) {
        error_set(err, ERR_SOCKET_EXCEPTION, "listen on %.200s: %s", path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return err->code;
    }
    *ret_fd = fd;
    return 0;
}

/* What a client on this machine connects to. */
static void reachable(const struct server *s, char *out, size_t size)
{
    const char *bind_address = s->settings.bind;

    if (is_wildcard(bind_address))
        snprintf(out, size, "127.0.0.1:%d", s->port);
    else if (strchr(bind_address, ':') != NULL)
        snprintf(out, size, "[%s]:%d", bind_address, s->port);
    else
        snprintf(out, size, "%s:%d", bind_address, s->port);
}

static void set_host(struct server *s)
{
    if (s->settings.advertise != NULL)
        snprintf(s->host, sizeof(s->host), "%s", s->settings.advertise);
    else
        reachable(s, s->host, sizeof(s->host));
}

/* systemd's readiness protocol: one datagram. */
static void notify(const char *text)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    int fd;

    if (path == NULL || (path[0] != '/' && path[0] != '@') || strlen(path) >= sizeof(un.sun_path))
        return;
    strcpy(un.sun_path, path);
    if (path[0] == '@')
        un.sun_path[0] = '\0';
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    if (sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&un,
               (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path))) < 0)
        log_event(LOG_WARNING, "server", "cannot tell NOTIFY_SOCKET",
                  {"reason", LOG_STR(strerror(errno))}, );
    close(fd);
}

static void announce(struct server *s)
{
    char address[300];

    reachable(s, address, sizeof(address));
    printf("listening mongodb://%s/?replicaSet=%s\n", address, s->settings.repl_set);
    fflush(stdout);
    log_event(LOG_INFO, "server", "ready", {"host", LOG_STR(s->host)},
              {"ms", LOG_NUM((clock_mono_us() - s->start_us) / 1000)}, );
    notify("READY=1");
}

/* As many descriptors as we may have, so that connections do not end at 1024. */
static void raise_file_limit(void)
{
    struct rlimit rl;

    if (getrlimit(RLIMIT_NOFILE, &rl) == 0 && rl.rlim_cur < rl.rlim_max) {
        rl.rlim_cur = rl.rlim_max;
        setrlimit(RLIMIT_NOFILE, &rl);
    }
}

static void block_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    pthread_sigmask(SIG_BLOCK, set, NULL);
    signal(SIGPIPE, SIG_IGN);
}

void server_stop(struct server *s)
{
    (void)s;
    kill(getpid(), SIGTERM); /* main() waits for it */
}

static int listen_all(struct server *s, struct error *err)
{
    int fd = -1;

    TRY_RETURN(open_tcp(s, err, &fd));
    executor_listen(s->executor, fd);
    set_host(s);
    if (s->settings.unix_socket != NULL) {
        TRY_RETURN(open_unix(s->settings.unix_socket, err, &fd));
        executor_listen(s->executor, fd);
    }
    return 0;
}

static void server_init(struct server *s)
{
    s->start_us = clock_mono_us();
    s->start_wall_ms = clock_wall_ms();
    if (getrandom(s->replica_set_id, sizeof(s->replica_set_id), 0) !=
        (ssize_t)sizeof(s->replica_set_id))
        abort();
    topology_init(&s->topology);
    s->sessions = sessions_new(s->settings.max_sessions);
    s->cursors = cursors_new(s->settings.max_cursors);
    s->transactions = transactions_new();
    s->top = top_new();
    s->rw_defaults = rw_defaults_new();
    s->snapshots = snapshots_new();
    s->executor = executor_new(s);
}

static void server_fini(struct server *s)
{
    snapshots_free(s->snapshots);
    rw_defaults_free(s->rw_defaults);
    top_free(s->top);
    cursors_free(s->cursors);
    sessions_free(s->sessions);
    transactions_free(s->transactions);
    executor_free(s->executor);
    topology_fini(&s->topology);
}

/* The allocator keeps what was freed for the next burst; past this it is given back. */
#define KEPT_BYTES   (128 * 1024 * 1024)
#define LOOK_SECONDS 60

/*
 * In the first second without a request after some with, and once a minute. Looking at the C
 * library's allocator holds its locks while it walks all free pieces, some ten milliseconds of a
 * large heap; and a busy server would use the memory again anyway.
 */
static void give_memory_back(struct server *s)
{
    static int64_t last;
    static unsigned seconds;
    static bool was_idle;
    int64_t requests = atomic_load_explicit(&s->counters.requests, memory_order_relaxed);
    bool idle = requests == last;

    if (idle && !was_idle)
        arena_give_back();
    if ((idle && !was_idle) || ++seconds % LOOK_SECONDS == 0)
        heap_give_back(KEPT_BYTES);
    was_idle = idle;
    last = requests;
}

/* Once a second, on the schema thread. */
static void tick(struct server *s)
{
    database_tick(s);
    give_memory_back(s);
}

/* Until a signal asks for the end. Meanwhile this thread, which has nothing else to do, ends what
 * is too old once a second: the schema thread may be busy for long. */
static int wait_signal(struct server *s, const sigset_t *signals)
{
    static const struct timespec second = {.tv_sec = 1};
    int sig;

    while ((sig = sigtimedwait(signals, NULL, &second)) < 0)
        database_sweep(s);
    return sig;
}

/* Everything after the settings are known. */
static int serve(struct server *s, const sigset_t *signals)
{
    struct error err = {0};
    int sig;

    if (database_open(s, &err) != 0)
        return fail("cannot open the database", err.text);
    if (listen_all(s, &err) != 0) {
        fail("cannot listen", err.text);
        executor_stop(s->executor);
        database_close(s);
        return EXIT_FAILURE;
    }
    executor_start(s->executor, tick);
    announce(s);
    sig = wait_signal(s, signals);
    log_event(LOG_INFO, "server", "stopping", {"signal", LOG_NUM(sig)}, );
    notify("STOPPING=1");
    atomic_store(&s->stopping, 1);
    topology_bump(&s->topology);
    executor_stop(s->executor);
    if (s->settings.unix_socket != NULL)
        unlink(s->settings.unix_socket);
    cursors_kill_all(s->cursors, ERR_INTERRUPTED_AT_SHUTDOWN);
    transactions_end_all(s, NULL, ERR_INTERRUPTED_AT_SHUTDOWN);
    snapshots_drop_all(s->snapshots);
    FAULT(STOP_BEGIN);
    database_close(s);
    log_event(LOG_INFO, "server", "stopped", );
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    static struct server server;
    const char *faults = getenv("RUNNEL_FAULT"), *shift = getenv("RUNNEL_CLOCK_SHIFT_MS");
    struct error err = {0};
    sigset_t signals;
    int rc;

    block_signals(&signals);
    raise_file_limit();
    heap_tune();
    if (settings_parse(&server.settings, argc, argv, &err) != 0) {
        fprintf(stderr, "runneld: %s\n", err.text);
        return EXIT_FAILURE;
    }
    if (faults != NULL && fault_set(faults, &err) != 0)
        return fail("RUNNEL_FAULT", err.text);
    if (shift != NULL)
        clock_test_shift_wall(strtoll(shift, NULL, 10));
    server_init(&server);
    rc = serve(&server, &signals);
    server_fini(&server);
    settings_fini(&server.settings);
    return rc;
}
