/* Reads lists of hosts. */
#include "launch/hosts.h"

#include "base/array.h"
#include "base/file.h"
#include "base/text_new.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_ipv6(const char *name)
{
    struct in6_addr address;
    return inet_pton(AF_INET6, name, &address) == 1;
}

/* A name must not begin with "-", which would make it a flag. */
static bool is_name(const char *name, size_t n)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    return n > 0 && n < HOST_NAME_SIZE && name[0] != '-' && strspn(name, letters) >= n;
}

static enum status read_slots(const char *text, int *slots)
{
    char *end;
    long n = strtol(text, &end, 10);
    if (!isdigit((unsigned char)text[0]) || *end != '\0' || n < 1 || n > HOST_SLOTS_MAX)
        return status_fail(STATUS_USAGE, "'%.300s' is not a number of slots from 1 to %d", text,
                           HOST_SLOTS_MAX);
    *slots = (int)n;
    return STATUS_OK;
}

static enum status hosts_add(struct launch_hosts *hosts, const char *name, size_t length, int slots)
{
    int most, i = 0;
    if (slots > HOST_SLOTS_MAX - launch_hosts_slots(hosts, &most))
        return status_fail(STATUS_USAGE, "the hosts have more than %d slots", HOST_SLOTS_MAX);
    while (i < hosts->n &&
           (strlen(hosts->v[i].name) != length || memcmp(hosts->v[i].name, name, length) != 0))
        i++;
    if (i == hosts->n) {
        TRY(array_reserve(&hosts->v, hosts->n));
        memcpy(hosts->v[hosts->n++].name, name, length);
    }
    hosts->v[i].slots += slots;
    return STATUS_OK;
}

/* Reads "name:slots" or "[IPv6]:slots", each also without a number, and words after it: "slots=N"
 * is the number of slots, and other attributes of Open MPI have no effect. '#' begins a comment. */
static enum status read_host(struct launch_hosts *hosts, char *text)
{
    static const char blank[] = " \t\r";
    int slots = 1;
    char *save;
    text[strcspn(text, "#")] = '\0';
    char *word = strtok_r(text, blank, &save);
    if (!word)
        return STATUS_OK;
    char *end = *word == '[' ? strchr(word, ']') : NULL, *name = word + (end != NULL);
    size_t n = end ? (size_t)(end - name) : is_ipv6(word) ? strlen(word) : strcspn(word, ":");
    const char *rest = end ? end + 1 : name + n;
    if (end)
        *end = '\0';
    if (end && (!is_ipv6(name) || (*rest && *rest != ':')))
        return status_fail(STATUS_USAGE, "'[%.300s]%.20s' is not [IPv6]:slots", name, rest);
    if (!is_ipv6(name) && !is_name(name, n))
        return status_fail(STATUS_USAGE,
                           "'%.*s' is not a host's name of letters, digits, '.', '_' and '-', nor "
                           "an address",
                           n < HOST_NAME_SIZE ? (int)n : HOST_NAME_SIZE, name);
    if (*rest)
        TRY(read_slots(rest + 1, &slots));
    while ((word = strtok_r(NULL, blank, &save))) {
        if (strncmp(word, "slots=", 6) == 0)
            TRY(read_slots(word + 6, &slots));
        else if (strncmp(word, "max_slots=", 10) != 0 && strncmp(word, "max-slots=", 10) != 0)
            return status_fail(STATUS_USAGE, "'%.300s' is not slots=N", word);
    }
    return hosts_add(hosts, name, n, slots);
}

/* Reads the parts of `text`, for example lines of the file `name`. */
static enum status read_hosts(struct launch_hosts *hosts, char *text, const char *separator,
                              const char *part, const char *name)
{
    char *host;
    for (int i = 1; (host = strsep(&text, separator)); i++) {
        enum status st = read_host(hosts, host);
        if (st == STATUS_USAGE)
            return status_context(st, "%s %d of '%.300s'", part, i, name);
        TRY(st);
    }
    return hosts->n > 0 ? STATUS_OK : status_fail(STATUS_USAGE, "'%.300s' names no host", name);
}

enum status launch_hosts_parse(struct launch_hosts *hosts, const char *list)
{
    char *copy;
    TRY(text_new(&copy, "%s", list));
    enum status st = read_hosts(hosts, copy, ",", "host", list);
    free(copy);
    return st;
}

enum status launch_hosts_read(struct launch_hosts *hosts, const char *path)
{
    enum { FILE_MAX = 1 << 22 };
    char *bytes;
    size_t size;
    TRY(file_read(path, FILE_MAX, &bytes, &size));
    bool mark = strncmp(bytes, "\xEF\xBB\xBF", 3) == 0; /* of UTF-8's byte order */
    enum status st = read_hosts(hosts, bytes + (mark ? 3 : 0), "\n", "line", path);
    free(bytes);
    return st;
}

int launch_hosts_slots(const struct launch_hosts *hosts, int *most)
{
    int slots = 0;
    *most = 0;
    for (int i = 0; i < hosts->n; i++) {
        slots += hosts->v[i].slots;
        *most = hosts->v[i].slots > *most ? hosts->v[i].slots : *most;
    }
    return slots;
}

enum status launch_hosts_word(const struct launch_hosts *hosts, bool names_only, struct words *w)
{
    struct text_stream s;
    TRY(text_stream_open(&s));
    for (int i = 0; i < hosts->n; i++) {
        const struct launch_host *h = &hosts->v[i];
        bool bare = names_only || !is_ipv6(h->name);
        fprintf(s.out, "%s%s%s%s", i > 0 ? "," : "", bare ? "" : "[", h->name, bare ? "" : "]");
        if (!names_only)
            fprintf(s.out, ":%d", h->slots);
    }
    TRY(text_stream_close(&s));
    enum status st = words_add(w, "%s", s.text);
    free(s.text);
    return st;
}

void launch_hosts_free(struct launch_hosts *hosts)
{
    free(hosts->v);
    *hosts = (struct launch_hosts){0};
}
