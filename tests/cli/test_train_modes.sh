#!/usr/bin/env bash
# The same training in every mode: however devices and ranks share the images of a step, the losses
# are those of one device.
. "$(dirname "$0")/common.sh" "$@"
. "$(dirname "$0")/train.sh"
. "$(dirname "$0")/modes.sh"

same_training
mpi_leaks on
nd nd
nd nd-2 --threads 2
nd nd-3 --threads 3
follows "one device with two threads" nd nd-2 2e-5
follows "one device with three threads" nd nd-3 2e-5

ddp ddp-2 2 --sync-bn
follows "ddp of 2" nd ddp-2 1e-4
ddp ddp-4 4 --sync-bn
follows "ddp of 4" nd ddp-4 1e-4
for reduce in central all; do
    dp "dp-$reduce" --sync-bn --dp-reduce "$reduce"
    follows "dp of 2, $reduce" nd "dp-$reduce" 1e-4
    ddp2 "ddp2-$reduce" --sync-bn --dp-reduce "$reduce"
    follows "ddp2 of 2 x 2, $reduce" nd "ddp2-$reduce" 1e-4
done

# --clip-grad-norm limits the norm of the whole gradient, which is the same on all ranks. Batch
# norm's parameters have another weight decay on every rank.
recipe=(--clip-grad-norm 0.3 --wd 0.05 --norm-weight-decay 0)
nd recipe "${recipe[@]}"
ddp recipe-2 2 --sync-bn "${recipe[@]}"
follows "clipped gradient, ddp of 2" recipe recipe-2 1e-4
dp recipe-dp --sync-bn --dp-reduce all "${recipe[@]}"
follows "clipped gradient, dp of 2" recipe recipe-dp 1e-4
ddp2 recipe-ddp2 --sync-bn --dp-reduce central "${recipe[@]}"
follows "clipped gradient, ddp2 of 2 x 2" recipe recipe-ddp2 1e-4
for left_out in 0 2 4; do # each setting has an effect
    others=("${recipe[@]:0:left_out}" "${recipe[@]:left_out+2}")
    nd "recipe-without-$left_out" "${others[@]}"
    [[ $(losses "recipe-without-$left_out") != "$(losses recipe)" ]] || fail "${recipe[left_out]} has no effect"
done

# Mixup pairs the images of each device's part of a batch: two halves on two devices, or one after
# the other on one. All devices and ranks use the same weight.
dp mixed-dp --mixup 0.4
dp mixed-all --mixup 0.4 --dp-reduce all
nd mixed -b 16 --accumulate 2 --mixup 0.4
follows "mixup, dp of 2, central" mixed mixed-dp 1e-4 "$steps"
follows "mixup, dp of 2, all" mixed mixed-all 1e-4 "$steps"
ddp2 mixed-ddp2 --mixup 0.4 --sync-bn
ddp2 mixed-ddp2-all --mixup 0.4 --sync-bn --dp-reduce all
follows "mixup, ddp2 of 2 x 2" mixed-ddp2 mixed-ddp2-all 1e-4

# Each half of a batch has its own statistics: on two devices, or one after the other on one. The
# running statistics, which validation uses, come from the first half on two devices, and from both
# halves on one.
dp dp-own
nd accumulated -b 16 --accumulate 2
follows "two batches to a step" dp-own accumulated 1e-4 "$steps"
finish
