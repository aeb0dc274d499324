/* Runs commands of ampscale on randomly damaged files, in child processes:
 *
 *     hostile CASES SEED FOLDER SCRATCH FILES COMMAND ARG...
 *
 * Repeats CASES times: copies FOLDER to SCRATCH/case, damages FILES files there, runs "ampscale
 * COMMAND ARG..." there, and checks how it ends. The variable HOSTILE_NAMES limits the damage to
 * files whose names begin with one of its words. A child is a finding if it crashes, hangs, is
 * stopped by a sanitizer, exits with an undocumented code, fails without a message, or prints
 * control characters. Its folder is kept as SCRATCH/finding-N. Prints "CASES FILES FINDINGS" and
 * the number of children for each exit code.
 *
 * Children are forked without exec, because a program with sanitizers starts slowly. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

int ampscale_main(int argc, char **argv); /* cli/main.c */

enum {
    LIMIT_S = 120,
    CODES = 6,
    PATHS_MAX = 4096,
    GROWTH = 4096, /* maximum growth of a damaged file, in bytes */
    SAID_MAX = 1 << 16,
};

static char *path[PATHS_MAX]; /* paths of the files that may be damaged */
static int n_paths;
static uint64_t state;

static uint32_t draw(uint32_t below)
{
    uint64_t x = state += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)((x ^ (x >> 31)) % below);
}

/* --- folders --- */

static void die(const char *what)
{
    fprintf(stderr, "hostile: %s: %s\n", what, strerror(errno));
    exit(99);
}

static int remove_one(const char *p, const struct stat *s, int type, struct FTW *at)
{
    (void)s, (void)type, (void)at;
    return remove(p);
}

static void copy_file(const char *from, const char *to)
{
    char bytes[65536];
    int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    ssize_t n;
    if (in < 0 || out < 0)
        die(to);
    while ((n = read(in, bytes, sizeof bytes)) > 0)
        if (write(out, bytes, (size_t)n) != n)
            die(to);
    close(in);
    close(out);
}

static bool may_damage(const char *name)
{
    const char *names = getenv("HOSTILE_NAMES");
    char words[512], *rest = words, *word;
    if (!names)
        return true;
    snprintf(words, sizeof words, "%s", names);
    while ((word = strsep(&rest, " ")))
        if (strncmp(name, word, strlen(word)) == 0)
            return true;
    return false;
}

static const char *copy_from, *copy_to;

static int copy_one(const char *p, const struct stat *s, int type, struct FTW *at)
{
    char to[4096];
    snprintf(to, sizeof to, "%s%s", copy_to, p + strlen(copy_from));
    if (type == FTW_D && mkdir(to, 0777) != 0)
        die(to);
    if (type == FTW_F)
        copy_file(p, to);
    if (type == FTW_F && s->st_size > 0 && may_damage(p + at->base) && n_paths < PATHS_MAX)
        path[n_paths++] = strdup(to);
    return 0;
}

static void copy_folder(const char *from, const char *to)
{
    while (n_paths > 0)
        free(path[--n_paths]);
    copy_from = from;
    copy_to = to;
    if (nftw(to, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0 && errno != ENOENT)
        die(to);
    if (nftw(from, copy_one, 16, FTW_PHYS) != 0)
        die(from);
}

/* --- damage --- */

static const char *const token[] = {"null",
                                    "true",
                                    "{}",
                                    "[]",
                                    "\"\"",
                                    "-1",
                                    "0",
                                    "1e999",
                                    "-1e308",
                                    "1e-320",
                                    "NaN",
                                    "Infinity",
                                    "9223372036854775807",
                                    "-9223372036854775808",
                                    "18446744073709551616",
                                    "4294967296",
                                    "2147483648",
                                    "0.1",
                                    "\"\\u0000\"",
                                    "\"\\u001b[2J\"",
                                    "\"\\u202e\"",
                                    "\"../../../etc/passwd\"",
                                    "\"=1+1\"",
                                    "\"<script>alert(1)</script>\"",
                                    "\"%s%n%d\"",
                                    "\"a\\\"b\"",
                                    "{\"schema\": 1}",
                                    "[[[[[[[[[[[[[[[[",
                                    "\xff\xfe",
                                    "\xed\xa0\x80",
                                    "\x1b]0;x\x07",
                                    ",,,,",
                                    "\r\n",
                                    "slots=99999999999",
                                    "a:0",
                                    "-x:2"};

struct text {
    char *bytes;
    size_t n, room;
};

static void cut(struct text *t, size_t at, size_t n)
{
    memmove(t->bytes + at, t->bytes + at + n, t->n - at - n);
    t->n -= n;
}

static void put(struct text *t, size_t at, const char *bytes, size_t n)
{
    if (t->n + n > t->room)
        return;
    memmove(t->bytes + at + n, t->bytes + at, t->n - at);
    memcpy(t->bytes + at, bytes, n);
    t->n += n;
}

/* Replaces the number or the quoted string at `at` by another. The file stays well-formed. */
static void replace_value(struct text *t, size_t at)
{
    static const char *const number[] = {"0",
                                         "1",
                                         "-1",
                                         "2",
                                         "3",
                                         "1e999",
                                         "-1e308",
                                         "1e-320",
                                         "0.1",
                                         "9223372036854775807",
                                         "-9223372036854775808",
                                         "4294967296",
                                         "2147483648",
                                         "1e30",
                                         "65536",
                                         "null"};
    static const char *const string[] = {"\"\"",
                                         "\"\\u001b[2J\"",
                                         "\"\\u202e\"",
                                         "\"../../../etc/passwd\"",
                                         "\"=1+1\"",
                                         "\"<script>alert(1)</script>\"",
                                         "\"%s%n%d\"",
                                         "\"a\\\"b|c,d;e\"",
                                         "\"resnet18\"",
                                         "\"2024-99-99T99:99:99Z\"",
                                         "7",
                                         "null",
                                         "[]",
                                         "{}"};
    while (at < t->n && !strchr("0123456789-\"", t->bytes[at]))
        at++;
    if (at == t->n)
        return;
    size_t end = at;
    bool is_string = t->bytes[at] == '"';
    const char *value = is_string ? string[draw(sizeof string / sizeof *string)]
                                  : number[draw(sizeof number / sizeof *number)];
    if (is_string) {
        const char *quote = memchr(t->bytes + at + 1, '"', t->n - at - 1);
        end = quote ? (size_t)(quote + 1 - t->bytes) : at + 1;
        while (end < t->n && t->bytes[end] == ' ')
            end++;
        /* if the token is a key, replaces the key's value instead */
        if (end < t->n && t->bytes[end] == ':' && draw(8) > 0) {
            replace_value(t, end);
            return;
        }
    }
    while (!is_string && end < t->n && strchr("0123456789-+.eE", t->bytes[end]))
        end++;
    cut(t, at, end - at);
    put(t, at, value, strlen(value));
}

static void damage_once(struct text *t, bool gently)
{
    size_t at = draw((uint32_t)t->n), n = 1 + draw(64), from = draw((uint32_t)t->n);
    const char *word = token[draw(sizeof token / sizeof *token)];
    char copy[64];
    if (draw(3) == 0 && at > 512) /* damages headers more often */
        at %= 512;
    if (n > t->n - at)
        n = t->n - at;
    switch (gently ? 9 : draw(9)) {
    case 0:
        t->bytes[at] = (char)(t->bytes[at] ^ 1 << draw(8));
        break;
    case 1:
        t->bytes[at] = (char)draw(256);
        break;
    case 2:
        t->n = at;
        break;
    case 3:
        cut(t, at, n);
        break;
    case 4:
        n = n < t->n - from ? n : t->n - from;
        memcpy(copy, t->bytes + from, n);
        put(t, at, copy, n);
        break;
    case 5:
        put(t, at, word, strlen(word));
        break;
    case 6:
        memset(t->bytes + at, (int)draw(256), n);
        break;
    default:
        replace_value(t, at);
    }
}

static void damage(const char *file)
{
    struct stat s;
    int fd = open(file, O_RDWR);
    if (fd < 0 || fstat(fd, &s) != 0)
        die(file);
    struct text t = {.room = (size_t)s.st_size + GROWTH, .n = (size_t)s.st_size};
    t.bytes = malloc(t.room);
    if (!t.bytes || pread(fd, t.bytes, t.n, 0) != (ssize_t)t.n)
        die(file);
    bool gently = draw(2) == 0;
    for (int i = 1 + (int)draw(3); i > 0 && t.n > 0; i--)
        damage_once(&t, gently);
    if (ftruncate(fd, 0) != 0 || pwrite(fd, t.bytes, t.n, 0) != (ssize_t)t.n)
        die(file);
    free(t.bytes);
    close(fd);
}

/* --- one case --- */

static void child(const char *dir, int argc, char **argv)
{
    if (chdir(dir) != 0 || !freopen("/dev/null", "r", stdin) || !freopen("../out", "w", stdout) ||
        !freopen("../err", "w", stderr))
        _exit(98);
    exit(ampscale_main(argc, argv));
}

/* Runs the command in a child, and returns the child's wait status. Kills a child that hangs. At
 * the end, kills all processes that the child started. */
static int run(const char *dir, int argc, char **argv)
{
    int status = 0;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        child(dir, argc, argv);
    }
    for (int ms = 0; waitpid(pid, &status, WNOHANG) == 0; ms++) {
        usleep(1000);
        if (ms == LIMIT_S * 1000)
            kill(-pid, SIGKILL);
    }
    kill(-pid, SIGKILL);
    return status;
}

static size_t read_said(const char *file, char said[SAID_MAX])
{
    int fd = open(file, O_RDONLY);
    ssize_t n = fd >= 0 ? read(fd, said, SAID_MAX - 1) : 0;
    said[n > 0 ? n : 0] = '\0';
    if (fd >= 0)
        close(fd);
    return n > 0 ? (size_t)n : 0;
}

static bool has_control(const char *said, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (((unsigned char)said[i] < ' ' && !strchr("\n\t\r", said[i])) || said[i] == 0x7f)
            return true;
    return false;
}

/* Returns the reason why a child is a finding, or NULL if it is not a finding. */
static const char *judge(int status, const char *scratch)
{
    static char out[SAID_MAX], err[SAID_MAX], file[4096];
    snprintf(file, sizeof file, "%s/out", scratch);
    size_t n_out = read_said(file, out);
    snprintf(file, sizeof file, "%s/err", scratch);
    size_t n_err = read_said(file, err);
    if (strstr(err, "Sanitizer") || strstr(err, "runtime error"))
        return "a sanitizer's finding";
    if (WIFSIGNALED(status))
        return WTERMSIG(status) == SIGKILL ? "a hang" : "a crash";
    if (WEXITSTATUS(status) >= CODES)
        return "an exit code that is not documented";
    if (WEXITSTATUS(status) != 0 && n_out + n_err == 0)
        return "no message";
    if (has_control(err, n_err) || has_control(out, n_out))
        return "control characters";
    return NULL;
}

static void keep(const char *scratch, int n, const char *why, uint64_t seed, int argc, char **argv)
{
    char command[4096];
    printf("FAILED: %s: finding-%d, seed %llu: ampscale", why, n, (unsigned long long)seed);
    for (int i = 1; i < argc; i++)
        printf(" %s", argv[i]);
    printf("\n");
    snprintf(command, sizeof command,
             "mkdir '%s/finding-%d' && cp -r '%s/case' '%s/out' '%s/err' '%s/finding-%d'; head -n "
             "12 '%s/err'",
             scratch, n, scratch, scratch, scratch, scratch, n, scratch);
    fflush(stdout);
    if (system(command) != 0)
        die("finding");
}

int main(int argc, char **argv)
{
    enum { OWN = 6 };
    int code[CODES] = {0}, findings = 0;
    long files = 0;
    if (argc <= OWN) {
        fprintf(stderr, "usage: hostile CASES SEED FOLDER SCRATCH FILES COMMAND ARG...\n");
        return 2;
    }
    const char *scratch = argv[4];
    char dir[4000];
    snprintf(dir, sizeof dir, "%s/case", scratch);
    argv += OWN - 1;
    argc -= OWN - 1;
    for (int i = 0; i < atoi(argv[2 - OWN]); i++) {
        uint64_t seed = state = strtoull(argv[3 - OWN], NULL, 10) + (uint64_t)i * 1000003;
        copy_folder(argv[4 - OWN], dir);
        for (int k = 0; k < atoi(argv[6 - OWN]) && n_paths > 0; k++, files++)
            damage(path[draw((uint32_t)n_paths)]);
        int status = run(dir, argc, argv);
        const char *why = judge(status, scratch);
        if (WIFEXITED(status) && WEXITSTATUS(status) < CODES)
            code[WEXITSTATUS(status)]++;
        if (why)
            keep(scratch, ++findings, why, seed, argc, argv);
    }
    printf("%d %ld %d", atoi(argv[2 - OWN]), files, findings);
    for (int i = 0; i < CODES; i++)
        printf(" %d", code[i]);
    printf("\n");
    return findings > 0;
}
