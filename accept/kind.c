/* The kinds of checks, and their commands. */
#include "accept/kind.h"

#include "accept/read.h"
#include "base/file.h"
#include "base/json_keys.h"

#include <inttypes.h>
#include <string.h>

#define COUNT(name, flag, otherwise, min, max)                                                     \
    {                                                                                              \
        name, ACCEPT_ARG_COUNT, flag, otherwise, min, max                                          \
    }
#define WORD(name, flag, otherwise)                                                                \
    {                                                                                              \
        name, ACCEPT_ARG_WORD, flag, otherwise, 0, 0                                               \
    }
#define LIST(name, flag)                                                                           \
    {                                                                                              \
        name, ACCEPT_ARG_LIST, flag, NULL, 0, 0                                                    \
    }
#define OUTPUT(name, flag)                                                                         \
    {                                                                                              \
        name, ACCEPT_ARG_OUTPUT, flag, NULL, 0, 0                                                  \
    }
#define PEER(name, flag)                                                                           \
    {                                                                                              \
        name, ACCEPT_ARG_PEER, flag, NULL, 0, 0                                                    \
    }
#define SWITCH(name, flag)                                                                         \
    {                                                                                              \
        name, ACCEPT_ARG_SWITCH, flag, NULL, 0, 0                                                  \
    }
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define ARGS(...)  ((const struct accept_arg[]){__VA_ARGS__, {0}})
#define NO_ARGS    ((const struct accept_arg[]){{0}})

/* Seconds are what a repeat takes with the args that a spec usually gives. */
const struct accept_kind accept_kinds[] = {
    {.name = "facts",
     .about = "what the machine is: processors, memory, devices, driver",
     .words = WORDS("info", "--json"),
     .arg = NO_ARGS,
     .read = accept_read_facts},
    {.name = "selftest",
     .about = "whether the device computes what PyTorch computes",
     .words = WORDS("selftest", "--json"),
     .arg = ARGS(SWITCH("quick", "--quick"), COUNT("threads", "--threads", NULL, 1, 1024)),
     .on_device = true,
     .read = accept_read_selftest},
    {.name = "determinism",
     .about = "whether a training step from the same state has the same bits each time",
     .words = WORDS("selftest", "--determinism", "--json"),
     .arg = ARGS(SWITCH("quick", "--quick"), COUNT("repeats", "--repeats", NULL, 2, 1000),
                 COUNT("threads", "--threads", NULL, 1, 1024)),
     .on_device = true,
     .read = accept_read_determinism},
    {.name = "operations",
     .about = "every operation of the device's backend against the reference",
     .words = WORDS("selftest", "--operations", "--json"),
     .arg = ARGS(COUNT("every", "--every", NULL, 1, 1000000), WORD("only", "--only", NULL),
                 WORD("without", "--without", NULL), COUNT("jobs", "--jobs", NULL, 1, 1024)),
     .on_device = true,
     .budget = "--limit",
     .read = accept_read_operations},
    {.name = "sanitizer",
     .about = "kernels of our own under a tool of compute-sanitizer",
     .words = WORDS("selftest", "--operations", "--json"),
     .arg =
         ARGS(WORD("tool", "--sanitizer", "memcheck"), COUNT("every", "--every", NULL, 1, 1000000),
              COUNT("jobs", "--jobs", NULL, 1, 1024)),
     .on_device = true,
     .budget = "--limit",
     .read = accept_read_sanitizer},
    {.name = "accuracy",
     .about = "the same training in each precision, beside what a CPU reached",
     .words = WORDS("bench", "accuracy", "--json"),
     .arg = ARGS(LIST("precisions", "--precisions"), SWITCH("quick", "--quick")),
     .on_device = true,
     .budget = "--budget",
     .read = accept_read_accuracy},
    {.name = "throughput",
     .about = "training in turns with PyTorch's, by precision, batch, fusion and graphs",
     .words = WORDS("bench", "throughput", "--json"),
     .arg =
         ARGS(LIST("rows", "--rows"), LIST("fuse", "--fuse"), LIST("graphs", "--graphs"),
              WORD("net", "--net", NULL), COUNT("image_size", "--image-size", NULL, 1, 4096),
              COUNT("steps", "--steps", NULL, 1, 100000), COUNT("rounds", "--rounds", NULL, 1, 64),
              SWITCH("files", "--files"), PEER("peer", "--peer")),
     .on_device = true,
     .budget = "--budget",
     .read = accept_read_throughput},
    {.name = "profile",
     .about = "time, DRAM bytes and tensor pipes of each kernel of a step, by ncu",
     .words = WORDS("bench", "profile", "--json"),
     .arg = ARGS(WORD("net", "--net", NULL), COUNT("batch", "-b", NULL, 1, 65536),
                 COUNT("image_size", "--image-size", NULL, 1, 4096),
                 WORD("precision", "--precision", NULL), OUTPUT("peak", "--peak")),
     .on_device = true,
     .budget = "--budget",
     .read = accept_read_profile},
    {.name = "peak",
     .about = "rates of products in each type, and memory bandwidth, that the library reaches",
     .words = WORDS("bench", "peak", "--json"),
     .arg = ARGS(COUNT("rounds", "--rounds", NULL, 1, 64),
                 COUNT("max_mib", "--max-mib", NULL, 4, 65536),
                 COUNT("threads", "--threads", NULL, 1, 1024)),
     .on_device = true,
     .read = accept_read_peak},
    {.name = "memory",
     .about = "STREAM's kernels in the host's memory, or copies to, from and within a device",
     .words = WORDS("bench", "memory", "--json"),
     .arg = ARGS(COUNT("max_mib", "--max-mib", NULL, 4, 65536),
                 COUNT("iters", "--iters", NULL, 1, 100000),
                 COUNT("threads", "--threads", NULL, 1, 1024)),
     .on_device = true,
     .read = accept_read_memory},
    {.name = "gpu-peers",
     .about = "copies from the memory of each GPU to that of each other",
     .words = WORDS("bench", "memory", "--json"),
     .arg = ARGS(COUNT("max_mib", "--max-mib", NULL, 4, 65536),
                 COUNT("iters", "--iters", NULL, 1, 100000)),
     .on_gpus = true,
     .read = accept_read_peers},
    {.name = "overhead",
     .about = "calls that do next to nothing: launches, events, the smallest step, records, sums",
     .words = WORDS("bench", "overhead", "--json"),
     .arg = ARGS(COUNT("iters", "--iters", NULL, 1, 1000),
                 COUNT("threads", "--threads", NULL, 1, 1024)),
     .on_device = true,
     .read = accept_read_overhead},
    {.name = "step",
     .about = "a training step, operation by operation, and how near it comes to the peaks",
     .words = WORDS("bench", "step", "--json"),
     .arg = ARGS(WORD("net", "--net", NULL), COUNT("batch", "-b", NULL, 1, 65536),
                 COUNT("image_size", "--image-size", NULL, 1, 4096),
                 COUNT("rounds", "--rounds", NULL, 1, 64), WORD("precision", "--precision", NULL),
                 OUTPUT("peak", "--peak"), COUNT("threads", "--threads", NULL, 1, 1024)),
     .on_device = true,
     .read = accept_read_step},
    {.name = "gemm",
     .about = "the matrix products of a network",
     .words = WORDS("bench", "gemm", "--json"),
     .arg = ARGS(WORD("net", "--net", NULL), COUNT("batch", "-b", NULL, 1, 65536),
                 WORD("precision", "--precision", NULL),
                 COUNT("max_gflop", "--max-gflop", NULL, 1, 1000000),
                 COUNT("iters", "--iters", NULL, 1, 100000),
                 COUNT("threads", "--threads", NULL, 1, 1024)),
     .on_device = true,
     .read = accept_read_gemm},
    {.name = "optimizer",
     .about = "the update of a network's weights, by the bytes that it must move",
     .words = WORDS("bench", "optimizer", "--json"),
     .arg = ARGS(WORD("net", "--net", NULL), WORD("precision", "--precision", NULL),
                 COUNT("iters", "--iters", NULL, 1, 100000),
                 COUNT("threads", "--threads", NULL, 1, 1024)),
     .on_device = true,
     .read = accept_read_optimizer},
    {.name = "input",
     .about = "reading, decoding and augmenting images that are generated",
     .words = WORDS("bench", "input", "--json"),
     .arg =
         ARGS(COUNT("images", "--images", NULL, 1, 100000), COUNT("size", "--size", NULL, 16, 4096),
              COUNT("image_size", "--image-size", NULL, 1, 4096),
              COUNT("batch", "-b", NULL, 1, 65536), COUNT("threads", "--threads", NULL, 1, 1024)),
     .read = accept_read_input},
    {.name = "conv",
     .about = "every convolution of a network",
     .words = WORDS("bench", "conv", "--json", "--no-step"),
     .arg = ARGS(WORD("net", "--net", NULL), COUNT("batch", "-b", NULL, 1, 65536),
                 COUNT("image_size", "--image-size", NULL, 1, 4096),
                 COUNT("rounds", "--rounds", NULL, 1, 64),
                 COUNT("threads", "--threads", NULL, 1, 1024)),
     .on_device = true,
     .read = accept_read_conv},
    {.name = "collective",
     .about = "the bandwidth of a collective by message size, in the host's memory",
     .words = WORDS("bench", "collective", "--json"),
     .arg = ARGS(WORD("op", NULL, "allreduce"), COUNT("ranks", "--ranks", NULL, 1, 256),
                 WORD("from", "--minbytes", NULL), WORD("to", "--maxbytes", NULL),
                 COUNT("factor", "--stepfactor", NULL, 2, 1024),
                 COUNT("iters", "--iters", NULL, 1, 100000), WORD("type", "--datatype", NULL)),
     .read = accept_read_collective},
    {.name = "gpu-collective",
     .about = "the bandwidth of a collective between all GPUs by message size",
     .words = WORDS("bench", "collective", "--json"),
     .arg = ARGS(WORD("op", NULL, "allreduce"), WORD("from", "--minbytes", NULL),
                 WORD("to", "--maxbytes", NULL), COUNT("factor", "--stepfactor", NULL, 2, 1024),
                 COUNT("iters", "--iters", NULL, 1, 100000), WORD("type", "--datatype", NULL),
                 WORD("comm", "--comm", NULL)),
     .on_gpus = true,
     .read = accept_read_collective},
    {.name = "train",
     .about = "training on synthetic images: throughput, loss, and the devices' sensors meanwhile",
     .words = WORDS("train", "--dummy"),
     .arg = ARGS(
         WORD("arch", "-a", NULL), WORD("precision", "--precision", NULL),
         COUNT("batch", "-b", NULL, 1, 65536), COUNT("image_size", "--image-size", NULL, 1, 4096),
         COUNT("classes", "--classes", NULL, 1, 1000000),
         COUNT("steps", "--steps", "60", 1, 1000000000),
         COUNT("seed", "--seed", NULL, 0, 1000000000), COUNT("threads", "--threads", NULL, 1, 1024),
         SWITCH("deterministic", "--deterministic")),
     .on_device = true,
     .ranks = true,
     .folder = true,
     .read = accept_read_train},
    {0},
};

const struct accept_kind *accept_kind_find(const char *name)
{
    for (const struct accept_kind *k = accept_kinds; k->name; k++)
        if (strcmp(k->name, name) == 0)
            return k;
    return NULL;
}

/* --- args --- */

enum { LIST_SIZE = 1024 };

static const char ranks_arg[] = "ranks";

/* Whether a text is a list of words, each as keys_is_name has it but for ':', and no dash at first.
 */
static bool is_list(const char *text)
{
    char word[ACCEPT_TEXT_SIZE];
    for (;; text++) {
        size_t n = strcspn(text, ",");
        if (n == 0 || n >= sizeof word || *text == '-' || *text == ':')
            return false;
        memcpy(word, text, n);
        word[n] = '\0';
        for (char *c = word; *c; c++)
            *c = *c == ':' ? '-' : *c;
        if (!keys_is_name(word))
            return false;
        text += n;
        if (!*text)
            return true;
    }
}

static enum status check_list(const struct accept_arg *arg, const json_t *args, const char *where)
{
    char text[LIST_SIZE] = "";
    TRY(keys_text(args, where, arg->name, false, text, sizeof text));
    if (!*text || is_list(text))
        return STATUS_OK;
    return status_fail(STATUS_USAGE,
                       "'%s.%s' must be words of letters, digits, '-', '_', '.' and ':' with ',' "
                       "between them, none of which begins with '-'",
                       where, arg->name);
}

static enum status check_value(const struct accept_arg *arg, const json_t *args, const char *where)
{
    int64_t count;
    char word[ACCEPT_NAME_SIZE] = "";
    switch (arg->type) {
    case ACCEPT_ARG_COUNT:
        return keys_count(args, where, arg->name, false, arg->min, arg->max, &count);
    case ACCEPT_ARG_LIST:
        return check_list(arg, args, where);
    case ACCEPT_ARG_WORD:
    case ACCEPT_ARG_OUTPUT:
        TRY(keys_text(args, where, arg->name, false, word, sizeof word));
        if (*word && (!keys_is_name(word) || *word == '-'))
            return status_fail(
                STATUS_USAGE,
                "'%s.%s' must be of letters, digits, '-', '_' and '.', and not begin "
                "with '-'",
                where, arg->name);
        return STATUS_OK;
    case ACCEPT_ARG_PEER:
    case ACCEPT_ARG_SWITCH:
        if (json_object_get(args, arg->name) && !json_is_boolean(json_object_get(args, arg->name)))
            return status_fail(STATUS_USAGE, "'%s.%s' must be true or false", where, arg->name);
    }
    return STATUS_OK;
}

enum status accept_args_check(const struct accept_kind *kind, const json_t *args, const char *where)
{
    enum { KNOWN_MAX = 32 };
    const char *known[KNOWN_MAX + 2];
    int n = 0;
    int64_t ranks;
    char at[ACCEPT_TEXT_SIZE * 2];
    if (!args)
        return STATUS_OK;
    snprintf(at, sizeof at, "%s.args", where);
    for (const struct accept_arg *a = kind->arg; a->name && n < KNOWN_MAX; a++)
        known[n++] = a->name;
    if (kind->ranks)
        known[n++] = ranks_arg;
    known[n] = NULL;
    if (n == 0 && json_object_size(args) > 0)
        return status_fail(STATUS_USAGE, "'%s': a check of kind %s takes none", at, kind->name);
    if (n > 0)
        TRY(keys_check(args, at, known));
    for (const struct accept_arg *a = kind->arg; a->name; a++)
        TRY(check_value(a, args, at));
    return keys_count(args, at, ranks_arg, false, 1, ACCEPT_DEVICES_MAX, &ranks);
}

/* --- the command --- */

/* The output of another check's first repeat; nothing where there is none: the command does
 * without.
 */
static enum status add_output(const struct accept_arg *a, const char *check, const char *dir,
                              struct words *w)
{
    char path[ACCEPT_PATH_SIZE];
    const char *end = dir + strlen(dir);
    if (!check)
        return STATUS_OK;
    for (int up = 0; up < 2; up++) /* from <node>/checks/<check>/r<k> */
        while (end > dir && *--end != '/')
            continue;
    TRY(path_format(path, sizeof path, "%.*s/%s/r1/output.json", (int)(end - dir), dir, check));
    if (!path_exists(path))
        return STATUS_OK;
    TRY(words_add(w, "%s", a->flag));
    return words_add(w, "%s", path);
}

static enum status add_peer(const struct accept_arg *a, const char *peer, struct words *w)
{
    if (!peer)
        return STATUS_OK;
    TRY(words_add(w, "%s", a->flag));
    return words_add(w, "%s", peer);
}

static enum status add_arg(const struct accept_arg *a, const struct accept_spec *spec,
                           const json_t *args, const char *dir, struct words *w)
{
    const json_t *value = json_object_get(args, a->name);
    if (a->type == ACCEPT_ARG_PEER)
        return json_is_true(value) ? add_peer(a, spec->peer, w) : STATUS_OK;
    if (a->type == ACCEPT_ARG_OUTPUT)
        return add_output(a, json_string_value(value), dir, w);
    if (a->type == ACCEPT_ARG_SWITCH)
        return json_is_true(value) ? words_add(w, "%s", a->flag) : STATUS_OK;
    if (!value && !a->otherwise)
        return STATUS_OK;
    if (a->flag)
        TRY(words_add(w, "%s", a->flag));
    if (json_is_integer(value))
        return words_add(w, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    return words_add(w, "%s", value ? json_string_value(value) : a->otherwise);
}

/* Seconds before its end in which a command with a budget ends what it has started, and prints what
 * it has: half of a time that is short. */
enum { MARGIN_SECONDS = 15 };

/* Processes of a check: a device each, where it does not say. */
static int64_t ranks_of(const struct accept_spec *spec, const struct accept_check *check)
{
    const json_t *ranks = json_object_get(check->args, ranks_arg);
    if (!check->kind->ranks || check->device >= 0)
        return 1;
    return ranks ? json_integer_value(ranks) : spec->n_devices;
}

/* "cuda:0,1,2" */
static enum status add_gpus(const struct accept_spec *spec, struct words *w)
{
    char list[8 + 3 * ACCEPT_DEVICES_MAX] = "cuda:0";
    for (int i = 1; i < spec->n_devices; i++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, ",%d", i);
    }
    TRY(words_add(w, "--devices"));
    return words_add(w, "%s", list);
}

enum status accept_command(const struct accept_spec *spec, const struct accept_check *check,
                           const char *program, const char *dir, int64_t room_s, struct words *w)
{
    const struct accept_kind *kind = check->kind;
    int64_t ranks = ranks_of(spec, check);
    TRY(words_add(w, "%s", program));
    if (ranks > 1) {
        TRY(words_add(w, "launch"));
        TRY(words_add(w, "--nproc"));
        TRY(words_add(w, "%" PRId64, ranks));
        TRY(words_add(w, "--log-dir"));
        TRY(words_add(w, "%s/ranks", dir));
        TRY(words_add(w, "--"));
    }
    for (const char *const *word = kind->words; *word; word++)
        TRY(words_add(w, "%s", *word));
    for (const struct accept_arg *a = kind->arg; a->name; a++)
        TRY(add_arg(a, spec, check->args, dir, w));
    if (kind->on_device) {
        TRY(words_add(w, "--devices"));
        TRY(check->device < 0 ? words_add(w, "%s", spec->device)
                              : words_add(w, "%s:%d", spec->device, check->device));
    }
    if (kind->on_gpus)
        TRY(add_gpus(spec, w));
    if (kind->budget) {
        TRY(words_add(w, "%s", kind->budget));
        int64_t half = (room_s + 1) / 2;
        TRY(words_add(w, "%" PRId64, half < MARGIN_SECONDS ? half : room_s - MARGIN_SECONDS));
    }
    if (!kind->folder)
        return STATUS_OK;
    TRY(words_add(w, "--out"));
    return words_add(w, "%s/run", dir);
}
