/* Judges whether other work disturbed a run. */
#include "results/noise.h"

#include "base/array.h"
#include "base/json.h"
#include "base/stats.h"
#include "base/text.h"

#include <math.h>
#include <stdlib.h>

enum status noise_of_steps(const struct run *run, struct noise *noise)
{
    int64_t skip = run_warmup(run), far = 0;
    double *x;
    noise->steps = run->n_steps - skip;
    noise->far_share = NAN;
    if (noise->steps < 1)
        return STATUS_OK;
    TRY(array_new(&x, noise->steps));
    for (int64_t i = 0; i < noise->steps; i++) {
        const struct step_record *s = &run->step[skip + i];
        x[i] = s->h2d_s + s->forward_s + s->backward_s + s->optimizer_s;
    }
    double median = stats_median(x, noise->steps);
    for (int64_t i = 0; i < noise->steps; i++)
        far += x[i] > NOISE_FAR * median;
    free(x);
    noise->far_share = (double)far / (double)noise->steps;
    return STATUS_OK;
}

/* If `share` exceeds `bound`, adds "8.1 % <words>" to `text` and returns true. A NaN does not
 * exceed the bound. */
static bool add_sign(char text[NOISE_TEXT_MAX], double share, double bound, const char *words)
{
    if (!(share > bound))
        return false;
    text_join(text, NOISE_TEXT_MAX, ", ", "%.1f %% %s", 100 * share, words);
    return true;
}

#define TICK_S 0.01

/* The bound of `others`, widened for the number of ticks. An unknown number of processors counts as
 * one. */
static double others_bound(const struct host_noise *h)
{
    double processors = h->processors >= 1 ? h->processors : 1;
    return NOISE_OTHERS + 1.5 / sqrt(processors * h->seconds / TICK_S);
}

/* Adds the signs of the counters to `text`. */
static bool add_signs(const struct host_noise *h, char text[NOISE_TEXT_MAX])
{
    double rounding = 2 * TICK_S / h->seconds;
    bool steal = add_sign(text, h->steal, NOISE_STEAL + rounding,
                          "of the processors' time was stolen by other guests");
    bool others = add_sign(text, h->others, others_bound(h),
                           "of the processors' time went to other processes");
    bool throttled = add_sign(text, h->throttled, NOISE_THROTTLED + rounding,
                              "of the processors' time was withheld by a CPU quota");
    return steal || others || throttled;
}

bool host_noise_judge(const struct host_noise *h, char text[NOISE_TEXT_MAX])
{
    text[0] = '\0';
    return add_signs(h, text);
}

bool noise_judge(const struct noise *n, char text[NOISE_TEXT_MAX])
{
    text[0] = '\0';
    bool far =
        n->steps >= NOISE_STEPS_MIN && add_sign(text, n->far_share, NOISE_FAR_SHARE,
                                                "of the steps took more than 1.5 times the median");
    return add_signs(&n->host, text) || far;
}

static void put_host(json_t *o, const struct host_noise *h)
{
    json_put_known(o, "seconds", h->seconds);
    json_put_known(o, "processors", h->processors);
    json_put_known(o, "steal", h->steal);
    json_put_known(o, "others", h->others);
    json_put_known(o, "throttled", h->throttled);
    json_put_known(o, "load_start", h->load_start);
    json_put_known(o, "load_end", h->load_end);
    json_put_known(o, "preempted_per_s", h->preempted_per_s);
}

json_t *noise_json(const struct noise *n)
{
    char text[NOISE_TEXT_MAX];
    bool disturbed = noise_judge(n, text);
    json_t *o = json_new("{s:b, s:s}", "disturbed", disturbed, "reason", text);
    json_put_known(o, "far_steps", n->far_share);
    put_host(o, &n->host);
    return o;
}

json_t *host_noise_json(const struct host_noise *h)
{
    return noise_json(&(struct noise){.host = *h, .far_share = NAN});
}

struct host_noise host_noise_read(const json_t *record)
{
    const json_t *o = json_object_get(record, "noise");
    bool paused = json_is_true(json_object_get(record, "paused"));
    return (struct host_noise){.seconds = json_number_at(o, "seconds"),
                               .processors = json_number_at(o, "processors"),
                               .load_start = json_number_at(o, "load_start"),
                               .load_end = json_number_at(o, "load_end"),
                               .steal = json_number_at(o, "steal"),
                               .others = paused ? NAN : json_number_at(o, "others"),
                               .throttled = json_number_at(o, "throttled"),
                               .preempted_per_s = json_number_at(o, "preempted_per_s")};
}

bool noise_recorded(const json_t *record, char text[NOISE_TEXT_MAX])
{
    const json_t *noise = json_object_get(record, "noise");
    struct host_noise host = host_noise_read(record);
    text[0] = '\0';
    if (!json_is_true(json_object_get(noise, "disturbed")))
        return host_noise_judge(&host, text);
    text_clean(text, NOISE_TEXT_MAX, json_text_at(noise, "reason"));
    return true;
}
