/* Writes a run's settings for TensorBoard's HParams dashboard.
 *
 * The dashboard's plugin reads its own messages (HpData in event.proto). Each message is in the
 * metadata of a value that has a fixed tag and no number. There are three messages: the experiment
 * lists the hyper-parameters and the scalars that are shown beside them, the start of the session
 * has the values of the hyper-parameters, and the end of the session says how the run ended. */
#include "base/array.h"
#include "export/event.pb-c.h"
#include "export/tensorboard.h"
#include "export/tensorboard_event.h"

#include <stdlib.h>
#include <string.h>

/* Values of the enums DataType and Status in the plugin's api.proto. */
enum { TYPE_STRING = 1, TYPE_BOOL = 2, TYPE_NUMBER = 3 };
enum { SESSION_SUCCEEDED = 1, SESSION_FAILED = 2 };

/* Writes an event with a message for the plugin. */
static enum status put_data(FILE *out, double wall_time, const char *tag, const HpData *data)
{
    TbEvent event = TB_EVENT__INIT;
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
    event.has_wall_time = 1;
    event.wall_time = wall_time;
    event.summary = &summary;
    CHECK(array_new(&bytes, tb_event__get_packed_size(&event)));
    tensorboard_put_record(out, bytes, tb_event__pack(&event, bytes));
done:
    free(bytes);
    free(content);
    return st;
}

/* Hyper-parameters in two forms: for the experiment's message and for the session's message. */
struct hparams {
    size_t n;
    HpInfo *info, **infos;     /* (n) */
    HpValue *value;            /* (n) */
    HpEntry *entry, **entries; /* (n) */
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
    HpValue *v = &h->value[h->n];
    HpInfo *info = &h->info[h->n];
    HpEntry *entry = &h->entry[h->n];
    *v = (HpValue)HP_VALUE__INIT;
    *info = (HpInfo)HP_INFO__INIT;
    *entry = (HpEntry)HP_ENTRY__INIT;
    v->has_number_value = type == TYPE_NUMBER;
    v->number_value = json_number_value(value);
    v->has_bool_value = type == TYPE_BOOL;
    v->bool_value = json_is_true(value);
    v->string_value = (char *)(type == TYPE_STRING ? json_string_value(value) : NULL);
    info->name = entry->key = (char *)name;
    info->has_type = 1;
    info->type = type;
    entry->value = v;
    h->infos[h->n] = info;
    h->entries[h->n++] = entry;
}

static enum status hparams_make(const json_t *config, struct hparams *h)
{
    size_t most = json_object_size(config);
    const char *name;
    json_t *value;
    TRY(array_new(&h->info, most));
    TRY(array_new(&h->infos, most));
    TRY(array_new(&h->value, most));
    TRY(array_new(&h->entry, most));
    TRY(array_new(&h->entries, most));
    json_object_foreach((json_t *)config, name, value)
    {
        int type = hparam_type(name, value);
        if (type)
            hparams_add(h, name, value, type);
    }
    return STATUS_OK;
}

static void hparams_free(struct hparams *h)
{
    free(h->info);
    free(h->infos);
    free(h->value);
    free(h->entry);
    free(h->entries);
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
    hparams_free(&h);
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
