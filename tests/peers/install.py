"""Installs the peers into a folder of their own, a virtual environment."""
import json
import os
import subprocess
import sys

# Packages to install: pip's name, the module, and the version. PyPI's torch includes CUDA, which
# takes 6 GB and does not change results on a CPU. If PIP_EXTRA_INDEX_URL names PyTorch's own index,
# pip installs torch without CUDA.
PEERS = [
    ("numpy", "numpy", "1.26.4"),  # Debian's torch, which `scripts/setup --peers` uses, needs 1
    ("pillow", "PIL", "13.0.0"),
    ("torch", "torch", "2.15.0"),
    ("torchvision", "torchvision", "0.29.2"),
    ("nvidia-dali-cuda120", "nvidia.dali", "2.4.0"),
    ("scikit-learn", "sklearn", "1.9.1"),
]

PROBE = """
import importlib, json, sys
found = {}
for module in sys.argv[1:]:
    try:
        found[module] = [True, importlib.import_module(module).__version__]
    except Exception as problem:
        found[module] = [False, " ".join(f"{type(problem).__name__}: {problem}".split())[:200]]
print(json.dumps(found))
"""


def probe(python, modules):
    """{module: [there, its version or why it is not]}."""
    done = subprocess.run([python, "-c", PROBE, *modules], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True)
    if done.returncode != 0:
        return {m: [False, "the interpreter ended without an answer"] for m in modules}
    return json.loads(done.stdout.splitlines()[-1])


def pip(python, *words):
    """Runs pip; None, or the reason why it failed."""
    done = subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                           *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
    return None if done.returncode == 0 else (lines or done.stderr.splitlines() or ["failed"])[-1]


def prepare(folder, modules, say):
    """The folder's interpreter with the peers among `modules`; ({module: version}, {module: why it
    is not there}). A folder that is no virtual environment is used as it is and not changed."""
    python = os.path.join(folder, "bin", "python3")
    if not os.path.exists(python):
        base = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
        done = subprocess.run([base, "-m", "venv", folder], stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            why = "no virtual environment: " + (done.stderr.strip().splitlines() or ["failed"])[-1]
            return python, {}, {m: why for m in modules}
    ours = os.path.exists(os.path.join(folder, "pyvenv.cfg"))
    found, why = probe(python, modules), {}
    for name, module, version in PEERS:
        exact = found.get(module, [True, version])
        if not ours or module not in modules or exact[0] and exact[1].split("+")[0] == version:
            continue
        say(f"installing {name} {version} into {folder} ...")
        problem = pip(python, f"{name}=={version}")
        if problem:
            why[module] = problem
    found = probe(python, modules)
    return (python, {m: text for m, (there, text) in found.items() if there},
            {m: why.get(m, text) for m, (there, text) in found.items() if not there})
