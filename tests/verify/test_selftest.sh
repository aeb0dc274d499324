#!/usr/bin/env bash
# Checks that the built-in known values hold on this machine, and that output and exit code report
# wrong values, too little time and errors. With `command_all` as the fourth argument, only runs all quick
# cases.
. "$(dirname "$0")/../cli/common.sh" "$@"
export OMP_WAIT_POLICY=passive

if [[ ${4-} == command_all ]]; then
    expect 0 selftest --quick --verbose
    [[ $(head -n 1 "$scratch/out") =~ ^([0-9]+)\ of\ ([0-9]+)\ cases\ hold ]] &&
        [[ ${BASH_REMATCH[1]} == "${BASH_REMATCH[2]}" ]] || fail "the first line of stdout is no summary in which all cases hold: $(head -n 3 "$scratch/out")"
    [[ $(grep -c '^PASS  ' "$scratch/out") -ge 5 ]] || fail "fewer than 5 cases were run: $(cat "$scratch/out")"
    finish
fi

# A case with a wrong loss.
oracle='[{"arch": "resnet8", "classes": 10, "size": 16, "batch": 4, "steps": 1, "lr": 0.1, "momentum": 0,
 "weight_decay": 0, "precision": "fp64", "mode": "eval", "params": 78042, "step": [{"loss": 1000}]}]'
echo "$oracle" >"$scratch/false.json"
expect 4 selftest --oracle "$scratch/false.json"
[[ $(head -n 1 "$scratch/out") == "0 of 1 cases hold"* ]] && grep -q '^FAIL  resnet8' "$scratch/out" || fail "stdout does not report the failed case: $(cat "$scratch/out")"
[[ $(wc -l <"$scratch/err") == 1 ]] || fail "stderr is not one line: $(cat "$scratch/err")"

# With too little time, the cases that were run are printed, and the number of the others. What is
# run holds.
expect 5 selftest --limit 2 --json
left=$(sed -nE 's/^ "left_out": ([0-9]+),$/\1/p' "$scratch/out")
ran=$(grep -c '^   "arch": ' "$scratch/out")
((left > 0 && ran > 0)) && grep -q '^ "ok": false' "$scratch/out" || fail "with a limit of 2 s: $ran cases, $left left out: $(head -c 300 "$scratch/out")"
[[ $(grep -c '"ok": false' "$scratch/out") == 1 ]] || fail "a built-in case does not hold: $(<"$scratch/out")"
expect 5 selftest --limit 1
grep -q "; cases left out: [0-9]*, because the time limit is reached$" "$scratch/out" || fail "with a limit of 1 s: $(<"$scratch/out")"

# A case that ends with an error is reported, and the others still run, unless the device is broken.
if fake_gpu; then
    other=${oracle/10/12}
    echo "${oracle%\]}, ${other#\[}" >"$scratch/two.json"
    AMPSCALE_FAKE_FAIL=cudaLaunchKernel:5 expect 1 selftest --oracle "$scratch/two.json" --devices cuda:0 --json
    [[ $(grep -c '"ok": false' "$scratch/out") -ge 3 && $(grep -c '^   "arch": ' "$scratch/out") == 2 ]] || fail "an error: $(<"$scratch/out")"
    grep -q '"error": "case 0: cannot launch the kernel ' "$scratch/out" || fail "an error is not reported: $(<"$scratch/out")"
    AMPSCALE_FAKE_FAIL=cudaLaunchKernel:5:sticky expect 1 selftest --oracle "$scratch/two.json" --devices cuda:0
    grep -q "^0 of 1 cases hold on .*; cases left out: 1, because the device does not work after an error$" "$scratch/out" || fail "a broken device: $(<"$scratch/out")"
fi

expect_error 5 "'$scratch/absent.json'" selftest --json --oracle "$scratch/absent.json"
finish
