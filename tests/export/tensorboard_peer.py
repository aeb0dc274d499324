"""TensorBoard's view of a run: arguments are the folders of the live run, of its export, and of the
export of the run that made_run.c makes."""

import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

STEP_TAGS = ["Throughput", "Time", "Loss", "Top1", "Top5", "Lr"]
PART_TAGS = ["DataWait_s", "Copy_s", "Forward_s", "Backward_s", "ExposedCommunication_s", "Optimizer_s"]
PART_TAGS = ["Step/" + tag for tag in PART_TAGS]
VAL_TAGS = ["Val/Loss", "Val/Top1", "Val/Top5", "Val/Throughput"]


def load(folder):
    events = EventAccumulator(folder)
    events.Reload()
    return events


def points(events, tag):
    return [(e.step, e.value) for e in events.Scalars(tag)]


def close(a, b):
    return len(a) == len(b) and all(
        x[0] == y[0] and abs(x[1] - y[1]) <= 1e-6 * abs(y[1]) for x, y in zip(a, b)
    )


live, exported, made = map(load, sys.argv[1:])
for name, events in (("live", live), ("exported", exported)):
    trained = [tag for tag in events.Tags()["scalars"] if not tag.startswith("Device")]
    assert trained == STEP_TAGS + PART_TAGS + VAL_TAGS, (name, events.Tags())
    assert [p[0] for p in points(events, "Loss")] == list(range(10)), (name, points(events, "Loss"))
    assert [p[0] for p in points(events, "Val/Top1")] == [4, 9], name
for tag in STEP_TAGS + PART_TAGS + VAL_TAGS:
    assert close(points(live, tag), points(exported, tag)), tag

assert made.Tags()["scalars"] == STEP_TAGS + ["LossScale"] + PART_TAGS + VAL_TAGS, made.Tags()
assert points(made, "Loss") == [(0, 4), (1, 3), (3, 1)]  # step 2's is not finite
assert points(made, "Throughput") == [(i, 64) for i in range(4)]
assert points(made, "LossScale") == [(0, 65536), (1, 65536), (2, 32768), (3, 32768)]
assert points(made, "Val/Top1") == [(1, 30), (3, 78)]
assert [e.wall_time for e in made.Scalars("Top1")] == [1706702401 + t for t in (0, 0.5, 2, 2.5)]
print("TensorBoard reads", len(STEP_TAGS + PART_TAGS + VAL_TAGS) + 1, "tags")
