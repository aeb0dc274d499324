#!/usr/bin/env bash
# Checks that the committed RESULTS.md matches the records, that the HTML page refers to no other
# file, and that files which are no records are refused.
. "$(dirname "$0")/../cli/common.sh" "$@"

# reports FOLDER DOCUMENT LINE...: makes the report of a folder, which must have these lines.
reports() {
    local line
    expect 0 report --no-figures "$1" -o "$2"
    for line in "${@:3}"; do
        grep -qxF -- "$line" "$2" || fail "$2 lacks '$line': $(cat "$2")"
    done
}

cd "$source_dir" || exit 1
expect 0 report --no-figures -o "$scratch/RESULTS.md" --html "$scratch/a.html"
cmp RESULTS.md "$scratch/RESULTS.md" ||
    fail "RESULTS.md differs from the report of the records: run 'ampscale report -o RESULTS.md' and commit it"
expect 0 report --no-figures --html "$scratch/b.html"
cmp "$scratch/a.html" "$scratch/b.html" || fail "two reports of the same records differ"
! grep -qE '(src|href)="[^d#]|url\(|@import' "$scratch/a.html" || fail "the page refers to another file"
figures=$(grep -c '^!\[' "$scratch/RESULTS.md")
((figures > 0)) || fail "the report has no figure"
if command -v python3 >/dev/null; then
    faults=$(python3 tests/report/check_page.py "$scratch/a.html" "$figures") || fail "check_page.py reports: $faults"
fi
while IFS= read -r path; do
    [[ -s $path ]] || fail "RESULTS.md refers to figure '$path', which does not exist"
done < <(sed -nE 's/^!\[.*\]\(<(.*)>\)$/\1/p' "$scratch/RESULTS.md")

# A report of several records begins with a list of them. Each line has a link that GitHub follows,
# and the record's main result.
links=$(sed -n '2,/^## /s/^ *- \[.*\](#\([^)]*\)).*/\1/p' "$scratch/RESULTS.md")
anchors=$(grep -E '^###? ' "$scratch/RESULTS.md" | tr 'A-Z ' 'a-z-' | tr -cd 'a-z0-9_\n-' | sed -E 's/^-+//' |
    awk '{ print $0 (seen[$0] ? "-" seen[$0] : ""); seen[$0]++ }')
[[ -n $links && $links == "$anchors" ]] || fail "the list of records links to $links, but the headings are $anchors"
! sed -n '2,/^## /p' "$scratch/RESULTS.md" | grep -E '^ *- .*\)$' || fail "these records have no main result in the list"

# If a record changes, the report changes too. A path with a space or a quote is quoted.
cd "$scratch" || exit 1
mkdir -p rec/here/precision
cp -r "$source_dir"/results/recorded/cpu-avx512-2-threads/precision/{fp32,O1}-seed[01] rec/here/precision
expect 0 report --no-figures rec -o one.md
sed -i 's/"val_top1":[0-9.]*/"val_top1":50/' rec/here/precision/O1-seed0/epochs.jsonl
expect 0 report --no-figures rec -o two.md
grep -q '^| O1-seed0 .* 50.00 ' two.md || fail "the report does not have the record's accuracy of 50"
cmp -s one.md two.md && fail "the report is the same after a record has changed"
for link in loop . ..; do
    ln -s $link rec/here/precision/loop
    expect 0 report --no-figures rec -o linked.md
    cmp two.md linked.md || fail "a link to '$link' changes the report"
    rm rec/here/precision/loop
done
cp -r "$source_dir"/results/recorded/cpu-avx512-2-threads/study-quick rec/here/precision/study
expect 0 report --no-figures rec -o beside.md
grep -q '^#* Study quick$' beside.md && grep -q '^#* Runs: ' beside.md || fail "the report lacks the study that is beside the runs"
rm -r rec/here/precision/study
sed -i "s|\"data[^\"]*\"|\"my da'ta\"|" rec/here/precision/fp32-seed0/run.json
expect 0 report --no-figures rec -o quoted.md
grep -qE "^ampscale train .* 'my da'\\\\''ta'\$" quoted.md || fail "the path of a folder with a space and a quote is not quoted: $(grep '^ampscale train' quoted.md)"

# A run that was stopped and resumed was trained by two commands. The report gives both.
mkdir -p twice/here/precision
train=(train --dummy -a resnet8 --image-size 32 -b 2 --dummy-train 8 --dummy-val 2 --epochs 2 --print-freq 100)
expect 0 "${train[@]}" --steps 5 --out twice/here/precision/two
expect 0 "${train[@]}" --out twice/here/precision/two --resume auto
expect 0 report --no-figures twice -o twice.md
for line in '^ampscale train --dummy .* --steps 5 --out twice/here/precision/two .*# stopped; resumed after step 5$' \
    '^ampscale train --dummy .* --out twice/here/precision/two .*--resume auto$'; do
    grep -q -- "$line" twice.md || fail "the report has no command '$line': $(grep '^ampscale' twice.md)"
done

# The report has a section on the quality of the gate. A number that cannot be computed is shown as a
# dash.
mkdir -p gate/here
cat >gate/here/gate.json <<'END'
{"kind": "gate-quality", "schema": 2, "rounds": 10, "alpha": 0.01, "threshold": 0.03, "slowdowns": "5", "workloads": [
 {"workload": "jpeg", "about": "photographs", "slice_ms": 50, "steps": 280, "pool_rounds": 40,
  "arms": [{"arm": "5 % slower", "pairs": {"REGRESSION": 1, "inconclusive": 1}, "sides": {"REGRESSION": 7}}],
  "trials": [{"5 % slower": {"ratio": 0.95}}, {"5 % slower": {"ratio": 0.96}}]},
 {"workload": "odd", "arms": [{"arm": "unchanged", "pairs": {"REGRESSION": 3}}], "trials": [{}]}]}
END
reports gate gate.md '### Quality of the gate: gate' \
    '| jpeg | 5 % slower | 0.9550 | 2 | 1 (1.3 to 98.7 %) | 1 (1.3 to 98.7 %) | 0 (0.0 to 84.2 %) | 7 | 0 |' \
    '| odd | unchanged | – | 1 | – | 0 (0.0 to 97.5 %) | – | 0 | 0 |'

# The report assigns peaks and runs in one folder to one machine. It ignores the record of a
# benchmark for which it has no section.
mkdir -p gpu/card/runs
cp -r rec/here/precision/fp32-seed0 gpu/card/runs/accuracy-fp32
echo '{"bench": "something"}' >gpu/card/a.json
echo '{"bench": "peak", "device": "a card", "copy": [{"bytes": 4194304, "bytes_per_s": 3e12}], "flops": []}' >gpu/card/peak.json
reports gpu gpu.md '## card' '| 4194304 | 3000000000000 |' '### Runs: runs'
[[ $(grep -c '^## ' gpu.md) == 1 ]] || fail "the report has several headings for one machine"

# The report of an acceptance folder has the throughput next to PyTorch's, the percentage of what
# the peaks allow, the rung with the reason for it, accuracy, operations, and all other
# metrics with their units. A dash stands for a missing comparison. Files inside the folder are not
# reported separately.
mkdir -p turns/card/bring-up/checks
echo '{"bench": "peak", "device": "below", "copy": [], "flops": []}' >turns/card/bring-up/checks/peak.json
number() { printf '{"name": "%s", "unit": "%s", "values": [%s], "median": %s, "limit": "%s", "verdict": "PASS"}' "$1" "$2" "$3" "$3" "${4-}"; }
text() { printf '{"name": "%s", "unit": "", "values": ["%s"], "limit": "", "verdict": "SKIP"}' "$1" "$2"; }
cat >turns/card/bring-up/accept.json <<END
{"record": "accept", "schema": 1, "spec": "bring-up", "node": "n1", "device": "a card, sm_90", "begun": "2026-01-01T00:00:00Z",
 "ended": "2026-01-01T00:09:00Z", "version": "0.1.0", "passed": false, "checks": [
 {"name": "throughput", "kind": "throughput", "verdict": "MISSING", "seconds": 300, "reason": "a|b", "metrics": [
  $(text net resnet50), $(number image_size px 224), $(text peer 'PyTorch 2.11'), $(number images_per_s_amp_256 images/s 8000 'at least 1'),
  $(number lowest_amp_256 images/s 7900), $(number highest_amp_256 images/s 8100), $(text rung_amp_256 'no graph'),
  $(text why_amp_256 'capture failed'), $(number of_peer_amp_256 x 2), $(number images_per_s_peer_compile_amp_256 images/s 4000),
  $(number images_per_s_bf16_64_fuse-none_no-graph images/s 6000), $(text why_fp32_256 'no time was left'),
  $(text peer_mode_amp_256 'PyTorch eager only; PyTorch compile: out of time')]},
 {"name": "step-amp", "kind": "step", "verdict": "PASS", "seconds": 9, "reason": "", "metrics": [
  $(text precision amp), $(number batch images 256), $(number bound_images_per_s images/s 10000), $(number step_ms ms 30)]},
 {"name": "accuracy", "kind": "accuracy", "verdict": "PASS", "seconds": 99, "reason": "", "metrics": [
  $(number top1_O1 % 99.2), $(number cpu_top1_O1 % 99), $(number off_cpu_O1 points 0.2), $(text rung_O1 auto), $(text why_O2 'no time')]},
 {"name": "operations", "kind": "operations", "verdict": "FAIL", "seconds": 99, "reason": "", "metrics": [
  $(number cases cases 9), $(number passed cases 8), $(number passed_conv_fwd cases 8), $(text ended_conv_fwd 'ended by a signal')]}]}
END
reports turns turns.md '| program | ampscale 0.1.0 |' "### Acceptance by 'bring-up'" \
    '**Not accepted. Checks: 2 passed, 0 warned, 1 failed, 0 not judged, 1 missing. a card, sm\_90 on n1.**' '| MISSING | throughput | 300 | a\|b |' \
    '| amp | 256 |  | ampscale | 8000 | 7900 | 8100 | no graph (capture failed) | 2.00 | 80.0 |' \
    '| amp | 256 |  | PyTorch compile | 4000 | – | – |  | – | – |' \
    '| bf16 | 64 | fuse-none,no-graph | ampscale | 6000 | – | – |  | – | – |' \
    '| fp32 | 256 |  | ampscale | – | – | – | no time was left | – | – |' '| step-amp | step\_ms | 30 | ms |  |' \
    '| throughput | images\_per\_s\_amp\_256 | 8000 | images/s | PASS |' '| O1 | 99.20 | 99.00 | 0.20 | auto |' '| O2 | – | – | – | no time |' \
    'At amp, batch 256, the ratio is to PyTorch eager only; PyTorch compile: out of time.' '| conv\_fwd | 8 | ended by a signal |'
grep -q 'below' turns.md && fail "a file in the acceptance folder is reported as a separate record"

# If a document is in a folder of records, its links to figures are relative to that folder.
mkdir rec/here/precision/figures
echo '<svg></svg>' >rec/here/precision/figures/loss.svg
expect 0 report --no-figures rec -o rec/here/R.md
grep -qxF '![Loss of training and validation](<precision/figures/loss.svg>)' rec/here/R.md || fail "the link is not relative to the document's folder"

# A folder without records, and a command without a document to write, give an error.
mkdir empty
expect_error 5 "'empty' has no record" report empty -o none.md
expect_error 2 "nothing to write" report empty

# Damaged records are named and skipped; the rest is reported.
cp -r rec/here/precision/O1-seed0 rec/here/precision/torn
echo '{' >rec/here/bad.json
echo '{"epoch": 1' | sed 's/$/}/' >>rec/here/precision/torn/epochs.jsonl
mkdir rec/study && echo 'x' >rec/study/analysis.json
expect 5 report --no-figures rec -o rec.md --html rec.html
for bad in "'rec/here/bad.json' line 2: not valid JSON" "'rec/here/precision/torn/epochs.jsonl' line " "'rec/study/analysis.json'"; do
    [[ $(grep -cF "ampscale: skipped: $bad" err) == 1 ]] || fail "stderr does not name $bad once: $(cat err)"
    grep -qF -- "${bad//\'/}" <(tr -d "'" <rec.html) || fail "the page does not name $bad"
done
grep -qx 'ampscale: 3 damaged records were skipped; the rest was written' err || fail "stderr does not say how many records were skipped: $(cat err)"
grep -qx '## Skipped records' rec.md || fail "the report does not list the skipped records"
grep -q '^| O1-seed0 .* 50.00 ' rec.md || fail "the report lacks an undamaged run"
! grep -q '^| torn ' rec.md || fail "the report has the damaged run"

# The report has a section for a benchmark whose runs alternate with those of a library, and also
# for such a benchmark with an unknown name.
mkdir -p peers/here
cat >peers/here/peers-gemm.json <<'END'
{"kind": "peers", "schema": 1, "bench": "gemm", "device": "a processor", "peer": "oneDNN 9", "threads": 2, "rounds": 6,
 "limit": 1.02, "passed": true, "rows": [{"row": "1024", "ours ms": 1.5, "ratio": 0.75, "ran": "brgemm"}]}
END
echo '{"kind": "peers", "bench": "else", "rows": []}' >peers/here/peers-else.json
reports peers peers.md '| 1024 | 1.5000 | 0.7500 | brgemm |'
grep -q "^'bench gemm' and oneDNN called directly in its fastest way (oneDNN 9), in turns: medians of 6 rounds" peers.md &&
    grep -q '^else and the reference program, in turns' peers.md || fail "the report of peers: $(cat peers.md)"
finish
