/* Collects when runs were made and how many were disturbed. */
#include "results/conditions.h"

#include "base/json.h"
#include "results/noise.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const struct conditions conditions_none = {.others = NAN};

bool conditions_is_time(const char *text)
{
    static const char form[] = "0000-00-00T00:00:00Z";
    size_t n = strlen(text);
    if (n != sizeof form - 1)
        return false;
    for (size_t i = 0; i < n; i++)
        if (form[i] == '0' ? text[i] < '0' || text[i] > '9' : text[i] != form[i])
            return false;
    return true;
}

static void take_time(char out[CONDITIONS_TIME_SIZE], const char *text)
{
    if (conditions_is_time(text))
        snprintf(out, CONDITIONS_TIME_SIZE, "%s", text);
}

struct conditions conditions_of(const struct run *run)
{
    struct conditions c = conditions_none;
    char reason[NOISE_TEXT_MAX];
    c.runs = 1;
    take_time(c.from, json_text_at(run->info, "started"));
    take_time(c.to, json_text_at(run->summary, "finished"));
    if (!json_object_get(run->summary, "noise"))
        return c;
    c.recorded = 1;
    c.disturbed = noise_recorded(run->summary, reason);
    c.others = host_noise_read(run->summary).others;
    return c;
}

void conditions_add(struct conditions *all, const struct conditions *other)
{
    if (*other->from && (!*all->from || strcmp(other->from, all->from) < 0))
        memcpy(all->from, other->from, sizeof all->from);
    if (*other->to && strcmp(other->to, all->to) > 0)
        memcpy(all->to, other->to, sizeof all->to);
    all->runs += other->runs;
    all->recorded += other->recorded;
    all->disturbed += other->disturbed;
    all->others = fmax(all->others, other->others); /* of a number and NAN, the number */
}
