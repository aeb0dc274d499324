/* Defines the columns of the record files, and converts structs to lines and back. */
#include "results/schema.h"

#include "base/json.h"
#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#define COUNT_MAX 9007199254740992.0 /* 2^53: some JSON readers round larger integers */

#define FIELD(s, m, t, opt, low, high)                                                             \
    {                                                                                              \
        .name = #m, .type = t, .optional = opt, .offset = offsetof(struct s, m), .min = low,       \
        .max = high                                                                                \
    }
#define COUNT(s, m)      FIELD(s, m, FIELD_COUNT, false, 0, COUNT_MAX)
#define REAL(s, m)       FIELD(s, m, FIELD_REAL, false, -RECORD_REAL_MAX, RECORD_REAL_MAX)
#define AMOUNT(s, m)     FIELD(s, m, FIELD_REAL, false, 0, RECORD_REAL_MAX)
#define PERCENT(s, m)    FIELD(s, m, FIELD_REAL, false, 0, 100)
#define OPT_COUNT(s, m)  FIELD(s, m, FIELD_COUNT, true, 0, COUNT_MAX)
#define OPT_AMOUNT(s, m) FIELD(s, m, FIELD_REAL, true, 0, RECORD_REAL_MAX)
/* clang-format off */
#define MEASURED(s, m)                                                                             \
    {                                                                                              \
        .name = #m, .type = FIELD_REAL, .optional = true, .unmeasured = true,                      \
        .offset = offsetof(struct s, m), .max = RECORD_REAL_MAX                                    \
    }
/* clang-format on */
#define SENSOR(s, m) FIELD(s, m, FIELD_SENSOR, true, 0, RECORD_REAL_MAX)
#define SHARE(s, m)  FIELD(s, m, FIELD_SENSOR, true, 0, 100)

/* One column per line. */
/* clang-format off */
static const struct field step_fields[] = {
    COUNT(step_record, epoch),
    COUNT(step_record, step),
    COUNT(step_record, batch),
    COUNT(step_record, images),
    REAL(step_record, loss),
    PERCENT(step_record, top1),
    PERCENT(step_record, top5),
    REAL(step_record, lr),
    AMOUNT(step_record, data_s),
    AMOUNT(step_record, h2d_s),
    AMOUNT(step_record, forward_s),
    AMOUNT(step_record, backward_s),
    AMOUNT(step_record, comm_s),
    OPT_AMOUNT(step_record, comm_busy_s),
    AMOUNT(step_record, optimizer_s),
    AMOUNT(step_record, total_s),
    COUNT(step_record, bytes_read),
    COUNT(step_record, files_read),
    AMOUNT(step_record, decode_s),
    COUNT(step_record, workers),
    COUNT(step_record, bad_images),
    MEASURED(step_record, loss_scale),
    OPT_COUNT(step_record, clean),
    OPT_COUNT(step_record, skipped),
    AMOUNT(step_record, elapsed),
};

static const struct field epoch_fields[] = {
    COUNT(epoch_record, epoch),
    COUNT(epoch_record, steps),
    REAL(epoch_record, lr),
    COUNT(epoch_record, train_images),
    REAL(epoch_record, train_loss),
    PERCENT(epoch_record, train_top1),
    PERCENT(epoch_record, train_top5),
    COUNT(epoch_record, val_images),
    REAL(epoch_record, val_loss),
    PERCENT(epoch_record, val_top1),
    PERCENT(epoch_record, val_top5),
    PERCENT(epoch_record, best_top1),
    OPT_AMOUNT(epoch_record, images_per_s_mean),
    AMOUNT(epoch_record, images_per_s),
    AMOUNT(epoch_record, images_per_s_p5),
    AMOUNT(epoch_record, images_per_s_p95),
    AMOUNT(epoch_record, images_per_s_wall),
    AMOUNT(epoch_record, train_s),
    AMOUNT(epoch_record, val_s),
    AMOUNT(epoch_record, checkpoint_s),
    AMOUNT(epoch_record, bytes_per_s),
    AMOUNT(epoch_record, files_per_s),
    AMOUNT(epoch_record, decode_ms),
    COUNT(epoch_record, bad_images),
    MEASURED(epoch_record, loss_scale),
    OPT_COUNT(epoch_record, clean),
    OPT_COUNT(epoch_record, skipped),
    MEASURED(epoch_record, energy_j),
    MEASURED(epoch_record, joules_per_image),
    SENSOR(epoch_record, storage_bytes),
    SENSOR(epoch_record, device_bytes),
    SHARE(epoch_record, cached_percent),
    AMOUNT(epoch_record, elapsed),
};

static const struct field rank_fields[] = {
    COUNT(rank_record, epoch),
    COUNT(rank_record, rank),
    OPT_COUNT(rank_record, attempt),
    COUNT(rank_record, steps),
    COUNT(rank_record, images),
    AMOUNT(rank_record, data_s),
    AMOUNT(rank_record, h2d_s),
    AMOUNT(rank_record, forward_s),
    AMOUNT(rank_record, backward_s),
    AMOUNT(rank_record, comm_s),
    AMOUNT(rank_record, comm_busy_s),
    AMOUNT(rank_record, optimizer_s),
    AMOUNT(rank_record, total_s),
    MEASURED(rank_record, energy_j),
    SENSOR(rank_record, storage_bytes),
    MEASURED(rank_record, own_median_s),
    MEASURED(rank_record, own_mad_s),
    MEASURED(rank_record, data_median_s),
    MEASURED(rank_record, h2d_median_s),
    MEASURED(rank_record, forward_median_s),
    MEASURED(rank_record, backward_median_s),
    MEASURED(rank_record, optimizer_median_s),
};

static const struct field telemetry_fields[] = {
    OPT_COUNT(telemetry_record, attempt),
    COUNT(telemetry_record, sample),
    FIELD(telemetry_record, device, FIELD_COUNT, false, 0, TELEMETRY_DEVICES_MAX - 1),
    SENSOR(telemetry_record, clock_mhz),
    SENSOR(telemetry_record, memory_clock_mhz),
    SENSOR(telemetry_record, power_w),
    SENSOR(telemetry_record, energy_j),
    FIELD(telemetry_record, temperature_c, FIELD_SENSOR, true, -300, RECORD_REAL_MAX),
    FIELD(telemetry_record, throttle, FIELD_SENSOR, true, 0, UINT32_MAX),
    SENSOR(telemetry_record, ecc_corrected),
    SENSOR(telemetry_record, ecc_uncorrected),
    SENSOR(telemetry_record, memory_bytes),
    SHARE(telemetry_record, busy),
    SHARE(telemetry_record, memory_busy),
    SENSOR(telemetry_record, pcie_sent),
    SENSOR(telemetry_record, pcie_received),
    AMOUNT(telemetry_record, elapsed),
};
/* clang-format on */

const struct telemetry_record telemetry_nothing = {
    .clock_mhz = NAN,
    .memory_clock_mhz = NAN,
    .power_w = NAN,
    .energy_j = NAN,
    .temperature_c = NAN,
    .throttle = NAN,
    .ecc_corrected = NAN,
    .ecc_uncorrected = NAN,
    .memory_bytes = NAN,
    .busy = NAN,
    .memory_busy = NAN,
    .pcie_sent = NAN,
    .pcie_received = NAN,
};

#define COUNT_OF(a) ((int)(sizeof(a) / sizeof *(a)))

const struct schema step_schema = {COUNT_OF(step_fields), step_fields};
const struct schema epoch_schema = {COUNT_OF(epoch_fields), epoch_fields};
const struct schema rank_schema = {COUNT_OF(rank_fields), rank_fields};
const struct schema telemetry_schema = {COUNT_OF(telemetry_fields), telemetry_fields};

/* A column is written as "name":number and a comma. The name has at most 20 characters and the
 * number at most 24, so a column has at most 48. */
_Static_assert(sizeof epoch_fields / sizeof *epoch_fields * 48 < SCHEMA_LINE_MAX, "line too short");
_Static_assert(sizeof step_fields / sizeof *step_fields * 48 < SCHEMA_LINE_MAX, "line too short");
_Static_assert(sizeof rank_fields / sizeof *rank_fields * 48 < SCHEMA_LINE_MAX, "line too short");
_Static_assert(sizeof telemetry_fields / sizeof *telemetry_fields * 48 < SCHEMA_LINE_MAX,
               "line too short");

static int64_t count_of(const struct field *f, const void *record)
{
    return *(const int64_t *)((const char *)record + f->offset);
}

static double real_of(const struct field *f, const void *record)
{
    return *(const double *)((const char *)record + f->offset);
}

void schema_number(const struct field *f, const void *record, char out[SCHEMA_NUMBER_MAX])
{
    out[0] = '\0';
    if (f->type == FIELD_COUNT)
        snprintf(out, SCHEMA_NUMBER_MAX, "%" PRId64, count_of(f, record));
    else if (isfinite(real_of(f, record)))
        snprintf(out, SCHEMA_NUMBER_MAX, "%.9g", real_of(f, record));
}

bool schema_is_absent(const struct field *f, const void *record)
{
    if (f->type == FIELD_SENSOR)
        return !isfinite(real_of(f, record));
    if (!f->optional)
        return false;
    return f->type == FIELD_COUNT ? count_of(f, record) == 0 : real_of(f, record) == 0;
}

size_t schema_format(const struct schema *s, const void *record, char line[SCHEMA_LINE_MAX])
{
    size_t len = 0;
    for (int i = 0; i < s->n; i++) {
        const struct field *f = &s->field[i];
        char number[SCHEMA_NUMBER_MAX];
        if (schema_is_absent(f, record))
            continue;
        schema_number(f, record, number);
        len += (size_t)snprintf(line + len, SCHEMA_LINE_MAX - len, "%c\"%s\":%s", len ? ',' : '{',
                                f->name, *number ? number : "null");
    }
    return len + (size_t)snprintf(line + len, SCHEMA_LINE_MAX - len, "}\n");
}

static enum status count_parse(const struct field *f, const json_t *value, int64_t *out)
{
    if (!json_is_integer(value))
        return status_fail(STATUS_DATA, "'%s' is not a whole number", f->name);
    int64_t v = json_integer_value(value);
    if ((double)v < f->min || (double)v > f->max)
        return status_fail(STATUS_DATA, "'%s' is out of range", f->name);
    *out = v;
    return STATUS_OK;
}

static enum status real_parse(const struct field *f, const json_t *value, double *out)
{
    if (json_is_null(value)) {
        *out = NAN;
        return STATUS_OK;
    }
    if (!json_is_number(value))
        return status_fail(STATUS_DATA, "'%s' is not a number", f->name);
    double v = json_number_value(value);
    if (v < f->min || v > f->max)
        return status_fail(STATUS_DATA, "'%s' is out of range", f->name);
    *out = v;
    return STATUS_OK;
}

static enum status field_parse(const struct field *f, const json_t *value, char *member)
{
    switch (f->type) {
    case FIELD_COUNT:
        *(int64_t *)(void *)member = 0;
        return value ? count_parse(f, value, (void *)member) : STATUS_OK;
    case FIELD_REAL:
    case FIELD_SENSOR:
        *(double *)(void *)member = f->type == FIELD_SENSOR ? NAN : 0;
        return value ? real_parse(f, value, (void *)member) : STATUS_OK;
    case FIELD_TEXT:
        if (!json_is_string(value))
            return status_fail(STATUS_DATA, "'%s' is not a text", f->name);
        text_clean(member, f->size, json_string_value(value));
        return STATUS_OK;
    case FIELD_FLAG:
        *(bool *)member = json_is_true(value);
        return json_is_boolean(value)
                   ? STATUS_OK
                   : status_fail(STATUS_DATA, "'%s' is neither true nor false", f->name);
    }
    return STATUS_OK;
}

enum status schema_parse(const struct schema *s, const json_t *object, void *record)
{
    if (!json_is_object(object))
        return status_fail(STATUS_DATA, "not an object");
    for (int i = 0; i < s->n; i++) {
        const struct field *f = &s->field[i];
        const json_t *value = json_object_get(object, f->name);
        if (!value && !f->optional)
            return status_fail(STATUS_DATA, "'%s' is missing", f->name);
        TRY(field_parse(f, value, (char *)record + f->offset));
    }
    return STATUS_OK;
}

static json_t *field_json(const struct field *f, const void *record)
{
    const char *member = (const char *)record + f->offset;
    if (f->type == FIELD_TEXT)
        return text_json(member);
    if (f->type == FIELD_FLAG)
        return json_boolean(*(const bool *)member);
    return f->type == FIELD_COUNT ? json_integer(count_of(f, record))
                                  : json_finite(real_of(f, record));
}

void schema_put(const struct schema *s, const void *record, json_t *into)
{
    for (int i = 0; i < s->n; i++)
        if (!schema_is_absent(&s->field[i], record))
            json_put(into, s->field[i].name, field_json(&s->field[i], record));
}

bool schema_is_rank_list(const json_t *value)
{
    if (!json_is_array(value) || json_array_size(value) == 0)
        return false;
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *one = json_array_get(value, i);
        const json_t *rank = json_object_get(one, "rank");
        if (!json_is_integer(rank) || json_integer_value(rank) != (json_int_t)i ||
            !json_is_string(json_object_get(one, "host")) ||
            !json_is_integer(json_object_get(one, "pid")))
            return false;
    }
    return true;
}
