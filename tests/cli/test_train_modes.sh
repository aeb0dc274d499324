#!/usr/bin/env bash
# The same training in every mode. For any number of devices and ranks, the losses must equal those
# of one device.
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

# --clip-grad-norm limits the norm of the whole gradient, which is the same on all ranks.
# --norm-weight-decay sets another weight decay for the parameters of batch norm, on all ranks.
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

# Mixup pairs images only within the part of a batch that one device has. Two devices therefore give
# the same pairs as one device that processes the two halves one after the other. All devices and
# ranks use the same mixing weight.
dp mixed-dp --mixup 0.4
dp mixed-all --mixup 0.4 --dp-reduce all
nd mixed -b 16 --accumulate 2 --mixup 0.4
follows "mixup, dp of 2, central" mixed mixed-dp 1e-4 "$steps"
follows "mixup, dp of 2, all" mixed mixed-all 1e-4 "$steps"
ddp2 mixed-ddp2 --mixup 0.4 --sync-bn
ddp2 mixed-ddp2-all --mixup 0.4 --sync-bn --dp-reduce all
follows "mixup, ddp2 of 2 x 2" mixed-ddp2 mixed-ddp2-all 1e-4

# Without --sync-bn, batch norm computes the statistics of each half of a batch: on two devices, or
# on one device that processes the halves one after the other. The running statistics differ: two
# devices keep those of the first half, one device updates them with both halves. Validation uses
# them, so only the training losses are compared.
dp dp-own
nd accumulated -b 16 --accumulate 2
follows "two batches to a step" dp-own accumulated 1e-4 "$steps"
finish
