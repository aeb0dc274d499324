#!/usr/bin/env bash
# Checks the code that nvcc made of the CUDA kernels, for each architecture that the module has:
# - no kernel spills registers, and no kernel uses more registers than its budget;
# - from sm_90 on, a kernel waits for the previous kernel before work that depends on that kernel;
# - the kernel that resamples pictures rounds each product, as the CPU does;
# - batch norm has 128-bit loads and stores;
# Skipped (77) without cuobjdump and nvdisasm, and if the module has no code for sm_90.
# Arguments: the source tree, the module, the version of nvcc.
set -euo pipefail
source=$1 module=$2 version=$3
budget=80       # registers that three blocks of 256 threads leave each of them
budget_wide=128 # the same for two blocks, for kernels declared with COLUMN_KERNEL_WIDE
PATH=$PATH:$source/build/tools/bin
for tool in cuobjdump nvdisasm; do
    if ! command -v "$tool" >/dev/null; then
        echo "skipped: $tool, which reads the module, is not installed"
        exit 77
    fi
done

out=$(mktemp -d)
trap 'rm -r "$out"' EXIT
code=0
fail() {
    echo "FAILED: $*"
    code=1
}

cuobjdump -res-usage "$module" >"$out/usage"
archs=$(sed -n 's/^arch = sm_//p' "$out/usage" | sort -nu)
if ! grep -qx 90 <<<"$archs"; then
    echo "skipped: the module has code for these architectures, but not for sm_90: ${archs//$'\n'/ }"
    exit 77
fi

# For each kernel, cuobjdump prints a line with its name and a line with its resources. CUDA 12
# spills a few bytes if the width is not a multiple of eight (kernels/cuda/CMakeLists.txt), so only
# later versions are checked for spills.
wide=$(grep -oh 'COLUMN_KERNEL_WIDE [a-z_0-9]*' "$source"/kernels/cuda/kernels/*.cu | cut -d' ' -f2)
[[ -n $wide ]] || fail "no kernel is declared with COLUMN_KERNEL_WIDE"
awk -v budget="$budget" -v budget_wide="$budget_wide" -v wide="${wide//$'\n'/|}" -v spills="${version%%.*}" '
    /^arch = / { arch = $3 }
    /^ Function / { kernel = substr($2, 1, length($2) - 1) }
    /^ +REG:[0-9]/ {
        n++
        if (substr($1, 5) + 0 > (kernel ~ "^_Z[0-9]+(" wide ")I" ? budget_wide : budget))
            print arch, kernel, "has", substr($1, 5), "registers"
        if (spills >= 13 && !/ STACK:0 .* LOCAL:0 /)
            print arch, kernel, "spills registers"
    }
    END { if (!n) print "cuobjdump says nothing of registers" }' "$out/usage" >"$out/beyond"
[[ ! -s $out/beyond ]] || fail "$(head -5 "$out/beyond")"

# `resample` has the bits of input/resize.c, which rounds each product before it adds it.
"$source/scripts/kernel-table" "$module" "$version" "$out/sm_90" >"$out/table"
awk '/Function :/ { here = $3 ~ /resample/; n += here } here' "$out/sm_90" >"$out/resample"
if ! grep -qw FMUL "$out/resample" || ! grep -qw FADD "$out/resample" || grep -qw FFMA "$out/resample"; then
    fail "the kernel resample has no FMUL and FADD, or it has FFMA"
fi

# A kernel may start before the previous kernel has ended (await_previous in
# kernels/cuda/kernels/launch.h). It waits for the previous kernel with the instruction ACQBULK,
# without a predicate, and before every instruction that jumps, exits, or uses memory other than
# constants. No kernel may contain PREEXIT, which starts the next kernel before this one ends.
# late_waits prints each kernel that breaks a rule.
memory='LD|ST|ATOM|RED|SU|TEX|TLD|UBLK|UT|CCTL|FENCE|MEMBAR'
control='BAR|BRA|BRX|J|CALL|RET|EXIT|KILL|BSSY|BSYNC|WARPSYNC'
late_waits() {
    awk -v first="^($memory|$control)" '
        function judge() {
            if (kernel != "" && (!waits || why != ""))
                print kernel, why == "" ? "does not wait" : why
        }
        /Function :/ {
            judge()
            kernel = $3
            waits = 0
            why = ""
        }
        match($0, /^ +\/\*[0-9a-f]+\*\/ +/) {
            text = substr($0, RLENGTH + 1)
            sub(/ *;.*/, "", text)
            waits = waits || text == "ACQBULK"
            sub(/^@[^ ]+ +/, "", text)
            if (why == "" && (text ~ /^PREEXIT/ || !waits && text !~ /^LDC/ && text ~ first))
                why = "begins with " text
        }
        END {
            judge()
            if (kernel == "")
                print "there are no kernels"
        }'
}
for arch in $archs; do
    ((arch >= 90)) || continue
    sm=sm_$arch
    [[ -s $out/$sm ]] || cuobjdump -sass -arch "$sm" "$module" >"$out/$sm" # takes half a minute
    late=$(late_waits <"$out/$sm")
    [[ -z $late ]] || fail "$sm: these kernels read memory before they wait for the previous kernel: $(head -5 <<<"$late")"
done
# Tests late_waits with two kernels: it must report one of them if that kernel's ACQBULK is removed,
# put under a predicate, or preceded by a load.
awk '/Function :/ && ++n > 2 { exit } { print }' "$out/sm_90" >"$out/two"
for change in 's/ACQBULK/NOP/' 's/ACQBULK/@P0 ACQBULK/' \
    's/^\(.*\)ACQBULK/\1LDG.E R0, desc[UR4][R2.64] ;\n&/'; do
    found=$(sed "0,/ACQBULK/{$change}" "$out/two" | late_waits | wc -l)
    ((found == 1)) || fail "late_waits found $found kernels after '$change' was applied to one kernel"
done

# Each kernel of batch norm has a form for widths that are a multiple of the unit. In this form
# loads have 128 bits, and each thread has at least two loads in flight.
narrow=$(awk -F ' *[|] *' '$2 ~ /^bn_.*, true>$/ { n++; if ($10 + 0 < 2) print $2 }
    END { if (!n) print "none" }' "$out/table")
[[ -z $narrow ]] || fail "these kernels of batch norm have no 128-bit loads: $narrow"
exit "$code"
