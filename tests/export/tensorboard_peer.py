"""TensorBoard's view of a run: arguments are the folders of the live run, of its export, and of the
export of the run that export_made_run makes."""

import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import api_pb2, metadata

STEP_TAGS = ["Throughput/train", "Loss/train", "Top1/train", "Top5/train", "Lr"]
PART_TAGS = ["Step/" + part + "_s" for part in ("Total", "DataWait", "Copy", "Forward", "Backward",
                                                "ExposedCommunication", "Optimizer")]
VAL_TAGS = ["Loss/val", "Top1/val", "Top5/val", "Throughput/val"]


def load(folder):
    events = EventAccumulator(folder)
    events.Reload()
    return events


def points(events, tag):
    return [(e.step, e.value) for e in events.Scalars(tag)]


def close(a, b):
    return len(a) == len(b) and all(
        x[0] == y[0] and abs(x[1] - y[1]) <= 1e-6 * abs(y[1]) for x, y in zip(a, b))


def hparams(events):
    """The hyper-parameters with their types, the tags beside them, and how the session ended."""
    content = events.PluginTagToContent(metadata.PLUGIN_NAME)
    experiment = metadata.parse_experiment_plugin_data(content[metadata.EXPERIMENT_TAG])
    start = metadata.parse_session_start_info_plugin_data(content[metadata.SESSION_START_INFO_TAG])
    end = metadata.parse_session_end_info_plugin_data(content[metadata.SESSION_END_INFO_TAG])
    values = {name: getattr(v, v.WhichOneof("kind")) for name, v in start.hparams.items()}
    types = {i.name: i.type for i in experiment.hparam_infos}
    kinds = {str: api_pb2.DATA_TYPE_STRING, bool: api_pb2.DATA_TYPE_BOOL, float: api_pb2.DATA_TYPE_FLOAT64}
    assert types == {name: kinds[type(v)] for name, v in values.items()}, (types, values)
    assert start.start_time_secs > 0 and end.end_time_secs >= start.start_time_secs, (start, end)
    return values, [m.name.tag for m in experiment.metric_infos], end.status


live, exported, made = map(load, sys.argv[1:])
for name, events in (("live", live), ("exported", exported)):
    trained = [tag for tag in events.Tags()["scalars"] if not tag.startswith("Device")]
    assert trained == STEP_TAGS + PART_TAGS + VAL_TAGS, (name, events.Tags())
    steps = [p[0] for p in points(events, "Loss/train")]
    assert steps == list(range(10)), (name, steps)
    assert [p[0] for p in points(events, "Top1/val")] == [4, 9], name
    values, metrics, status = hparams(events)
    assert (values["arch"], values["batch_size"], values["dummy"]) == ("resnet8", 8, True), values
    assert abs(values["lr"] - 0.05) < 1e-12 and not {"data", "init", "resume"} & set(values), values
    assert set(metrics) <= set(STEP_TAGS + VAL_TAGS) and "Top1/val" in metrics, metrics
    assert status == api_pb2.STATUS_SUCCESS, (name, status)
for tag in STEP_TAGS + PART_TAGS + VAL_TAGS:
    assert close(points(live, tag), points(exported, tag)), tag

assert made.Tags()["scalars"] == STEP_TAGS + ["LossScale"] + PART_TAGS + VAL_TAGS, made.Tags()
assert points(made, "Loss/train") == [(0, 4), (1, 3), (3, 1)]  # the loss of step 2 is not finite
assert points(made, "Throughput/train") == [(i, 64) for i in range(4)]
assert points(made, "LossScale") == [(0, 65536), (1, 65536), (2, 32768), (3, 32768)]
assert points(made, "Top1/val") == [(1, 30), (3, 78)]
assert [e.wall_time for e in made.Scalars("Top1/train")] == [1706702401 + t for t in (0, 0.5, 2, 2.5)]
assert hparams(made)[0]["precision"] == "amp"
print("TensorBoard reads", len(STEP_TAGS + PART_TAGS + VAL_TAGS) + 1, "tags and", len(values), "hyper-parameters")
