/* Makes, writes and reads the JSON of records, with checks. (Files that people write by hand:
 * base/json_keys.h.) A function that takes over a value always releases it, also after a failure.
 * It returns STATUS_OOM for NULL, which jansson returns if memory is short: so calls can be nested.
 *
 *     TRY(json_new(&record, "{s:s, s:i}", "bench", "peak", "threads", threads));
 *     CHECK(json_put(record, "median_s", json_finite(seconds.median)));
 *     CHECK(json_write(json_incref(record), path, JSON_RECORD));
 */
#pragma once

#include "base/status.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* How most records are written: indented, nine digits. */
#define JSON_RECORD (JSON_INDENT(1) | JSON_REAL_PRECISION(9))

/* jansson's json_pack; *value is NULL after a failure. */
MUST_CHECK enum status json_new(json_t **value, const char *fmt, ...);

/* Adds a member or an element; both take over `value`. */
MUST_CHECK enum status json_put(json_t *object, const char *key, json_t *value);
MUST_CHECK enum status json_add(json_t *list, json_t *value);

/* A new list of the values item(of, 0) to item(of, n - 1); NULL if one of these is NULL. */
json_t *json_list(int64_t n, json_t *(*item)(const void *of, int64_t i), const void *of);

/* Returns `list` if it has `n` elements. If not, memory was short: releases it and returns NULL. */
json_t *json_whole(json_t *list, int64_t n);

/* A new number; null if it is not finite, which JSON cannot represent. */
json_t *json_finite(double x);

/* A new string: `in`, of any length, cleaned by text_clean. */
json_t *text_json(const char *in);

/* A member's text or number. If the member is missing or of another type, the three functions
 * return "", `otherwise` and NaN. */
const char *json_text_at(const json_t *object, const char *key);
const char *json_text_or(const json_t *object, const char *key, const char *otherwise);
double json_number_at(const json_t *object, const char *key);

/* Parses `size` bytes; `from` is their name in messages. STATUS_DATA, with the line, for invalid
 * JSON and for a duplicate key. The caller releases *value, which is NULL after a failure. */
MUST_CHECK enum status json_parse(const char *bytes, size_t size, const char *from, json_t **value);

/* Parses a whole file of at most `max` bytes, as json_parse does. */
MUST_CHECK enum status json_read(const char *path, size_t max, json_t **value);

/* Replaces the file `path` (base/file.h) by `value` and a newline; `flags` are jansson's. Takes
 * `value` over. */
MUST_CHECK enum status json_write(json_t *value, const char *path, size_t flags);

/* Takes over `value` and returns its text with a newline and without a NUL: `size` bytes that the
 * caller frees; NULL when memory is short. */
char *json_line(json_t *value, size_t flags, size_t *size);

/* Prints `value` in ASCII and a newline; takes `value` over. The caller checks the stream for
 * errors. */
MUST_CHECK enum status json_print(json_t *value, FILE *out, size_t flags);
