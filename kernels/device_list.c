/* Opens one device by its name, parses --devices, and chooses the algorithm of convolutions. */
#include "kernels/device_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum status device_open(const char *spec, int threads, struct device **dev)
{
    *dev = NULL;
    char name[16];
    int index = 0, used = 0;
    if (sscanf(spec, "%15[a-z]%n", name, &used) != 1)
        return status_fail(STATUS_USAGE, "'%s' is not a device; use cpu, cpu:0, ref or cuda:0",
                           spec);
    const char *rest = spec + used;
    if (*rest != '\0') {
        char *end;
        long v = rest[0] == ':' ? strtol(rest + 1, &end, 10) : -1;
        if (v < 0 || v > 1023 || rest[1] == '\0' || *end != '\0')
            return status_fail(STATUS_USAGE, "'%s' is not a device; use cpu, cpu:0, ref or cuda:0",
                               spec);
        index = (int)v;
    }
    const struct backend *b;
    TRY(backend_find(name, &b));
    return b->open(b, index, threads, dev);
}

const char *conv_algorithm_str(enum conv_algorithm a)
{
    static const char *const words[] = {"auto", "direct", "winograd"};
    return words[a];
}

enum status device_choose_conv(struct device *dev, enum conv_algorithm a, enum dtype operand)
{
    if (a != CONV_AUTO && dev->backend != &backend_cpu)
        return status_fail(STATUS_USAGE,
                           "--conv-algorithm %s needs a CPU, not the device '%s'; leave it out",
                           conv_algorithm_str(a), dev->backend->name);
    if (a == CONV_WINOGRAD && operand != DTYPE_F32)
        return status_fail(STATUS_USAGE, "--conv-algorithm winograd needs --precision fp32: other "
                                         "precisions convolve directly; leave it out");
    dev->conv_algorithm = a;
    return STATUS_OK;
}

static enum status not_devices(const char *text)
{
    return status_fail(
        STATUS_USAGE,
        "'%s' is not a list of devices; use cpu, cpu:2 (2 CPU devices) or cuda:0,1 (GPUs 0, 1)",
        text);
}

/* Reads a number of at most 4 digits and moves *at to its end. Returns -1 if there is no number. */
static int number(const char **at)
{
    int v = 0, digits = 0;
    while (**at >= '0' && **at <= '9' && digits < 4) {
        v = 10 * v + *(*at)++ - '0';
        digits++;
    }
    return digits ? v : -1;
}

static enum status count_them(const char *text, const char *rest, struct device_list *list)
{
    list->n = *rest ? number(&rest) : 1;
    if (list->n < 1 || *rest)
        return not_devices(text);
    if (list->n > DEVICES_MAX)
        return status_fail(STATUS_USAGE, "'%s': one process has at most %d devices", text,
                           DEVICES_MAX);
    for (int i = 0; i < list->n; i++)
        list->index[i] = i;
    return STATUS_OK;
}

static enum status number_them(const char *text, const char *rest, struct device_list *list)
{
    list->n = 1;
    if (!*rest)
        return STATUS_OK;
    list->numbered = true;
    for (list->n = 0;; rest++) {
        int v = number(&rest);
        if (v < 0)
            return not_devices(text);
        for (int i = 0; i < list->n; i++)
            if (list->index[i] == v)
                return status_fail(STATUS_USAGE, "'%s' names device %d twice", text, v);
        if (list->n == DEVICES_MAX)
            return status_fail(STATUS_USAGE, "'%s': one process has at most %d devices", text,
                               DEVICES_MAX);
        list->index[list->n++] = v;
        if (*rest != ',')
            return *rest ? not_devices(text) : STATUS_OK;
    }
}

enum status device_list_parse(const char *text, struct device_list *list)
{
    char name[16];
    *list = (struct device_list){0};
    size_t length = strcspn(text, ":");
    if (length == 0 || length >= sizeof name || (text[length] && !text[length + 1]))
        return not_devices(text);
    memcpy(name, text, length);
    name[length] = '\0';
    const char *rest = text + length + (text[length] == ':');
    TRY(backend_find(name, &list->backend));
    return strcmp(name, "cuda") == 0 ? number_them(text, rest, list) : count_them(text, rest, list);
}
