/* Creates, writes and reads the JSON of records. */
#include "base/json.h"

#include "base/file.h"
#include "base/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static void *memory_or_end(size_t size)
{
    void *memory = malloc(size);
    return memory ? memory : (out_of_memory(), NULL);
}

void json_memory_ends(void)
{
    json_set_alloc_funcs(memory_or_end, free);
}

/* A format of json_new, read up to `at`, and the arguments that are left. */
struct packing {
    const char *at;
    va_list args;
};

static json_t *pack_value(struct packing *p);

static char next_sign(struct packing *p)
{
    p->at += strspn(p->at, " ,:");
    return *p->at++;
}

static json_t *pack_object(struct packing *p)
{
    json_t *object = json_object();
    while (next_sign(p) != '}') {
        const char *key = va_arg(p->args, const char *);
        json_t *value = pack_value(p);
        bool may_lack = *p->at == '*', or_null = *p->at == '?';
        p->at += may_lack || or_null;
        if (value || !may_lack)
            json_put(object, key, value || !or_null ? value : json_null());
    }
    return object;
}

static json_t *pack_list(struct packing *p)
{
    json_t *list = json_array();
    for (; *p->at != ']'; p->at += strspn(p->at, " ,"))
        json_add(list, pack_value(p));
    p->at++;
    return list;
}

static json_t *pack_value(struct packing *p)
{
    switch (next_sign(p)) {
    case '{':
        return pack_object(p);
    case '[':
        return pack_list(p);
    case 's':
        return json_utf8(va_arg(p->args, const char *));
    case 'i':
        return json_integer(va_arg(p->args, int));
    case 'I':
        return json_integer(va_arg(p->args, json_int_t));
    case 'f':
        return json_finite(va_arg(p->args, double));
    case 'b':
        return json_boolean(va_arg(p->args, int));
    case 'n':
        return json_null();
    case 'O':
        return json_incref(va_arg(p->args, json_t *));
    default: /* 'o' */
        return va_arg(p->args, json_t *);
    }
}

json_t *json_new(const char *fmt, ...)
{
    struct packing p = {.at = fmt};
    va_start(p.args, fmt);
    json_t *value = pack_value(&p);
    va_end(p.args);
    return value ? value : (out_of_memory(), NULL);
}

void json_put(json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new(object, key, value) != 0)
        out_of_memory();
}

void json_put_known(json_t *object, const char *key, double x)
{
    if (isfinite(x))
        json_put(object, key, json_real(x));
}

void json_add(json_t *list, json_t *value)
{
    if (json_array_append_new(list, value) != 0)
        out_of_memory();
}

json_t *json_list(int64_t n, json_t *(*item)(const void *of, int64_t i), const void *of)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < n; i++)
        json_add(list, item(of, i));
    return list;
}

json_t *json_finite(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

json_t *json_measured(double x)
{
    char text[32];
    snprintf(text, sizeof text, "%.9g", x);
    return isfinite(x) ? json_real(strtod(text, NULL)) : json_null();
}

json_t *json_utf8(const char *in)
{
    json_t *string = json_string(in);
    return string || !in ? string : text_json(in);
}

json_t *text_json(const char *in)
{
    size_t size = strlen(in) + 1;
    char *clean = malloc(size);
    if (!clean)
        out_of_memory();
    text_clean(clean, size, in);
    json_t *string = json_string(clean);
    free(clean);
    return string;
}

const char *json_text_or(const json_t *object, const char *key, const char *otherwise)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : otherwise;
}

const char *json_text_at(const json_t *object, const char *key)
{
    return json_text_or(object, key, "");
}

double json_number_at(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

enum status json_parse(const char *bytes, size_t size, const char *from, json_t **value)
{
    json_error_t error;
    *value = json_loadb(bytes, size, JSON_REJECT_DUPLICATES, &error);
    return *value ? STATUS_OK
                  : status_fail(STATUS_DATA, "'%s' line %d: not valid JSON: %s", from, error.line,
                                error.text);
}

bool json_is_complete(const char *bytes, size_t size)
{
    json_t *value = json_loadb(bytes, size, 0, NULL);
    json_decref(value);
    return value != NULL;
}

enum status json_read(const char *path, size_t max, json_t **value)
{
    char *bytes;
    size_t size;
    *value = NULL;
    TRY(file_read(path, max, &bytes, &size));
    enum status st = json_parse(bytes, size, path, value);
    free(bytes);
    return st;
}

/* Writes the number in `token`, which jansson printed with 17 digits, in fewer digits if they read
 * back as the same number. Returns the new length. */
static size_t number_shorten(char *token, size_t n)
{
    char was[64], text[64];
    if (n >= sizeof was)
        return n;
    memcpy(was, token, n);
    was[n] = '\0';
    double x = strtod(was, NULL);
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*e", digits - 1, x);
        if (strtod(text, NULL) != x)
            continue;
        /* jansson prints the digits that are known to suffice in its own form: 0.1, 1e-5. The
         * digits before the point are needed too: 700.0, not 7e2. */
        int exponent = atoi(strchr(text, 'e') + 1);
        if (exponent < 17 && digits <= exponent)
            digits = exponent + 1;
        json_t *real = json_real(x);
        char *shorter = json_dumps(real, JSON_ENCODE_ANY | JSON_REAL_PRECISION(digits));
        json_decref(real);
        if (shorter && strlen(shorter) < n) {
            n = strlen(shorter);
            memcpy(token, shorter, n);
        }
        free(shorter);
        break;
    }
    return n;
}

/* Shortens every real number of a JSON text in place; leaves whole numbers and strings alone. */
static void numbers_shorten(char *text)
{
    char *to = text;
    bool quoted = false;
    for (const char *from = text; *from;) {
        size_t n = quoted ? 0 : strspn(from, "+-.0123456789eE");
        if (n > 0 && *from != 'e') { /* not the 'e' of true or false */
            memmove(to, from, n);
            to += memchr(to, '.', n) || memchr(to, 'e', n) ? number_shorten(to, n) : n;
            from += n;
            continue;
        }
        quoted = quoted != (*from == '"');
        if (quoted && *from == '\\')
            *to++ = *from++;
        *to++ = *from++;
    }
    *to = '\0';
}

char *json_text(const json_t *value, size_t flags)
{
    bool exact = (flags & JSON_REAL_PRECISION(0x1F)) == 0;
    char *text = value ? json_dumps(value, flags) : NULL;
    if (value && !text)
        out_of_memory();
    if (text && exact)
        numbers_shorten(text);
    return text;
}

char *json_line(json_t *value, size_t flags, size_t *size)
{
    char *text = json_text(value, flags);
    if (!text)
        out_of_memory();
    json_decref(value);
    *size = strlen(text) + 1;
    text[*size - 1] = '\n'; /* the newline replaces the NUL */
    return text;
}

enum status json_write(json_t *value, size_t flags, const char *path, ...)
{
    size_t size;
    char *text = json_line(value, flags, &size), *name;
    va_list ap;
    va_start(ap, path);
    if (vasprintf(&name, path, ap) < 0)
        out_of_memory();
    va_end(ap);
    enum status st = file_replace(name, text, size);
    free(name);
    free(text);
    return st;
}

void json_print(json_t *value, FILE *out, size_t flags)
{
    size_t size;
    char *text = json_line(value, flags | JSON_ENSURE_ASCII, &size);
    fwrite(text, 1, size, out);
    free(text);
}
