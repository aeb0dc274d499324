/* Tests the parts of the launcher that start no process: lists of hosts, lines of output, messages
 * about failed ranks, the division of CPUs among ranks, and the command of a rank. tests/cli tests
 * the other parts. */
#include "launch/parts.h"
#include "tests/unit.h"

#include <stdlib.h>
#include <string.h>

/* ---- hosts ---- */

/* Lists of hosts, and files of hosts, which have a newline; and their meaning as a list. */
static const char *const accepted[][2] = {
    {"a", "a:1"},
    {"a:4,b:2", "a:4,b:2"},
    {"node-1.example.org:8", "node-1.example.org:8"},
    {"a:2,b,a:3", "a:5,b:1"},
    {"a:65536", "a:65536"},
    {"a slots=4\nb slots=2\n", "a:4,b:2"},
    {"a:4\nb\n", "a:4,b:1"},
    {"a\na\nb\na\n", "a:3,b:1"},
    {"[fd00::1]:2,fd00::2,[fd00::1]", "[fd00::1]:3,[fd00::2]:1"},
    {"[fd00::1] slots=2\nfd00::2\nfd00::3 slots=4\n", "[fd00::1]:2,[fd00::2]:1,[fd00::3]:4"},
    {"\xEF\xBB\xBF"
     "a slots=2\n",
     "a:2"},
    {"# all of them\n\n \t a \t slots=2 max_slots=4 # two\r\nb max-slots=1", "a:2,b:1"},
};
/* Other texts, and the part that the message quotes. */
static const char *const refused[][2] = {
    {"", "no host"},
    {"a:", "''"},
    {"b,a:0", "host 2 of 'b,a:0': '0'"},
    {"a:-1", "'-1'"},
    {"a:+1", "'+1'"},
    {"a:2x", "'2x'"},
    {"a: 2", "''"},
    {"a:65537", "'65537'"},
    {"a:65536,b", "65536 slots"},
    {"a:99999999999999999999", "'99999999999999999999'"},
    {"a b", "'b'"},
    {"-a:2", "'-a'"},
    {"a;b", "'a;b'"},
    {"[fd00::1]2", "'[fd00::1]2'"},
    {"[fd00::1]:0", "'0'"},
    {"[node1]:2", "'[node1]:2'"},
    {"[fd00::1", "'[fd00'"},
    {"\n", "no host"},
    {"# none\n", "no host"},
    {"a slots=0\n", "line 1 of 'DIR/hosts': '0'"},
    {"a slots=\n", "''"},
    {"b\na slots\n", "line 2 of 'DIR/hosts': 'slots'"},
    {"a slots = 4\n", "'slots'"},
    {"a b\n", "'b'"},
    {"a 4\n", "'4'"},
    {"a port=2222\n", "'port=2222'"},
    {"user@a\n", "'user@a'"},
    {"-x slots=1\n", "'-x'"},
    {"a;x\n", "'a;x'"},
};

/* `dir` is a folder for the file. */
static enum status take_hosts(struct launch_hosts *hosts, const char *dir, const char *text)
{
    char path[SCRATCH_MAX + 8];
    if (!strchr(text, '\n'))
        return launch_hosts_parse(hosts, text);
    scratch_write_text(dir, "hosts", text);
    snprintf(path, sizeof path, "%s/hosts", dir);
    return launch_hosts_read(hosts, path);
}

static void test_hosts(void **state)
{
    for (int i = 0; i < COUNT(accepted); i++) {
        struct launch_hosts hosts = {0};
        struct words w = {0};
        assert_int_equal(take_hosts(&hosts, *state, accepted[i][0]), STATUS_OK);
        assert_int_equal(launch_hosts_word(&hosts, false, &w), STATUS_OK);
        assert_string_equal(w.v[0], accepted[i][1]);
        words_free(&w);
        launch_hosts_free(&hosts);
    }
    for (int i = 0; i < COUNT(refused); i++) {
        struct launch_hosts hosts = {0};
        const char *part = refused[i][1], *at = strstr(part, "DIR");
        char want[SCRATCH_MAX + 64];
        snprintf(want, sizeof want, "%.*s%s%s", at ? (int)(at - part) : (int)strlen(part), part,
                 at ? (const char *)*state : "", at ? at + 3 : "");
        if (take_hosts(&hosts, *state, refused[i][0]) != STATUS_USAGE)
            fail_msg("'%s' was not refused", refused[i][0]);
        if (!strstr(status_message(), want))
            fail_msg("'%s': '%s' does not quote %s", refused[i][0], status_message(), want);
        launch_hosts_free(&hosts);
    }
}

static void test_hosts_are_counted(void **state)
{
    struct launch_hosts hosts = {0};
    char name[HOST_NAME_SIZE + 1];
    int most;
    assert_int_equal(launch_hosts_slots(&hosts, &most), 0);
    assert_int_equal(most, 0);
    assert_int_equal(launch_hosts_parse(&hosts, "a:2,b:5,c"), STATUS_OK);
    assert_int_equal(launch_hosts_slots(&hosts, &most), 8);
    assert_int_equal(most, 5);
    memset(name, 'x', HOST_NAME_SIZE);
    name[HOST_NAME_SIZE] = '\0';
    assert_int_equal(launch_hosts_parse(&hosts, name), STATUS_USAGE);
    name[HOST_NAME_SIZE - 1] = '\0';
    assert_int_equal(launch_hosts_parse(&hosts, name), STATUS_OK);
    launch_hosts_free(&hosts);
}

/* ---- lines ---- */

/* Collects the lines that take() receives, each in brackets. */
struct pieces {
    char text[2 * LINES_MAX];
    size_t n;
};

static void take(void *self, char *line, size_t n)
{
    struct pieces *p = self;
    p->n += (size_t)snprintf(p->text + p->n, sizeof p->text - p->n, "[%.*s]", (int)n, line);
}

/* Passes the output `in` to lines_feed() as a whole, and then byte by byte. */
static void assert_lines(const char *in, const char *want)
{
    for (int bytewise = 0; bytewise < 2; bytewise++) {
        struct pieces got = {0};
        struct lines lines = {.take = take, .self = &got};
        size_t n = strlen(in), step = bytewise ? 1 : n;
        for (size_t i = 0; i < n; i += step)
            lines_feed(&lines, in + i, step);
        lines_end(&lines);
        assert_string_equal(got.text, want);
    }
}

static void test_lines(void **state)
{
    assert_lines("a\nbc\n", "[a\n][bc\n]");
    assert_lines("a\n\nrest", "[a\n][\n][rest]");
    assert_lines("dos\r\nx\n", "[dos\r\n][x\n]");
    assert_lines("\rbar 1\rbar 2\r\033[Kdone\n", "[\033[Kdone\n]");
    assert_lines("bar\r", "[bar\r]");
}

static void test_overlong_lines_come_in_pieces(void **state)
{
    struct pieces got = {0};
    struct lines lines = {.take = take, .self = &got};
    static char bytes[LINES_MAX + 2];
    memset(bytes, 'x', LINES_MAX + 1);
    bytes[LINES_MAX + 1] = '\n';
    lines_feed(&lines, bytes, LINES_MAX + 2);
    assert_int_equal(got.n, LINES_MAX + 2 + 4);
    assert_string_equal(got.text + LINES_MAX + 1, "][x\n]");
}

/* ---- reports ---- */

#define WHO "ampscale: rank 1 (host node1, pid 4711) "

static void test_reports(void **state)
{
    static const struct {
        enum report_end end;
        int code;
        const char *reason, *want;
    } cases[] = {
        {REPORT_EXITED, 5, "cannot open 'x'", WHO "exited with code 5: cannot open 'x'\n"},
        {REPORT_EXITED, 5, "", WHO "exited with code 5\n"},
        {REPORT_ENDED, 1, "cannot open 'x'",
         WHO "had failed before the launcher ended it: cannot open 'x'\n"},
        {REPORT_STOPPED, 5, "", WHO "was asked to stop, and exited with code 5\n"},
        {REPORT_KILLED, 137, "", WHO "was killed by signal 9 (SIGKILL)\n"},
        {REPORT_ASKED, 1, "", WHO "is asked to stop\n"},
    };
    for (int i = 0; i < COUNT(cases); i++) {
        char line[REPORT_MAX];
        struct rank_report back, r = {cases[i].end, 1, 4711, cases[i].code, "node1", ""};
        strcpy(r.reason, cases[i].reason);
        report_write(&r, line);
        assert_string_equal(line, cases[i].want);
        assert_true(report_read(line, &back));
        assert_int_equal(back.end, r.end);
        assert_int_equal(back.rank, r.rank);
        assert_int_equal(back.pid, r.pid);
        assert_int_equal(back.code, r.code);
        assert_string_equal(back.host, r.host);
        assert_string_equal(back.reason, r.reason);
    }
}

static void test_other_lines_are_no_reports(void **state)
{
    static const char *const lines[] = {
        "",
        "\n",
        "ampscale: \n",
        "ampscale: rank 1\n",
        "ampscale: rank 1 is late\n",
        "ampscale: rank 1 (host h, pid 7)\n",
        "ampscale: rank 1 (host h, pid 7) \n",
        "ampscale: rank 1 (host h, pid 7) exited\n",
        "ampscale: rank 1 (host h, pid 7) exited with code x\n",
        "ampscale: rank 1 (host h, pid 7) was asked to stop, and exited with code\n",
        "ampscale: rank x (host h, pid 7) exited with code 1\n",
        " ampscale: rank 1 (host h, pid 7) exited with code 1\n",
    };
    struct rank_report r;
    for (int i = 0; i < COUNT(lines); i++)
        if (report_read(lines[i], &r))
            fail_msg("'%s' was read as a report", lines[i]);
}

static void test_long_reasons_are_cut(void **state)
{
    char line[2 * REPORT_MAX];
    struct rank_report r;
    int n = snprintf(line, sizeof line, "ampscale: rank 1 (host h, pid 7) exited with code 1: ");
    memset(line + n, 'x', REASON_MAX + 10);
    strcpy(line + n + REASON_MAX + 10, "\n");
    assert_true(report_read(line, &r));
    assert_int_equal(strlen(r.reason), REASON_MAX - 1);
}

/* ---- cores ---- */

static void test_shares(void **state)
{
    static const int cases[][3] = {{8, 2, 4}, {8, 3, 2}, {8, 8, 1},
                                   {2, 4, 1}, {1, 1, 1}, {7, 1, 7}};
    for (int i = 0; i < COUNT(cases); i++)
        assert_int_equal(cores_share(cases[i][1], cases[i][0]), cases[i][2]);
}

/* If there are enough CPUs, every CPU has one rank, and no rank has fewer than its equal share. If
 * there are fewer CPUs than ranks, ranks share CPUs. */
static void test_bound_ranks_share_cpus(void **state)
{
    enum { CPUS = 12 };
    for (int size = 1; size <= 2 * CPUS; size++) {
        int users[CPU_SETSIZE] = {0}, most = 0, used = 0;
        for (int rank = 0; rank < size; rank++) {
            struct launcher_place place = {.local_rank = rank, .local_size = size};
            cpu_set_t set, all;
            CPU_ZERO(&set);
            for (int i = 0; i < CPUS; i++)
                CPU_SET(3 + 2 * i, &set);
            all = set;
            cores_bind(&place, &set);
            assert_true(CPU_COUNT(&set) >= cores_share(size, CPUS));
            for (int i = 0; i < CPU_SETSIZE; i++) {
                assert_true(!CPU_ISSET(i, &set) || CPU_ISSET(i, &all));
                users[i] += CPU_ISSET(i, &set) != 0;
            }
        }
        for (int i = 0; i < CPU_SETSIZE; i++) {
            most = users[i] > most ? users[i] : most;
            used += users[i] > 0;
        }
        assert_int_equal(most, (size + CPUS - 1) / CPUS);
        assert_int_equal(used, CPUS);
    }
}

/* ---- commands ---- */

static void test_rank_gets_threads(void **state)
{
    static const struct {
        const char *args;
        int threads, cores;
        const char *want;
    } cases[] = {
        {"train d -a resnet18", 0, 4, "ampscale train --threads 4 d -a resnet18"},
        {"train d -a resnet18", 2, 4, "ampscale train --threads 2 d -a resnet18"},
        {"train d --threads 3", 2, 4, "ampscale train d --threads 3"},
        {"bench step --threads=3", 2, 4, "ampscale bench step --threads=3"},
        {"train --devices cpu:2", 0, 8, "ampscale train --threads 4 --devices cpu:2"},
        {"train --devices cpu:2", 0, 1, "ampscale train --threads 1 --devices cpu:2"},
        {"train --devices=cuda:3", 0, 8, "ampscale train --threads 8 --devices=cuda:3"},
        {"info --list", 2, 4, "ampscale info --list"},
    };
    for (int i = 0; i < COUNT(cases); i++) {
        char args[64], *argv[8], *line;
        int argc = 0;
        struct words w = {0};
        strcpy(args, cases[i].args);
        for (char *word = strtok(args, " "); word; word = strtok(NULL, " "))
            argv[argc++] = word;
        const struct launch_config c = {.threads = cases[i].threads, .argc = argc, .argv = argv};
        assert_int_equal(command_rank(&c, cases[i].cores, &w), STATUS_OK);
        assert_int_equal(words_shell(&w, &line), STATUS_OK);
        assert_string_equal(line, cases[i].want);
        free(line);
        words_free(&w);
    }
}

static void test_values_of_flags(void **state)
{
    char *argv[] = {"train", "--out", "a", "--outer", "b", "--out=c", "--resume"};
    assert_string_equal(launch_command_value(3, argv, "--out"), "a");
    assert_string_equal(launch_command_value(7, argv, "--out"), "c");
    assert_string_equal(launch_command_value(7, argv, "--outer"), "b");
    assert_null(launch_command_value(7, argv, "--resume"));
    assert_null(launch_command_value(7, argv, "--threads"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_hosts),
        cmocka_unit_test(test_hosts_are_counted),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_overlong_lines_come_in_pieces),
        cmocka_unit_test(test_reports),
        cmocka_unit_test(test_other_lines_are_no_reports),
        cmocka_unit_test(test_long_reasons_are_cut),
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_bound_ranks_share_cpus),
        cmocka_unit_test(test_rank_gets_threads),
        cmocka_unit_test(test_values_of_flags),
    };
    return cmocka_run_group_tests_name("launch", tests, NULL, NULL);
}
