/* Reads the ranks of a job from the environment that each launcher sets. */
#include "base/launcher.h"
#include "tests/unit.h"

#include <stdlib.h>
#include <string.h>

/* Replaces the whole environment by `text`, which has the form "NAME=value NAME=value". */
static void set_environment(const char *text)
{
    static char copy[512];
    char *rest = copy, *variable;
    assert_true(strlen(text) < sizeof copy);
    strcpy(copy, text);
    clearenv();
    while ((variable = strsep(&rest, " "))) {
        char *value = strchr(variable, '=');
        if (!value)
            continue;
        *value++ = '\0';
        assert_int_equal(setenv(variable, value, 1), 0);
    }
}

static void test_places(void **state)
{
    static const struct {
        bool mpi;
        struct launcher_place place;
        const char *environment;
    } cases[] = {
        {true,
         {5, 8, 1, 4},
         "OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_SIZE=8 OMPI_COMM_WORLD_LOCAL_RANK=1 "
         "OMPI_COMM_WORLD_LOCAL_SIZE=4"},
        {true, {1, 2, 0, 0}, "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2"},
        {true, {3, 4, 0, 2}, "PMI_RANK=3 PMI_SIZE=4 MPI_LOCALRANKID=0 MPI_LOCALNRANKS=2"},
        {false,
         {3, 4, 1, 2},
         "MV2_COMM_WORLD_RANK=3 MV2_COMM_WORLD_SIZE=4 MV2_COMM_WORLD_LOCAL_RANK=1"},
        {false, {3, 8, 1, 2}, "RANK=3 WORLD_SIZE=8 LOCAL_RANK=1"},
        {false, {3, 8, 1, 4}, "RANK=3 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4"},
        {false, {1, 2, 0, 0}, "RANK=1 WORLD_SIZE=2"},
        {true, {6, 0, 0, 0}, "PMIX_RANK=6"},
        /* three jobs of srun: one without any PMI, one with PMIx, and one with PMI-2 */
        {false,
         {1, 2, 1, 2},
         "SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 SLURM_LOCALID=1 SLURM_STEP_TASKS_PER_NODE=2"},
        {true,
         {6, 11, 2, 4},
         "PMIX_RANK=6 SLURM_PROCID=6 SLURM_STEP_NUM_TASKS=11 SLURM_LOCALID=2 SLURM_NODEID=1 "
         "SLURM_STEP_TASKS_PER_NODE=4(x2),3"},
        {true,
         {9, 11, 1, 3},
         "PMI_RANK=9 PMI_SIZE=11 SLURM_PROCID=9 SLURM_LOCALID=1 SLURM_NODEID=2 "
         "SLURM_STEP_TASKS_PER_NODE=4(x2),3"},
        /* mpirun in a Slurm job, and in a pod whose WORLD_SIZE is the number of nodes */
        {true,
         {5, 8, 1, 4},
         "SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 SLURM_LOCALID=0 OMPI_COMM_WORLD_RANK=5 "
         "OMPI_COMM_WORLD_SIZE=8 OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=4"},
        {true, {3, 16, 0, 0}, "RANK=0 WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=16"},
        /* srun in a pod whose WORLD_SIZE is the number of nodes */
        {false, {3, 4, 0, 0}, "RANK=0 WORLD_SIZE=2 SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=4"},
        /* Slurm's list of nodes contradicts the rank, or cannot be read */
        {true, {1, 0, 1, 2}, "PMIX_RANK=1 SLURM_LOCALID=1 SLURM_STEP_TASKS_PER_NODE=2(y3)"},
        {true, {1, 0, 3, 4}, "PMIX_RANK=1 SLURM_LOCALID=3 SLURM_STEP_TASKS_PER_NODE=2"},
        {true,
         {1, 0, 0, 1},
         "PMIX_RANK=1 SLURM_LOCALID=0 SLURM_NODEID=7 SLURM_STEP_TASKS_PER_NODE=2"},
    };
    for (int i = 0; i < COUNT(cases); i++) {
        struct launcher_place place;
        set_environment(cases[i].environment);
        assert_int_equal(launcher_place_find(&place), STATUS_OK);
        assert_memory_equal(&place, &cases[i].place, sizeof place);
        assert_int_equal(launcher_is_mpi(), cases[i].mpi);
    }
}

static void test_wrong_places(void **state)
{
    static const char none[] = "no launcher names the rank of this process";
    static const char *const cases[][2] = {
        {"", none},
        {"SLURM_PROCID=0 SLURM_NTASKS=8", none}, /* a batch script is one process */
        {"PMI_RANKS=1 XPMI_RANK=1", none},
        {"PMI_RANK=4 PMI_SIZE=4", "PMI_RANK=4 and PMI_SIZE=4"},
        {"RANK= WORLD_SIZE=4", "RANK=''"},
        {"RANK=x WORLD_SIZE=4", "RANK='x'"},
        {"RANK=-1 WORLD_SIZE=4", "RANK='-1'"},
        {"RANK=0 WORLD_SIZE=0", "WORLD_SIZE='0'"},
        {"RANK=0 WORLD_SIZE=99999999999", "WORLD_SIZE='99999999999'"},
        {"RANK=0 WORLD_SIZE=2 LOCAL_RANK=1x", "LOCAL_RANK='1x'"},
    };
    for (int i = 0; i < COUNT(cases); i++) {
        struct launcher_place place;
        set_environment(cases[i][0]);
        assert_int_equal(launcher_place_find(&place), STATUS_USAGE);
        assert_non_null(strstr(status_message(), cases[i][1]));
    }
}

static void test_addresses(void **state)
{
    static const char *const cases[][2] = {
        {"", ""},
        {"MASTER_ADDR=h", ""},
        {"MASTER_ADDR= MASTER_PORT=1", ""},
        {"MASTER_ADDR=h MASTER_PORT=x", ""},
        {"MASTER_ADDR=h MASTER_PORT=65536", ""},
        {"MASTER_ADDR=h MASTER_PORT=29500", "h:29500"},
        {"MASTER_ADDR=fd00::2 MASTER_PORT=1", "[fd00::2]:1"},
        {"MASTER_ADDR=h MASTER_PORT=29500 TORCHELASTIC_USE_AGENT_STORE=False", "h:29500"},
        {"MASTER_ADDR=h MASTER_PORT=29500 TORCHELASTIC_USE_AGENT_STORE=True", "h:29501"},
        {"MASTER_ADDR=h MASTER_PORT=65535 TORCHELASTIC_USE_AGENT_STORE=True", "h:65534"},
    };
    for (int i = 0; i < COUNT(cases); i++) {
        char address[LAUNCHER_ADDRESS_MAX];
        set_environment(cases[i][0]);
        assert_int_equal(launcher_address(address), *cases[i][1] != '\0');
        assert_string_equal(address, cases[i][1]);
    }
}

static void test_export(void **state)
{
    const struct launcher_place place = {5, 8, 1, 4};
    struct launcher_place found;
    char address[LAUNCHER_ADDRESS_MAX];
    set_environment("OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 SLURM_PROCID=3 "
                    "SLURM_STEP_NUM_TASKS=4 RANK=9 TORCHELASTIC_USE_AGENT_STORE=True");
    assert_int_equal(launcher_export(&place, "10.0.0.1:29500"), STATUS_OK);
    assert_int_equal(launcher_place_find(&found), STATUS_OK);
    assert_memory_equal(&found, &place, sizeof place);
    assert_true(launcher_address(address) && launcher_is_local_rank() && !launcher_is_mpi());
    assert_string_equal(address, "10.0.0.1:29500");
    assert_true(launcher_makes_rank("RANK=1") && !launcher_makes_rank("RANKS=1"));
    assert_false(launcher_makes_rank("OMPI_ALLOW_RUN_AS_ROOT=1"));
}

static void test_jobs(void **state)
{
    static const struct {
        const char *environment, *job;
        bool hosts;
        int slurm_tasks;
    } cases[] = {
        {"RANK=0 WORLD_SIZE=2", "", false, 0},
        {"SLURM_JOB_ID=7 SLURM_STEP_ID=1 SLURM_PROCID=3 SLURM_JOB_NUM_NODES=1",
         "SLURM_JOB_ID=7 SLURM_STEP_ID=1", false, 0},
        {"SLURM_JOB_ID=7 AMPSCALE_JOB=mine SLURM_JOB_NUM_NODES=2 SLURM_NTASKS=8", "mine", true, 8},
        {"PBS_NODEFILE=/n AMPSCALE_JOB=a SLURM_NTASKS=many", "a", true, 0},
    };
    for (int i = 0; i < COUNT(cases); i++) {
        char job[LAUNCHER_JOB_MAX];
        set_environment(cases[i].environment);
        assert_int_equal(launcher_job(job), *cases[i].job != '\0');
        assert_string_equal(job, cases[i].job);
        assert_int_equal(launcher_has_hosts(), cases[i].hosts);
        assert_int_equal(launcher_slurm_tasks(), cases[i].slurm_tasks);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places),    cmocka_unit_test(test_wrong_places),
        cmocka_unit_test(test_addresses), cmocka_unit_test(test_export),
        cmocka_unit_test(test_jobs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
