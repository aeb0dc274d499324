# shellcheck shell=bash disable=SC2034,SC2154,SC2016
# Two hosts on one machine, for tests of jobs that cross a network: network namespaces with a cable
# (a veth pair) between them, each with its own address and host name. Sourced after mpi.sh and
# mpi_find; $scratch is a folder of the test's.
#
#     netns_open            or the test ends as skipped
#     trap netns_close EXIT
#     mpi_run 60 2 prog     now runs across both hosts: rank 0 on host-a, rank 1 on host-b, rank 2 on
#                           host-a ...

netns_name=(ampscale-$$-a ampscale-$$-b)
netns_host=(host-a host-b)
netns_address=(192.0.2.1 192.0.2.2)

netns_skip() {
    echo "skipped: $*"
    exit 77
}

# netns_on I COMMAND...: on host I (0 or 1).
netns_on() {
    local i=$1
    shift
    ip netns exec "${netns_name[i]}" unshare --uts \
        sh -c 'hostname "$0" && exec "$@"' "${netns_host[i]}" "$@"
}

# The launcher's way to another host, in place of ssh: called with an address and a command line.
netns_write_agent() {
    cat >"$scratch/agent" <<AGENT
#!/bin/sh
case \$1 in
${netns_address[0]}) name=${netns_name[0]} host=${netns_host[0]} ;;
*) name=${netns_name[1]} host=${netns_host[1]} ;;
esac
shift
exec ip netns exec "\$name" unshare --uts sh -c "hostname \$host && \$*"
AGENT
    chmod +x "$scratch/agent"
}

netns_plug() {
    local i
    ip link add cable netns "${netns_name[0]}" type veth peer name cable netns "${netns_name[1]}" || return 1
    for i in 0 1; do
        ip -n "${netns_name[i]}" address add "${netns_address[i]}/24" dev cable &&
            ip -n "${netns_name[i]}" link set lo up &&
            ip -n "${netns_name[i]}" link set cable up || return 1
    done
}

netns_open() {
    [[ ${mpi_launch[*]} == *--oversubscribe* ]] || netns_skip "two hosts are set up for Open MPI alone"
    command -v ip unshare >/dev/null || netns_skip "no ip (iproute2) or unshare (util-linux)"
    ip netns add "${netns_name[0]}" 2>/dev/null || netns_skip "may not make network namespaces (not root)"
    if ! { ip netns add "${netns_name[1]}" && netns_plug && netns_on 0 true; } 2>"$scratch/netns"; then
        netns_close
        netns_skip "cannot make two hosts: $(tail -n 1 "$scratch/netns")"
    fi
    netns_write_agent
    printf '%s slots=8\n' "${netns_address[@]}" >"$scratch/hosts"
    mpi_launch=(ip netns exec "${netns_name[0]}" unshare --uts
        sh -c 'hostname "$0" && exec "$@"' "${netns_host[0]}"
        "${mpi_launch[@]}" --mca plm_rsh_agent "$scratch/agent" --hostfile "$scratch/hosts"
        --map-by node --bind-to none --mca btl "tcp,self")
}

# netns_cut: pulls the cable.
netns_cut() {
    ip -n "${netns_name[1]}" link set cable down
}

# Ends what still runs on the hosts and removes them.
netns_close() {
    local name pid
    for name in "${netns_name[@]}"; do
        for pid in $(ip netns pids "$name" 2>/dev/null); do
            kill -KILL "$pid" 2>/dev/null
        done
        ip netns delete "$name" 2>/dev/null
    done
}
