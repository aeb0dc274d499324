/* Writes the generated pictures as JPEG files, with several threads. */
#include "input/synth.h"

#include "base/array.h"
#include "base/file.h"
#include "base/json.h"
#include "base/rng.h"
#include "input/workers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>
#include <jpeglib.h>

#define GENERATOR "ampscale data synth"

enum { FORMAT = 1 }; /* version of the pictures: increased when their bytes change */

static const uint64_t val_images = UINT64_C(1) << 40; /* number of the first validation image */

/* ---- one file ---- */

struct encoder {
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    jmp_buf escape;
    char reason[JMSG_LENGTH_MAX];
    struct canvas canvas;
    unsigned char *bytes; /* one file, encoded; libjpeg allocates it */
    unsigned long size;
};

static _Noreturn void on_error(j_common_ptr c)
{
    struct encoder *e = c->client_data;
    c->err->format_message(c, e->reason);
    longjmp(e->escape, 1);
}

struct look {
    bool gray, progressive, full_chroma;
    int quality;
    const char *extension;
};

static struct look choose_look(struct rng *rng)
{
    static const char *const odd[] = {".jpg", ".JPG", ".jpeg", ".Jpeg"};
    struct look look;
    look.gray = rng_below(rng, 50) == 0;
    look.progressive = rng_below(rng, 33) == 0;
    look.full_chroma = rng_below(rng, 10) == 0;
    look.quality = 84 + (int)rng_below(rng, 8);
    uint32_t extension = rng_below(rng, 60);
    look.extension = extension < 4 ? odd[extension] : ".JPEG";
    return look;
}

static void compress(struct encoder *e, const struct look *look)
{
    struct jpeg_compress_struct *jpeg = &e->jpeg;
    jpeg_create_compress(jpeg);
    jpeg_mem_dest(jpeg, &e->bytes, &e->size);
    jpeg->image_width = (JDIMENSION)e->canvas.width;
    jpeg->image_height = (JDIMENSION)e->canvas.height;
    jpeg->input_components = 3;
    jpeg->in_color_space = JCS_RGB;
    jpeg_set_defaults(jpeg);
    if (look->gray)
        jpeg_set_colorspace(jpeg, JCS_GRAYSCALE);
    if (look->full_chroma)
        jpeg->comp_info[0].h_samp_factor = jpeg->comp_info[0].v_samp_factor = 1;
    jpeg_set_quality(jpeg, look->quality, TRUE);
    if (look->progressive)
        jpeg_simple_progression(jpeg);
    jpeg_start_compress(jpeg, TRUE);
    while (jpeg->next_scanline < jpeg->image_height) {
        JSAMPROW row = e->canvas.pixels + (size_t)jpeg->next_scanline * (size_t)e->canvas.width * 3;
        jpeg_write_scanlines(jpeg, &row, 1);
    }
    jpeg_finish_compress(jpeg);
}

/* Encodes the canvas into e->bytes, which the caller frees. On failure e->bytes is NULL. */
static enum status encode(struct encoder *e, const struct look *look)
{
    e->bytes = NULL;
    e->size = 0;
    e->jpeg = (struct jpeg_compress_struct){.err = jpeg_std_error(&e->errors), .client_data = e};
    e->errors.error_exit = on_error;
    enum status st = STATUS_OK;
    if (setjmp(e->escape) == 0) {
        compress(e, look);
    } else {
        st = status_fail(STATUS_LIBRARY, "cannot encode a JPEG: %s", e->reason);
        e->bytes = NULL; /* the library may have replaced the buffer without updating the pointer */
    }
    jpeg_destroy_compress(&e->jpeg);
    return st;
}

/* Writes a file by a temporary name, which is no image; the next run removes that of a killed one.
 */
static enum status write_image(const char *path, const void *bytes, size_t size)
{
    char part[4096];
    TRY(path_temporary(path, part, sizeof part));
    FILE *f = fopen(part, "wbxe");
    bool bad = !f || fwrite(bytes, 1, size, f) != size;
    bad = (f && fclose(f) != 0) || bad;
    if (!bad && rename(part, path) == 0)
        return STATUS_OK;
    int error = errno;
    unlink(part);
    return status_fail(STATUS_IO, "cannot write '%s': %s", path, strerror(error));
}

static enum status class_folder(const struct synth_config *c, bool val, int label, char *out,
                                size_t size)
{
    char name[64];
    synth_class_name(label, name, sizeof name);
    return path_format(out, size, "%s/%s/%s", c->out, val ? "val" : "train", name);
}

static enum status make_image(struct encoder *e, const struct synth_config *c, bool val, int label,
                              int image)
{
    char folder[4096], path[4096];
    struct rng rng =
        rng_at(c->seed, RNG_SYNTH, (uint64_t)label, (val ? val_images : 0) + (uint64_t)image);
    struct look look = choose_look(&rng);
    TRY(class_folder(c, val, label, folder, sizeof folder));
    TRY(path_format(path, sizeof path, "%s/c%04d_%s%06d%s", folder, label, val ? "val_" : "", image,
                    look.extension));
    TRY(synth_draw(&e->canvas, label, c->size, &rng));
    enum status st = encode(e, &look);
    st = st == STATUS_OK ? write_image(path, e->bytes, e->size) : st;
    free(e->bytes);
    return st;
}

/* ---- all files ---- */

static enum status open_encoder(void *context, void **own)
{
    struct encoder *e;
    (void)context;
    TRY(array_new(&e, 1));
    *own = e;
    return STATUS_OK;
}

static void close_encoder(void *own)
{
    struct encoder *e = own;
    canvas_free(&e->canvas);
    free(e);
}

static enum status make_numbered(void *context, void *own, int64_t i)
{
    const struct synth_config *c = context;
    int per_class = c->train + c->val;
    int image = (int)(i % per_class), label = (int)(i / per_class);
    bool val = image >= c->train;
    if (c->proceed)
        TRY(c->proceed());
    return make_image(own, c, val, label, val ? image - c->train : image);
}

/* ---- the folder ---- */

static enum status write_manifest(const struct synth_config *c, bool complete)
{
    json_t *json =
        json_new("{s:s, s:i, s:b, s:i, s:i, s:i, s:i, s:I}", "generator", GENERATOR, "format",
                 (int)FORMAT, "complete", (int)complete, "classes", c->classes, "train_per_class",
                 c->train, "val_per_class", c->val, "size", c->size, "seed", (json_int_t)c->seed);
    return json_write(json, JSON_INDENT(2), "%s/dataset.json", c->out);
}

static bool folder_is_empty(const char *path)
{
    DIR *dir = opendir(path);
    bool empty = true;
    struct dirent *e;
    while (dir && empty && (e = readdir(dir)) != NULL)
        empty = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0;
    if (dir)
        closedir(dir);
    return empty;
}

struct manifest {
    int complete, format, classes, train, val, size;
    uint64_t seed;
};

/* Reads a manifest. STATUS_USAGE when this generator did not write it. */
static enum status read_manifest(const char *path, struct manifest *m)
{
    char *text = NULL;
    size_t size;
    TRY(file_read(path, 65536, &text, &size));
    json_t *json = json_loadb(text, size, 0, NULL);
    free(text);
    const char *generator = "";
    json_int_t seed = 0;
    bool ours = json &&
                json_unpack(json, "{s:s, s:i, s:b, s:i, s:i, s:i, s:i, s:I}", "generator",
                            &generator, "format", &m->format, "complete", &m->complete, "classes",
                            &m->classes, "train_per_class", &m->train, "val_per_class", &m->val,
                            "size", &m->size, "seed", &seed) == 0 &&
                strcmp(generator, GENERATOR) == 0;
    m->seed = (uint64_t)seed;
    json_decref(json);
    if (!ours)
        return status_fail(STATUS_USAGE,
                           "'%s' was not written by '" GENERATOR "'; choose another folder", path);
    return STATUS_OK;
}

/* Fails if the folder has a data set that this generator made with another configuration. */
static enum status check_manifest(const struct synth_config *c, const char *path)
{
    struct manifest m;
    TRY(read_manifest(path, &m));
    if (m.format == FORMAT && m.classes == c->classes && m.train == c->train && m.val == c->val &&
        m.size == c->size && m.seed == c->seed)
        return STATUS_OK;
    return status_fail(STATUS_USAGE,
                       "'%s' holds a synthetic data set with other settings (--classes %d --train "
                       "%d --val %d --size %d --seed %" PRIu64
                       "); remove it first or choose another folder",
                       c->out, m.classes, m.train, m.val, m.size, m.seed);
}

enum status synth_check_complete(const char *dir)
{
    char path[4096];
    struct manifest m;
    bool exists;
    TRY(path_format(path, sizeof path, "%s/dataset.json", dir));
    TRY(path_look(path, &exists));
    enum status st = exists ? read_manifest(path, &m) : STATUS_USAGE;
    if (st != STATUS_OK || m.complete)
        return st == STATUS_IO ? st : STATUS_OK; /* not of this generator */
    return status_fail(STATUS_DATA,
                       "'" GENERATOR "' was interrupted while it wrote '%s'; run it again", dir);
}

static enum status check_folder(const struct synth_config *c)
{
    char manifest[4096];
    bool exists;
    TRY(path_format(manifest, sizeof manifest, "%s/dataset.json", c->out));
    TRY(path_look(manifest, &exists));
    if (exists)
        return check_manifest(c, manifest);
    atomic_file_sweep(c->out); /* a killed call may have left its temporary */
    if (!c->force && !folder_is_empty(c->out))
        return status_fail(STATUS_USAGE,
                           "'%s' is not empty and has no synthetic data set; choose another folder "
                           "or give --force",
                           c->out);
    return STATUS_OK;
}

/* Syncs all files to disk. Called before the manifest is marked as complete. */
static enum status sync_folder(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool bad = fd < 0 || syncfs(fd) != 0;
    int error = errno;
    fd_close(&fd);
    return bad ? status_fail(STATUS_IO, "cannot write to '%s': %s", path, strerror(error))
               : STATUS_OK;
}

enum status synth_write(const struct synth_config *c)
{
    if (c->classes < 1 || c->classes > SYNTH_MAX_CLASSES || c->train < 1 || c->val < 1 ||
        c->workers < 1 || c->size < SYNTH_MIN_SIZE || c->size > SYNTH_MAX_SIZE)
        return status_fail(STATUS_INVALID, "the settings of a synthetic data set are out of range");
    TRY(check_folder(c));
    TRY(dir_make(c->out));
    TRY(write_manifest(c, false));
    char folder[4096];
    for (int label = 0; label < c->classes; label++) {
        for (int val = 0; val < 2; val++) {
            TRY(class_folder(c, val, label, folder, sizeof folder));
            TRY(dir_make(folder));
            atomic_file_sweep(folder);
        }
    }
    struct synth_config shared = *c;
    struct worker_job job = {
        .total = (int64_t)c->classes * (c->train + c->val),
        .workers = c->workers,
        .bar = c->bar,
        .context = &shared,
        .open = open_encoder,
        .run = make_numbered,
        .close = close_encoder,
    };
    TRY(workers_run(&job));
    TRY(sync_folder(c->out));
    return write_manifest(c, true);
}
