#!/usr/bin/env bash
# tests/peers/torch_step.py, with a torch of a few lines in which a step sleeps: at fp32 an eager step
# has the faster layout, and a compilation that crashes prevents no later request.
. "$(dirname "$0")/../cli/common.sh" "$@"
command -v python3 >/dev/null || skip "there is no python3"
cd "$scratch" || exit 1
cat >torch.py <<'END'
import os, sys, time
from unittest.mock import MagicMock

torch = sys.modules[__name__] = MagicMock(__version__="0.0")
torch.device.return_value.type = "cpu"
torch.cuda.is_available.return_value = False


def network(num_classes):
    model = MagicMock()

    def to(device, memory_format):
        slow = memory_format is torch.channels_last
        model.side_effect = lambda images: time.sleep(0.05 if slow else 0)
        print("slow" if slow else "fast", file=open("layouts", "a"))
        return model

    model.to = to
    return model


def compile(model):
    if os.path.exists("crash"):
        os.remove("crash")
        os.kill(os.getpid(), 11)
    return model


torch.compile = compile
sys.modules["torchvision"] = MagicMock(__version__="0.0")
sys.modules["torchvision"].models.resnet50 = network
END
: >torchvision.py
: >crash
export PYTHONPATH=$scratch PYTHONDONTWRITEBYTECODE=1
printf '%s\n' 'compile amp 4 4' 'eager amp 4 4' 'compile amp 4 4' 'plain fp32 4 4' 'eager tf32 none 4' 'eager fp32 4 4' |
    python3 "$source_dir/tests/peers/torch_step.py" --device cpu >out 2>err || fail "torch_step.py: $(<err)"
mapfile -t said <out
[[ ${#said[@]} == 7 && ${said[0]} == "ready PyTorch 0.0, torchvision 0.0" ]] || fail "the answers: $(<out)"
[[ ${said[1]} == "error the process that compiles ended" ]] || fail "a compilation crashed: ${said[1]}"
[[ ${said[5]} == error* ]] || fail "a request that is wrong: ${said[5]}"
for answer in "${said[2]}" "${said[3]}" "${said[4]}" "${said[6]}"; do
    [[ $answer =~ ^images_per_s\ [0-9.]+\ [0-9.]+\ [0-9.]+$ ]] || fail "requests after a crash: $(<out)"
done
[[ $(paste -sd ' ' layouts) == "slow slow slow fast fast slow fast" ]] || fail "the layouts of the steps: $(<layouts)"
grep -qE '^eager fp32 4: images/s plain [0-9.]+, channels_last [0-9.]+$' err || fail "it is not said which layout is faster: $(<err)"
finish
