/* Planning every architecture. */
#include "planned.h"

#include <string.h>

enum { CLASSES = 10, SIZE = 64 };

static const struct program_config configs[N_PROGRAMS] = {
    {.batch = 3, .train = true, .check_finite = true, .std = {1, 1, 1}},
    {.batch = 2, .train = true, .check_finite = true, .std = {1, 1, 1}},
    {.batch = 3, .std = {1, 1, 1}},
};

/* Programs [first, end). */
static void open_some(struct net_rig *r, const char *device, const char *arch,
                      const struct policy *policy, bool emulate, enum fuse fuse, int first, int end)
{
    struct program_config with[N_PROGRAMS];
    memcpy(with, configs, sizeof with);
    for (int i = first; i < end; i++) {
        with[i].policy = *policy;
        with[i].emulate = emulate;
        with[i].fuse = fuse;
    }
    net_rig_open_lazy(r, device, arch, CLASSES, SIZE, with + first, end - first);
}

void planned_open(struct net_rig *r, const char *device, const char *arch,
                  const struct policy *policy, bool emulate)
{
    open_some(r, device, arch, policy, emulate, FUSE_AUTO, 0, N_PROGRAMS);
}

void planned_open_fused(struct net_rig *r, const char *arch, const struct policy *policy,
                        enum fuse fuse)
{
    open_some(r, "ref", arch, policy, true, fuse, 0, N_PROGRAMS);
}

void planned_open_one(struct net_rig *r, const char *arch, const struct policy *policy,
                      enum fuse fuse, int program)
{
    open_some(r, "ref", arch, policy, true, fuse, program, program + 1);
}

static void for_all_fused(const char *precision, enum fuse fuse,
                          void (*check)(const struct network *net))
{
    struct policy policy;
    assert_ok(policy_find(precision, -1, &policy));
    for (int i = 0; graph_arch_name(i); i++) {
        struct net_rig r;
        planned_open_fused(&r, graph_arch_name(i), &policy, fuse);
        check(r.net);
        net_rig_close(&r);
    }
}

static void for_all_at(const struct policy *policy, bool emulate,
                       void (*check)(const struct network *net))
{
    static const char *const devices[] = {"cpu", "ref"};
    for (int d = 0; d < 2; d++) {
        for (int i = 0; graph_arch_name(i); i++) {
            struct net_rig r;
            planned_open(&r, devices[d], graph_arch_name(i), policy, emulate);
            check(r.net);
            net_rig_close(&r);
        }
    }
}

/* amp and O1 have the same plans as O2. A device that does not support bf16 has the same plans with
 * emulation as without emulation. */
void planned_for_all(void (*check)(const struct network *net))
{
    static const struct {
        const char *name;
        int keep_batchnorm;
        bool emulate;
    } policies[] = {{"fp32", -1},       {"tf32", -1},     {"O2", -1},      {"O2", 0},
                    {"O3", -1},         {"O3", 1},        {"bf16", -1},    {"bf16", 0},
                    {"bf16", -1, true}, {"O2", -1, true}, {"O3", -1, true}};
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        struct policy p;
        assert_ok(policy_find(policies[i].name, policies[i].keep_batchnorm, &p));
        for_all_at(&p, policies[i].emulate, check);
    }
    for_all_fused("fp32", FUSE_STATS, check);
    for_all_fused("O3", FUSE_APPLY, check);
    for_all_fused("tf32", FUSE_ALL, check);
    for_all_fused("O2", FUSE_ALL, check);
}
