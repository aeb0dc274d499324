#!/usr/bin/env bash
# Tests packages and the container image on a bare Debian 12 that debootstrap makes. Installs the
# .deb and trains. Unpacks the .tar.gz where nothing is installed, and trains. Carries out the steps
# of docs/launch/Containerfile (target cpu) by chroot; the resulting image trains alone, in two
# ranks over MPI, and over ssh. This takes minutes and downloads packages from the Debian mirror, so
# it has the label nightly.
#
# AMPSCALE_TEST_ROOT names a root that debootstrap made; the test then starts from this root.
# AMPSCALE_TEST_PARTS selects some of the parts "deb tar image".
. "$(dirname "$0")/../cli/common.sh" "$@"
parts=${AMPSCALE_TEST_PARTS:-deb tar image}
if sanitized; then
    echo "SKIPPED: a build with sanitizers is not packed"
    exit 77
fi
((EUID == 0)) || { echo "SKIPPED: only root can make a Debian root" && exit 77; }
for tool in cpack chroot unshare git ${AMPSCALE_TEST_ROOT:-debootstrap}; do
    [[ -d $tool ]] || command -v "$tool" >/dev/null || { echo "SKIPPED: there is no $tool" && exit 77; }
done

# in_root ROOT COMMAND...: runs COMMAND in ROOT with /proc, /dev, and this machine's network.
in_root() {
    local root=$1
    shift
    # shellcheck disable=SC2016 # the inner shell expands these variables
    unshare --mount --pid --fork --kill-child bash -c '
        mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" || exit
        [[ ! -e /etc/resolv.conf ]] || cp -L /etc/resolv.conf "$0/etc/"
        exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
            DEBIAN_FRONTEND=noninteractive chroot "$0" "$@"' "$root" "$@" </dev/null
}

# check NAME COMMAND...: runs COMMAND with its output in the log. If COMMAND fails, the test fails.
check() {
    local name=$1
    shift
    if "$@" >"$scratch/log" 2>&1; then
        printf '== %s\n' "$name" && tail -n 3 "$scratch/log"
    else
        fail "'$name' failed with exit code $?: $(tail -n 15 "$scratch/log")"
        return 1
    fi
}

new_root() {
    cp -a "$base" "$1"
}
train=(train --dummy --dummy-train 64 --dummy-val 16 -a resnet8 --image-size 32 --classes 4 -b 8 --epochs 1)

base=${AMPSCALE_TEST_ROOT:-$scratch/base}
[[ -d $base ]] || check "debootstrap" debootstrap --variant=minbase bookworm "$base" || finish

if [[ $parts == *deb* ]]; then
    check "cpack" cpack --config "$build_dir/CPackConfig.cmake" -G DEB -B "$scratch/packages" || finish
    new_root "$scratch/deb" && cp "$scratch"/packages/*.deb "$scratch/deb/ampscale.deb"
    check "apt-get update" in_root "$scratch/deb" apt-get update
    check "install the .deb" in_root "$scratch/deb" apt-get install -y --no-install-recommends /ampscale.deb
    check "the .deb: train" in_root "$scratch/deb" ampscale "${train[@]}" --out /tmp/run
    check "the .deb: recorded" in_root "$scratch/deb" test -s /tmp/run/summary.json
    check "the .deb: removed" in_root "$scratch/deb" sh -c 'apt-get remove -y ampscale && ! [ -e /usr/bin/ampscale ]'
fi

if [[ $parts == *tar* ]]; then
    check "cpack" cpack --config "$build_dir/CPackConfig.cmake" -G TGZ -B "$scratch/packages" || finish
    new_root "$scratch/tar" && tar -C "$scratch/tar/opt" -xzf "$scratch"/packages/*.tar.gz
    mv "$scratch"/tar/opt/ampscale-* "$scratch/tar/opt/anywhere"
    check "the .tar.gz: train" in_root "$scratch/tar" /opt/anywhere/bin/ampscale "${train[@]}" --out /tmp/run
    check "the .tar.gz: recorded" in_root "$scratch/tar" test -s /tmp/run/summary.json
    check "the .tar.gz: 2 ranks without MPI" in_root "$scratch/tar" \
        /opt/anywhere/bin/ampscale launch --nproc 2 -- "${train[@]}" --out /tmp/ranks
fi

# image FILE: carries out the stages of a Containerfile that is based on Debian.
image() {
    local line word args stage root skip='' folder=/ sources
    while IFS= read -r line; do
        while [[ $line == *\\ ]]; do
            IFS= read -r word && line=${line%\\}$word
        done
        read -r word args <<<"$line"
        case $word in
        FROM)
            stage=${args##* } skip=''
            [[ $args == docker.io/library/debian:12* ]] || skip=1
            root=$scratch/image-$stage folder=/
            [[ -n $skip ]] || new_root "$root"
            continue
            ;;
        '' | '#'* | ARG | ENTRYPOINT) continue ;;
        esac
        [[ -z $skip ]] || continue
        case $word in
        WORKDIR) folder=$args && mkdir -p "$root$folder" ;;
        USER) user=$args ;;
        COPY)
            if [[ $args == '. .' ]]; then
                git -C "$source_dir" ls-files -z | tar -C "$source_dir" --null -T - -c | tar -C "$root$folder" -x || return
                continue
            fi
            sources=$source_dir/
            [[ $args != --from=* ]] || { sources=$scratch/image-${args#--from=} && sources=${sources%% *} && args=${args#* }; }
            mkdir -p "$root${args#* }"
            # shellcheck disable=SC2086 # the source may be a pattern
            cp $sources${args%% *} "$root${args#* }" || return
            ;;
        RUN) check "image $stage: ${args:0:50}" in_root "$root" sh -c "cd '$folder' && $args" || return ;;
        *) fail "the test cannot carry out the instruction '$word' of the Containerfile" && return 1 ;;
        esac
    done <"$1"
    image_root=$root
}
if [[ $parts == *image* ]] && image "$source_dir/docs/launch/Containerfile"; then
    as_user=(setpriv --reuid="$user" --regid="$user" --init-groups env HOME="/home/$user")
    check "the image: train" in_root "$image_root" "${as_user[@]}" ampscale "${train[@]}" --out /tmp/run
    check "the image: plot" in_root "$image_root" "${as_user[@]}" ampscale plot /tmp/run --out /tmp/plots
    check "the image: 2 ranks over MPI" in_root "$image_root" "${as_user[@]}" \
        ampscale launch --nproc 2 -- "${train[@]}" --out /tmp/ranks
    # As in the pods of an MPIJob: a key pair in ~/.ssh, and an ssh server that runs without root.
    # shellcheck disable=SC2016 # the shell in the image expands these variables
    check "the image: ssh to a worker" in_root "$image_root" "${as_user[@]}" sh -c '
        mkdir -m 700 ~/.ssh && ssh-keygen -q -t ecdsa -N "" -f ~/.ssh/id_rsa && cp ~/.ssh/id_rsa.pub ~/.ssh/authorized_keys
        /usr/sbin/sshd -De -f /etc/ssh/sshd_config.mpi & n=0
        until ssh 127.0.0.1 ampscale --version; do n=$((n + 1)); [ $n -lt 50 ] || exit 1; sleep 0.2; done
        kill $!'
fi
finish
