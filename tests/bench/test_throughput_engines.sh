#!/usr/bin/env bash
# Measures throughput on the fake GPU (tests/kernels/cuda/fake/inject.h) where an engine of cuDNN
# crashes the process, hangs, or computes wrong values in one fused form. The row has a result in the
# same call, and the record names the engine and the form. A second call does not meet the engine again.
. "$(dirname "$0")/../cli/common.sh" "$@"
need_fake_gpu
command -v python3 >/dev/null || skip "no python3"
sanitized && skip "a sanitizer ends a process that crashes before the engine is noted"
cd "$scratch" || exit 1
ulimit -c 0

# measure HOW: writes the record to HOW-1.json, and that of a second call to HOW-2.json.
measure() {
    local i engine=1
    [[ $1 != wrong ]] || engine=any # whichever is faster is used
    for i in 1 2; do
        AMPSCALE_FAKE_ENGINE=$engine@dgrad+drelu+bn:$1 XDG_CACHE_HOME=$scratch/$1 expect 0 bench throughput \
            --devices cuda:0 --rows amp:4 --net resnet8 --image-size 32 --steps 2 --rounds 1 --plans 4 --json
        cp out "$1-$i.json"
    done
}
for how in crash hang wrong; do
    measure $how
done
python3 - <<'CHECK' || fail "the assertion above about the records fails"
import json
form = "for 'fake GPU sm90 cudnn91900 dgrad+drelu+bn fp16 n4 c16 "
for how in ("crash", "hang", "wrong"):
    (first,), (second,) = (json.load(open(f"{how}-{i}.json"))["rows"] for i in (1, 2))
    assert all(row["images_per_s"]["median"] > 0 for row in (first, second)), (first, second)
    named = [f["why"] for f in first["falls"]] + [f.get("why", "") for f in first.get("fusions", [])]
    engine = "engine " if how == "wrong" else "engine 1 of cuDNN"
    assert any(engine in why and form in why for why in named), (how, named)
    assert second["falls"] == [] and second["rung"] == "auto", (how, second)
    assert (first["rung"] == "auto") == (how == "wrong"), (how, first["rung"])
CHECK
finish
