"""The machine, and which part of its time went to other processes."""
import os
import time

TICK = os.sysconf("SC_CLK_TCK")


def cpu_model():
    """The processor's name, without the host's."""
    with open("/proc/cpuinfo") as lines:
        for line in lines:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return os.uname().machine


def cpu_flags():
    with open("/proc/cpuinfo") as lines:
        for line in lines:
            if line.startswith("flags"):
                return set(line.split(":", 1)[1].split())
    return set()


def has_bf16():
    return bool(cpu_flags() & {"avx512_bf16", "amx_bf16"})


def load():
    return os.getloadavg()[0]


def machine_seconds():
    """(CPU seconds of all processes, seconds stolen by the hypervisor), since the system started."""
    with open("/proc/stat") as file:
        user, nice, system, _, _, irq, softirq, steal = map(int, file.readline().split()[1:9])
    return (user + nice + system + irq + softirq) / TICK, steal / TICK


def stat_of(pid):
    """(parent, CPU seconds of a process and of its children that have ended); None: it is gone."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            words = file.read().rsplit(")", 1)[1].split()
    except OSError:
        return None
    return int(words[1]), sum(map(int, words[11:15])) / TICK


def own_seconds():
    """CPU seconds of this process and all its descendants, dead or alive. What a descendant used
    is counted by its parent once that has waited for it."""
    known = {}
    for name in os.listdir("/proc"):
        stat = stat_of(name) if name.isdigit() else None
        if stat:
            known[int(name)] = stat
    total, todo = 0.0, [os.getpid()]
    while todo:
        pid = todo.pop()
        total += known[pid][1] if pid in known else 0.0
        todo.extend(child for child, (parent, _) in known.items() if parent == pid)
    return total


class Watch:
    """Shares of the machine's time in a with block: `others` by other processes, `steal` by the
    hypervisor. Times are in ticks of 1/100 s, so a block should last a second."""

    def __enter__(self):
        self.own, (self.busy, self.stolen) = own_seconds(), machine_seconds()
        self.begun = time.monotonic()
        return self

    def __exit__(self, *_):
        (busy, stolen), own = machine_seconds(), own_seconds()
        total = os.cpu_count() * max(time.monotonic() - self.begun, 1.0 / TICK)
        self.others = max(0.0, busy - self.busy - (own - self.own)) / total
        self.steal = max(0.0, stolen - self.stolen) / total
