/* Parses, completes, checks and records faults; the engine and the loader inject them. */
#include "engine/inject.h"

#include "base/json.h"
#include "base/rng.h"
#include "model/exchange.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading ---- */

static enum status refuse(const char *text)
{
    return status_fail(STATUS_USAGE,
                       "--inject '%s' is not a valid fault; give slow-rank=R:P%%, throttle=P%%, "
                       "bitflip=STEP[@RANK][:weight|gradient[:TENSOR[:BIT]]] or lost-image[=EPOCH]",
                       text);
}

/* Reads a whole number and moves *at past it. Returns false if there is no number, or if it exceeds
 * `max`. */
static bool read_count(const char **at, int64_t max, int64_t *out)
{
    *out = 0;
    if (**at < '0' || **at > '9')
        return false;
    for (; **at >= '0' && **at <= '9'; (*at)++) {
        *out = *out * 10 + (**at - '0');
        if (*out > max)
            return false;
    }
    return true;
}

/* Reads the percentage at the end of a fault: "20%" is 0.2. */
static bool read_percent(const char *at, double *share)
{
    char *end;
    if (*at < '0' || *at > '9')
        return false;
    *share = strtod(at, &end) / 100;
    return strcmp(end, "%") == 0 && *share > 0 && *share <= 100;
}

static bool read_slow_rank(const char *at, struct inject *into)
{
    int64_t rank;
    if (!read_count(&at, INT32_MAX, &rank) || *at++ != ':' || !read_percent(at, &into->slow_share))
        return false;
    into->slow = true;
    into->slow_rank = (int)rank;
    return true;
}

/* Reads ":weight" or ":gradient" and moves *at past it. */
static bool read_value(const char **at, enum param_value *value)
{
    static const struct {
        const char *name;
        enum param_value value;
    } values[] = {{":weight", VALUE_WEIGHT}, {":gradient", VALUE_GRADIENT}};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        size_t n = strlen(values[i].name);
        if (strncmp(*at, values[i].name, n) != 0 || ((*at)[n] && (*at)[n] != ':'))
            continue;
        *at += n;
        *value = values[i].value;
        return true;
    }
    return false;
}

/* ":TENSOR[:BIT]" */
static bool read_place(const char *at, struct inject_flip *f)
{
    size_t n = strcspn(++at, ":");
    if (n == 0 || n >= sizeof f->tensor)
        return false;
    memcpy(f->tensor, at, n);
    at += n;
    return !*at || (*at++ == ':' && read_count(&at, INT64_MAX / 16, &f->bit) && !*at);
}

static bool read_flip(const char *at, struct inject_flip *f)
{
    int64_t rank = -1;
    *f = (struct inject_flip){.value = VALUE_WEIGHT, .bit = -1};
    if (!read_count(&at, INT64_C(1) << 50, &f->step))
        return false;
    if (*at == '@' && (at++, !read_count(&at, INT32_MAX, &rank)))
        return false;
    f->rank = (int)rank;
    if (!*at)
        return true;
    return read_value(&at, &f->value) && (!*at || read_place(at, f));
}

static bool read_lost_image(const char *at, struct inject *into)
{
    into->lose_image = true;
    into->lose_epoch = 0;
    return !*at || (*at++ == '=' && read_count(&at, INT32_MAX, &into->lose_epoch) && !*at);
}

/* Returns the text after `name`; NULL if `text` does not begin with `name`. */
static const char *after(const char *text, const char *name)
{
    size_t n = strlen(name);
    return strncmp(text, name, n) == 0 ? text + n : NULL;
}

enum status inject_parse(const char *text, struct inject *into)
{
    const char *slow = after(text, "slow-rank="), *throttle = after(text, "throttle="),
               *lost = after(text, "lost-image"), *flip = after(text, "bitflip=");
    if (flip && into->n_flips == INJECT_FLIPS_MAX)
        return status_fail(STATUS_USAGE, "--inject '%s': at most %d bit flips are allowed", text,
                           INJECT_FLIPS_MAX);
    bool good = slow       ? read_slow_rank(slow, into)
                : throttle ? read_percent(throttle, &into->throttle)
                : lost     ? read_lost_image(lost, into)
                           : flip && read_flip(flip, &into->flip[into->n_flips++]);
    return good ? STATUS_OK : refuse(text);
}

/* ---- settling ---- */

static enum status check_rank(const char *fault, int rank, int ranks)
{
    if (rank < ranks)
        return STATUS_OK;
    return status_fail(STATUS_USAGE, "--inject %s: rank %d does not exist in a run of %d ranks",
                       fault, rank, ranks);
}

static enum status find_tensor(const struct graph *g, struct inject_flip *f)
{
    for (int i = 0; i < g->n_params; i++)
        if (param_is_trained(&g->param[i]) && strcmp(g->param[i].name, f->tensor) == 0) {
            f->param = i;
            return STATUS_OK;
        }
    return status_fail(STATUS_USAGE, "--inject bitflip: %s has no trained parameter '%s'", g->arch,
                       f->tensor);
}

/* Draws a parameter such that every element of all trained parameters is equally likely. */
static void draw_tensor(const struct graph *g, struct rng *rng, struct inject_flip *f)
{
    double at = rng_double(rng) * (double)graph_params_trained(g);
    for (int i = 0; i < g->n_params; i++) {
        if (!param_is_trained(&g->param[i]))
            continue;
        f->param = i;
        at -= (double)param_count(&g->param[i]);
        if (at < 0)
            break;
    }
    memcpy(f->tensor, g->param[f->param].name, sizeof f->tensor);
}

static enum status settle_flip(struct inject_flip *f, const struct graph *g, struct rng *rng,
                               int ranks)
{
    if (f->rank < 0)
        f->rank = ranks - 1;
    TRY(check_rank("bitflip", f->rank, ranks));
    if (*f->tensor)
        TRY(find_tensor(g, f));
    else
        draw_tensor(g, rng, f);
    int64_t bits = 32 * param_count(&g->param[f->param]);
    if (f->bit < 0)
        f->bit = (int64_t)(rng_double(rng) * (double)bits);
    if (f->bit < bits)
        return STATUS_OK;
    return status_fail(STATUS_USAGE,
                       "--inject bitflip: '%s' has %" PRId64 " bits; there is no bit %" PRId64,
                       f->tensor, bits, f->bit);
}

enum status inject_settle(struct inject *faults, const struct graph *g, uint64_t seed, int ranks)
{
    struct rng rng = rng_at(seed, RNG_FAULT, 0, 0);
    if (faults->slow)
        TRY(check_rank("slow-rank", faults->slow_rank, ranks));
    for (int i = 0; i < faults->n_flips; i++)
        TRY(settle_flip(&faults->flip[i], g, &rng, ranks));
    return STATUS_OK;
}

/* ---- injecting and recording ---- */

bool inject_any(const struct inject *faults)
{
    return faults->slow || faults->throttle > 0 || faults->lose_image || faults->n_flips > 0;
}

double inject_delay(const struct inject *faults, int rank)
{
    bool slow = faults->slow && faults->slow_rank == rank;
    return (1 + faults->throttle) * (1 + (slow ? faults->slow_share : 0)) - 1;
}

enum status inject_flips(const struct inject *faults, int64_t step, int rank, enum param_value v,
                         struct network *net)
{
    for (int i = 0; i < faults->n_flips; i++) {
        const struct inject_flip *f = &faults->flip[i];
        if (f->step == step && f->rank == rank && f->value == v)
            TRY(network_flip(net, v, f->param, f->bit));
    }
    return STATUS_OK;
}

json_t *inject_json(const struct inject *faults)
{
    json_t *a = json_array();
    if (faults->slow)
        json_add(a, json_sprintf("slow-rank=%d:%g%%", faults->slow_rank, 100 * faults->slow_share));
    if (faults->throttle > 0)
        json_add(a, json_sprintf("throttle=%g%%", 100 * faults->throttle));
    for (int i = 0; i < faults->n_flips; i++) {
        const struct inject_flip *f = &faults->flip[i];
        char text[NAME_MAX_LEN + 64];
        snprintf(text, sizeof text, "bitflip=%" PRId64 "@%d:%s:%s:%" PRId64, f->step, f->rank,
                 f->value == VALUE_WEIGHT ? "weight" : "gradient", f->tensor, f->bit);
        json_add(a, text_json(text)); /* which may be given as no UTF-8 */
    }
    if (faults->lose_image)
        json_add(a, json_sprintf("lost-image=%" PRId64, faults->lose_epoch));
    return a;
}
