/* Fuzzes lists of hosts, in files and on the command line, and the reports of ranks' supervisors.
 */
#include "launch/hosts.h"
#include "launch/report.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

static void use(struct launch_hosts *h)
{
    struct words w = {0};
    launch_hosts_most(h);
    if (launch_hosts_slots(h) < h->n)
        abort();
    fuzz_refused(launch_hosts_word(h, false, &w));
    fuzz_refused(launch_hosts_word(h, true, &w));
    words_free(&w);
}

static void report(const char *line, size_t size)
{
    struct rank_report r;
    char text[REPORT_MAX];
    if (!report_read(line, size, &r))
        return;
    report_code(&r);
    report_write(&r, text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct launch_hosts file = {0}, list = {0};
    char *text = malloc(size + 1);
    if (!text)
        abort();
    memcpy(text, data, size);
    text[size] = '\0';
    enum status st = launch_hosts_read(&file, fuzz_file("hosts", data, size));
    fuzz_refused(st);
    if (st == STATUS_OK)
        use(&file);
    st = launch_hosts_parse(&list, text);
    fuzz_refused(st);
    if (st == STATUS_OK)
        use(&list);
    report(text, size);
    report_reason(text);
    launch_hosts_free(&file);
    launch_hosts_free(&list);
    free(text);
    return 0;
}
