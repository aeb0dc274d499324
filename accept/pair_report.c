/* Prints the results of a retest, and converts them to JSON. */
#include "accept/pair_run.h"

#include "base/json.h"

#include <inttypes.h>

void pair_print(const struct pair_config *c, const struct pair_result *r, FILE *out)
{
    fprintf(out, "%-28s %-8s %10s\n", "node", "before", "step, ms");
    for (int i = 0; i < r->plan.ranks; i++)
        fprintf(out, "%-28s %-8s %10.4g\n", c->name[i], c->suspect[i] ? "failed" : "passed",
                1e3 * r->step[i]);
    fprintf(out, "%5s  %-28s %-28s %11s %11s %7s\n", "round", "node", "with", "busbw, GB/s",
            "latency, us", "wrong");
    for (int i = 0; i < r->plan.n; i++) {
        const struct pair_meeting *m = &r->plan.meeting[i];
        fprintf(out, "%5d  %-28s %-28s %11.4g %11.4g %7" PRId64 "\n", m->round + 1, c->name[m->a],
                c->name[m->b], r->link[i].busbw, 1e6 * r->link[i].latency, r->link[i].wrong);
    }
    for (int i = 0; i < r->n; i++)
        fprintf(out, "%s: %s\n", c->name[r->finding[i].rank], r->finding[i].reason);
}

static json_t *steps_json(const struct pair_config *c, const struct pair_result *r)
{
    json_t *list = json_array();
    for (int i = 0; i < r->plan.ranks; i++)
        json_array_append_new(list, json_pack("{s:s, s:b, s:f, s:o}", "node", c->name[i], "suspect",
                                              c->suspect[i], "step_s", r->step[i], "noise",
                                              host_noise_json(&r->noise[i])));
    return json_whole(list, r->plan.ranks);
}

static json_t *meetings_json(const struct pair_config *c, const struct pair_result *r)
{
    json_t *list = json_array();
    for (int i = 0; i < r->plan.n; i++) {
        const struct pair_meeting *m = &r->plan.meeting[i];
        json_array_append_new(list,
                              json_pack("{s:i, s:b, s:[s, s], s:f, s:f, s:I}", "round", m->round,
                                        "reference", m->reference, "nodes", c->name[m->a],
                                        c->name[m->b], "busbw", r->link[i].busbw, "latency_s",
                                        r->link[i].latency, "wrong", (json_int_t)r->link[i].wrong));
    }
    return json_whole(list, r->plan.n);
}

static json_t *findings_json(const struct pair_config *c, const struct pair_result *r)
{
    json_t *list = json_array();
    for (int i = 0; i < r->n; i++) {
        const struct pair_finding *f = &r->finding[i];
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:s}", "node", c->name[f->rank], "verdict",
                                        pair_verdict_str(f->verdict), "reason", f->reason));
    }
    return json_whole(list, r->n);
}

json_t *pair_json(const struct pair_config *c, const struct pair_result *r)
{
    return json_pack("{s:s, s:i, s:b, s:I, s:f, s:f, s:I, s:o, s:o, s:o}", "record", "pair",
                     "schema", PAIR_SCHEMA, "passed", pair_exit_code(r->finding, r->n) == 0, "seed",
                     (json_int_t)c->seed, "within", c->within, "latency_within", c->latency_within,
                     "bytes", (json_int_t)c->bytes, "steps", steps_json(c, r), "meetings",
                     meetings_json(c, r), "findings", findings_json(c, r));
}
