/* Creates, writes and reads the JSON of records, with checks. For JSON files that people write by
 * hand see base/json_keys.h. A function that takes ownership of a value always releases it, even
 * after a failure. Building JSON fails only if memory runs out. The functions of this file then end
 * the process by out_of_memory(). They also do if they are given NULL, which jansson returns after
 * such a failure: calls can be nested without a check between them.
 *
 *     json_t *record = json_new("{s:s, s:i}", "bench", "peak", "threads", threads);
 *     json_put(record, "median_s", json_finite(seconds.median));
 *     TRY(json_write(record, JSON_RECORD, "%s/fit.json", dir));
 */
#pragma once

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The jansson flags for records of measurements: indented, real numbers with nine digits. */
#define JSON_RECORD (JSON_INDENT(1) | JSON_REAL_PRECISION(9))

/* The jansson flags for settings and times of day, which must read back exactly. Functions of this
 * file that write with flags without JSON_REAL_PRECISION print each real number with the fewest
 * digits that read back as the same number: 0.1, not 0.10000000000000001. */
#define JSON_EXACT JSON_INDENT(1)

/* Makes out_of_memory() end the process also where jansson itself lacks memory: most of its callers
 * could only write less than they were asked for. */
void json_memory_ends(void);

/* Creates a value as jansson's json_pack does, from s, s?, s*, i, I, f, b, n, o, o*, O, {} and [];
 * never NULL. Its texts are json_utf8's and its numbers json_finite's: what jansson refuses, as the
 * name of a file may be, is no lack of memory. */
json_t *json_new(const char *fmt, ...);

/* json_put adds a member to an object, json_add an element to a list. Both take ownership of
 * `value`. json_put_known adds a number, unless it is not finite. */
void json_put(json_t *object, const char *key, json_t *value);
void json_put_known(json_t *object, const char *key, double x);
void json_add(json_t *list, json_t *value);

/* A new list of the values that item(of, 0) to item(of, n - 1) return. */
json_t *json_list(int64_t n, json_t *(*item)(const void *of, int64_t i), const void *of);

/* A new JSON number. If `x` is not finite, a new JSON null, because JSON has no such numbers. */
json_t *json_finite(double x);

/* As json_finite, but rounds `x` to nine digits: for a measurement in a record of JSON_EXACT. */
json_t *json_measured(double x);

/* A new string: `in`, of any length. json_utf8 cleans it by text_clean if it is not UTF-8, and
 * returns NULL for NULL; text_json cleans always. */
json_t *json_utf8(const char *in);
json_t *text_json(const char *in);

/* The text or number of the member `key`. If the member is missing or of another type, json_text_at
 * returns "", json_text_or returns `otherwise`, and json_number_at returns NaN. */
const char *json_text_at(const json_t *object, const char *key);
const char *json_text_or(const json_t *object, const char *key, const char *otherwise);
double json_number_at(const json_t *object, const char *key);

/* Parses `size` bytes; `from` is their name in messages. Invalid JSON or a duplicate key is
 * STATUS_DATA, and the message names the line. The caller releases *value, which is NULL after a
 * failure. */
MUST_CHECK enum status json_parse(const char *bytes, size_t size, const char *from, json_t **value);

/* Whether `size` bytes are one complete object or array: a line that was cut off is none. */
bool json_is_complete(const char *bytes, size_t size);

/* Parses a whole file of at most `max` bytes, as json_parse does. */
MUST_CHECK enum status json_read(const char *path, size_t max, json_t **value);

/* Replaces a file (base/file.h), whose path `path` and the arguments after it make, by `value` and
 * a newline; `flags` are jansson's. Takes ownership of `value`. */
MUST_CHECK enum status json_write(json_t *value, size_t flags, const char *path, ...)
    PRINTF_LIKE(3, 4);

/* Returns the text of any value, which the caller frees; NULL if `value` is NULL. */
char *json_text(const json_t *value, size_t flags);

/* Takes ownership of `value` and returns its text with a newline and without a NUL: *size bytes
 * that the caller frees. */
char *json_line(json_t *value, size_t flags, size_t *size);

/* Prints `value` in ASCII, and a newline. Takes ownership of `value`. The caller checks the stream
 * for errors. */
void json_print(json_t *value, FILE *out, size_t flags);
