/* What the tests of acceptance share. */
#include "rig.h"

#include <stdlib.h>
#include <string.h>

static char *double_quoted(const char *text)
{
    char *copy = strdup(text);
    assert_non_null(copy);
    for (char *c = copy; (c = strchr(c, '\''));)
        *c = '"';
    return copy;
}

enum status spec_read(const char *text, int devices, struct accept_spec *s)
{
    char *json = double_quoted(text);
    enum status st = accept_spec_parse(json, strlen(json), "made", devices, s);
    free(json);
    return st;
}

void spec_take(const char *text, struct accept_spec *s)
{
    expect_ok(spec_read(text, 0, s));
}

json_t *json_quoted(const char *text)
{
    char *json = double_quoted(text);
    json_t *o = json_loads(json, 0, NULL);
    assert_non_null(o);
    free(json);
    return o;
}
