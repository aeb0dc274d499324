"""The sides of pairs: how each program is run, and what it says."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

from common import ENVIRONMENT, PeerError

# With these variables, glibc's allocator does not return freed memory to the system. The system
# would have to clear returned memory again in each step, and PyTorch would lose a fifth of its
# speed on a CPU.
KEPT = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}


class Side:
    """A program that does the pair's work. `measure` returns its value of one turn."""

    def __init__(self, name, measure):
        self.name, self.measure = name, measure

    def warm(self):
        self.measure()

    def end(self):
        pass


class Talker(Side):
    """A Python process that says "ready ...", then answers each line with "<word> <value> ...". It
    stays, so that its start and what it compiled are paid for once."""

    def __init__(self, name, peers, command, ask, env=None, ranks=1):
        super().__init__(name, self.hear_value)
        self.command = [peers.python, f"{peers.here}/{command[0]}", *command[1:]]
        self.env = dict(ENVIRONMENT, OMP_NUM_THREADS=str(max(1, peers.threads // ranks)),
                        **(env or {}))
        self.ask, self.ranks, self.running = ask, ranks, []
        self.errors = tempfile.TemporaryFile("w+")

    def start(self):
        for rank in range(self.ranks):
            env = dict(self.env)
            if self.ranks > 1:
                env.update(RANK=str(rank), WORLD_SIZE=str(self.ranks), MASTER_ADDR="127.0.0.1",
                           MASTER_PORT=str(20000 + os.getpid() % 20000))
            self.running.append(subprocess.Popen(
                self.command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=self.errors, text=True))
        for process in self.running:
            self.hear(process, "ready")

    def hear(self, process, word):
        said = process.stdout.readline().strip()
        if not said.startswith(word):
            self.errors.seek(0)
            raise PeerError(said or " ".join(self.errors.read().split())[-200:] or
                            "it ended without an answer")
        return said[len(word):].strip()

    def hear_value(self):
        for process in self.running:
            process.stdin.write(self.ask + "\n")
            process.stdin.flush()
        return [float(self.hear(process, "images_per_s").split()[0])
                for process in self.running][0] * self.ranks

    def warm(self):
        self.start()
        self.measure()

    def end(self):
        for process in self.running:
            process.stdin.close()
            process.wait()
        self.running = []


def fresh(peers):
    out = f"{peers.scratch}/run"
    shutil.rmtree(out, ignore_errors=True)
    return out


def train_command(peers, work, steps, out, *words, threads=None):
    net, pixels, batch, precision = work
    return ["train", "--dummy", "-a", net, "--image-size", str(pixels), "-b", str(batch),
            "--precision", precision, "--steps", str(steps), "--epochs", "1000", "-q",
            "--no-checkpoint", "--training-only", "--telemetry", "0", "--threads",
            str(threads or peers.threads), "--out", out, *words]


def our_rate(peers, work, steps):
    """images/s of a run of ours, by its median step."""
    out = fresh(peers)
    peers.call([peers.program, *train_command(peers, work, steps, out)])
    with open(f"{out}/summary.json") as file:
        return json.load(file)["images_per_s"]["median"]


def our_ddp_rate(peers, work, steps):
    out = fresh(peers)
    peers.call([peers.program, "launch", "--nproc", "2", "--comm", "gloo", "--",
                *train_command(peers, work, steps, out, threads=max(1, peers.threads // 2))])
    with open(f"{out}/summary.json") as file:
        return json.load(file)["images_per_s"]["median"]


def our_loader_rate(peers, folder, batch, pixels, decode):
    text = peers.call([peers.program, "bench", "input", "--data", folder, "--threads", "1", "-b",
                       str(batch), "--image-size", str(pixels), "--images", "1000000", "-n", "2",
                       "-w", "1", "--decode", decode, "-q", "--json"])
    rows = [r for r in json.loads(text)["rows"]
            if r["stage"] == "loader" and r["from"] in ("warm", "memory")]
    return rows[0]["images_per_s_per_core"]


def usage(peers, command, env=None, text=None):
    """(wall seconds, peak memory in MiB) of a command from its start to its end."""
    reader = ("import json,resource,subprocess,sys,time\n"
              "t = time.monotonic()\n"
              "code = subprocess.run(sys.argv[1:], stdout=2).returncode\n"
              "t = time.monotonic() - t\n"
              "r = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024\n"
              "print(json.dumps([t, r]))\n"
              "sys.exit(code)")
    return json.loads(peers.call([sys.executable, "-c", reader, *command], env, text))
