/* Reading the description of a GPU. */
#include "described_gpu.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static enum status set_props(struct cudnn_desc *props, const char *text)
{
    int64_t size = (int64_t)strlen(text) + 1; /* the library counts the final NUL */
    TRY(DESC_CREATE(props, DEVICEPROP));
    TRY(DESC_SET(props, DEVICEPROP_JSON_REPRESENTATION, CHAR, size, text));
    return cudnn_desc_finalize(props);
}

void described_gpu_open(const char *name, struct cudnn_device *dev)
{
    char path[4096], text[4096] = "";
    json_error_t e;
    snprintf(path, sizeof path, GPU_FOLDER "/%s.json", name);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_in_range(fread(text, 1, sizeof text, f), 1, sizeof text - 1);
    fclose(f);
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &e);
    assert_non_null(root);
    *dev = (struct cudnn_device){0};
    dev->sm = (int)json_integer_value(json_object_get(root, "deviceVer")) / 10; /* 900 is 9.0 */
    const char *full = json_string_value(json_object_get(root, "deviceName"));
    assert_non_null(full);
    snprintf(dev->name, sizeof dev->name, "%s", full);
    json_decref(root);
    assert_int_equal(set_props(&dev->props, text), STATUS_OK);
}

void described_gpu_close(struct cudnn_device *dev)
{
    cudnn_desc_destroy(&dev->props);
}
