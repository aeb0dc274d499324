# shellcheck shell=bash disable=SC2034,SC2154,SC2016
# Simulates two hosts on one machine, for tests of jobs that use a network: two network namespaces
# with their own addresses and host names, connected by a veth pair. Source this file after mpi.sh
# and a call of mpi_find. $scratch is a folder of the test.
#
#     netns_open            makes the hosts; if it cannot, the test ends as skipped
#     trap netns_close EXIT
#     mpi_run 60 2 prog     now runs across both hosts: rank 0 on host-a, rank 1 on host-b, rank 2 on
#                           host-a ...
#     netns_lose prog ... & cuts the network during such a job, and prints the numbers of ranks that
#                           run before and after the cut

netns_name=(ampscale-$$-a ampscale-$$-b)
netns_host=(host-a host-b)
netns_address=(192.0.2.1 192.0.2.2)

netns_skip() {
    echo "skipped: $*"
    exit $((${failures-0} > 0 ? 1 : 77))
}

# netns_on I COMMAND...: runs the command on host I, which is 0 or 1.
netns_on() {
    local i=$1
    shift
    ip netns exec "${netns_name[i]}" unshare --uts \
        sh -c 'hostname "$0" && exec "$@"' "${netns_host[i]}" "$@"
}

# Writes the script that the launcher calls instead of ssh. The arguments of the script are an
# address and a command line.
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
    [[ ${mpi_launch[*]} == *--oversubscribe* ]] || netns_skip "the simulated hosts support only Open MPI"
    command -v ip unshare >/dev/null || netns_skip "ip (iproute2) or unshare (util-linux) is not installed"
    ip netns add "${netns_name[0]}" 2>/dev/null || netns_skip "only root may make network namespaces"
    if ! { ip netns add "${netns_name[1]}" && netns_plug && netns_on 0 true; } 2>"$scratch/netns"; then
        netns_close
        netns_skip "cannot make the network of two hosts: $(tail -n 1 "$scratch/netns")"
    fi
    netns_write_agent
    printf '%s slots=8\n' "${netns_address[@]}" >"$scratch/hosts"
    mpi_launch=(ip netns exec "${netns_name[0]}" unshare --uts
        sh -c 'hostname "$0" && exec "$@"' "${netns_host[0]}"
        "${mpi_launch[@]}" --mca plm_rsh_agent "$scratch/agent" --hostfile "$scratch/hosts"
        --map-by node --bind-to none --mca btl "tcp,self")
}

# netns_ranks PROGRAM: prints how many processes named PROGRAM run on the two hosts.
netns_ranks() {
    local pids
    pids=$(ip netns pids "${netns_name[0]}" && ip netns pids "${netns_name[1]}")
    ps -o comm= -p "$(xargs <<<"$pids" | tr ' ' ,)" | grep -cx "$1"
}

# netns_until SECONDS COMMAND...: repeats the command until it succeeds, for at most SECONDS.
netns_until() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        ((SECONDS < end)) || return 1
        sleep 0.1
    done
}

# netns_are_left PROGRAM COUNT: succeeds if exactly COUNT processes named PROGRAM run.
netns_are_left() {
    (($(netns_ranks "$1") == $2))
}

# netns_lose PROGRAM COMMAND...: waits until COMMAND succeeds, then cuts the network of a running
# job, whose ranks are the processes named PROGRAM. Prints the number of running ranks before the cut,
# and when all have ended, but at the latest 9 seconds after the cut. Waits until a message is in
# $scratch/err. Then ends the launcher, which may still run.
netns_lose() {
    local program=$1
    shift
    netns_until 30 "$@"
    netns_ranks "$program"
    ip -n "${netns_name[1]}" link set cable down
    netns_until 9 netns_are_left "$program" 0
    netns_ranks "$program"
    netns_until 5 grep -qs '^ampscale: ' "$scratch/err"
    netns_kill
}

# Ends all processes on the hosts.
netns_kill() {
    local name pid
    for name in "${netns_name[@]}"; do
        for pid in $(ip netns pids "$name" 2>/dev/null); do
            kill -KILL "$pid" 2>/dev/null
        done
    done
}

netns_close() {
    local name
    netns_kill
    for name in "${netns_name[@]}"; do
        ip netns delete "$name" 2>/dev/null
    done
}
