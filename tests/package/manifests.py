"""Checks the Kubernetes manifests of docs/launch, and prints command lines of their pods.

    manifests.py check FILE...          every key is known and has a value of its type, and what the
                                        parts of a manifest say of each other is the same
    manifests.py args FILE REPLICA      the arguments of a container, one a line

The keys are those that the manifests use of Kubernetes' API (v1, batch/v1) and of the operators' (kubeflow.org/v1
PyTorchJob, kubeflow.org/v2beta1 MPIJob), written down from their references; "!" marks a required one. The
schemas themselves have 600 KB each.
"""

import sys

import yaml

QUANTITY = (int, str)  # "64", 256Gi
NAMED = {"name!": str}
ENV = {"name!": str, "value": str, "valueFrom": {"fieldRef": {"fieldPath!": str}, "secretKeyRef": {"name!": str, "key!": str}}}
CONTAINER = {
    "name!": str,
    "image!": str,
    "command": [str],
    "args": [str],
    "env": [ENV],
    "ports": [{"name": str, "containerPort!": int}],
    "resources": {"limits": {"cpu": QUANTITY, "memory": QUANTITY, "nvidia.com/gpu": int}},
    "volumeMounts": [{"name!": str, "mountPath!": str}],
}
POD = {
    "subdomain": str,
    "restartPolicy": ("Never", "OnFailure", "Always"),
    "terminationGracePeriodSeconds": int,
    "securityContext": {"runAsNonRoot": bool, "runAsUser": int, "fsGroup": int},
    "containers!": [CONTAINER],
    "volumes": [{"name!": str, "persistentVolumeClaim": {"claimName!": str}, "emptyDir": {"medium": ("Memory",), "sizeLimit": QUANTITY}}],
}
REPLICA = {"replicas!": int, "restartPolicy": ("Never", "OnFailure", "Always", "ExitCode"), "template!": {"spec!": POD}}
RUN_POLICY = {"backoffLimit": int, "cleanPodPolicy": ("None", "Running", "All")}
RULE = {
    "action!": ("Ignore", "FailJob", "FailIndex", "Count"),
    "onPodConditions": [{"type!": str, "status!": ("True", "False", "Unknown")}],
    "onExitCodes": {"containerName": str, "operator!": ("In", "NotIn"), "values!": [int]},
}
SPEC = {
    ("v1", "Service"): {"clusterIP": ("None",), "publishNotReadyAddresses": bool, "selector": {"job-name": str}, "ports!": [{"name": str, "port!": int}]},
    ("batch/v1", "Job"): {
        "completionMode": ("Indexed", "NonIndexed"),
        "completions": int,
        "parallelism": int,
        "backoffLimit": int,
        "podFailurePolicy": {"rules!": [RULE]},
        "template!": {"spec!": POD},
    },
    ("kubeflow.org/v1", "PyTorchJob"): {"runPolicy": RUN_POLICY, "pytorchReplicaSpecs!": {"Master!": REPLICA, "Worker": REPLICA}},
    ("kubeflow.org/v2beta1", "MPIJob"): {
        "slotsPerWorker": int,
        "sshAuthMountPath": str,
        "runPolicy": RUN_POLICY,
        "mpiReplicaSpecs!": {"Launcher!": REPLICA, "Worker!": REPLICA},
    },
}
failures = []


def fail(where, text):
    failures.append(f"{where}: {text}")


def check(where, value, want):
    """Compares a value with what is known of it: a type, a tuple of types or of words, a list, or keys."""
    if isinstance(want, dict):
        if not isinstance(value, dict):
            return fail(where, f"is not a mapping: {value!r}")
        known = {key.rstrip("!"): sub for key, sub in want.items()}
        for key in want:
            if key.endswith("!") and key[:-1] not in value:
                fail(where, f"lacks '{key[:-1]}'")
        for key, sub in value.items():
            if key not in known:
                fail(where, f"'{key}' is no key there")
            else:
                check(f"{where}.{key}", sub, known[key])
    elif isinstance(want, list):
        if not isinstance(value, list) or not value:
            return fail(where, f"is not a list: {value!r}")
        for i, item in enumerate(value):
            check(f"{where}[{i}]", item, want[0])
    elif isinstance(want, tuple) and isinstance(want[0], str):
        if value not in want:
            fail(where, f"{value!r} is none of {', '.join(want)}")
    elif not isinstance(value, want) or (isinstance(value, bool) and want is not bool):
        fail(where, f"{value!r} has another type")


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
        kind = (d.get("apiVersion"), d.get("kind"))
        where = f"{path}: {kind[1]}"
        if kind not in SPEC:
            fail(where, f"there is no such kind of {kind[0]}")
            continue
        check(where, d, {"apiVersion!": str, "kind!": str, "metadata!": NAMED, "spec!": SPEC[kind]})
        if not failures:
            for name, (_, pod) in replicas(d).items():
                check_pod(f"{where}.{name}", pod)
            if kind[1] == "MPIJob":
                check_mpi_job(where, d)
            if kind[1] == "PyTorchJob":
                agree(where, replicas(d)["Master"][1]["containers"][0]["name"], "pytorch")
    if not failures and every[-1]["kind"] == "Job":
        check_indexed_job(path, *every)


if sys.argv[1] == "args":
    _, found = replicas(documents(sys.argv[2])[-1])[sys.argv[3]]
    print(*found["containers"][0]["args"], sep="\n")
else:
    for name in sys.argv[2:]:
        check_file(name)
    print(*failures, sep="\n", end="\n" if failures else "")
    sys.exit(1 if failures else 0)
