"""prometheus_client's view of a textfile: arguments are the file, and the name of its run."""

import sys

from prometheus_client.parser import text_string_to_metric_families

path, name = sys.argv[1:]
families = {f.name: f for f in text_string_to_metric_families(open(path).read())}
samples = [s for f in families.values() for s in f.samples]
assert samples and all(f.documentation and f.type in ("gauge", "counter") for f in families.values())
assert {s.labels["run"] for s in samples} == {name}, {s.labels["run"] for s in samples}
assert len({(s.name, tuple(sorted(s.labels.items()))) for s in samples}) == len(samples), "a sample twice"


def value(metric, **labels):
    found = [s.value for s in samples if s.name == metric and labels.items() <= s.labels.items()]
    assert len(found) == 1, (metric, labels, found)
    return found[0]


# The run that export_made_run makes.
assert value("ampscale_steps_total") == 4 and value("ampscale_epochs_total") == 2
assert value("ampscale_run_finished") == 1 and value("ampscale_loss_scale") == 32768
assert value("ampscale_step_part_seconds", part="backward") == 0.25
assert value("ampscale_accuracy_ratio", phase="val", top="1") == 0.78
print("prometheus_client reads", len(families), "metrics")
