#!/usr/bin/env bash
# Runs a sample of tests/interpose/sweep.sh: single calls of each command fail. With "daily" as the
# fourth argument, few calls of a training.
if [[ $4 == daily ]]; then
    exec bash "$2/tests/interpose/sweep.sh" "${@:1:3}" train 1 write:ENOSPC rename:EIO file:KILL
fi
sample=(open:EIO stat:EACCES read:EIO write:ENOSPC fsync:EIO fsync-folder:EIO rename:EIO malloc:ENOMEM)
for command in train resume; do
    bash "$2/tests/interpose/sweep.sh" "$1" "$2" "$3" "$command" 1 "${sample[@]}" file:KILL || exit
done
bash "$2/tests/interpose/sweep.sh" "$1" "$2" "$3" ddp 1 send:ECONNRESET recv:ECONNRESET connect:ECONNREFUSED || exit
for command in study accept; do
    bash "$2/tests/interpose/sweep.sh" "$1" "$2" "$3" "$command" 1 open:EIO write:ENOSPC rename:EIO spawn:EAGAIN || exit
done
