"""Check golden values: the loss and the norm of its gradient, in float64."""

import math

import torch
from torch import Tensor

from contrastive.testing.golden import CASES, Case
from contrastive.testing.inputs import integers, raw_inputs


def run_case(case: Case) -> tuple[float, float]:
    """Evaluate one golden case in float64.

    Returns:
        value: the loss; grad_raw: the Euclidean norm of its gradient with respect to the un-normalized inputs (for
        kind `logits`, to the logits).

    Raises:
        NotImplementedError: this project does not have the loss of the case.
    """
    value, gradient = evaluate(case)
    return value.item(), gradient.norm().item()


def evaluate(case: Case) -> tuple[Tensor, Tensor]:
    """The value and its gradient with respect to the inputs (B, V, D)."""
    inputs = case["inputs"]
    if case["loss"] not in CASES:
        raise NotImplementedError(f"loss={case['loss']}")
    raw = raw_inputs(inputs).requires_grad_()
    label, bias = (integers(inputs.get(key), inputs["B"]) for key in ("labels", "bias"))
    value = CASES[case["loss"]](case)(raw, label, bias)
    return value, torch.autograd.grad(value, raw)[0]


def check(case: Case) -> tuple[str, str]:
    """(`passed` | `failed` | `not implemented` | `out of domain`, details)."""
    if out_of_domain(case):
        return "out of domain", "tau_plus * B < 1/2: refused when the program is built"
    try:
        value, gradient = evaluate(case)
    except NotImplementedError as missing:
        return "not implemented", str(missing)
    computed = {"value": value.item(), "grad_raw_l2": gradient.norm().item()}
    if case["inputs"]["kind"] == "logits":
        i, c = torch.meshgrid(torch.arange(gradient.shape[0]), torch.arange(gradient.shape[2]), indexing="ij")
        computed = {
            "value": value.item(),
            "grad_l2": gradient.norm().item(),
            "grad_probe": (gradient[:, 0] * torch.cos((i + 2 * c).double())).sum().item(),
        }
    wrong = [
        f"{key} {x!r} instead of {case[key]!r}"
        for key, x in computed.items()
        if case.get(key) is not None and not abs(x - case[key]) <= 1e-9 * abs(case[key]) + 1e-14
    ]
    if case.get("value") is None:  # the authors' code is not finite here; ours must be
        wrong += [f"{key} is {x}" for key, x in computed.items() if not math.isfinite(x)]
    return ("failed", "; ".join(wrong)) if wrong else ("passed", "")


def out_of_domain(case: Case) -> bool:
    """Whether a run with these settings would be refused: adversarial inputs (kind flip) at a very small prior."""
    return bool(
        case["loss"] == "debiased_pos"
        and case["inputs"]["kind"] == "flip"
        and case["params"]["tau_plus"] * case["inputs"]["B"] < 0.5
    )
