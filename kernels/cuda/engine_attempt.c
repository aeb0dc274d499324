/* Watches an execution that may crash or hang. */
#include "kernels/cuda/engine_attempt.h"

#include "base/thread_pool.h"
#include "kernels/cuda/plan_file.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

/* Loading an engine's kernels from a slow disk takes up to ten seconds. */
enum { HANG_SECONDS = 30 };

/* Ends the process: the call that hangs cannot be cancelled. */
static void give_up(const struct engine_attempt *a)
{
    struct plan_choice broken = {.fact = PLAN_LACKING};
    enum status st = plan_file_add(a->key, &broken);
    (void)st; /* without the fact the next process tries the engine again */
    plan_file_save();
    fprintf(stderr,
            "ampscale: %s has not ended after %d s; run the command again: later processes do not "
            "use the engine for this form and type\n",
            a->note.about, HANG_SECONDS);
    _exit(status_exit_code(STATUS_LIBRARY));
}

/* Waits second by second: if the whole process was stopped for a while, that counts as one. */
static void *watch(void *context)
{
    struct engine_attempt *a = context;
    struct timespec until;
    pthread_mutex_lock(&a->lock);
    for (int s = 0; s < HANG_SECONDS && !a->over; s++) {
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec++;
        pthread_cond_timedwait(&a->ended, &a->lock, &until);
    }
    if (!a->over)
        give_up(a);
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

void engine_attempt_begin(struct engine_attempt *a, const char *about)
{
    snprintf(a->line, sizeof a->line, "%s\n", a->key);
    plan_file_journal(a->journal);
    a->note = (struct crash_note){.about = about, .journal = a->journal, .line = a->line};
    a->over = false;
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->ended, NULL);
    a->watched = thread_start(&a->watch, "watch of an engine", watch, a) == STATUS_OK;
    crash_note(&a->note);
}

void engine_attempt_end(struct engine_attempt *a)
{
    crash_note(NULL);
    pthread_mutex_lock(&a->lock);
    a->over = true;
    pthread_cond_signal(&a->ended);
    pthread_mutex_unlock(&a->lock);
    if (a->watched)
        pthread_join(a->watch, NULL);
    pthread_cond_destroy(&a->ended);
    pthread_mutex_destroy(&a->lock);
}
