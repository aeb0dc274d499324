#!/usr/bin/env bash
# Takes the place of a Python with PyTorch beside the fake GPU. Answers the requests of
# tests/peers/torch_step.py with any numbers, and takes a real one's time for them with
# AMPSCALE_FAKE_DELAYS. Writes into FAKE_PYTHON_LOG when a context is held and released.
takes() {
    sleep "$(awk -v s="$1" -v scale="${AMPSCALE_FAKE_DELAYS:-0}" 'BEGIN { print s * scale }')"
}

log() {
    [[ -z ${FAKE_PYTHON_LOG-} ]] || echo "$*" >>"$FAKE_PYTHON_LOG"
}

if [[ $1 == -c ]]; then
    case $2 in
    *cuDevicePrimaryCtxRetain*stdin.read*) log held && cat && log released ;;
    'import torch, torchvision') takes 8 ;;
    esac
    exit 0
fi
takes 8
echo "ready PyTorch 0.0"
while read -r mode precision batch steps; do
    case $mode in compile) takes 55 ;; *) takes 15 ;; esac
    log "answers $mode $precision $batch $steps"
    echo "images_per_s 2.00 1.00 3.00"
done
