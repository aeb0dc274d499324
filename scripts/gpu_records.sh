# shellcheck shell=bash disable=SC2154
# The part of scripts/gpu-check that keeps records as an archive, and makes records of an archive. To
# be sourced by it, not run: uses its variables.

# folder: prints the folder of the records of a device, of which `device_text` is the description.
folder() {
    printf 'results/recorded/%s/%s\n' "$(tr '[:upper:] ' '[:lower:]-' <<<"${device_text%%,*}" | tr -cd 'a-z0-9-')" "$spec"
}

# unpack: makes a folder of `from`, which may come from another machine, writes the reports, and
# exits. `accept` writes them when it is asked for a check that has already been measured.
unpack() {
    local known code=0
    mkdir "$work/records" && tar -C "$work/records" -xzf "$from" || die 1 "cannot read '$from'"
    known=$(cd "$work/records/checks" 2>/dev/null && grep -L '"ended": "MISSING"' ./*.json | head -n 1) || true
    [[ -n $known && -e $work/records/spec.json ]] || die 5 "--from '$from': no check has ended in it"
    device_text=$(sed -n '/"values": \[/{n;s/^ *"//;s/[",].*//;p;q}' "$work/records/checks/hardware.json")
    spec=$(sed -nE '0,/"name"/s/^ *"name": "(.*)",$/\1/p' "$work/records/spec.json")
    records=${out_dir:-$(folder)}
    [[ ! -e $records ]] || die 2 "--from '$from': '$records' exists already; give another --out, or remove it"
    mkdir -p "$(dirname "$records")" && mv "$work/records" "$records"
    "${ours[@]}" "$ampscale" accept --spec "$records/spec.json" --only "$(basename "$known" .json)" --resume --out "$records" -q || code=$?
    say "unpacked into '$records'; next: scripts/gpu-check --build $build_dir -- report $records -o gpu.md"
    exit "$code"
}

# take_plans FROM TO: copies a file of plans between folders of caches, if it has more of them, and adds
# the engines that have crashed a process.
take_plans() {
    local file=ampscale/plans
    if [[ -e $1/$file.broken ]]; then
        mkdir -p "$2/ampscale"
        touch "$2/$file.broken"
        sort -u -o "$2/$file.broken" "$1/$file.broken" "$2/$file.broken"
    fi
    [[ -e $1/$file ]] || return 0
    [[ -e $2/$file && $(wc -l <"$2/$file") -ge $(wc -l <"$1/$file") ]] || { mkdir -p "$2/ampscale" && cp "$1/$file" "$2/$file"; }
}

# changed PATHS...: prints something if a file has changed since keep() was last called,
# or if it was not called yet.
changed() {
    [[ ! -e $work/kept ]] && echo "$records" && return
    find "$@" -newer "$work/kept" -print -quit 2>/dev/null || true
}

# keep: saves the current records for the next call and, if OUT is set, as a few files in OUT. Leaves
# out weights and files above 4 MiB, or smaller ones until the archive may be sent. Sets `kept` to the
# time.
keep() {
    local kib
    kept=$SECONDS
    : >"$work/kept"
    [[ -e $records/spec.json ]] || return 0
    mkdir -p build/gpu-check
    take_plans "$cache" "$records/cache"
    for kib in 4096 512 64 8; do
        # tar fails if a log grows while it is read
        (cd "$records" && find . -type f ! -name '*.safetensors' ! -size "+${kib}k" -print0 | tar --null -T - -cz) 2>/dev/null >"$work/all" || true
        (($(wc -c <"$work/all") >= 15 << 20)) || break
    done
    cp "$work/all" "$last"
    [[ -z ${OUT-} ]] || { cp "$work/all" "$OUT/records.new" && mv "$OUT"/records.{new,tar.gz} && cp "$records"/accept.* "$OUT/"; } 2>/dev/null || true
}
