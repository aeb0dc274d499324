/* The result of a call, and the one line that explains a failure.
 *
 * Every function that can fail returns an `enum status`. Each thread stores the message of its last
 * failure, which status_message() returns. A message is in lower case, begins with the problem,
 * quotes the subject, and ends with a way out if there is one: "cannot open 'x.json': no such file
 * or directory". Only main() and out_of_memory() exit. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

enum status {
    STATUS_OK = 0,
    STATUS_USAGE,       /* the command line or configuration is wrong */
    STATUS_INVALID,     /* a caller broke the contract of a function */
    STATUS_UNSUPPORTED, /* this build or machine cannot do it; another way may exist */
    STATUS_OOM,         /* out of memory */
    STATUS_IO,          /* the operating system refused an operation */
    STATUS_DATA,        /* input is missing, damaged or incomplete */
    STATUS_LIBRARY,     /* oneDNN, MPI, cuDNN ... returned an error */
    STATUS_DIVERGED,    /* training produced numbers that are not finite */
    STATUS_INTERRUPTED, /* a signal asked the program to stop */
    STATUS_HARDWARE,    /* a device is damaged: for example, uncorrectable memory errors */
    STATUS_MISMATCH,    /* a computed value is not the expected one */
    STATUS_LOST_RANK,   /* another rank of the job died, hangs or cannot be reached */
};

#define MUST_CHECK          __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, a) __attribute__((format(printf, fmt, a)))

/* Records this thread's message and returns `st`, for use as `return status_fail(...)`. */
MUST_CHECK enum status status_fail(enum status st, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Puts "context: " in front of this thread's message and returns `st`. */
MUST_CHECK enum status status_context(enum status st, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* The last message of this thread; never NULL. Valid until the thread's next failure. */
const char *status_message(void);

/* Keeps the first of several failures and its message, because later failures replace this thread's
 * message. Starts as {0}: no failure yet. */
enum { STATUS_MESSAGE_MAX = 1024 };
struct first_failure {
    enum status status;
    char message[STATUS_MESSAGE_MAX];
};

/* Stores `st` and this thread's message, unless `st` is STATUS_OK or a failure is stored
 * already. */
void first_failure_keep(struct first_failure *f, enum status st);

/* Fails with the stored status and message; returns STATUS_OK if no failure is stored. */
MUST_CHECK enum status first_failure_return(const struct first_failure *f);

/* Ends the process with a line and the exit code of STATUS_OOM. For small allocations, without
 * which nothing can continue: of JSON, and of a network's plan. */
__attribute__((noreturn)) void out_of_memory(void);

/* Records the signal that asked this process to end; a later signal replaces it. A signal handler
 * may call it. */
void status_signal(int signo);

/* The documented exit code of the process: 0 pass; 1 tool error; 2 usage; 4 wrong numbers on this
 * hardware, or a damaged device; 5 data missing or incomplete. STATUS_INTERRUPTED gives 128 plus
 * the number of the recorded signal, or of SIGTERM if another process of the job was asked to end.
 * (3 means a regression, which is a verdict and not a failure.) */
int status_exit_code(enum status st);

/* Propagate a failure. TRY returns it. CHECK stores it in a local `st` and goes to `done`, so that
 * success and failure share the clean-up. Both evaluate the expression once. */
#define TRY(expr)                                                                                  \
    do {                                                                                           \
        enum status try_status_ = (expr);                                                          \
        if (try_status_ != STATUS_OK)                                                              \
            return try_status_;                                                                    \
    } while (0)

#define CHECK(expr)                                                                                \
    do {                                                                                           \
        st = (expr);                                                                               \
        if (st != STATUS_OK)                                                                       \
            goto done;                                                                             \
    } while (0)

#ifdef __cplusplus
}
#endif
