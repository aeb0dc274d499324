/* The fake program of a test suite of acceptance. */
#include "suite_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

/* The fake program. It records its calls in "calls", and behaves differently for each kind of
 * check. */
static const char program[] =
    "#!/bin/sh\n"
    "echo $1 $2 >>\"${0%/*}/calls\"\n"
    "case \"$1 $2\" in\n"
    "'info --json') echo '{\"devices\": [{\"device\": \"cpu\", \"usable\": true,"
    " \"description\": \"made up\"}, {\"device\": \"cuda:0\", \"usable\": true, \"description\":"
    " \"a\"}, {\"device\": \"cuda:1\", \"usable\": true, \"description\": \"b\"}]}' ;;\n"
    "'bench memory') echo '{\"rows\": [{\"kernel\": \"copy\", \"median_gb_per_s\": 10,"
    " \"wrong\": 0}]}' ;;\n"
    "'bench peak') kill -SEGV $$ ;;\n"
    "'bench conv') sleep 60 ;;\n"
    /* Prints half of its rows when it gets SIGTERM. */
    "'bench input') trap 'echo \"{\\\"rows\\\": [{\\\"stage\\\": \\\"read\\\", \\\"from\\\": "
    "\\\"memory\\\","
    " \\\"threads\\\": 1, \\\"images_per_s\\\": 7}]}\"; exit 5' TERM\n"
    " n=0; while [ $n -lt 600 ]; do sleep 0.1; n=$((n + 1)); done ;;\n"
    "'bench gemm') echo 'no JSON' ;;\n"
    "'bench optimizer') cp \"${0%/*}/out/checks/optimizer.part\" \"${0%/*}/part\";"
    " echo '{\"rows\": []}' ;;\n"
    "'bench collective') echo 'ampscale: no such network' >&2; exit 5 ;;\n"
    /* Writes the record of a finished turn, then ends as the file "end" says. */
    "'bench throughput') echo \"$*\" >\"${0%/*}/args\"\n"
    " while [ $# -gt 1 ]; do [ $1 != --out ] || work=$2; shift; done\n"
    " mkdir -p $work; echo '{\"rows\": [{\"precision\": \"amp\", \"batch\": 2, \"who\": "
    "\"ampscale\", \"images_per_s\": {\"median\": 9}}]}' >$work/throughput.json\n"
    " eval \"$(cat \"${0%/*}/end\")\" ;;\n"
    "'selftest --json') echo '{\"cases\": [{\"ok\": true}, {\"ok\": false}]}';"
    " echo 'ampscale: it does not hold' >&2; exit 4 ;;\n"
    /* Each device waits until both have started. Then device 1 dies, and device 0 passes. */
    "'selftest --determinism') while [ $1 != --devices ]; do shift; done; device=$2; cd "
    "\"${0%/*}\"; echo >\"at $device\"; n=0\n"
    " until [ -e 'at cuda:0' ] && [ -e 'at cuda:1' ]; do\n"
    "  n=$((n + 1)); [ $n -lt 200 ] || exit 5; sleep 0.05\n"
    " done\n"
    " [ $device = cuda:0 ] || kill -KILL $$\n"
    " echo '{\"cases\": [{\"ok\": true}]}' ;;\n"
    /* Device 1 sends SIGTERM to the process that runs the suite. */
    "'bench step') for device; do :; done; [ $device = cuda:0 ] || kill -TERM $PPID; sleep 60 ;;\n"
    "*) exit 1 ;;\n"
    "esac\n";

int suite_begin(void **state)
{
    struct rig *r = calloc(1, sizeof *r);
    if (!r)
        return -1;
    scratch_make(r->dir);
    scratch_write(r->dir, "program", program, sizeof program - 1);
    snprintf(r->path, sizeof r->path, "%s/program", r->dir);
    snprintf(r->out, sizeof r->out, "%s/out", r->dir);
    *state = r;
    return chmod(r->path, 0755);
}

int suite_end(void **state)
{
    struct rig *r = *state;
    scratch_remove(r->dir);
    free(r);
    return 0;
}

enum status suite_run(const struct rig *r, const char *hardware, const char *const *kinds,
                      bool resume, struct accept_report *report)
{
    char text[4096];
    struct accept_spec s;
    const struct accept_options o = {
        .program = r->path, .dir = r->out, .level = 1, .resume = resume};
    int used = snprintf(text, sizeof text,
                        "{\"schema\": 1, \"name\": \"made\", \"about\": \"a test\", \"device\": "
                        "\"cpu\", \"hardware\": [\"%s\"], \"checks\": [",
                        hardware);
    for (int i = 0; kinds[i]; i++)
        used += snprintf(text + used, sizeof text - (size_t)used,
                         "%s{\"name\": \"%s\", \"kind\": \"%s\", \"level\": 1, \"seconds\": 1, "
                         "\"limit_s\": 1, \"repeats\": 2}",
                         i ? ", " : "", kinds[i], kinds[i]);
    strcat(text, "]}");
    if (accept_spec_parse(text, strlen(text), "made", 0, &s) != STATUS_OK)
        fail_msg("%s", status_message());
    enum status st = accept_run(&s, &o, report);
    accept_spec_free(&s);
    return st;
}

void suite_ended(const struct accept_result *c, enum verdict v, int repeats, const char *why)
{
    if (c->verdict != v || c->repeats != repeats || !strstr(c->reason, why))
        fail_msg("%s: %s after %d repeats, '%s'", c->name, verdict_str(c->verdict), c->repeats,
                 c->reason);
}
