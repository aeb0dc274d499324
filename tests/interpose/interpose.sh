# shellcheck shell=bash
# Functions that run the program with calls that fail (interpose.c). Source this file after
# cli/common.sh. These tests are skipped in builds with a sanitizer: a sanitizer's library must be
# loaded before all others.
sanitized && { echo "skipped: the calls of a program with sanitizers cannot be replaced" && exit 77; }

interpose=$build_dir/tests/interpose/libinterpose.so

# interposed SPEC COMMAND...: runs a function or a program with AMPSCALE_INTERPOSE=SPEC, which
# selects the calls that fail.
interposed() {
    local -x LD_PRELOAD=$interpose AMPSCALE_INTERPOSE=$1
    shift
    "$@"
}

# default_faults: prints typical failures of storage, memory and networks, one "KIND:ERROR" a line.
default_faults() {
    printf '%s\n' open:{EIO,EMFILE,EACCES,ESTALE,ENOMEM,EINTR} opendir:{EIO,EMFILE,EACCES} readdir:{EIO,ESTALE} \
        stat:{EIO,EACCES,ESTALE,ENOMEM} read:{EIO,ESTALE,EINTR,SHORT} write:{EIO,ENOSPC,EDQUOT,SHORT} \
        close:EIO seek:EIO fsync:{EIO,ENOSPC} fsync-folder:EIO rename:{EIO,ENOSPC,EACCES,ESTALE} \
        unlink:{EIO,EACCES} mkdir:{EIO,ENOSPC,EACCES} truncate:{EIO,EINTR} lock:{ENOLCK,EIO,EINTR} \
        mmap:ENOMEM print:{ENOSPC,EIO} malloc:ENOMEM malloc-library:ENOMEM spawn:{EAGAIN,ENOMEM} thread:EAGAIN pipe:EMFILE \
        socket:{EMFILE,ENOBUFS} bind:{EADDRINUSE,ENOBUFS} \
        connect:{ECONNREFUSED,ETIMEDOUT,EINTR,EHOSTUNREACH} accept:{EMFILE,ECONNABORTED,EINTR} \
        send:{ECONNRESET,EPIPE,EINTR,ENOBUFS,SHORT} recv:{ECONNRESET,EINTR,ETIMEDOUT,SHORT} poll:{EINTR,ENOMEM}
}
