/* Confines a job on one machine to that machine's shared memory and loopback interface. */
#include "launch/one_machine.h"

#include "base/launcher.h"
#include "base/process.h"
#include "config.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define LIBRARY_FILE "ampscale_loopback.so"

static const char preload[] = "LD_PRELOAD";

static enum status set(const char *variable, const char *value)
{
    if (setenv(variable, value, 0) == 0)
        return STATUS_OK;
    return status_fail(STATUS_OOM, "no memory for the environment");
}

/* Whether /dev/shm has 32 MiB free for each rank. A rank uses 4 MiB, and more when it sends much
 * data. */
static bool has_shared_memory(int ranks)
{
    enum { RANK_BYTES = 32 << 20 };
    struct statvfs s;
    return access("/dev/shm", W_OK) == 0 && statvfs("/dev/shm", &s) == 0 &&
           (double)s.f_bavail * (double)s.f_frsize >= (double)ranks * RANK_BYTES;
}

/* Creates and locks a folder for Open MPI's shared memory segments. The segments remain when ranks
 * are killed. mpirun inherits the lock. A later job removes the folder when no process has the lock
 * any more. */
static enum status make_folder(struct one_machine *m)
{
    if (getenv("OMPI_MCA_btl_vader_backing_directory") ||
        getenv("OMPI_MCA_btl_sm_backing_directory"))
        return STATUS_OK;
    TRY(temporary_dir_make_in(&m->shared, "/dev/shm", "ampscale-mpi"));
    fcntl(m->shared.held, F_SETFD, 0);
    TRY(set("OMPI_MCA_btl_vader_backing_directory", m->shared.path)); /* Open MPI 4 */
    return set("OMPI_MCA_btl_sm_backing_directory", m->shared.path);  /* Open MPI 5 */
}

/* Finds the file of the loopback library, next to this program or in the folder of installed
 * modules. False: there is no such file, or its path has a character that LD_PRELOAD does not
 * allow. */
static bool find_library(char path[PATH_MAX])
{
    static const char *const places[] = {LIBRARY_FILE, AMPSCALE_MODULE_DIR "/" LIBRARY_FILE};
    char program[PATH_MAX];
    if (process_own_file(program, sizeof program) != STATUS_OK)
        return false;
    program[strrchr(program, '/') - program] = '\0';
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (path_format(path, PATH_MAX, "%s/%s", program, places[i]) == STATUS_OK &&
            access(path, R_OK) == 0)
            return !strpbrk(path, " :");
    return false;
}

static enum status add_library(void)
{
    char path[PATH_MAX], all[2 * PATH_MAX];
    const char *others = getenv(preload);
    if (!find_library(path))
        return STATUS_OK;
    TRY(path_format(all, sizeof all, "%s%s%s", path, others ? ":" : "", others ? others : ""));
    return setenv(preload, all, 1) == 0 ? STATUS_OK
                                        : status_fail(STATUS_OOM, "no memory for the environment");
}

enum status one_machine_rank(void)
{
    static const char name[] = "/" LIBRARY_FILE;
    const char *all = getenv(preload);
    size_t first = all ? strcspn(all, ":") : 0, n = sizeof name - 1;
    if (first < n || strncmp(all + first - n, name, n) != 0)
        return STATUS_OK;
    bool more = all[first] == ':';
    if ((more ? setenv(preload, all + first + 1, 1) : unsetenv(preload)) == 0)
        return STATUS_OK;
    return status_fail(STATUS_OOM, "no memory for the environment");
}

enum status one_machine_begin(const struct launch_config *c, struct one_machine *m)
{
    m->is_one = !c->direct && c->hosts.n == 0 && c->mpi_args.n == 0 && !launcher_has_hosts();
    if (!m->is_one)
        return STATUS_OK;
    if (has_shared_memory(c->nproc)) {
        TRY(set("OMPI_MCA_btl", "self,vader"));
        TRY(make_folder(m));
    }
    TRY(set("OMPI_MCA_btl_tcp_if_include", "lo"));
    TRY(set("OMPI_MCA_oob_tcp_if_include", "lo"));
    TRY(set("UCX_NET_DEVICES", "lo"));
    TRY(set("FI_TCP_IFACE", "lo"));
    return add_library();
}

void one_machine_end(struct one_machine *m)
{
    enum status st = temporary_dir_remove(&m->shared);
    (void)st; /* if the removal failed, the next job removes the folder */
}
