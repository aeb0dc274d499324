/* Describes the machine of a record. */
#include "report/report_sections.h"

#include "base/json.h"
#include "base/text.h"

#include <string.h>

static void add_text(struct table *t, const char *what, const char *text)
{
    if (!*text)
        return;
    table_add(t, "%s", what);
    table_add(t, "%s", text);
}

static void add_libraries(struct table *t, const json_t *libraries)
{
    char all[512] = "";
    const char *name;
    json_t *version;
    json_object_foreach((json_t *)libraries, name, version)
    {
        const char *text = json_string_value(version);
        text_join(all, sizeof all, ", ", "%.64s %.64s", name, text ? text : "");
    }
    add_text(t, "libraries", all);
}

static void add_processor(struct table *t, const json_t *host)
{
    const json_t *cpu = json_object_get(host, "cpu");
    const char *model = json_text_at(cpu, "model");
    if (*model) {
        table_add(t, "processor");
        table_add(t, "%s, %lld cores, %lld threads, %lld usable", model,
                  (long long)json_integer_value(json_object_get(cpu, "cores")),
                  (long long)json_integer_value(json_object_get(cpu, "threads")),
                  (long long)json_integer_value(json_object_get(cpu, "usable")));
    }
    double bytes = json_number_value(json_object_get(host, "memory_bytes"));
    if (bytes > 0) {
        table_add(t, "memory");
        table_add(t, "%.1f GiB", bytes / (1 << 30));
    }
}

void section_machine(struct writer *w, const json_t *machine)
{
    struct table t = table_begin("|");
    const json_t *host = json_object_get(machine, "host");
    const char *version = json_text_at(machine, "version");
    const char *commit = json_text_at(machine, "commit");
    add_text(&t, "device", json_text_at(machine, "device"));
    add_processor(&t, host);
    add_text(&t, "system", json_text_at(host, "os"));
    add_text(&t, "kernel", json_text_at(host, "kernel"));
    add_libraries(&t, json_object_get(machine, "libraries"));
    if (*version) {
        table_add(&t, "program");
        table_add(&t, "ampscale %s%s%.12s", version, *commit ? ", commit " : "", commit);
    }
    const json_t *cpu = json_object_get(host, "cpu");
    double cores = json_number_at(cpu, "cores");
    const char *model = json_text_at(cpu, "model"), *device = json_text_at(machine, "device");
    if (*model && cores > 0)
        writer_summary(w, "%s, %.0f core%s", model, cores, cores == 1 ? "" : "s");
    else
        writer_summary(w, "%.*s", (int)strcspn(device, ","), device);
    if (t.n == t.columns) {
        table_free(&t);
        return;
    }
    writer_fold(w, "Machine and program");
    writer_table(w, &t);
    writer_fold_end(w);
}
