/* Plans and executes convolutions through cuDNN. */
#include "kernels/cuda/conv_exec.h"

#include "base/array.h"
#include "base/crash.h"
#include "base/thread_pool.h"
#include "kernels/cuda/conv_check.h"
#include "kernels/cuda/conv_operands.h"
#include "kernels/cuda/conv_plan.h"
#include "kernels/cuda/op_timer.h"
#include "kernels/cuda/plan_cache.h"
#include "kernels/cuda/plan_file.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* --- executions of cuDNN's engines that may end the process ---
 *
 * If an engine crashes while it is tried, or has not ended after half a minute, the plan file's
 * journal gets the engine's key (conv_plan_engine_key), and later processes do not use the engine
 * for that form and type. */

struct engine_attempt {
    char key[PLAN_KEY_MAX]; /* of the engine */
    char journal[PATH_MAX];
    char line[PLAN_KEY_MAX + 1]; /* the key, for the journal */
    struct crash_note note;
    pthread_t watch;
    bool watched;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool over; /* guarded by `lock` */
};

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

/* Begins to watch what this thread executes. The caller sets a->key; *a must stay at its address
 * until engine_attempt_end. `about` is for messages, and must stay valid too. If there is no
 * journal or no thread, crashes or hangs are not recorded. A process in which an engine hangs ends
 * with a line that names the engine. */
static void engine_attempt_begin(struct engine_attempt *a, const char *about)
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

static void engine_attempt_end(struct engine_attempt *a)
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

/* --- plans --- */

/* Number of plans that are made where none is timed: the first that runs is taken. */
enum { UNTIMED_PLANS = 4 };

/* A plan that all executors of its problem share. Most problems occur several times in a network,
 * and the library needs milliseconds to make a plan, or seconds if it must compile. */
struct kept_plan {
    struct kept_plan *next;
    struct conv_plan plan;
    char key[PLAN_KEY_MAX];
};

struct conv_library {
    cudnnHandle_t handle;
    struct cudnn_device props;
    struct plan_cache *lacking; /* problems for which the library has no plan; the plan file
                                 * contains only some of these problems (is_lacking) */
    struct kept_plan *kept;
    struct excluded_engines excluded; /* by the user */
};

struct cudnn_exec {
    struct conv_exec base;
    const struct cudnn_plan *plan; /* owned by conv_library */
    struct cudnn_desc pack;        /* the variant pack with the addresses in `bound` */
    void *bound[CG_PORT_COUNT];
    void *bound_workspace;
};

/* --- the library --- */

static void conv_library_close(struct conv_library *l)
{
    for (struct kept_plan *k = l->kept, *next; k; k = next) {
        next = k->next;
        conv_plan_close(&k->plan);
        free(k);
    }
    plan_cache_close(l->lacking);
    cudnn_desc_destroy(&l->props.props);
    if (l->handle)
        cudnnDestroy(l->handle);
    free(l);
}

static void conv_library_close_with(struct cuda_device *dev)
{
    conv_library_close(dev->conv);
    dev->conv = NULL;
}

static enum status conv_library_start(struct cuda_device *dev, struct conv_library *l)
{
    TRY(cudnn_check(cudnnCreate(&l->handle), "start on GPU %d", dev->base.index));
    l->props = (struct cudnn_device){.handle = l->handle, .sm = dev->sm};
    snprintf(l->props.name, sizeof l->props.name, "%.63s", dev->name);
    return plan_file_open(dev);
}

static enum status conv_library_open(struct cuda_device *dev)
{
    enum status st;
    struct conv_library *l;
    TRY(array_new(&l, 1));
    CHECK(excluded_engines_read(&l->excluded));
    cudnn_keep_compiler();
    CHECK(plan_cache_open(&l->lacking));
    if (dev->described)
        CHECK(cudnn_device_describe(dev->described, &l->props));
    else
        CHECK(conv_library_start(dev, l));
    dev->conv = l;
    cuda_at_close(dev, conv_library_close_with);
done:
    if (st != STATUS_OK)
        conv_library_close(l);
    return st;
}

/* --- execution --- */

static enum status set_pack(struct cudnn_desc *pack, void *const port[CG_PORT_COUNT],
                            void *workspace)
{
    int64_t id[CG_PORT_COUNT];
    void *pointer[CG_PORT_COUNT];
    int64_t n = 0;
    for (int i = 0; i < CG_PORT_COUNT; i++)
        if (port[i]) {
            id[n] = i;
            pointer[n++] = port[i];
        }
    TRY(DESC_CREATE(pack, VARIANT_PACK));
    TRY(DESC_SET(pack, VARIANT_PACK_UNIQUE_IDS, INT64, n, id));
    TRY(DESC_SET(pack, VARIANT_PACK_DATA_POINTERS, VOID_PTR, n, pointer));
    TRY(DESC_SET(pack, VARIANT_PACK_WORKSPACE, VOID_PTR, 1, &workspace));
    return cudnn_desc_finalize(pack);
}

static enum status execute(struct conv_library *l, const struct cudnn_plan *plan,
                           const struct cudnn_desc *pack, cudaStream_t stream)
{
    TRY(cudnn_check(cudnnSetStream(l->handle, stream), "use a stream"));
    return cudnn_check(cudnnBackendExecute(l->handle, plan->desc.raw, pack->raw),
                       "execute a convolution");
}

enum status conv_exec_run(struct conv_exec *base, void *const port[CG_PORT_COUNT], void *workspace,
                          cudaStream_t stream)
{
    struct cudnn_exec *e = (struct cudnn_exec *)base;
    bool same = e->pack.raw && e->bound_workspace == workspace &&
                memcmp(e->bound, port, sizeof e->bound) == 0;
    if (!same) {
        if (base->device->trials == 0)
            plan_file_save(); /* planning is over */
        cudnn_desc_destroy(&e->pack);
        TRY(set_pack(&e->pack, port, workspace));
        memcpy(e->bound, port, sizeof e->bound);
        e->bound_workspace = workspace;
    }
    return execute(base->device->conv, e->plan, &e->pack, stream);
}

/* --- timing --- */

enum { WHY_MAX = 256 };

/* Candidates of one problem, which are tried one after the other. */
struct candidates {
    struct conv_library *library;
    struct op_trial *trial; /* NULL: no candidate is executed */
    const struct conv_problem *problem;
    const char *key;           /* of the problem's plan */
    bool timed;                /* false: the first candidate that runs is taken */
    bool taken;                /* one has run, and candidates are not timed */
    struct timed_seconds best; /* of the fastest plan so far; 0: no plan yet */
    char *why; /* [WHY_MAX] message of the last plan that failed; empty: no plan failed */
};

static enum status open_trial(struct cuda_device *dev, const struct conv_problem *problem,
                              struct op_trial **trial)
{
    struct timed_operand operand[CG_PORT_COUNT];
    conv_operands(problem, operand);
    return op_trial_open(dev, operand, CG_PORT_COUNT, trial);
}

/* One execution of a candidate. */
struct candidate {
    struct conv_library *library;
    const struct cudnn_plan *plan;
};

static enum status enqueue_candidate(void *context, void *const port[], void *workspace,
                                     struct cuda_stream *s)
{
    const struct candidate *c = context;
    struct cudnn_desc pack = {0};
    enum status st;
    CHECK(set_pack(&pack, port, workspace));
    CHECK(execute(c->library, c->plan, &pack, s->raw));
done:
    cudnn_desc_destroy(&pack);
    return st;
}

/* An engine has broken the GPU. Names the engine and the problem, which no later message can do.
 * Stores that the engine cannot be used, because it would break the GPU of the next process too. */
static enum status report_broken(const struct candidates *all, int64_t engine, enum status st)
{
    struct plan_choice broken = {.fact = PLAN_LACKING};
    struct first_failure failure = {0};
    char key[PLAN_KEY_MAX];
    if (st != STATUS_LIBRARY)
        return st;
    st = status_context(st,
                        "engine %lld of cuDNN broke the GPU as it was timed for '%s'; later "
                        "processes do not use it for this form and type, and "
                        "AMPSCALE_CUDNN_WITHOUT=%lld excludes it everywhere",
                        (long long)engine, all->key, (long long)engine);
    first_failure_keep(&failure, st);
    conv_plan_engine_key(&all->library->props, all->problem, engine, key);
    first_failure_keep(&failure, plan_file_add(key, &broken));
    plan_file_save();
    return first_failure_return(&failure);
}

static bool has_broken(const struct candidates *all, int64_t engine)
{
    struct plan_choice known;
    char key[PLAN_KEY_MAX];
    conv_plan_engine_key(&all->library->props, all->problem, engine, key);
    return plan_file_find(key, &known) && known.fact == PLAN_LACKING;
}

static enum status time_candidate(struct candidates *all, const struct cudnn_plan *plan,
                                  double *seconds)
{
    /* A plan that takes this many times as long as the best plan, each executed alone, is not timed
     * again. The slowest plans take 100 times the best time. */
    static const double hopeless = 1.25;
    struct candidate one = {all->library, plan};
    struct timed_work work = {enqueue_candidate, &one, plan->workspace};
    struct timed_seconds time = {0};
    if (!all->timed)
        return op_trial_run(all->trial, &work);
    TRY(op_trial_time(all->trial, &work, hopeless * all->best.alone, &time));
    *seconds = time.median;
    if (all->best.median == 0 || time.median < all->best.median)
        all->best = time;
    return STATUS_OK;
}

static enum status execute_candidate(struct candidates *all, const struct cudnn_plan *plan,
                                     double *seconds)
{
    struct engine_attempt attempt;
    char about[PLAN_KEY_MAX + 64];
    int64_t engine = plan->choice.engine;
    snprintf(about, sizeof about, "engine %lld of cuDNN, tried for '%s'", (long long)engine,
             all->key);
    conv_plan_engine_key(&all->library->props, all->problem, engine, attempt.key);
    engine_attempt_begin(&attempt, about);
    enum status st = time_candidate(all, plan, seconds);
    engine_attempt_end(&attempt);
    return st;
}

/* Tries one candidate. Excludes a plan that needs more memory than the device has, a plan that
 * fails to run but leaves the GPU working, and an engine that has broken the GPU before. */
static enum status try_candidate(void *context, const struct cudnn_plan *plan, double *seconds)
{
    struct candidates *all = context;
    *seconds = 0;
    if (all->taken)
        return STATUS_UNSUPPORTED;
    if (has_broken(all, plan->choice.engine)) {
        snprintf(all->why, WHY_MAX, "engine %lld broke the GPU or the process in an earlier run",
                 (long long)plan->choice.engine);
        return STATUS_UNSUPPORTED;
    }
    enum status st = all->trial ? execute_candidate(all, plan, seconds) : STATUS_OK;
    all->taken = st == STATUS_OK && !all->timed;
    if (st == STATUS_OK || st == STATUS_UNSUPPORTED)
        return st;
    bool lives = st == STATUS_OOM || (st == STATUS_LIBRARY && op_trial_lives(all->trial));
    if (!lives)
        return report_broken(all, plan->choice.engine, st);
    st = status_context(st, "engine %lld", (long long)plan->choice.engine);
    snprintf(all->why, WHY_MAX, "%s", status_message());
    return STATUS_UNSUPPORTED;
}

/* --- planning --- */

/* The number of plans that the device times for a problem; 0: it times nothing. */
static int timed_plans(const struct cuda_device *dev)
{
    if (dev->base.deterministic || dev->described || dev->base.plans == 1)
        return 0;
    return cuda_times_once(dev) ? dev->base.plans : PLANS_MAX;
}

/* Writes the key of the choice among `timed` plans. */
static void choice_key(const struct conv_library *l, const struct conv_problem *problem,
                       const struct plan_limits *limits, int timed, char key[PLAN_KEY_MAX])
{
    conv_plan_key(&l->props, problem, limits, key);
    size_t n = strlen(key);
    if (timed > 0 && timed < PLANS_MAX)
        snprintf(key + n, PLAN_KEY_MAX - n, " of %d plans", timed);
}

/* Finds a stored choice: among all plans, or else among as many as the device times. */
static bool find_choice(const struct cuda_device *dev, const struct conv_problem *problem,
                        const struct plan_limits *limits, struct plan_choice *known)
{
    char key[PLAN_KEY_MAX];
    if (limits->deterministic)
        return false;
    choice_key(dev->conv, problem, limits, 0, key);
    if (plan_file_find(key, known) && known->fact == PLAN_CHOSEN)
        return true;
    choice_key(dev->conv, problem, limits, timed_plans(dev), key);
    return plan_file_find(key, known) && known->fact == PLAN_CHOSEN;
}

/* Makes the plan that `choice` names, and sets plan->cached to true. If that plan cannot be made,
 * makes another plan, and plan->cached is false. */
static enum status open_known(struct conv_library *l, const struct conv_problem *problem,
                              const struct plan_limits *limits, const struct plan_choice *choice,
                              struct conv_plan *plan)
{
    struct plan_cache *one;
    char key[PLAN_KEY_MAX];
    enum status st;
    *plan = (struct conv_plan){0};
    conv_plan_key(&l->props, problem, limits, key);
    CHECK(plan_cache_open(&one));
    CHECK(plan_cache_put(one, key, choice));
    CHECK(conv_plan_open(&l->props, problem, limits, NULL, one, plan));
done:
    plan_cache_close(one);
    return st;
}

/* Stores the choice of the fastest plan. If another GPU of the process has meanwhile stored its
 * choice, uses that choice instead: all GPUs then run the same plan. */
static enum status keep_choice(const struct cuda_device *dev, const struct conv_problem *problem,
                               const struct plan_limits *limits, bool stale, struct conv_plan *plan)
{
    struct plan_choice first = plan->plan.choice, known;
    struct conv_plan other = {0};
    char key[PLAN_KEY_MAX];
    enum status st;
    choice_key(dev->conv, problem, limits, timed_plans(dev), key);
    stale |= plan_file_find(key, &known) && known.fact != PLAN_CHOSEN;
    CHECK(stale ? plan_file_replace(key, &first) : plan_file_add(key, &first));
    plan->seconds = (double)first.nanoseconds * 1e-9; /* another GPU may have stored another time */
    if (!plan_choice_same(&first, &plan->plan.choice))
        CHECK(open_known(dev->conv, problem, limits, &first, &other));
    if (other.cached) {
        conv_plan_close(plan);
        *plan = other;
        return STATUS_OK;
    }
done:
    conv_plan_close(&other);
    if (st != STATUS_OK)
        conv_plan_close(plan);
    return st;
}

/* Whether the library may compile engines for a form. Compiling is not allowed for forms with batch
 * norm, because separate operations can replace such a form. */
static bool may_compile(enum conv_form form)
{
    return form <= CONV_FWD_BIAS_RELU;
}

static enum status enqueue_exec(void *context, void *const port[], void *workspace,
                                struct cuda_stream *s)
{
    return conv_exec_run(context, port, workspace, s->raw);
}

/* Compares a new plan of a form with batch norm with the form's parts. STATUS_LIBRARY if it is
 * wrong, which later processes find in the plan file. A device without the memory, or without a
 * plan of the plain convolution, does not compare. */
static enum status check_plan(struct cuda_device *dev, const struct conv_problem *problem,
                              const char *key, const struct cudnn_plan *plan)
{
    struct plan_choice wrong = {.fact = PLAN_WRONG};
    struct conv_problem alone = *problem;
    struct candidate one = {dev->conv, plan};
    const struct timed_work work = {enqueue_candidate, &one, plan->workspace};
    struct conv_difference d;
    struct conv_exec *plain;
    if (may_compile(problem->form))
        return STATUS_OK;
    alone.form = conv_check_plain(problem->form);
    enum status st = conv_exec_open(dev, &alone, &plain);
    const struct timed_work parts = {enqueue_exec, plain, plain ? plain->workspace : 0};
    st = st == STATUS_OK ? conv_check(dev, problem, &work, &parts, &d) : st;
    conv_exec_close(plain);
    if (st == STATUS_OOM || st == STATUS_UNSUPPORTED)
        return STATUS_OK;
    TRY(st);
    if (conv_difference_is_small(&d, problem->type))
        return STATUS_OK;
    TRY(plan_file_replace(key, &wrong));
    return status_fail(STATUS_LIBRARY,
                       "engine %lld of cuDNN computes wrong values for '%s': %s differs by %.2g "
                       "from that of the unfused parts",
                       (long long)plan->choice.engine, key, d.of, d.worst);
}

/* Chooses a plan within the limits. On a deterministic device, and if the device lacks the memory
 * for a trial, uses the heuristics' first plan. STATUS_UNSUPPORTED if there is no plan that runs;
 * if there are plans, `why` is the failure of the last one. */
static enum status choose_within(struct cuda_device *dev, const struct conv_problem *problem,
                                 const struct plan_limits *limits, char why[WHY_MAX],
                                 struct conv_plan *plan)
{
    struct conv_library *l = dev->conv;
    char key[PLAN_KEY_MAX];
    struct candidates all = {.library = l, .problem = problem, .key = key, .why = why};
    struct plan_timer timer = {try_candidate, &all};
    struct plan_choice known;
    if (dev->described)
        return conv_plan_open(&l->props, problem, limits, NULL, NULL, plan);
    conv_plan_key(&l->props, problem, limits, key);
    bool stale = find_choice(dev, problem, limits, &known);
    if (stale) {
        TRY(open_known(l, problem, limits, &known, plan));
        if (plan->cached)
            return STATUS_OK;
        /* cuDNN can no longer make the cached plan, so candidates are timed again. */
        conv_plan_close(plan);
    }
    enum status st = limits->deterministic ? STATUS_OK : open_trial(dev, problem, &all.trial);
    bool tried = st == STATUS_OK && !limits->deterministic;
    if (st != STATUS_OK && st != STATUS_OOM)
        return st;
    all.timed = tried && timed_plans(dev) > 0;
    st = conv_plan_open(&l->props, problem, limits, &timer, NULL, plan);
    op_trial_close(all.trial);
    if (st == STATUS_OK && tried)
        st = check_plan(dev, problem, key, &plan->plan);
    if (st == STATUS_OK && all.timed)
        return keep_choice(dev, problem, limits, stale, plan);
    if (st != STATUS_OK)
        conv_plan_close(plan);
    return st;
}

/* Chooses a plan. An engine that the library must compile costs seconds in every run, so such an
 * engine is used only if no other engine supports the problem and runs. Of several such engines,
 * the first that the heuristics name is used. `key` is for messages. */
static enum status conv_exec_choose(struct cuda_device *dev, const struct conv_problem *problem,
                                    const struct plan_limits *limits, const char *key,
                                    struct conv_plan *plan)
{
    struct plan_limits compiled = *limits;
    char why[WHY_MAX] = "";
    enum status st = choose_within(dev, problem, limits, why, plan);
    if (st == STATUS_UNSUPPORTED && may_compile(problem->form)) {
        compiled.runtime_compiled = true;
        compiled.plans = 1;
        st = choose_within(dev, problem, &compiled, why, plan);
    }
    if (st == STATUS_UNSUPPORTED && why[0]) /* plans exist, but all fail to run */
        st = status_fail(STATUS_LIBRARY, "every plan for '%s' failed: %s", key, why);
    return st;
}

static const struct conv_plan *find_kept(const struct conv_library *l, const char *key)
{
    for (const struct kept_plan *k = l->kept; k; k = k->next)
        if (strcmp(k->key, key) == 0)
            return &k->plan;
    return NULL;
}

/* Whether an earlier search has shown that the library has no plan for the problem. The heuristics
 * would need a long time to detect that again. The plan file stores this only for forms with batch
 * norm: a plain convolution may lack a plan because of a faulty installation, which will be
 * repaired. Nothing is stored if a part of the library could not be loaded, or if the user has
 * excluded engines, because a later run may have them. */
static bool is_lacking(const struct conv_library *l, enum conv_form form, const char *key)
{
    struct plan_choice known;
    return plan_cache_find(l->lacking, key) ||
           (!l->props.props.raw && !may_compile(form) && plan_file_find(key, &known) &&
            known.fact == PLAN_LACKING);
}

static enum status note_lack(struct conv_library *l, enum conv_form form, const char *key)
{
    struct plan_choice lack = {.fact = PLAN_LACKING};
    TRY(plan_cache_put(l->lacking, key, &lack));
    if (may_compile(form) || l->props.props.raw || l->excluded.n > 0 || cudnn_incomplete())
        return STATUS_OK;
    return plan_file_add(key, &lack);
}

/* Returns the plan of a problem. The first call for a problem makes it. */
static enum status take_plan(struct cuda_device *dev, const struct conv_problem *problem,
                             const struct conv_plan **plan)
{
    struct conv_library *l = dev->conv;
    int timed = timed_plans(dev);
    const struct plan_limits limits = {.workspace = plan_workspace_max(dev->memory),
                                       .deterministic = dev->base.deterministic,
                                       .excluded = &l->excluded,
                                       .plans = timed > 0        ? timed
                                                : dev->described ? 1
                                                                 : UNTIMED_PLANS};
    struct plan_choice known;
    char key[PLAN_KEY_MAX];
    conv_plan_key(&l->props, problem, &limits, key);
    *plan = find_kept(l, key);
    if (*plan)
        return STATUS_OK;
    if (is_lacking(l, problem->form, key))
        return status_fail(STATUS_UNSUPPORTED, "cuDNN has no plan for '%s'", key);
    if (!dev->described && plan_file_find(key, &known) && known.fact == PLAN_WRONG)
        return status_fail(STATUS_LIBRARY,
                           "cuDNN computed wrong values for '%s' in this or an earlier run", key);
    struct kept_plan *k;
    TRY(array_new(&k, 1));
    enum status st = conv_exec_choose(dev, problem, &limits, key, &k->plan);
    if (st != STATUS_OK) {
        free(k);
        if (st == STATUS_UNSUPPORTED)
            TRY(note_lack(l, problem->form, key));
        return st;
    }
    snprintf(k->key, sizeof k->key, "%s", key);
    k->next = l->kept;
    l->kept = k;
    *plan = &k->plan;
    return STATUS_OK;
}

enum status conv_exec_open(struct cuda_device *dev, const struct conv_problem *problem,
                           struct conv_exec **exec)
{
    const struct conv_plan *plan;
    *exec = NULL;
    TRY(cuda_enter(dev));
    if (!dev->conv)
        TRY(conv_library_open(dev));
    TRY(take_plan(dev, problem, &plan));
    struct cudnn_exec *e;
    TRY(array_new(&e, 1));
    e->base = (struct conv_exec){.device = dev,
                                 .problem = *problem,
                                 .workspace = plan->plan.workspace,
                                 .seconds = plan->seconds};
    snprintf(e->base.impl, sizeof e->base.impl, "cudnn:%s engine %lld",
             conv_form_str(problem->form), (long long)plan->plan.choice.engine);
    e->plan = &plan->plan;
    *exec = &e->base;
    return STATUS_OK;
}

void conv_exec_close(struct conv_exec *base)
{
    struct cudnn_exec *e = (struct cudnn_exec *)base;
    if (!e)
        return;
    cudnn_desc_destroy(&e->pack);
    free(e);
}
