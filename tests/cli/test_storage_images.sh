#!/usr/bin/env bash
# Storage that is slow, stalls or fails while a run trains, and images that are gone or damaged.
. "$(dirname "$0")/common.sh" "$@"
. "$(dirname "$0")/train.sh"
. "$source_dir/tests/interpose/interpose.sh"
cd "$scratch" || exit 1
make_data data
run=(data --epochs 2)
expect_train 0 "${run[@]}" --out reference

# The record of an epoch includes the time for writing its checkpoint.
interposed "fsync:delay300:1-:checkpoint.safetensors" expect_train 0 "${run[@]}" --out slow
python3 - <<'END' || fail "the record of an epoch does not include the time for its checkpoint"
import json
for line in open("slow/epochs.jsonl"):
    e = json.loads(line)
    seconds = e["train_s"] + e["val_s"] + e["checkpoint_s"]
    assert e["checkpoint_s"] >= 0.3, e["checkpoint_s"]
    assert abs(e["images_per_s_wall"] * seconds - e["train_images"]) < 0.01 * e["train_images"], e
END

# If storage stalls, the first throughput of the run falls, and a line names the cause. The throughput
# of the median step does not change. The stall is far longer than all steps together.
interposed "open:delay4000:60:.JPEG" expect_train 0 "${run[@]}" --out stalled -j 1
grep -q '^mean throughput is [0-9]* % below the median step: 1 of [0-9]* steps waited [0-9.]* s for data$' out ||
    fail "no line says that storage stalled: $(tail -n 3 out)"
python3 - <<'END' || fail "the first throughput of a run with stalls is not that of its steps: $(tail -n 3 out)"
import json, re
steps = [json.loads(l) for l in open("stalled/steps.jsonl")]
steps = [s for s in steps if "images" in s]
def rate(steps):
    return sum(s["images"] for s in steps) / sum(s["total_s"] for s in steps)
summary = json.load(open("stalled/summary.json"))
epochs = [json.loads(l) for l in open("stalled/epochs.jsonl")]
mean = rate(steps[len(steps) - summary["images_per_s"]["steps"]:])
assert mean < 0.5 * summary["images_per_s"]["median"], mean
assert abs(summary["images_per_s_mean"] / mean - 1) < 1e-6, mean
assert abs(epochs[1]["images_per_s_mean"] / rate([s for s in steps if s["epoch"] == 1]) - 1) < 1e-6, epochs[1]
out = open("out").read()
said = re.search(r"^Finished \d+ steps: ([0-9.]+) images/s \(mean\), ", out, re.M)
assert abs(float(said[1]) - mean) < 0.051, said[0]
# so is the mean that the log lines show in parentheses
shown = re.findall(r"^Epoch: \[1\].*Img/s [0-9.]+ \(([0-9.]+)\)$", out, re.M)[-1]
assert abs(float(shown) - epochs[1]["images_per_s_mean"]) < 0.051, shown
END

# If an image cannot be read, the run tries again. If the error is temporary, the result is bitwise
# equal to that of an undisturbed run. If the error remains, the run ends. It can be resumed when
# the storage works again.
for fault in open:EIO:3-5 open:EMFILE:2-4 open:ESTALE:9 read:EIO:20-22; do
    interposed "$fault:.JPEG" expect_train 0 "${run[@]}" --out "again-$fault"
    [[ ! -s err ]] || fail "$fault: $(cat err)"
    same_run "$fault" reference "again-$fault"
done
for fault in open:EIO:50- read:ENOMEM:50-; do
    interposed "$fault:.JPEG" expect_train 1 "${run[@]}" --out "ended-$fault" --checkpoint-steps 1
    one_line "$fault" "ampscale: cannot read image 'data/"
    expect_train 0 "${run[@]}" --out "ended-$fault" --resume auto
    same_run "$fault" reference "ended-$fault"
done

# If the size of a file cannot be read, the run ends. Otherwise the run would treat the data as
# another data set.
interposed stat:EIO:9:.JPEG expect_train 1 "${run[@]}" --out unseen
one_line "a size" "ampscale: cannot read 'data/"
[[ ! -e unseen ]] || fail "a size: the failed run made its folder"

# If the images are deleted during a run, the run ends.
cp -r data gone
"$program" train "${net[@]}" gone --epochs 100000 --out vanished >out 2>err &
pid=$!
await 60 test -s vanished/checkpoint.safetensors
rm -rf gone/train/*
code=0
wait "$pid" || code=$?
((code == 1)) || fail "the run 'vanished' exited with $code, not 1"
one_line vanished "in every attempt"

# Images that could not be decoded are left out. Records and `watch` show their number, and the
# throughput does not include them. `compare` refuses runs that left out different numbers of
# images.
cp -r data worse
mapfile -t images < <(find worse/train -type f | sort)
echo "this is no picture" >"${images[5]}"
for name in sound spoilt; do
    [[ $name == sound ]] && from=data || from=worse
    mkdir -p "$name"
    ln -sfn "$scratch/$from" images
    expect_train 0 images --epochs 2 --out "$name/r1"
done
python3 - <<'END' || fail "the records do not have the number of images that were left out"
import json
steps = [json.loads(l) for l in open("spoilt/r1/steps.jsonl")]
assert sum(s["images"] for s in steps if "images" in s) == 2 * 35
assert json.load(open("spoilt/r1/summary.json"))["images_left_out"] == 2
assert json.load(open("sound/r1/summary.json"))["images_left_out"] == 0
END
expect 5 compare sound spoilt
grep -q images_left_out out err || fail "compare does not name the field that differs: $(cat out err)"
expect 0 watch --once spoilt/r1
grep -q "skipped   2 images that could not be decoded" out || fail "watch: $(cat out)"

# A run stops at a signal even if it is waiting for storage that does not respond.
for ask in TERM INT; do
    LD_PRELOAD=$interpose AMPSCALE_INTERPOSE=open:delay100000:30-:.JPEG "$program" train "${net[@]}" "${run[@]}" --out "stalled-$ask" >out 2>err &
    pid=$!
    await 60 test -s "stalled-$ask/run.json"
    sleep 1
    before=$SECONDS
    kill -s "$ask" "$pid"
    code=0
    wait "$pid" || code=$?
    ((SECONDS - before < 60)) || fail "stalled storage, SIG$ask: the run ended after $((SECONDS - before)) s"
    ((code == 128 + $(kill -l "$ask"))) || fail "after SIG$ask on stalled storage the exit code is $code: $(cat err)"
    one_line "stalled, SIG$ask" "stopped by SIG$ask at epoch 0"
    expect_train 0 "${run[@]}" --out "stalled-$ask" --resume auto
    same_run "stalled, SIG$ask" reference "stalled-$ask"
done
# bench input names the image that cannot be read, in each of its passes.
for fault in {read,stat,open}:EIO:{12,20,25,30}-:.JPEG; do
    interposed "$fault" run bench input --data data --image-size 32 --images 8 -n 1 -b 4 --threads 1 -o input.json
    ((code == 1)) && grep -q "'data/train/.*Input/output error" err || fail "bench input with $fault: $code, $(<err)"
done
finish
