/* Threads over a shared counter. */
#include "input/crew.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>

enum { PROGRESS_STEP = 64 };

struct crew {
    const struct crew_job *job;
    pthread_mutex_t lock;
    int64_t next;
    enum status st; /* of the first that failed */
    char message[512];
};

static void show_progress(const struct crew_job *job, int64_t taken)
{
    if (!job->progress || (taken % PROGRESS_STEP != 0 && taken != job->total))
        return;
    fprintf(job->progress, "\r%" PRId64 " of %" PRId64 " images%s", taken, job->total,
            taken == job->total ? "\n" : "");
    fflush(job->progress);
}

/* Reports how the last one went and gives the next one's number; -1 when there is no more to do. */
static int64_t take(struct crew *crew, enum status st)
{
    int64_t i = -1;
    pthread_mutex_lock(&crew->lock);
    if (st != STATUS_OK && crew->st == STATUS_OK) {
        crew->st = st;
        snprintf(crew->message, sizeof crew->message, "%s", status_message());
    }
    if (crew->st == STATUS_OK && crew->next < crew->job->total) {
        i = crew->next++;
        show_progress(crew->job, crew->next);
    }
    pthread_mutex_unlock(&crew->lock);
    return i;
}

static void *work(void *arg)
{
    struct crew *crew = arg;
    const struct crew_job *job = crew->job;
    void *own = NULL;
    enum status st = job->open(job->context, &own);
    for (int64_t i; (i = take(crew, st)) >= 0;)
        st = job->run(job->context, own, i);
    if (own)
        job->close(own);
    return NULL;
}

enum status crew_run(const struct crew_job *job)
{
    struct crew crew = {.job = job, .lock = PTHREAD_MUTEX_INITIALIZER};
    pthread_t *thread = calloc((size_t)job->workers, sizeof *thread);
    if (!thread)
        return status_fail(STATUS_OOM, "no memory for %d threads", job->workers);
    int started = 0;
    while (started < job->workers && pthread_create(&thread[started], NULL, work, &crew) == 0)
        started++;
    if (started == 0) /* no thread to be had: this one does it all */
        work(&crew);
    for (int i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    free(thread);
    return crew.st == STATUS_OK ? STATUS_OK : status_fail(crew.st, "%s", crew.message);
}
