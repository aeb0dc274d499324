# shellcheck shell=bash
# What scripts/gpu-check stands on: programs and libraries, steps with a time limit, a pack. Sourced,
# never run.
# shellcheck disable=SC2034,SC2154 # variables are scripts/gpu-check's and its steps'

# ---- programs and libraries ----

# find_program NAME FOLDER...: the first of $build_dir/FOLDER/NAME that there is; nothing otherwise.
find_program() {
    local name=$1 folder
    shift
    for folder; do
        if [[ -e $build_dir/$folder/$name ]]; then
            printf '%s\n' "$build_dir/$folder/$name"
            return
        fi
    done
}

# find_programs: fills `ampscale` and `module`, which may be empty.
find_programs() {
    build_dir=$(cd "$build_dir" 2>/dev/null && pwd) || die 2 "--build: there is no folder '$build_dir'"
    ampscale=$(find_program ampscale bin cli)
    module=$(find_program ampscale_cuda.so bin cli kernels/cuda lib)
    [[ -n $ampscale ]] || die 5 "there is no ampscale in '$build_dir'; give --build a build tree or a pack"
}

# find_libraries: what a pack brings and this machine lacks, and CUDA's libraries where Python's
# packages hold them, go into `library_path`. It is for our programs alone: Python has its own.
find_libraries() {
    local file name known folder
    known=$(ldconfig -p 2>/dev/null || true)
    for file in "$build_dir"/lib/*.so*.gz; do
        name=$(basename "$file" .gz)
        [[ -e $file && $known != *"$name "* ]] && gunzip -c "$file" >"$work/lib/$name"
    done
    library_path=$work/lib
    while IFS= read -r folder; do
        library_path+=:$folder
    done < <(python3 -c 'import glob, nvidia
for path in nvidia.__path__:
    print(*sorted(glob.glob(path + "/*/lib")), sep="\n")' 2>/dev/null)
    library_path+=${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
}

# warm_page_cache: reads the libraries of the GPU and of PyTorch, gigabytes of them, while the first
# step is at work. On a machine that has just started every later process would wait for the disk.
warm_page_cache() {
    [[ $device == cuda* ]] || return 0
    {
        tr ':' '\n' <<<"$library_path" | while IFS= read -r folder; do
            cat "$folder"/lib{cudnn,cublas,nccl,nvrtc,nvJitLink}*.so* 2>/dev/null
        done
        exec python3 -c 'import torch, torchvision'
    } >/dev/null 2>&1 </dev/null &
    warming_pid=$!
}

stop_warming() {
    [[ -z ${warming_pid-} ]] || kill "$warming_pid" 2>/dev/null || true
}

# take_earlier DIR: the plans and peaks that an earlier check left there. Convolutions are planned as
# `plans` has them, which spares choosing again; operations are compared with `peak.json`.
take_earlier() {
    mkdir -p "$work/cache/ampscale"
    [[ ! -e $1/plans ]] || cp "$1/plans" "$work/cache/ampscale/"
    [[ ! -e $1/peak.json ]] || cp "$1/peak.json" "$work/"
}

# take_handed_on: the same of an earlier pass on this very device.
take_handed_on() {
    [[ -n $pass && $(cat "$handed_on/device" 2>/dev/null) == "$device_text" ]] || return 0
    take_earlier "$handed_on"
}

# hand_on: plans and peaks for the next pass.
hand_on() {
    local file
    [[ -n $pass ]] || return 0
    mkdir -p "$handed_on"
    printf '%s' "$device_text" | keep "$handed_on" device
    for file in "$work/peak.json" "$work/cache/ampscale/plans"; do
        [[ ! -s $file ]] || keep "$handed_on" "$(basename "$file")" <"$file"
    done
}

# ours COMMAND...: with the libraries that our programs need, for as long as the step may take.
ours() {
    limited env XDG_CACHE_HOME="$work/cache" LD_LIBRARY_PATH="$library_path" ${module:+AMPSCALE_CUDA_MODULE="${AMPSCALE_CUDA_MODULE:-$module}"} "$@"
}

# within SECONDS COMMAND...: a limit of its own inside the step's; 124 where it was reached.
within() {
    local step_deadline=$((SECONDS + $1 < step_deadline ? SECONDS + $1 : step_deadline))
    "${@:2}"
}

# limited COMMAND...: until the step's time is up; 124 then.
limited() {
    local left=$((step_deadline - SECONDS)) code=0
    ((left > 0)) || return 124
    timeout -k 5 "$left" "$@" </dev/null || code=$?
    # 137: it did not end when it was asked to.
    ((code != 137 || SECONDS < step_deadline)) || code=124
    return "$code"
}

# run_program ARGS...: the program itself. What it chose of plans is there for the next.
run_program() {
    local step_deadline=$deadline code=0
    ours "$ampscale" "$@" || code=$?
    ((code != 124)) || say "stopped after $budget s; see --budget" >&2
    [[ ! -s $work/cache/ampscale/plans ]] || cp "$work/cache/ampscale/plans" "$build_dir/" || true
    return "$code"
}

# look_at_device: fills `device_text` with what the program says of the device, and `device_missing`
# with why it cannot be used, or nothing; $work/machine.json gets what it says of the machine.
look_at_device() {
    local step_deadline=$((SECONDS + 60)) line listed
    [[ $device != cuda ]] || device=cuda:0
    listed=$(ours "$ampscale" info 2>/dev/null || true)
    # A backend that is there lists its devices by number, one that is not says why.
    line=$(sed -nE "s/^  $device +//p" <<<"$listed")
    [[ -n $line ]] || line=$(sed -nE "s/^  ${device%%:*} +//p" <<<"$listed")
    device_text=${line:-this program knows no such device}
    device_missing=
    [[ -n $line && $line != 'not available: '* ]] || device_missing=${device_text#not available: }
    ours "$ampscale" info --json >"$work/machine.json" 2>/dev/null || echo '{}' >"$work/machine.json"
}

# device_slug: a folder's name for the device: "nvidia-h200".
device_slug() {
    local name
    name=$(limited_facts name || true)
    [[ -n $name ]] || name=${device%%:*}
    printf '%s' "$name" | tr '[:upper:] ' '[:lower:]-' | tr -cd 'a-z0-9-'
}

# limited_facts FIELD: what nvidia-smi says of the device.
limited_facts() {
    [[ $device == cuda* ]] || return 1
    local index=${device#cuda}
    index=${index#:}
    timeout 20 nvidia-smi -i "${index:-0}" --query-gpu="$1" --format=csv,noheader 2>/dev/null
}

# ---- steps ----

# What others rest on first, and last what matters least where the time is up; with the seconds of
# each that are kept for it, less than the default budget in all.
all_steps='facts kernels selftest accuracy peak throughput roofline profile sanitizer'
declare -A step_limit=([facts]=10 [kernels]=100 [selftest]=40 [accuracy]=70 [peak]=40
    [throughput]=140 [roofline]=50 [profile]=30 [sanitizer]=30)
declare -A passes=([1]=facts,kernels,selftest,accuracy [2]=peak,throughput
    [3]=roofline,profile,sanitizer)
step_names=()
declare -A step_status step_note step_seconds

# is_wanted NAME: whether the step was asked for.
is_wanted() {
    [[ -z $only || ,$only, == *,$1,* ]]
}

# room_for NAME: the seconds that a step may take: its own, or more where the later ones that were
# asked for leave it, and never more than there are.
room_for() {
    local name later=0 seen='' left=$((deadline - SECONDS)) room=${step_limit[$1]}
    for name in $all_steps; do
        [[ -z $seen ]] || ! is_wanted "$name" || later=$((later + step_limit[$name]))
        [[ $name != "$1" ]] || seen=1
    done
    ((left - later <= room)) || room=$((left - later))
    echo "$((room < left ? room : left))"
}

# run_step NAME: calls step_NAME, which leaves one line in `note` and returns 0 where all is well, 4
# for wrong numbers, 5 where something is missing, 124 where the time was up, and anything else where
# it could not be carried out. Its output is the step's log. It runs in a shell of its own, so that
# whatever happens there the next step begins; what others need of it lies in files in $work.
run_step() {
    local name=$1 begun=$SECONDS code=0 room
    is_wanted "$name" || return 0
    room=$(room_for "$name")
    step_deadline=$((SECONDS + room))
    log=$work/log/$name.txt
    : >"$work/note"
    step_names+=("$name")
    step_status[$name]=unfinished step_note[$name]='the check was cut off' step_seconds[$name]=0
    if ((room <= 0)); then
        code=124
    else
        (
            code=0 note=
            "step_$name" || code=$?
            printf '%s' "$note" >"$work/note"
            exit "$code"
        ) >"$log" 2>&1 || code=$?
    fi
    note=$(<"$work/note")
    case $code in
    0) step_status[$name]=pass ;;
    4) step_status[$name]=wrong ;;
    5) step_status[$name]=missing ;;
    124) step_status[$name]=failed note="ran past its time${note:+: $note}" ;;
    *) step_status[$name]=failed ;;
    esac
    [[ -n $note ]] || note=$(tail -n 1 "$log" 2>/dev/null | cut -c 1-200)
    step_note[$name]=$note
    step_seconds[$name]=$((SECONDS - begun))
    printf '%-12s %-8s %4d s  %s\n' "$name" "${step_status[$name]}" "${step_seconds[$name]}" "$note"
    ((code == 0)) || say_why "$log"
    write_records "$out_dir" || say "the records in '$out_dir' are not complete" >&2
}

# say_why LOG: the lines that tell what went wrong, or the last ones. Whoever sees the output alone has
# no logs.
say_why() {
    [[ -s $1 ]] || return 0
    { grep -a -m 15 -E 'FAIL|^ampscale: |[Ee]rror|ERROR|cannot|dumped core|Killed|^=+ [A-Z]' "$1" || tail -n 4 "$1"; } |
        cut -c 1-240 | sed 's/^/    /'
}

# need_device: whether there is a device at all; says in `note` why not.
need_device() {
    [[ -z $device_missing ]] && return
    note=$device_missing
    return 1
}

# worst_code: the exit code that the steps come to.
worst_code() {
    local all=" ${step_status[*]} "
    case $all in
    *' wrong '*) echo 4 ;;
    *' failed '* | *' unfinished '*) echo 1 ;;
    *' missing '*) echo 5 ;;
    *) echo 0 ;;
    esac
}

verdict_line() {
    case $1 in
    0) echo "every step passed" ;;
    1) echo "a step could not be carried out" ;;
    4) echo "numbers are wrong" ;;
    5) echo "something is missing" ;;
    esac
}

# json_number OUTER [INNER] <RECORD: a number of a record: of the member OUTER, or INNER in the object
# OUTER. Records have a member a line.
json_number() {
    awk -v outer="\"$1\":" -v inner="${2:+\"$2\":}" '
        !inside && index($1, outer) == 1 {
            if (inner == "") { sub(/,$/, "", $2); print $2; exit }
            inside = 1
            next
        }
        inside && index($1, inner) == 1 { sub(/,$/, "", $2); print $2; exit }'
}

# ---- packs ----

# libraries_of FILE...: the shared libraries that the files need and that belong neither to the C
# library nor to CUDA or the driver.
libraries_of() {
    ldd "$@" 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
        grep -vE '/(ld-linux.*|lib(c|m|dl|rt|pthread|resolv|util|mvec|nsl)\.so.*|lib(cuda|cudart|cudnn|cublas|nccl|nvidia|nvrtc|nvJitLink)[^/]*)$'
}

# pack DIR: programs and module, stripped, and libraries, compressed too: what is carried is small.
pack() {
    local dir=$1 file size about
    about=$("$ampscale" info 2>&1 || true)
    [[ $about != *"built for another version"* ]] ||
        die 1 "--pack: the CUDA module in '$build_dir' is not of this program; build all of it again"
    [[ ! -e $dir || -z $(ls -A "$dir" 2>/dev/null) ]] || die 2 "--pack '$dir': the folder is not empty"
    mkdir -p "$dir/bin" "$dir/lib"
    for file in "$ampscale" "$module"; do
        [[ -z $file ]] || cp -L "$file" "$dir/bin/"
    done
    while IFS= read -r file; do
        cp -L "$file" "$dir/lib/"
    done < <(libraries_of "$ampscale" ${module:+"$module"})
    strip --strip-unneeded "$dir"/bin/* "$dir"/lib/* || die 1 "cannot strip what was packed"
    gzip "$dir"/lib/* || die 1 "cannot compress what was packed"
    size=$(du -sm "$dir" | cut -f 1)
    ((size < 48)) || die 1 "the pack in '$dir' has $size MiB, more than the 48 that go beside the sources"
    say "packed $(find "$dir" -type f | wc -l) files, $size MiB, into '$dir'"
    [[ -n $module ]] || say "note: this build has no CUDA module"
}
