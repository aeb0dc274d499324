"""Prints torch_schedules.inc: PyTorch's learning rates, one C initializer a schedule.

    name, the rates of 24 optimizer steps, 3 an epoch

MultiStepLR is stepped once an epoch, as in pytorch/examples' imagenet; the others once a step.
"""
import torch
from torch.optim import lr_scheduler as lrs

EPOCHS, STEPS = 8, 3


def rates(make, per_epoch):
    """The rate in effect at each step."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.4)
    schedule = make(optimizer)
    out = []
    for step in range(EPOCHS * STEPS):
        out.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if not per_epoch or (step + 1) % STEPS == 0:
            schedule.step()
    return out


SCHEDULES = {
    "milestones": (lambda o: lrs.MultiStepLR(o, [2, 5, 7], gamma=0.3), True),
    "step": (lambda o: lrs.StepLR(o, 3, gamma=0.5), True),
    "poly": (lambda o: lrs.PolynomialLR(o, EPOCHS * STEPS, power=2.0), False),
    "poly 0.9": (lambda o: lrs.PolynomialLR(o, EPOCHS * STEPS, power=0.9), False),
    "cosine": (lambda o: lrs.CosineAnnealingLR(o, EPOCHS * STEPS), False),
}

for name, schedule in SCHEDULES.items():
    print(f'{{"{name}",')
    values = [f"{rate:.17g}" for rate in rates(*schedule)]
    for i in range(0, len(values), STEPS):
        start = " {" if i == 0 else "  "
        print(start + ", ".join(values[i : i + STEPS]) + ("," if i + STEPS < len(values) else "}},"))
