/* Lists the kinds of checks, and checks their arguments. */
#include "accept/accept_kind.h"

#include "base/json_keys.h"

#include <string.h>

#define COUNT(name, flag, otherwise, min, max)                                                     \
    {                                                                                              \
        name, ACCEPT_ARG_COUNT, flag, otherwise, min, max                                          \
    }
#define ARG(type, name, flag, otherwise)                                                           \
    {                                                                                              \
        name, ACCEPT_ARG_##type, flag, otherwise, 0, 0                                             \
    }

/* Arguments that several kinds take. */
#define THREADS    COUNT("threads", "--threads", NULL, 1, 1024)
#define BATCH      COUNT("batch", "-b", NULL, 1, 65536)
#define IMAGE_SIZE COUNT("image_size", "--image-size", NULL, 1, 4096)
#define ITERS      COUNT("iters", "--iters", NULL, 1, 100000)
#define ROUNDS     COUNT("rounds", "--rounds", NULL, 1, 64)
#define NET        ARG(WORD, "net", "--net", NULL)
#define PRECISION  ARG(WORD, "precision", "--precision", NULL)
#define QUICK      ARG(SWITCH, "quick", "--quick", NULL)
#define MAX_MIB    COUNT("max_mib", "--max-mib", NULL, 4, 65536)

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define ARGS(...)  ((const struct accept_arg[]){__VA_ARGS__, {0}})
#define NO_ARGS    ((const struct accept_arg[]){{0}})

/* The table of kinds; ends with an entry whose name is NULL. */
const struct accept_kind accept_kinds[] = {
    {.name = "facts",
     .about = "hardware and software of the machine: processors, memory, devices, driver",
     .words = WORDS("info", "--json"),
     .arg = NO_ARGS,
     .reading = accept_read_facts},
    {.name = "selftest",
     .about = "whether the device computes what PyTorch computes",
     .words = WORDS("selftest", "--json"),
     .arg = ARGS(QUICK, THREADS),
     .on_device = true,
     .budget = "--limit",
     .reading = accept_read_selftest},
    {.name = "determinism",
     .about = "whether a training step, repeated from the same state, gives the same bits",
     .words = WORDS("selftest", "--determinism", "--json"),
     .arg = ARGS(QUICK, COUNT("repeats", "--repeats", NULL, 2, 1000), THREADS),
     .on_device = true,
     .budget = "--limit",
     .reading = accept_read_determinism},
    {.name = "operations",
     .about = "every operation of the device's backend, compared with the reference",
     .words = WORDS("selftest", "--operations", "--json"),
     .arg = ARGS(COUNT("every", "--every", NULL, 1, 1000000), ARG(WORD, "only", "--only", NULL),
                 ARG(WORD, "without", "--without", NULL), COUNT("jobs", "--jobs", NULL, 1, 1024)),
     .on_device = true,
     .budget = "--limit",
     .reading = accept_read_operations},
    {.name = "sanitizer",
     .about = "this program's own kernels under a tool of compute-sanitizer",
     .words = WORDS("selftest", "--operations", "--json"),
     .arg =
         ARGS(ARG(WORD, "tool", "--sanitizer", "memcheck"),
              COUNT("every", "--every", NULL, 1, 1000000), COUNT("jobs", "--jobs", NULL, 1, 1024)),
     .on_device = true,
     .budget = "--limit",
     .reading = accept_read_sanitizer},
    {.name = "accuracy",
     .about = "the same training in each precision: accuracy compared with runs on a CPU",
     .words = WORDS("bench", "accuracy", "--json"),
     .arg = ARGS(ARG(LIST, "precisions", "--precisions", NULL), QUICK),
     .on_device = true,
     .work = "accuracy.json",
     .budget = "--budget",
     .reading = accept_read_accuracy},
    {.name = "throughput",
     .about = "training throughput in turns with PyTorch, by precision, batch, fusion and graphs",
     .words = WORDS("bench", "throughput", "--json"),
     .arg =
         ARGS(ARG(LIST, "rows", "--rows", NULL), ARG(LIST, "fuse", "--fuse", NULL),
              ARG(LIST, "graphs", "--graphs", NULL), NET, IMAGE_SIZE,
              COUNT("steps", "--steps", NULL, 1, 100000), ROUNDS,
              COUNT("plans", "--plans", NULL, 1, 20), ARG(SWITCH, "files", "--files", NULL),
              ARG(SWITCH, "no_compile", "--no-compile", NULL), ARG(PEER, "peer", "--peer", NULL)),
     .on_device = true,
     .work = "throughput.json",
     .resumes = true,
     .budget = "--budget",
     .reading = accept_read_throughput},
    {.name = "peak",
     .about = "GEMM throughput in each type, and memory bandwidth",
     .words = WORDS("bench", "peak", "--json"),
     .arg = ARGS(ROUNDS, MAX_MIB, THREADS),
     .on_device = true,
     .reading = accept_read_peak},
    {.name = "memory",
     .about = "STREAM's kernels in the host's memory, or copies to, from and within a device",
     .words = WORDS("bench", "memory", "--json"),
     .arg = ARGS(MAX_MIB, ITERS, THREADS),
     .on_device = true,
     .reading = accept_read_memory},
    {.name = "gpu-peers",
     .about = "copies between the memories of every two GPUs",
     .words = WORDS("bench", "memory", "--json"),
     .arg = ARGS(MAX_MIB, ITERS),
     .on_gpus = true,
     .reading = accept_read_peers},
    {.name = "step",
     .about = "a training step, timed operation by operation, and compared with the peaks",
     .words = WORDS("bench", "step", "--json"),
     .arg = ARGS(NET, BATCH, IMAGE_SIZE, ROUNDS, PRECISION, ARG(OUTPUT, "peak", "--peak", NULL),
                 THREADS),
     .on_device = true,
     .reading = accept_read_step},
    {.name = "gemm",
     .about = "the matrix products of a network",
     .words = WORDS("bench", "gemm", "--json"),
     .arg = ARGS(NET, BATCH, PRECISION, COUNT("max_gflop", "--max-gflop", NULL, 1, 1000000), ITERS,
                 THREADS),
     .on_device = true,
     .reading = accept_read_gemm},
    {.name = "optimizer",
     .about = "the optimizer's update of a network's weights: time and memory traffic",
     .words = WORDS("bench", "optimizer", "--json"),
     .arg = ARGS(NET, PRECISION, ITERS, THREADS),
     .on_device = true,
     .reading = accept_read_optimizer},
    {.name = "input",
     .about = "reading, decoding and augmenting generated images",
     .words = WORDS("bench", "input", "--json"),
     .arg = ARGS(COUNT("images", "--images", NULL, 1, 100000),
                 COUNT("size", "--size", NULL, 16, 4096), IMAGE_SIZE, BATCH, THREADS),
     .reading = accept_read_input},
    {.name = "gpu-input",
     .about = "reading, decoding and augmenting generated images, also with a GPU's JPEG engines",
     .words = WORDS("bench", "input", "--json"),
     .arg = ARGS(COUNT("images", "--images", NULL, 1, 100000),
                 COUNT("size", "--size", NULL, 16, 4096), IMAGE_SIZE, BATCH, THREADS),
     .on_device = true,
     .reading = accept_read_gpu_input},
    {.name = "conv",
     .about = "every convolution of a network",
     .words = WORDS("bench", "conv", "--json", "--no-step"),
     .arg = ARGS(NET, BATCH, IMAGE_SIZE, ROUNDS, THREADS),
     .on_device = true,
     .reading = accept_read_conv},
    {.name = "collective",
     .about = "the bandwidth of a collective by message size, in the host's memory",
     .words = WORDS("bench", "collective", "--json"),
     .arg = ARGS(ARG(WORD, "op", NULL, "allreduce"), COUNT("ranks", "--ranks", NULL, 1, 256),
                 ARG(WORD, "from", "--minbytes", NULL), ARG(WORD, "to", "--maxbytes", NULL),
                 COUNT("factor", "--stepfactor", NULL, 2, 1024), ITERS,
                 ARG(WORD, "type", "--datatype", NULL)),
     .reading = accept_read_collective},
    {.name = "gpu-collective",
     .about = "the bandwidth of a collective between all GPUs by message size",
     .words = WORDS("bench", "collective", "--json"),
     .arg =
         ARGS(ARG(WORD, "op", NULL, "allreduce"), ARG(WORD, "from", "--minbytes", NULL),
              ARG(WORD, "to", "--maxbytes", NULL), COUNT("factor", "--stepfactor", NULL, 2, 1024),
              ITERS, ARG(WORD, "type", "--datatype", NULL), ARG(WORD, "comm", "--comm", NULL)),
     .on_gpus = true,
     .reading = accept_read_collective},
    {.name = "nccl",
     .about =
         "NCCL with one GPU: opening a group, an all-reduce of right values, closing the group",
     .words = WORDS("bench", "collective", "allreduce", "--comm", "nccl", "--minbytes", "4K",
                    "--maxbytes", "64M", "--stepfactor", "128", "--json"),
     .arg = NO_ARGS,
     .on_device = true,
     .reading = accept_read_nccl},
    {.name = "train",
     .about = "training on synthetic images: throughput, loss, readings of the devices' sensors",
     .words = WORDS("train", "--dummy"),
     .arg = ARGS(ARG(WORD, "arch", "-a", NULL), PRECISION, BATCH, IMAGE_SIZE,
                 COUNT("classes", "--classes", NULL, 1, 1000000),
                 COUNT("steps", "--steps", "60", 1, 1000000000),
                 COUNT("seed", "--seed", NULL, 0, 1000000000), THREADS,
                 ARG(SWITCH, "deterministic", "--deterministic", NULL)),
     .on_device = true,
     .ranks = true,
     .folder = true,
     .reading = accept_read_train},
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

/* Whether a text is a list of words separated by ','. A word may contain the characters that
 * keys_is_name allows, and ':'. It does not begin with '-' or ':'. */
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

static enum status check_value(const struct accept_arg *arg, const json_t *args, const char *where)
{
    int64_t count;
    char word[ACCEPT_NAME_SIZE] = "", list[LIST_SIZE] = "";
    switch (arg->type) {
    case ACCEPT_ARG_COUNT:
        return keys_count(args, where, arg->name, false, arg->min, arg->max, &count);
    case ACCEPT_ARG_LIST:
        TRY(keys_text(args, where, arg->name, false, list, sizeof list));
        if (*list && !is_list(list))
            return status_fail(STATUS_USAGE,
                               "'%s.%s' must be words separated by ',', each of letters, digits, "
                               "'-', '_', '.' and ':', and none may begin with '-'",
                               where, arg->name);
        return STATUS_OK;
    case ACCEPT_ARG_WORD:
    case ACCEPT_ARG_OUTPUT:
        TRY(keys_text(args, where, arg->name, false, word, sizeof word));
        if (*word && (!keys_is_name(word) || *word == '-'))
            return status_fail(STATUS_USAGE,
                               "'%s.%s' must consist of letters, digits, '-', '_' and '.', and "
                               "must not begin with '-'",
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
        known[n++] = ACCEPT_RANKS_ARG;
    known[n] = NULL;
    if (n == 0 && json_object_size(args) > 0)
        return status_fail(STATUS_USAGE, "'%s': a check of kind %s takes no arguments", at,
                           kind->name);
    if (n > 0)
        TRY(keys_check(args, at, known));
    for (const struct accept_arg *a = kind->arg; a->name; a++)
        TRY(check_value(a, args, at));
    return keys_count(args, at, ACCEPT_RANKS_ARG, false, 1, ACCEPT_DEVICES_MAX, &ranks);
}
