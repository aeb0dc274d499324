#!/usr/bin/env python3
"""Validates records with the JSON Schemas of docs/schema.

usage: validate.py SCHEMAS [--older] PATH...

With --older, which is for records of earlier versions, keys may be missing.

PATH is a file or a folder, of which every *.json, *.jsonl, *.part and *.failed is taken. A file's
schema follows from its name or, for output that was saved under any name, from its content. Prints
the first violations of each file, and the schemas that were used; exits with 1 after a violation and
for a file without a schema, with 77 where the Python module jsonschema is missing.
"""
import json
import os
import re
import sys

try:
    import jsonschema
except ImportError:
    print("skipped: this Python has no jsonschema; scripts/setup --test installs it")
    sys.exit(77)

# Patterns of paths; the first match counts.
NAMES = [
    (r"(^|/)(run|outcome|plan|analysis|dataset|trend|predict|fleet|pair)\.json$", r"\2"),
    (r"(^|/)(steps|epochs|ranks|telemetry|history|results-summary)\.jsonl$", r"\2"),
    (r"(^|/)summary(-[0-9]+)?\.json$", "summary"),
    (r"(^|/)(accept|amp-report)\.json$", r"\2"),
    (r"(^|/)spec\.json$", "accept-spec"),
    (r"(^|/)checks/[^/]+\.(json|part)$", "accept-check"),
    (r"(^|/)node\.json$", "accept-node"),
    (r"\.failed$", "study-failed"),
]

# Output of commands, each recognised by a key that only this command prints.
CONTENTS = [
    ("compiler", "info"),
    ("policy", "info-policy"),
    ("flops_forward", "info-layers"),
    ("problems", "data-scan"),
    ("modes", "study"),
    ("hardware", "accept-spec"),
]


def from_content(value):
    """The name of the schema of a value; None: there is none."""
    if isinstance(value, list):
        return "info-list" if value and "flops_forward" in value[0] else "benchmark-action"
    if value.get("kind", "").startswith("peer"):
        return value["kind"]
    if "bench" in value:
        return "bench-" + value["bench"].replace("_", "-")
    if "report" in value:
        return "amp-report"
    if "record" in value:
        return {"sanitizer": "operations"}.get(value["record"], value["record"])
    for key, name in CONTENTS:
        if key in value:
            return name
    if "val_top1" in value and "source" in value:
        return "bench-accuracy-reference"
    if "cases" in value:
        return "selftest" if any("families" in case for case in value["cases"]) else "determinism"
    return None


def name_of(path, value):
    for pattern, name in NAMES:
        match = re.search(pattern, path)
        if match:
            return match.expand(name)
    return from_content(value)


def no_duplicates(pairs):
    keys = [key for key, _ in pairs]
    if len(set(keys)) != len(keys):
        raise ValueError("a key is there twice")
    return dict(pairs)


def no_constant(name):
    raise ValueError(f"{name} is not JSON")


def read(path):
    """The values of a file, each with its place in messages."""
    with open(path, encoding="utf-8") as file:
        texts = enumerate(file, 1) if path.endswith(".jsonl") else [(0, file.read())]
        return [(f":{i}" if i else "", json.loads(text, object_pairs_hook=no_duplicates, parse_constant=no_constant))
                for i, text in texts]


class Schemas:
    """The validators, each made when first used, of one schema that has all files as definitions: so
    that any version of jsonschema resolves references between files."""

    END = ".schema.json"

    def __init__(self, folder):
        self.validators = {}
        self.files = {}
        for file in sorted(os.listdir(folder)):
            if file.endswith(self.END):
                path = os.path.join(folder, file)
                name = file[: -len(self.END)]
                schema = read(path)[0][1]
                jsonschema.Draft202012Validator.check_schema(schema)
                if schema.pop("$id") != file:
                    sys.exit(f"{path}: '$id' is not the file's name")
                self.files[name] = self.localise(schema, name)

    def localise(self, value, name):
        """References of the file `name` as references into the schema of all files."""
        if isinstance(value, list):
            return [self.localise(v, name) for v in value]
        if not isinstance(value, dict):
            return value
        return {k: self.target(v, name) if k == "$ref" else self.localise(v, name) for k, v in value.items()}

    def target(self, reference, name):
        file, _, pointer = reference.partition("#")
        return "#/$defs/" + (file[: -len(self.END)] if file else name) + pointer

    def validator(self, name):
        if name not in self.validators:
            schema = {"$ref": "#/$defs/" + name, "$defs": self.files}
            self.validators[name] = jsonschema.Draft202012Validator(schema)
        return self.validators[name]


def violations(schemas, path, older):
    """Yields a line for each violation in a file."""
    try:
        values = read(path)
    except ValueError as error:
        yield f"{path}: {error}"
        return
    name = name_of(path, values[0][1]) if values else None
    if values and name not in schemas.files:
        yield f"{path}: no schema in docs/schema describes this file ({name})"
        return
    for place, value in values:
        for error in schemas.validator(name).iter_errors(value):
            if not (older and error.validator == "required"):
                where = "/".join(str(step) for step in error.absolute_path)
                yield f"{path}{place}: {name}: '{where}': {error.message[:300]}"


def files_of(path):
    if os.path.isfile(path):
        return [path]
    found = [os.path.join(folder, f) for folder, _, files in os.walk(path) for f in files]
    return sorted(f for f in found if re.search(r"\.(json|jsonl|part|failed)$", f))


def main():
    schemas = Schemas(sys.argv[1])
    older = sys.argv[2] == "--older"
    files = [f for path in sys.argv[2 + older :] for f in files_of(path)]
    wrong = 0
    for path in files:
        lines = list(violations(schemas, path, older))
        wrong += bool(lines)
        print(*lines[:5], sep="\n", end="\n" if lines else "")
    print(f"{len(files)} files, {wrong} wrong")
    print("schemas used:", " ".join(sorted(schemas.validators)))
    sys.exit(1 if wrong or not files else 0)


main()
