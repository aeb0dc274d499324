/* Tests output that never blocks: a child prints to a pipe that is read only after it has printed.
 */
#include "base/output.h"
#include "base/stop.h"
#include "tests/unit.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINES = 50000 };

/* Starts a child that prints numbered lines. It closes `printed` when it has printed them. */
static pid_t print_lines(int lines, bool stop, int out[2], int *printed)
{
    int done[2];
    assert_int_equal(pipe(out) | pipe(done), 0);
    pid_t pid = fork();
    if (pid == 0) {
        stop_install();
        dup2(out[1], STDOUT_FILENO);
        close(out[0]);
        close(out[1]);
        close(done[0]);
        output_begin(OUTPUT_DROPS);
        for (int i = 0; i < lines; i++)
            printf("line %d of the output\n", i);
        bool bad = fflush(stdout) != 0 || ferror(stdout);
        close(done[1]);
        if (stop)
            raise(SIGTERM);
        output_end();
        _exit(bad || fflush(stdout) != 0);
    }
    close(out[1]);
    close(done[1]);
    *printed = done[0];
    return pid;
}

static void expect_end(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* Lines beyond the buffer are dropped as wholes, and the output says how many bytes they had. */
static void test_dropped(void **state)
{
    int out[2], printed, next = 0, n;
    size_t want = 0, got = 0, dropped = 0;
    char line[256], end;
    for (int i = 0; i < LINES; i++)
        want += (size_t)snprintf(line, sizeof line, "line %d of the output\n", i);
    pid_t pid = print_lines(LINES, false, out, &printed);
    assert_int_equal(read(printed, &end, 1), 0); /* the child does not wait for the reader */
    FILE *in = fdopen(out[0], "r");
    while (fgets(line, sizeof line, in)) {
        if (sscanf(line, "ampscale: warning: nobody read %zu bytes of output", &dropped) == 1)
            continue;
        assert_int_equal(sscanf(line, "line %d of the output", &n), 1);
        assert_int_equal(n, next++);
        got += strlen(line);
    }
    fclose(in);
    close(printed);
    assert_true(dropped > 0 && next > 1000);
    assert_int_equal(got + dropped, want);
    expect_end(pid);
}

/* After a stop signal the end does not wait for the reader. */
static void test_stopped(void **state)
{
    int out[2], printed;
    pid_t pid = print_lines(LINES, true, out, &printed);
    expect_end(pid);
    close(out[0]);
    close(printed);
}

/* A reader that has gone is no error. */
static void test_gone(void **state)
{
    int out[2], printed;
    pid_t pid = print_lines(LINES, false, out, &printed);
    close(out[0]);
    expect_end(pid);
    close(printed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_dropped),
                                       cmocka_unit_test(test_stopped), cmocka_unit_test(test_gone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
