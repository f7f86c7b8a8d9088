/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Opening and closing: whose directory, which format, cleanly or not; tables. */
#include "tests/unit/storage_util.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "storage/wt_startup.h"

static char *dir;

static int set_up(void **state)
{
    (void)state;
    dir = temp_dir();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    remove_dir(dir);
    return 0;
}

static void write_text(const char *name, const char *text)
{
    char path[600];
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static bool has_file(const char *name)
{
    char path[600];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return access(path, F_OK) == 0;
}

static int try_open(const char *path, struct error *err)
{
    struct engine_options o = {.path = path, .small_log = true};
    struct engine *e;

    return engine_open(&o, err, &e);
}

static void new_and_reopened(void **state)
{
    char made[600], text[64] = "";
    struct engine *e;
    FILE *f;

    (void)state;
    snprintf(made, sizeof(made), "%s/made", dir);
    e = open_engine(made);
    assert_false(engine_was_unclean(e));
    assert_false(engine_in_memory(e));
    assert_false(has_file("made/RUNNEL.clean"));
    close_engine(e);
    f = fopen(strcat(strcpy(made, dir), "/made/RUNNEL"), "r");
    assert_non_null(f);
    assert_non_null(fgets(text, sizeof(text), f));
    fclose(f);
    assert_string_equal(text, "runnel-format 1\n");
    assert_true(has_file("made/RUNNEL.clean"));

    snprintf(made, sizeof(made), "%s/made", dir);
    e = open_engine(made);
    assert_false(engine_was_unclean(e));
    assert_false(has_file("made/RUNNEL.clean"));
    close_engine(e);
}

static void second_server_is_told_the_owner(void **state)
{
    struct engine *e = open_engine(dir);
    char expected[700];
    struct error err;

    (void)state;
    assert_int_equal(try_open(dir, &err), ERR_OBJECT_IS_BUSY);
    snprintf(expected, sizeof(expected), "the directory %s is in use by another runneld (pid %ld)",
             dir, (long)getpid());
    assert_string_equal(err.text, expected);
    close_engine(e);
    close_engine(open_engine(dir)); /* the lock went with the close */
}

static void foreign_directory_is_left_alone(void **state)
{
    struct error err;

    (void)state;
    write_text("holiday.jpg", "x");
    assert_int_equal(try_open(dir, &err), ERR_ILLEGAL_OPERATION);
    assert_non_null(strstr(err.text, "holiday.jpg"));
    assert_false(has_file("RUNNEL"));
    assert_false(has_file("RUNNEL.lock"));
    assert_false(has_file("WiredTiger"));
}

static void newer_format_is_left_alone(void **state)
{
    struct error err;

    (void)state;
    write_text("RUNNEL", "runnel-format 2\n");
    assert_int_equal(try_open(dir, &err), ERR_ILLEGAL_OPERATION);
    assert_non_null(strstr(err.text, "format 2"));
    assert_false(has_file("RUNNEL.lock"));
    assert_false(has_file("WiredTiger"));
    write_text("RUNNEL", "something else\n");
    assert_int_equal(try_open(dir, &err), ERR_ILLEGAL_OPERATION);
    write_text("RUNNEL", "runnel-format 1x\n");
    assert_int_equal(try_open(dir, &err), ERR_ILLEGAL_OPERATION);
}

static void no_directory(void **state)
{
    char path[600];
    struct error err;

    (void)state;
    snprintf(path, sizeof(path), "%s/no/such", dir);
    assert_int_equal(try_open(path, &err), ERR_OPERATION_FAILED);
    write_text("file", "");
    snprintf(path, sizeof(path), "%s/file", dir);
    assert_int_equal(try_open(path, &err), ERR_OPERATION_FAILED);
}

/* The child opens, and is killed in the act of owning the directory. */
static void killed_is_unclean(void **state)
{
    struct engine *e;
    int status;
    pid_t pid = fork();

    (void)state;
    if (pid == 0) {
        (void)open_engine(dir);
        kill(getpid(), SIGKILL);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    e = open_engine(dir);
    assert_true(engine_was_unclean(e));
    close_engine(e);
    e = open_engine(dir);
    assert_false(engine_was_unclean(e));
    close_engine(e);
}

struct names {
    char text[256];
};

static void add_name(void *arg, const char *ident)
{
    struct names *n = arg;

    strcat(strcat(n->text, ident), " ");
}

/* Newer versions of WiredTiger find a table busy until a checkpoint has written its changes. */
static void drop_table(struct engine *e, const char *ident)
{
    struct error err;
    int rc;

    while ((rc = engine_table_drop(e, ident, &err)) == ERR_OBJECT_IS_BUSY)
        OK(engine_checkpoint(e, &err));
    OK(rc);
}

static void tables(struct engine *e)
{
    struct names names = {""};
    struct error err;
    struct op op;
    struct stx *t;
    struct tcursor *c;

    op_init(&op);
    OK(engine_table_create(e, "coll-1", TABLE_RECORDS, true, &err));
    OK(engine_table_create(e, "coll-1", TABLE_RECORDS, true, &err));
    OK(engine_table_create(e, "tmp-2", TABLE_BYTES, false, &err));
    OK(engine_tables(e, add_name, &names, &err));
    assert_string_equal(names.text, "coll-1 tmp-2 ");

    OK(stx_begin(e, &op, &t));
    OK(tcursor_open(t, "tmp-2", TABLE_BYTES, &c));
    OK(tcursor_put(c, str_bytes("k"), str_bytes("v")));
    assert_int_equal(engine_table_drop(e, "tmp-2", &err), ERR_OBJECT_IS_BUSY);
    tcursor_close(c);
    OK(stx_commit(t));
    drop_table(e, "tmp-2");
    OK(engine_table_drop(e, "tmp-2", &err));
    OK(engine_table_drop(e, "never-there", &err));
    names.text[0] = '\0';
    OK(engine_tables(e, add_name, &names, &err));
    assert_string_equal(names.text, "coll-1 ");
    op_fini(&op);
}

/* Busy while a cursor has it open; then it goes without being asked again. */
static void dropped_soon(void **state)
{
    struct engine *e = open_engine(dir);
    struct names names = {""};
    struct error err;
    struct op op;
    struct stx *t;
    struct tcursor *c;

    (void)state;
    op_init(&op);
    OK(engine_table_create(e, "tmp-1", TABLE_BYTES, false, &err));
    OK(stx_begin(e, &op, &t));
    OK(tcursor_open(t, "tmp-1", TABLE_BYTES, &c));
    OK(tcursor_put(c, str_bytes("k"), str_bytes("v")));
    engine_table_drop_soon(e, "tmp-1");
    OK(tcursor_put(c, str_bytes("l"), str_bytes("w")));
    tcursor_close(c);
    OK(stx_commit(t));
    OK(engine_checkpoint(e, &err));
    do {
        names.text[0] = '\0';
        OK(engine_tables(e, add_name, &names, &err));
    } while (names.text[0] != '\0');
    op_fini(&op);
    close_engine(e);
}

static void tables_on_disk(void **state)
{
    struct engine *e = open_engine(dir);

    (void)state;
    tables(e);
    close_engine(e);
}

static void tables_in_memory(void **state)
{
    struct engine *e = open_engine(NULL);
    struct error err;

    (void)state;
    assert_true(engine_in_memory(e));
    assert_false(engine_was_unclean(e));
    tables(e);
    OK(engine_sync_log(e, &err));
    OK(engine_checkpoint(e, &err));
    close_engine(e);
}

static void numbers(void **state)
{
    struct engine *e = open_engine(dir);
    struct engine_stats s;
    struct error err;

    (void)state;
    OK(engine_table_create(e, "coll-1", TABLE_RECORDS, true, &err));
    OK(engine_sync_log(e, &err));
    OK(engine_checkpoint(e, &err));
    engine_stats(e, &s);
    assert_int_equal(s.cache_max, 64 << 20);
    assert_true(s.log_bytes_written > 0);
    assert_true(s.checkpoints >= 1);
    assert_int_equal(s.sessions_open, 1);
    assert_int_equal(s.sessions_max, 500);
    assert_true(engine_table_bytes(e, "coll-1") > 0);
    assert_int_equal(engine_table_bytes(e, "coll-2"), 0);
    close_engine(e);
}

/* With 3.2.1 the calibration alone takes 0.5 s of CPU; the child is a process that has not paid
 * for it yet. */
static void first_open_is_quick(void **state)
{
    int status;
    pid_t pid;

    (void)state;
    if (!wt_startup_is_short())
        skip();
    pid = fork();
    if (pid == 0) {
        char *argv[] = {"/proc/self/exe", "open", dir, NULL};

        execv(argv[0], argv);
        _exit(127);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static int open_and_tell(const char *path)
{
    struct timespec cpu;
    struct error err;
    struct engine_options o = {.path = path};
    struct engine *e;

    if (engine_open(&o, &err, &e) != 0)
        return 1;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    return cpu.tv_sec == 0 && cpu.tv_nsec < 250 * 1000 * 1000 ? 0 : 2;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(new_and_reopened, set_up, tear_down),
        cmocka_unit_test_setup_teardown(second_server_is_told_the_owner, set_up, tear_down),
        cmocka_unit_test_setup_teardown(foreign_directory_is_left_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(newer_format_is_left_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_directory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(first_open_is_quick, set_up, tear_down),
        cmocka_unit_test_setup_teardown(killed_is_unclean, set_up, tear_down),
        cmocka_unit_test_setup_teardown(dropped_soon, set_up, tear_down),
        cmocka_unit_test_setup_teardown(tables_on_disk, set_up, tear_down),
        cmocka_unit_test_setup_teardown(tables_in_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(numbers, set_up, tear_down),
    };

    if (argc == 3 && strcmp(argv[1], "open") == 0)
        return open_and_tell(argv[2]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
