"""What all pairs need: the programs, their versions, and calls that say why they failed."""
import json
import os
import subprocess
import sys
import time

import machine

# With this setting, OpenMP threads of both programs spin for the same short time before they sleep;
# see spin_limit in cli/cli.h.
ENVIRONMENT = dict(os.environ, GOMP_SPINCOUNT="5000")


class PeerError(Exception):
    """A side cannot run; the text says why, in one line."""


def die(code, text):
    sys.stderr.write(f"scripts/peers: {text}\n")
    sys.exit(code)


def write_record(record, path):
    with open(path + ".part", "w") as out:
        json.dump(record, out, indent=1)
        out.write("\n")
    os.replace(path + ".part", path)


class Peers:
    def __init__(self, program, scratch, threads, quick, limit, minutes=60):
        self.program, self.scratch = program, scratch
        self.threads, self.quick, self.limit, self.die = threads, quick, limit, die
        self.deadline = time.monotonic() + 60 * minutes
        self.python = sys.executable  # the interpreter with the peers, once they are installed
        self.here = os.path.dirname(os.path.abspath(__file__))
        self.versions = {}  # version of each peer that is installed
        self.absent = {}  # why each missing peer is missing

    def has_time(self, name):
        """Whether another turn may begin; says so when it may not."""
        if time.monotonic() < self.deadline:
            return True
        self.say(f"{name}: no more turns: the time is over")
        return False

    @staticmethod
    def say(text):
        print(text, flush=True)

    def call(self, command, env=None, text=None):
        """Runs a command; its standard output. PeerError with the last line of its errors."""
        done = subprocess.run(command, input=text, env=dict(ENVIRONMENT, **(env or {})),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines() or ["nothing on standard error"]
            raise PeerError(f"{os.path.basename(command[0])} exited with {done.returncode}: "
                            f"{' '.join(lines[-1].split())[:200]}")
        return done.stdout

    def info(self):
        return json.loads(self.call([self.program, "info", "--json"]))

    def about(self):
        """What a record says of the machine and the programs."""
        info = self.info()
        return {"cpu": machine.cpu_model(), "device": info["devices"][0]["description"],
                "cores": len(os.sched_getaffinity(0)), "threads": self.threads,
                "version": info.get("version", ""), "commit": info.get("commit", ""),
                "build": info.get("build", ""), "peers": self.versions, "absent": self.absent}
