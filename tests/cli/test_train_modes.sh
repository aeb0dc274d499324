#!/usr/bin/env bash
# One training in every mode: whoever shares the images of a step, the losses are those of one
# device.
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

# Every half of a batch by its own statistics: in two devices, or one after the other in one. The
# running statistics, which validation uses, are of the first half in one and of both in the other.
dp dp-own
nd accumulated -b 16 --accumulate 2
follows "two batches to a step" dp-own accumulated 1e-4 "$steps"
finish
