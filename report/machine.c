/* The machine that records come from. */
#include "report/sections.h"

#include "results/text.h"

#include <string.h>

/* The text at "a.b" of an object, cleaned; "" where there is none. */
static void text_at(const json_t *object, const char *key, const char *inner, char *out,
                    size_t size)
{
    const json_t *value = json_object_get(object, key);
    const char *text = json_string_value(inner ? json_object_get(value, inner) : value);
    text_clean(out, size, text ? text : "");
}

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
        char one[128], clean[128];
        snprintf(one, sizeof one, "%s %s", name,
                 json_is_string(version) ? json_string_value(version) : "");
        text_clean(clean, sizeof clean, one);
        size_t used = strlen(all);
        snprintf(all + used, sizeof all - used, "%s%s", used ? ", " : "", clean);
    }
    add_text(t, "libraries", all);
}

static void add_processor(struct table *t, const json_t *host)
{
    const json_t *cpu = json_object_get(host, "cpu");
    char model[256];
    text_at(cpu, "model", NULL, model, sizeof model);
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
    static const char *const headings[] = {"", ""};
    struct table t = table_begin(2, headings);
    const json_t *host = json_object_get(machine, "host");
    char text[256], commit[64];
    text_at(machine, "device", NULL, text, sizeof text);
    add_text(&t, "device", text);
    add_processor(&t, host);
    text_at(host, "os", NULL, text, sizeof text);
    add_text(&t, "system", text);
    text_at(host, "kernel", NULL, text, sizeof text);
    add_text(&t, "kernel", text);
    add_libraries(&t, json_object_get(machine, "libraries"));
    text_at(machine, "version", NULL, text, sizeof text);
    text_at(machine, "commit", NULL, commit, sizeof commit);
    if (*text) {
        table_add(&t, "program");
        table_add(&t, "ampscale %s%s%.12s", text, *commit ? ", commit " : "", commit);
    }
    writer_table(w, &t);
}
