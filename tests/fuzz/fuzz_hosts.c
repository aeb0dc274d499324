/* Fuzzes lists of hosts, in files and on the command line, and the reports of ranks' supervisors.
 */
#include "launch/parts.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

static void use(struct launch_hosts *h, enum status st)
{
    struct words w = {0};
    if (fuzz_ok(st)) {
        int most;
        if (launch_hosts_slots(h, &most) < h->n || most < 1)
            abort();
        fuzz_ok(launch_hosts_word(h, false, &w));
        fuzz_ok(launch_hosts_word(h, true, &w));
    }
    words_free(&w);
    launch_hosts_free(h);
}

static void report(const char *line)
{
    struct rank_report r;
    char text[REPORT_MAX];
    if (report_read(line, &r))
        report_write(&r, text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct launch_hosts file = {0}, list = {0};
    char *text = fuzz_text(data, size);
    use(&file, launch_hosts_read(&file, fuzz_file("hosts", data, size)));
    use(&list, launch_hosts_parse(&list, text));
    report(text);
    error_of_line(text);
    free(text);
    return 0;
}
