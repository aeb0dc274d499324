"""Runs a command of ampscale on randomly damaged files:

    hostile.py PROGRAM CASES SEED FOLDER SCRATCH FILES NAMES COMMAND ARG...

Repeats CASES times: copies FOLDER to SCRATCH/case, damages FILES of its files whose names begin with
one of the words of NAMES (any file, if NAMES is empty), runs "PROGRAM COMMAND ARG..." there, and
judges how it ends. The folder and the output of a finding are kept as SCRATCH/finding-N. Prints
"CASES FILES FINDINGS" and the number of runs for each exit code.
"""
import os
import random
import re
import shutil
import signal
import subprocess
import sys

LIMIT_S, CODES = 120, 6
TOKENS = [b"null", b"true", b"{}", b"[]", b'""', b"-1", b"0", b"1e999", b"-1e308", b"1e-320", b"NaN",
          b"Infinity", b"9223372036854775807", b"-9223372036854775808", b"18446744073709551616",
          b"4294967296", b"2147483648", b"0.1", b'"\\u0000"', b'"\\u001b[2J"', b'"\\u202e"',
          b'"../../../etc/passwd"', b'"=1+1"', b'"<script>alert(1)</script>"', b'"%s%n%d"',
          b'"a\\"b"', b'{"schema": 1}', b"[[[[[[[[[[[[[[[[", b"\xff\xfe", b"\xed\xa0\x80",
          b"\x1b]0;x\x07", b",,,,", b"\r\n", b"slots=99999999999", b"a:0", b"-x:2"]
NUMBERS = [b"0", b"1", b"-1", b"2", b"3", b"1e999", b"-1e308", b"1e-320", b"0.1", b"1e30", b"65536",
           b"9223372036854775807", b"-9223372036854775808", b"4294967296", b"2147483648", b"null"]
STRINGS = [b'""', b'"\\u001b[2J"', b'"\\u202e"', b'"../../../etc/passwd"', b'"=1+1"', b'"%s%n%d"',
           b'"<script>alert(1)</script>"', b'"a\\"b|c,d;e"', b'"resnet18"', b"7", b"null", b"[]",
           b'"2024-99-99T99:99:99Z"', b"{}"]
VALUE = re.compile(rb'"[^"]*" *|[0-9-][0-9+.eE-]*')
CONTROL = re.compile(rb"[\0-\x08\x0b\x0c\x0e-\x1f\x7f]")


def replace_value(draw, data, at):
    """Replaces the number or the quoted string after `at`. The file stays well-formed."""
    found = VALUE.search(data, at)
    while found and data[found.end():found.end() + 1] == b":" and draw.randrange(8):
        found = VALUE.search(data, found.end())  # mostly a key's value, not the key
    if not found:
        return data
    values = STRINGS if found.group().startswith(b'"') else NUMBERS
    return data[:found.start()] + draw.choice(values) + data[found.end():]


def damage_once(draw, data, gently):
    at, other, n = draw.randrange(len(data)), draw.randrange(len(data)), draw.randint(1, 64)
    if at > 512 and draw.randrange(3) == 0:  # damages headers more often
        at %= 512
    here, rest = data[:at], data[at:]
    ways = [lambda: here + bytes([rest[0] ^ 1 << draw.randrange(8)]) + rest[1:],
            lambda: here + bytes([draw.randrange(256)]) + rest[1:],
            lambda: here,
            lambda: here + rest[n:],
            lambda: here + data[other:other + n] + rest,
            lambda: here + draw.choice(TOKENS) + rest,
            lambda: here + bytes([draw.randrange(256)]) * len(rest[:n]) + rest[n:],
            lambda: replace_value(draw, data, at)]
    return (ways[-1] if gently else draw.choice(ways))()


def damage(draw, path):
    with open(path, "rb") as file:
        data = file.read()
    gently = draw.randrange(2) == 0
    for _ in range(draw.randint(1, 3)):
        data = damage_once(draw, data, gently) if data else data
    with open(path, "wb") as file:
        file.write(data)


def run(command, folder, output):
    """The exit code of the command, which is killed if it hangs. At the end, kills all processes
    that it started."""
    with open(output, "wb") as out:
        child = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out,
                                 stderr=subprocess.STDOUT, start_new_session=True)
        try:
            return child.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            return -signal.SIGKILL
        finally:
            try:
                os.killpg(child.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            child.wait()


def judge(code, said):
    """Why a run is a finding; None: it is not."""
    if b"Sanitizer" in said or b"runtime error" in said:
        return "a sanitizer's finding"
    if code < 0:
        return "a hang" if code == -signal.SIGKILL else "a crash"
    if code >= CODES:
        return "an exit code that is not documented"
    if code != 0 and not said:
        return "no message"
    return "control characters" if CONTROL.search(said) else None


def main():
    program, cases, seed, folder, scratch, files, names, *words = sys.argv[1:]
    case, output, codes, damaged, findings = f"{scratch}/case", f"{scratch}/out", [0] * CODES, 0, 0
    for i in range(int(cases)):
        draw = random.Random(f"{seed} {i}")
        shutil.rmtree(case, ignore_errors=True)
        shutil.copytree(folder, case)
        paths = sorted(os.path.join(at, name) for at, _, inside in os.walk(case) for name in inside
                       if name.startswith(tuple(names.split()) or ""))
        paths = [path for path in paths if os.path.getsize(path) > 0]
        for _ in range(int(files) if paths else 0):
            damage(draw, draw.choice(paths))
            damaged += 1
        code = run([program, *words], case, output)
        with open(output, "rb") as file:
            said = file.read()
        why = judge(code, said)
        if 0 <= code < CODES:
            codes[code] += 1
        if why:
            findings += 1
            print(f"FAILED: {why}: finding-{findings}, seed {seed}, case {i}: {' '.join(words)}")
            print(*said.decode(errors="backslashreplace").splitlines()[:12], sep="\n")
            shutil.copytree(case, f"{scratch}/finding-{findings}", dirs_exist_ok=True)
            shutil.copy(output, f"{scratch}/finding-{findings}")
    print(cases, damaged, findings, *codes)
    return findings > 0


sys.exit(main())
