/* Writes TensorBoard's event files. */
#include "export/tensorboard.h"

#include "base/array.h"
#include "base/folder.h"
#include "base/text.h"
#include "base/words.h"
#include "export/event.pb-c.h"

#include <inttypes.h>
#include <isa-l/crc.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The largest event contains VALUES_MAX scalars or a text. EVENT_MAX_BYTES is far above its
 * size. */
enum { EVENT_MAX_BYTES = 1024, VALUES_MAX = 16, SENSORS = 8 };

/* tensorflow.SessionLog.START */
enum { SESSION_START = 1 };

/* The scalars of one event. */
struct scalars {
    TbValue value[VALUES_MAX];
    TbValue *pointer[VALUES_MAX];
    size_t n;
};

uint32_t tensorboard_crc(const void *bytes, size_t size)
{
    /* crc32_iscsi only reads `bytes`, although its parameter is not const. CRC-32C begins and ends
     * with an inversion; crc32_iscsi leaves both inversions to its caller. */
    uint32_t crc = ~crc32_iscsi((unsigned char *)bytes, (int)size, 0xffffffffu);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

void tensorboard_warn(const char *dir, const char *own, FILE *warnings)
{
    struct words names = {0};
    bool others = false;
    if (dir_list(dir, "", &names) == STATUS_OK)
        for (int i = 0; i < names.n; i++)
            others = others || (strstr(names.v[i], ".tfevents.") && strcmp(names.v[i], own) != 0);
    if (others)
        text_print(warnings,
                   "ampscale: warning: '%s' has event files of another run or export, which "
                   "TensorBoard mixes with these: give --run-name, or another folder",
                   dir);
    words_free(&names);
}

void tensorboard_name(char out[TENSORBOARD_NAME_MAX], double wall_time, const char *host,
                      const char *suffix)
{
    char clean[65];
    size_t n = 0;
    for (; host[n] && n + 1 < sizeof clean; n++) {
        bool plain = (host[n] >= '0' && host[n] <= '9') || (host[n] >= 'a' && host[n] <= 'z') ||
                     (host[n] >= 'A' && host[n] <= 'Z') || host[n] == '-' || host[n] == '.';
        clean[n] = host[n];
        if (!plain)
            clean[n] = '_';
    }
    clean[n] = '\0';
    snprintf(out, TENSORBOARD_NAME_MAX, "events.out.tfevents.%010" PRId64 ".%s.%s",
             (int64_t)wall_time, clean, suffix);
}

static void put_le(FILE *out, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        fputc((int)(value >> (8 * i) & 0xff), out);
}

/* Writes a message with its length and checksums. */
static void put_record(FILE *out, const uint8_t *bytes, size_t size)
{
    uint8_t length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)((uint64_t)size >> (8 * i));
    fwrite(length, 1, sizeof length, out);
    put_le(out, tensorboard_crc(length, sizeof length), 4);
    fwrite(bytes, 1, size, out);
    put_le(out, tensorboard_crc(bytes, size), 4);
}

static void put_event(FILE *out, const TbEvent *event)
{
    uint8_t bytes[EVENT_MAX_BYTES];
    put_record(out, bytes, tb_event__pack(event, bytes));
}

static TbEvent event_at(double wall_time)
{
    TbEvent event = TB_EVENT__INIT;
    event.has_wall_time = 1;
    event.wall_time = wall_time;
    return event;
}

static TbEvent event_of_step(double wall_time, int64_t step)
{
    TbEvent event = event_at(wall_time);
    event.has_step = 1;
    event.step = step;
    return event;
}

void tensorboard_begin(FILE *out, double wall_time, int64_t step)
{
    TbEvent event = event_at(wall_time);
    event.file_version = "brain.Event:2";
    put_event(out, &event);
    if (step == 0)
        return;
    TbSessionLog start = TB_SESSION_LOG__INIT;
    start.has_status = 1;
    start.status = SESSION_START;
    event = event_of_step(wall_time, step);
    event.session_log = &start;
    put_event(out, &event);
}

/* Adds a scalar. `tag` must remain valid until the event is written. The cast is needed because the
 * message's member is not const. */
static void add(struct scalars *s, const char *tag, double value)
{
    if (!isfinite((float)value))
        return;
    TbValue *v = &s->value[s->n];
    *v = (TbValue)TB_VALUE__INIT;
    v->tag = (char *)tag;
    v->has_simple_value = 1;
    v->simple_value = (float)value;
    s->pointer[s->n++] = v;
}

static void put_scalars(FILE *out, double wall_time, int64_t step, struct scalars *s)
{
    TbEvent event = event_of_step(wall_time, step);
    TbSummary summary = TB_SUMMARY__INIT;
    if (s->n == 0)
        return;
    summary.n_value = s->n;
    summary.value = s->pointer;
    event.summary = &summary;
    put_event(out, &event);
}

void tensorboard_step(FILE *out, double wall_time, const struct step_record *step)
{
    struct scalars s = {.n = 0};
    add(&s, "Throughput/train", (double)step->images / step->total_s);
    add(&s, "Loss/train", step->loss);
    add(&s, "Top1/train", step->top1);
    add(&s, "Top5/train", step->top5);
    add(&s, "Lr", step->lr);
    if (step->loss_scale > 0)
        add(&s, "LossScale", step->loss_scale);
    add(&s, "Step/Total_s", step->total_s);
    add(&s, "Step/DataWait_s", step->data_s);
    add(&s, "Step/Copy_s", step->h2d_s);
    add(&s, "Step/Forward_s", step->forward_s);
    add(&s, "Step/Backward_s", step->backward_s);
    add(&s, "Step/ExposedCommunication_s", step->comm_s);
    add(&s, "Step/Optimizer_s", step->optimizer_s);
    put_scalars(out, wall_time, step->step, &s);
}

void tensorboard_epoch(FILE *out, double wall_time, const struct epoch_record *epoch)
{
    struct scalars s = {.n = 0};
    if (epoch->val_images == 0)
        return;
    add(&s, "Loss/val", epoch->val_loss);
    add(&s, "Top1/val", epoch->val_top1);
    add(&s, "Top5/val", epoch->val_top5);
    if (epoch->val_s > 0)
        add(&s, "Throughput/val", (double)epoch->val_images / epoch->val_s);
    /* `steps` is a count, so the number of the last step is one less. If the event had the number
     * `steps`, TensorBoard would drop the event when a run resumes after this epoch. */
    put_scalars(out, wall_time, epoch->steps > 0 ? epoch->steps - 1 : 0, &s);
}

void tensorboard_telemetry(FILE *out, double wall_time, int64_t step,
                           const struct telemetry_record *row)
{
    const struct {
        const char *name;
        double value;
    } sensor[SENSORS] = {
        {"Power_W", row->power_w},
        {"Energy_J", row->energy_j},
        {"Temperature_C", row->temperature_c},
        {"Clock_MHz", row->clock_mhz},
        {"MemoryClock_MHz", row->memory_clock_mhz},
        {"Busy", row->busy},
        {"MemoryBusy", row->memory_busy},
        {"Memory_GiB", row->memory_bytes / 1073741824.0},
    };
    char tag[SENSORS][40];
    struct scalars s = {.n = 0};
    for (int i = 0; i < SENSORS; i++) {
        snprintf(tag[i], sizeof tag[i], "Device%d/%s", (int)row->device, sensor[i].name);
        add(&s, tag[i], sensor[i].value);
    }
    put_scalars(out, wall_time, step, &s);
}

/* --- settings, for the HParams dashboard ---
 *
 * The dashboard's plugin reads its own messages (HpData in event.proto). Each message is in the
 * metadata of a value that has a fixed tag and no number. There are three messages: the experiment
 * lists the hyper-parameters and the scalars that are shown beside them, the start of the session
 * has the values of the hyper-parameters, and the end of the session says how the run ended. */

/* Values of the enums DataType and Status in the plugin's api.proto. */
enum { TYPE_STRING = 1, TYPE_BOOL = 2, TYPE_NUMBER = 3 };
enum { SESSION_SUCCEEDED = 1, SESSION_FAILED = 2 };

/* Writes an event with a message for the plugin. */
static enum status put_data(FILE *out, double wall_time, const char *tag, const HpData *data)
{
    TbEvent event = event_at(wall_time);
    TbSummary summary = TB_SUMMARY__INIT;
    TbValue value = TB_VALUE__INIT, *values = &value;
    TbSummaryMetadata metadata = TB_SUMMARY_METADATA__INIT;
    TbPluginData plugin = TB_PLUGIN_DATA__INIT;
    uint8_t *content, *bytes = NULL;
    enum status st;
    TRY(array_new(&content, hp_data__get_packed_size(data)));
    plugin.plugin_name = "hparams";
    plugin.has_content = 1;
    plugin.content.len = hp_data__pack(data, content);
    plugin.content.data = content;
    metadata.plugin_data = &plugin;
    value.tag = (char *)tag;
    value.metadata = &metadata;
    summary.n_value = 1;
    summary.value = &values;
    event.summary = &summary;
    CHECK(array_new(&bytes, tb_event__get_packed_size(&event)));
    put_record(out, bytes, tb_event__pack(&event, bytes));
done:
    free(bytes);
    free(content);
    return st;
}

/* A hyper-parameter in two forms: for the experiment's message and for the session's message. */
struct hparam {
    HpInfo info;
    HpValue value;
    HpEntry entry;
};

struct hparams {
    size_t n;
    struct hparam *param; /* (n) */
    HpInfo **infos;       /* (n) */
    HpEntry **entries;    /* (n) */
};

/* Returns the type of a setting in the dashboard, or 0 if the setting is not a hyper-parameter. */
static int hparam_type(const char *name, const json_t *value)
{
    static const char *const paths[] = {"data", "init", "resume"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (strcmp(name, paths[i]) == 0)
            return 0;
    return json_is_string(value)    ? TYPE_STRING
           : json_is_boolean(value) ? TYPE_BOOL
           : json_is_number(value)  ? TYPE_NUMBER
                                    : 0;
}

/* Adds a hyper-parameter to both messages. `name` and the text of `value` must outlive the
 * messages. */
static void hparams_add(struct hparams *h, const char *name, const json_t *value, int type)
{
    struct hparam *p = &h->param[h->n];
    *p = (struct hparam){HP_INFO__INIT, HP_VALUE__INIT, HP_ENTRY__INIT};
    HpValue *v = &p->value;
    v->has_number_value = type == TYPE_NUMBER;
    v->number_value = json_number_value(value);
    v->has_bool_value = type == TYPE_BOOL;
    v->bool_value = json_is_true(value);
    v->string_value = (char *)(type == TYPE_STRING ? json_string_value(value) : NULL);
    p->info.name = p->entry.key = (char *)name;
    p->info.has_type = 1;
    p->info.type = type;
    p->entry.value = v;
    h->infos[h->n] = &p->info;
    h->entries[h->n++] = &p->entry;
}

static enum status hparams_make(const json_t *config, struct hparams *h)
{
    size_t most = json_object_size(config);
    const char *name;
    json_t *value;
    TRY(array_new(&h->param, most));
    TRY(array_new(&h->infos, most));
    TRY(array_new(&h->entries, most));
    json_object_foreach((json_t *)config, name, value)
    {
        int type = hparam_type(name, value);
        if (type)
            hparams_add(h, name, value, type);
    }
    return STATUS_OK;
}

static enum status put_experiment(FILE *out, double wall_time, const struct hparams *h)
{
    static const char *const tags[] = {"Top1/val", "Loss/val", "Loss/train", "Throughput/train"};
    enum { TAGS = sizeof tags / sizeof *tags };
    HpMetricName name[TAGS];
    HpMetric metric[TAGS], *metrics[TAGS];
    HpExperiment experiment = HP_EXPERIMENT__INIT;
    HpData data = HP_DATA__INIT;
    for (int i = 0; i < TAGS; i++) {
        name[i] = (HpMetricName)HP_METRIC_NAME__INIT;
        name[i].tag = (char *)tags[i];
        metric[i] = (HpMetric)HP_METRIC__INIT;
        metric[i].name = &name[i];
        metrics[i] = &metric[i];
    }
    experiment.n_hparam_infos = h->n;
    experiment.hparam_infos = h->infos;
    experiment.n_metric_infos = TAGS;
    experiment.metric_infos = metrics;
    data.experiment = &experiment;
    return put_data(out, wall_time, "_hparams_/experiment", &data);
}

static enum status put_session(FILE *out, double wall_time, const struct hparams *h)
{
    HpSessionStart start = HP_SESSION_START__INIT;
    HpData data = HP_DATA__INIT;
    start.n_hparams = h->n;
    start.hparams = h->entries;
    start.has_start_time_secs = 1;
    start.start_time_secs = wall_time;
    data.session_start_info = &start;
    return put_data(out, wall_time, "_hparams_/session_start_info", &data);
}

enum status tensorboard_hparams(FILE *out, double wall_time, const json_t *config)
{
    struct hparams h = {.n = 0};
    enum status st;
    CHECK(hparams_make(config, &h));
    if (h.n > 0) {
        CHECK(put_experiment(out, wall_time, &h));
        CHECK(put_session(out, wall_time, &h));
    }
done:
    free(h.param);
    free(h.infos);
    free(h.entries);
    return st;
}

enum status tensorboard_end(FILE *out, double wall_time, bool complete)
{
    HpSessionEnd end = HP_SESSION_END__INIT;
    HpData data = HP_DATA__INIT;
    end.has_status = 1;
    end.status = complete ? SESSION_SUCCEEDED : SESSION_FAILED;
    end.has_end_time_secs = 1;
    end.end_time_secs = wall_time;
    data.session_end_info = &end;
    return put_data(out, wall_time, "_hparams_/session_end_info", &data);
}
