/* Reads lists of hosts. */
#include "launch/hosts.h"

#include "base/array.h"
#include "base/file.h"
#include "base/text_new.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Whether a host's name has only letters, digits, ".", "_" and "-", and does not begin with "-",
 * which would make it a flag. */
static bool name_ok(const char *name, size_t n)
{
    if (n == 0 || n >= HOST_NAME_SIZE || name[0] == '-')
        return false;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)name[i]) && !strchr("._-", name[i]))
            return false;
    return true;
}

static bool read_slots(const char *text, int *slots)
{
    char *end;
    long n = strtol(text, &end, 10);
    if (!isdigit((unsigned char)text[0]) || *end != '\0' || n < 1 || n > HOST_SLOTS_MAX)
        return false;
    *slots = (int)n;
    return true;
}

static enum status hosts_add(struct launch_hosts *hosts, const char *name, size_t length, int slots)
{
    if (slots > HOST_SLOTS_MAX - launch_hosts_slots(hosts))
        return status_fail(STATUS_USAGE, "the hosts have more than %d slots", HOST_SLOTS_MAX);
    for (int i = 0; i < hosts->n; i++) {
        struct launch_host *h = &hosts->v[i];
        if (strlen(h->name) == length && memcmp(h->name, name, length) == 0) {
            h->slots += slots;
            return STATUS_OK;
        }
    }
    TRY(array_reserve(&hosts->v, hosts->n));
    struct launch_host *h = &hosts->v[hosts->n++];
    h->slots = slots;
    memcpy(h->name, name, length);
    return STATUS_OK;
}

/* Splits "name" or "name:slots". If there is no number, *slots is unchanged. */
static bool split(const char *word, size_t *length, int *slots)
{
    *length = strcspn(word, ":");
    return name_ok(word, *length) &&
           (word[*length] == '\0' || read_slots(word + *length + 1, slots));
}

enum status launch_hosts_parse(struct launch_hosts *hosts, const char *list)
{
    char *copy, *rest, *word;
    enum status st = STATUS_OK;
    TRY(text_new(&copy, "%s", list));
    rest = copy;
    while ((word = strsep(&rest, ","))) {
        size_t length;
        int slots = 1;
        if (!split(word, &length, &slots)) {
            st = status_fail(STATUS_USAGE, "host '%.300s': give hosts as 'name:slots,name:slots'",
                             word);
            goto done;
        }
        CHECK(hosts_add(hosts, word, length, slots));
    }
done:
    free(copy);
    return st;
}

/* Reads a word after a host's name. Uses "slots=N", the number of slots, and ignores other
 * attributes. */
static bool read_attribute(const char *word, int *slots)
{
    if (strncmp(word, "slots=", 6) == 0)
        return read_slots(word + 6, slots);
    return strncmp(word, "max_slots=", 10) == 0 || strncmp(word, "max-slots=", 10) == 0;
}

static enum status read_line(struct launch_hosts *hosts, char *line, const char *path, int number)
{
    static const char blank[] = " \t\r";
    size_t length;
    int slots = 1;
    char *save, *name;
    line[strcspn(line, "#")] = '\0';
    name = strtok_r(line, blank, &save);
    if (!name)
        return STATUS_OK;
    bool ok = split(name, &length, &slots);
    for (char *word; ok && (word = strtok_r(NULL, blank, &save));)
        ok = read_attribute(word, &slots);
    if (!ok)
        return status_fail(STATUS_USAGE,
                           "line %d of '%s' names no host; write 'name slots=N' or 'name:N'",
                           number, path);
    return hosts_add(hosts, name, length, slots);
}

enum status launch_hosts_read(struct launch_hosts *hosts, const char *path)
{
    enum { FILE_MAX = 1 << 22 };
    char *bytes, *rest, *line;
    size_t size;
    enum status st = STATUS_OK;
    TRY(file_read(path, FILE_MAX, &bytes, &size));
    rest = bytes;
    for (int number = 1; (line = strsep(&rest, "\n")); number++)
        CHECK(read_line(hosts, line, path, number));
    if (hosts->n == 0)
        st = status_fail(STATUS_USAGE, "'%s' names no host", path);
done:
    free(bytes);
    return st;
}

int launch_hosts_slots(const struct launch_hosts *hosts)
{
    int slots = 0;
    for (int i = 0; i < hosts->n; i++)
        slots += hosts->v[i].slots;
    return slots;
}

int launch_hosts_most(const struct launch_hosts *hosts)
{
    int most = 0;
    for (int i = 0; i < hosts->n; i++)
        most = hosts->v[i].slots > most ? hosts->v[i].slots : most;
    return most;
}

enum status launch_hosts_word(const struct launch_hosts *hosts, bool names_only, struct words *w)
{
    struct text_stream s;
    TRY(text_stream_open(&s));
    for (int i = 0; i < hosts->n; i++) {
        fprintf(s.out, "%s%s", i > 0 ? "," : "", hosts->v[i].name);
        if (!names_only)
            fprintf(s.out, ":%d", hosts->v[i].slots);
    }
    TRY(text_stream_close(&s));
    enum status st = words_add(w, "%s", s.text);
    free(s.text);
    return st;
}

static bool is_this_machine(const char *host)
{
    char own[HOST_NAME_SIZE] = "";
    return strcmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 ||
           (gethostname(own, sizeof own - 1) == 0 && strcmp(host, own) == 0);
}

enum status launch_host_command(const char *host, int seconds, const struct words *command,
                                struct words *w)
{
    char *line;
    enum status st;
    TRY(words_shell(command, &line));
    if (is_this_machine(host)) {
        CHECK(words_add_all(w, "sh", "-c", line, NULL));
    } else {
        CHECK(words_add_all(w, "ssh", "-o", "BatchMode=yes", NULL));
        CHECK(words_add_flag(w, "-o", "ConnectTimeout=%d", seconds));
        CHECK(words_add_all(w, "-o", "ServerAliveInterval=10", "--", host, line, NULL));
    }
done:
    free(line);
    return st;
}

void launch_hosts_free(struct launch_hosts *hosts)
{
    free(hosts->v);
    *hosts = (struct launch_hosts){0};
}
