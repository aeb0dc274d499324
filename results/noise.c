/* Judges whether other work disturbed a run. */
#include "results/noise.h"

#include "base/array.h"
#include "base/json.h"
#include "base/stats.h"
#include "base/text.h"

#include <math.h>
#include <stdlib.h>

static double computing_s(const struct step_record *s)
{
    return s->h2d_s + s->forward_s + s->backward_s + s->optimizer_s;
}

enum status noise_of_steps(const struct run *run, struct noise *noise)
{
    int64_t skip = run_warmup(run), far = 0;
    double *x;
    noise->steps = run->n_steps - skip;
    noise->far_share = NAN;
    if (noise->steps < 1)
        return STATUS_OK;
    TRY(array_new(&x, noise->steps));
    for (int64_t i = 0; i < noise->steps; i++)
        x[i] = computing_s(&run->step[skip + i]);
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

bool noise_judge(const struct noise *n, char text[NOISE_TEXT_MAX])
{
    bool disturbed = false;
    text[0] = '\0';
    if (n->steps >= NOISE_STEPS_MIN)
        disturbed |= add_sign(text, n->far_share, NOISE_FAR_SHARE,
                              "of the steps took more than 1.5 times the median");
    if (n->host.seconds >= NOISE_SECONDS_MIN) {
        disturbed |= add_sign(text, n->host.steal, NOISE_STEAL,
                              "of the processors' time was stolen by other guests");
        disturbed |= add_sign(text, n->host.others, NOISE_OTHERS,
                              "of the processors' time went to other processes");
    }
    return disturbed;
}

static enum status put_known(json_t *into, const char *key, double value)
{
    return isfinite(value) ? json_put(into, key, json_real(value)) : STATUS_OK;
}

json_t *noise_json(const struct noise *n)
{
    enum status st;
    char text[NOISE_TEXT_MAX];
    const struct host_noise *h = &n->host;
    bool disturbed = noise_judge(n, text);
    json_t *o = NULL;
    CHECK(json_new(&o, "{s:b, s:s}", "disturbed", disturbed, "reason", text));
    CHECK(put_known(o, "far_steps", n->far_share));
    CHECK(put_known(o, "seconds", h->seconds));
    CHECK(put_known(o, "steal", h->steal));
    CHECK(put_known(o, "others", h->others));
    CHECK(put_known(o, "load_start", h->load_start));
    CHECK(put_known(o, "load_end", h->load_end));
    CHECK(put_known(o, "preempted_per_s", h->preempted_per_s));
    return o;
done:
    json_decref(o);
    return NULL;
}

bool noise_recorded(const json_t *summary, char text[NOISE_TEXT_MAX])
{
    const json_t *noise = json_object_get(summary, "noise");
    text[0] = '\0';
    if (!json_is_true(json_object_get(noise, "disturbed")))
        return false;
    text_clean(text, NOISE_TEXT_MAX, json_text_at(noise, "reason"));
    return true;
}
