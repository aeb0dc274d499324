/* Fuzzes values of flags and variables. Each line of an input is "name=value": the name is a flag
 * of train, or one of the names in other(). */
#include "accept/accept_spec.h"
#include "base/text.h"
#include "engine/inject.h"
#include "kernels/device_list.h"
#include "runners/settings.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

static const struct setting *find(const struct setting *s, const char *flag)
{
    while (!setting_is_end(s) && !(s->flag && strcmp(s->flag, flag) == 0))
        s++;
    return setting_is_end(s) ? NULL : s;
}

static void other(const char *name, const char *value)
{
    struct device_list list;
    struct inject inject = {0};
    char clean[64];
    const char *bar = strchr(value, '~');
    if (strcmp(name, "device_list") == 0)
        fuzz_ok(device_list_parse(value, &list));
    if (strcmp(name, "fault") == 0 && inject_parse(value, &inject) == STATUS_OK)
        json_decref(inject_json(&inject));
    if (strcmp(name, "clean") == 0)
        text_clean(clean, sizeof clean, value);
    if (strcmp(name, "matches") == 0 && bar)
        accept_matches(bar + 1, value);
}

static void line(char *text, struct train_config *config)
{
    char *value = strchr(text, '=');
    if (!value)
        return;
    *value++ = '\0';
    const struct setting *s = find(train_settings, text);
    if (!s)
        s = find(train_unrecorded, text);
    if (s)
        fuzz_ok(setting_take(s, value, config));
    else
        other(text, value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct train_config config = train_config_default();
    char *text = fuzz_text(data, size), *rest = text, *next;
    while ((next = strsep(&rest, "\n")))
        line(next, &config);
    free(text);
    return 0;
}
