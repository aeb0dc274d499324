#!/usr/bin/env bash
# Training on the simulated GPU: early launches and graphs are used where they are asked for, and a run
# that was killed or stopped has the bits of one that was not, also with the fused operations of a stem
# (batch norm, ReLU and pooling) and with weight gradients in half precision.
. "$(dirname "$0")/common.sh" "$@"
. "$(dirname "$0")/train.sh"
need_fake_gpu
cd "$scratch" || exit 1
tiny=(train --dummy -a resnet8 --image-size 8 -b 2 --classes 10 -p 99 --threads 1 --precision O1 --fuse all --deterministic)

# launches FLAGS...: trains, and prints the early launches outside of captures, those inside, and all
# launches inside. On the simulated GPU no kernel reads memory before it has waited for the one before.
launches() {
    rm -f count
    AMPSCALE_FAKE_COUNT=$scratch/count expect 0 "${tiny[@]}" --steps 4 "$@" >&2
    awk '$1 == "cudaLaunchDependent" { out += $2; in_ += $3 } $1 == "cudaLaunchKernel" { all += $3 }
        END { print out + 0, in_ + 0, all + 0 }' count
}
read -r outside inside all <<<"$(launches --devices cuda:0 --pdl on --out early)"
((outside > 0 && inside > 0 && inside == all)) || fail "--pdl on: $outside early launches outside of captures, $inside of $all inside"
grep -q '"pdl": true' early/run.json || fail "--pdl on is not in the record"
for how in "cuda:0 off -" "cuda:2 on -" "cuda:0 on old-code" "cuda:0 on driver-12.2"; do
    read -r device pdl gpu <<<"$how"
    read -r outside inside all <<<"$(AMPSCALE_FAKE_GPU=${gpu#-} launches --devices "$device" --pdl "$pdl")"
    ((outside + inside == 0 && all > 0)) || fail "$how: $outside early launches outside of captures, $inside of $all inside"
done
AMPSCALE_FAKE_FAIL=cudaLaunchDependent@capture:3 expect 0 "${tiny[@]:0:12}" --steps 32 --devices cuda:0 --wgrad-stream off --out tried
grep -q '"pdl": false' tried/run.json && grep -q '"rung": "auto"' tried/summary.json || fail "early launches failed: they are used, or graphs are not"

# Every capture becomes a graph, with each option that is tried.
AMPSCALE_FAKE_COUNT=$scratch/captures expect 0 "${tiny[@]}" --steps 32 --devices cuda:0 --out options
awk '$1 == "cudaStreamEndCapture" { ended += $2 + $3 } $1 == "cudaGraphInstantiate" { made += $2 + $3 }
    END { exit !(made > 0 && ended == made) }' captures || fail "a capture became no graph: $(grep -E 'EndCapture|Instantiate' captures | xargs)"

net=(--dummy --dummy-train 8 --dummy-val 2 --classes 5 -a resnet18 --image-size 64 -b 4 -p 1 --threads 1 --lr 0.01
    --seed 3 --epochs 1)
gpu=(--devices cuda:0 --precision O1 --fuse all --deterministic --loss-scale-init 1024 --checkpoint-steps 1 --inject-overflow 1)
losses() { run_values "$1" | awk '$1 == "step" { print $10 }'; }
expect_train 0 --out cpu
expect_train 0 --out whole "${gpu[@]}"
paste <(losses cpu) <(losses whole) | awk '{ d = ($1 - $2) / $1; if (d * d > 4e-4) bad = 1 } END { exit bad || NR != 2 }' ||
    fail "losses $(losses whole | xargs) instead of $(losses cpu | xargs)"
grep -q '"skipped": 1$' whole/summary.json || fail "no step was skipped"
train_signalled KILL 1 --out killed "${gpu[@]}"
((code == 137)) || fail "the run that was killed after its first batch ended with exit code $code"
expect_train 0 --out killed --resume auto "${gpu[@]}"
same_run "killed after the first batch" whole killed
finish
