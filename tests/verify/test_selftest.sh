#!/usr/bin/env bash
# Checks that the built-in known values hold on this machine, and that the exit code reports a wrong
# value.
. "$(dirname "$0")/../cli/common.sh" "$@"
export OMP_WAIT_POLICY=passive

# Sanitizers do not check numbers, so the built-in cases are skipped in a build with sanitizers.
holds() {
    expect 0 selftest --quick
    [[ $(wc -l <"$scratch/out") == 1 && $(<"$scratch/out") =~ ^([0-9]+)\ of\ ([0-9]+)\ cases\ hold ]] &&
        [[ ${BASH_REMATCH[1]} == "${BASH_REMATCH[2]}" ]] || fail "stdout is not one summary line in which all cases hold: $(cat "$scratch/out")"
    expect 0 selftest --quick --verbose
    grep -q ' cases hold' < <(head -n 1 "$scratch/out") || fail "the first line of stdout is not the summary: $(head -n 3 "$scratch/out")"
    [[ $(grep -c '^PASS  ' "$scratch/out") -ge 5 ]] || fail "fewer than 5 cases were run: $(cat "$scratch/out")"
    grep -q '^FAIL' "$scratch/out" && fail "a case failed, but the exit code is 0"
    [[ ! -s $scratch/err ]] || fail "stderr is not empty: $(cat "$scratch/err")"
    head -n 1 "$scratch/out"
}
sanitized || holds

# A case with a wrong loss.
oracle='[{"arch": "resnet8", "classes": 10, "size": 16, "batch": 4, "steps": 1, "lr": 0.1, "momentum": 0,
 "weight_decay": 0, "precision": "fp64", "mode": "eval", "params": 78042, "step": [{"loss": 1000}]}]'
echo "$oracle" >"$scratch/false.json"
expect 4 selftest --oracle "$scratch/false.json"
[[ $(head -n 1 "$scratch/out") == "0 of 1 cases hold"* ]] && grep -q '^FAIL  resnet8' "$scratch/out" || fail "stdout does not report the failed case: $(cat "$scratch/out")"
[[ $(wc -l <"$scratch/err") == 1 ]] || fail "stderr is not one line: $(cat "$scratch/err")"
expect 4 selftest --oracle "$scratch/false.json" --json
if command -v python3 >/dev/null; then
    python3 -m json.tool "$scratch/out" >/dev/null || fail "--json prints no JSON"
fi

# With too little time, the cases that were run are printed, and the number of the others.
expect 5 selftest --limit 1 --json
left=$(sed -nE 's/^ "left_out": ([0-9]+),$/\1/p' "$scratch/out")
ran=$(grep -c '^   "arch": ' "$scratch/out")
((left > 0 && ran > 0)) && grep -q '^ "ok": false' "$scratch/out" || fail "with a limit of 1 s: $ran cases, $left left out: $(head -c 300 "$scratch/out")"
expect 5 selftest --limit 1
grep -q "; cases left out: [0-9]*, because the time limit is reached$" "$scratch/out" || fail "with a limit of 1 s: $(<"$scratch/out")"

# A case that ends with an error is reported, and the others still run, unless the device is broken.
if fake_gpu; then
    other=${oracle/10/12}
    echo "${oracle%\]}, ${other#\[}" >"$scratch/two.json"
    AMPSCALE_FAKE_FAIL=cudaLaunchKernel:5 expect 1 selftest --oracle "$scratch/two.json" --devices cuda:0 --json
    [[ $(grep -c '"ok": false' "$scratch/out") -ge 3 && $(grep -c '^   "arch": ' "$scratch/out") == 2 ]] || fail "an error: $(<"$scratch/out")"
    grep -q '"error": "case 0: cannot launch the kernel ' "$scratch/out" || fail "an error is not reported: $(<"$scratch/out")"
    [[ $(grep -v 'ASan doesn.t fully support makecontext' "$scratch/err") == "ampscale: case 0: cannot launch the kernel "* ]] || fail "an error: $(<"$scratch/err")"
    AMPSCALE_FAKE_FAIL=cudaLaunchKernel:5:sticky expect 1 selftest --oracle "$scratch/two.json" --devices cuda:0
    grep -q "^0 of 1 cases hold on .*; cases left out: 1, because the device does not work after an error$" "$scratch/out" || fail "a broken device: $(<"$scratch/out")"
    grep -q "^FAIL  resnet8, .*: error: case 0: cannot launch " "$scratch/out" || fail "a broken device: $(<"$scratch/out")"
fi

echo "${oracle%\}]}" >"$scratch/damaged.json"
expect_error 5 "not valid JSON" selftest --json --oracle "$scratch/damaged.json"
expect_error 5 "'$scratch/absent.json'" selftest --json --oracle "$scratch/absent.json"
finish
