# shellcheck shell=bash
# Runs of the program with calls that fail (interpose.c). Sourced after cli/common.sh. Builds with a
# sanitizer leave these tests out, because the sanitizer's library must be loaded first.
sanitized && { echo "skipped: the calls of a program with sanitizers cannot be replaced" && exit 77; }

interpose=$build_dir/tests/interpose/libinterpose.so

# interposed SPEC COMMAND...: runs the function or program, whose calls fail as SPEC says.
interposed() {
    local -x LD_PRELOAD=$interpose AMPSCALE_INTERPOSE=$1
    shift
    "$@"
}

# default_faults: prints "KIND:ERROR", one a line: typical failures of storage, memory and networks.
default_faults() {
    printf '%s\n' open:{EIO,EMFILE,EACCES,ESTALE,ENOMEM,EINTR} opendir:{EIO,EMFILE,EACCES} readdir:{EIO,ESTALE} \
        stat:{EIO,EACCES,ESTALE,ENOMEM} read:{EIO,ESTALE,EINTR,SHORT} write:{EIO,ENOSPC,EDQUOT,SHORT} \
        close:EIO seek:EIO fsync:{EIO,ENOSPC} fsync-folder:EIO rename:{EIO,ENOSPC,EACCES,ESTALE} \
        unlink:{EIO,EACCES} mkdir:{EIO,ENOSPC,EACCES} truncate:{EIO,EINTR} lock:{ENOLCK,EIO,EINTR} \
        mmap:ENOMEM print:{ENOSPC,EIO} malloc:ENOMEM spawn:{EAGAIN,ENOMEM} thread:EAGAIN pipe:EMFILE \
        socket:{EMFILE,ENOBUFS} bind:{EADDRINUSE,ENOBUFS} \
        connect:{ECONNREFUSED,ETIMEDOUT,EINTR,EHOSTUNREACH} accept:{EMFILE,ECONNABORTED,EINTR} \
        send:{ECONNRESET,EPIPE,EINTR,ENOBUFS,SHORT} recv:{ECONNRESET,EINTR,ETIMEDOUT,SHORT} poll:{EINTR,ENOMEM}
}
