"""Checks that the parts of the Kubernetes manifests of docs/launch agree, and prints command lines of
their pods. kubeconform compares manifests with the schemas of Kubernetes.

    manifests.py check FILE...
    manifests.py args FILE REPLICA      the arguments of a container, one a line
"""

import sys

import yaml

failures = []


def fail(where, text):
    failures.append(f"{where}: {text}")


def documents(path):
    with open(path, encoding="utf-8") as f:
        return list(yaml.safe_load_all(f))


def replicas(document):
    """The pods of a document: {replica: (number, pod)}."""
    spec = document["spec"]
    if "template" in spec:
        return {"Pod": (spec["completions"], spec["template"]["spec"])}
    every = spec.get("pytorchReplicaSpecs") or spec.get("mpiReplicaSpecs") or {}
    return {name: (r["replicas"], r["template"]["spec"]) for name, r in every.items()}


def flag(args, name):
    return next((a.split("=", 1)[1] for a in args if a.startswith(f"--{name}=")), None)


def agree(where, a, b):
    if a != b:
        fail(where, f"{a!r} here, {b!r} there")


def check_pod(where, pod):
    for container in pod["containers"]:
        volumes = {v["name"] for v in pod.get("volumes", [])}
        for mount in container.get("volumeMounts", []):
            if mount["name"] not in volumes:
                fail(where, f"there is no volume '{mount['name']}'")
        grace = flag(container.get("args", []), "grace")
        if grace and int(grace) >= pod["terminationGracePeriodSeconds"]:
            fail(where, "the pod is killed before --grace has passed")


def check_indexed_job(where, service, job):
    _, pod = replicas(job)["Pod"]
    args = pod["containers"][0]["args"]
    name = job["metadata"]["name"]
    agree(where + ": selector", service["spec"]["selector"]["job-name"], name)
    agree(where + ": subdomain", pod["subdomain"], service["metadata"]["name"])
    agree(where + ": rendezvous", flag(args, "rendezvous"), f"{name}-0.{pod['subdomain']}:{service['spec']['ports'][0]['port']}")
    agree(where + ": nodes", flag(args, "nnodes"), str(job["spec"]["completions"]))
    agree(where + ": all at once", job["spec"]["parallelism"], job["spec"]["completions"])
    agree(where + ": GPUs", flag(args, "nproc-per-node"), str(pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"]))


def check_mpi_job(where, job):
    workers, pod = replicas(job)["Worker"]
    args = replicas(job)["Launcher"][1]["containers"][0]["args"]
    slots = job["spec"]["slotsPerWorker"]
    agree(where + ": ranks", flag(args, "nproc"), str(workers * slots))
    agree(where + ": GPUs", slots, pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"])


def check_file(path):
    every = documents(path)
    for d in every:
        where = f"{path}: {d['kind']}"
        for name, (_, pod) in replicas(d).items():
            check_pod(f"{where}.{name}", pod)
        if d["kind"] == "MPIJob":
            check_mpi_job(where, d)
        if d["kind"] == "PyTorchJob":
            agree(where, replicas(d)["Master"][1]["containers"][0]["name"], "pytorch")
    if every[-1]["kind"] == "Job":
        check_indexed_job(path, *every)


if sys.argv[1] == "args":
    _, found = replicas(documents(sys.argv[2])[-1])[sys.argv[3]]
    print(*found["containers"][0]["args"], sep="\n")
else:
    for name in sys.argv[2:]:
        check_file(name)
    print(*failures, sep="\n", end="\n" if failures else "")
    sys.exit(1 if failures else 0)
