"""Golden values of tests/data/golden.json: the loss and the norm of its gradient in float64."""

import math
import re
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from contrastive.evaluator.geometry import alignment, uniformity
from contrastive.experiment.make import make
from contrastive.loss.bias_balanced import BiasBalanced
from contrastive.loss.large_margin_softmax import LargeMarginSoftmax
from contrastive.regularizer.fairkl import FairKL, gaussian_kl, masks
from contrastive.regularizer.lnl import negative_entropy

RULE = re.compile(r"\(?(?:(\d+)\*)?i\)?(?:%(\d+))?|(\d+)")


def u(a: Tensor, k: Tensor) -> Tensor:
    """sin(2π h / 65537) of an integer hash h of (a, k)."""
    h = (7919 * a * a + 104729 * a * k + 31337 * k * k + 1299709 * a + 15485863 * k) % 65537
    return torch.sin(2 * math.pi * h.to(torch.float64) / 65537)


def raw_inputs(inputs: dict[str, Any]) -> Tensor:
    """(B, V, D) float64: embeddings before normalization (kind hash, sinplane, flip) or logits (V = 1, D = C)."""
    kind = inputs["kind"]
    if kind == "logits":
        i, c = torch.meshgrid(torch.arange(inputs["B"]), torch.arange(inputs["C"]), indexing="ij")
        return 2 * u(i + 1, 101 + c)[:, None]
    v, i, k = torch.meshgrid(*(torch.arange(inputs[n]) for n in ("V", "B", "D")), indexing="ij")
    if kind == "hash":
        raw = u(i + 1, k + 1) + 0.6 * u(20011 * (v + 1) + i + 1, k + 1)
    elif kind == "sinplane":
        raw = torch.sin(12.9898 * (i + 1).double() + 78.233 * (k + 1).double() + 0.4 * v.double())
    else:  # flip
        raw = torch.zeros(v.shape, dtype=torch.float64)
        raw[:, :, 0] = 1.0
        raw[1, 0, 0] = -1.0
        raw[:, :, 1] = 0.1 * (v + i)[:, :, 0].double()
    return raw.transpose(0, 1).contiguous()


def integers(rule: str | None, n: int) -> Tensor | None:
    """Labels or biases of i = 0 ... n - 1 by a rule: `i`, `i%5`, `(3*i)%4` or a constant."""
    if rule is None:
        return None
    factor, modulus, constant = RULE.fullmatch(rule).groups()
    if constant:
        return torch.full((n,), int(constant))
    value = torch.arange(n) * int(factor or 1)
    return value % int(modulus) if modulus else value


Case = dict[str, Any]
Golden = Callable[[Case, Tensor, Tensor | None, Tensor | None], Tensor]  # case, inputs (B, V, D), label, bias → value


def arguments(params: Case) -> Case:
    """A case's parameters under this project's names."""
    names = {"t": "temperature", "agg": "aggregation", "C": "penalty"}
    return {names.get(key, key): value for key, value in params.items() if key not in ("M", "base_temperature")}


def term(name: str, *, factor: Callable[[Case], float] | None = None, **defaults: Any) -> Golden:
    """By configs/<name>.yaml with the parameters of the case; `factor`, of these, is hidden in the released code."""

    def golden(case: Case, z: Tensor, label: Tensor | None, bias: Tensor | None) -> Tensor:
        value: Tensor = make(name, **{**defaults, **arguments(case["params"])})(z, label, bias)
        return value if factor is None else factor(case["params"]) * value

    return golden


def debiased(name: str, **options: Any) -> Golden:
    """A debiased loss, with pos_grouping unless the case says otherwise."""
    return term(f"loss/{name}", aggregation="pos_grouping", **options)


def unit(function: Callable[[Tensor, Case], Tensor]) -> Golden:
    """A golden computed by a metric of unit vectors."""
    return lambda case, z, label, bias: function(F.normalize(z, dim=-1), case["params"])


def bias_balanced(case: Case, z: Tensor, label: Tensor | None, bias: Tensor | None) -> Tensor:
    """With the prior of the golden, n[b][y] = 1 + ((3b + 5y) mod 7)."""
    b, y = torch.meshgrid(torch.arange(4), torch.arange(case["inputs"]["C"]), indexing="ij")
    count = (1 + (3 * b + 5 * y) % 7).double()
    loss: BiasBalanced = make("loss/bias_balanced")
    loss.set_prior(count / count.sum(1, keepdim=True))
    value: Tensor = loss(z, label, bias)
    return value


def large_margin(case: Case, z: Tensor, label: Tensor | None, bias: Tensor | None) -> Tensor:
    """With the classifier of the golden, W[c][k] = u(300 + c, k + 1), on unit features."""
    assert label is not None
    c, k = torch.meshgrid(torch.arange(int(label.max()) + 1), torch.arange(case["inputs"]["D"]), indexing="ij")
    loss: LargeMarginSoftmax = make("loss/large_margin_softmax", **case["params"])
    loss.set_weight(u(300 + c, k + 1))
    value: Tensor = loss(F.normalize(z, dim=-1), label, bias)
    return value


def fairkl(case: Case, z: Tensor, label: Tensor | None, bias: Tensor | None) -> Tensor:
    """The KL of the paper; on request with self-pairs, or with the same KL on negatives."""
    if case["loss"] == "fairkl" and "self" not in case["params"]:
        value: Tensor = make("regularizer/fairkl", weight=1.0, semantics="paper")(z, label, bias)
        return value
    assert label is not None and bias is not None
    z = F.normalize(z, dim=-1).flatten(0, 1)
    kinds, s = masks(label, bias), z @ z.T
    aligned = kinds.positive_aligned
    if "self" in case["params"]:
        aligned = aligned | torch.eye(len(z), dtype=torch.bool)
    value = gaussian_kl(s, aligned, kinds.positive_conflicting)
    if case["loss"] == "fairkl_posneg":
        value = value + gaussian_kl(s, kinds.negative_aligned, kinds.negative_conflicting)
    return value


def fairkl_code(case: Case, z: Tensor, label: Tensor | None, bias: Tensor | None) -> Tensor:
    regularizer: FairKL = make("regularizer/fairkl", weight=1.0, semantics="released", kld=case["params"]["kld"])
    value: Tensor = regularizer(z, label, bias)
    return value


def composite(case: Case, z: Tensor, label: Tensor | None, bias: Tensor | None) -> Tensor:
    """alpha² · ε-SupInfoNCE + lambd · FairKL, as the released script combines them."""
    p = case["params"]
    first = make("loss/eps_supinfonce", temperature=p["t"], epsilon=p["epsilon"], semantics="released")
    value: Tensor = p["alpha"] ** 2 * first(z, label, bias) + p["lambd"] * fairkl_code(case, z, label, bias)
    return value


def align_uniform(z: Tensor, p: Case) -> Tensor:
    mean_uniformity = (uniformity(z[:, 0], p["t"]) + uniformity(z[:, 1], p["t"])) / 2
    return alignment(z[:, 0], z[:, 1], p["alpha"]) + mean_uniformity


def over_base(params: Case) -> float:
    """The factor t / t_base of Khosla et al.'s code."""
    return float(params["t"] / params["base_temperature"])


GOLDENS: dict[str, Golden] = {
    "nt_xent": term("loss/nt_xent"),
    "nt_xent_drop_fn": term("loss/nt_xent", drop_false_negatives=True),
    "nt_xent_x_t_over_base": term("loss/nt_xent", factor=over_base),
    "nt_xent_tf_sum": term("loss/nt_xent", factor=lambda params: 2.0),
    "debiased_neg": debiased("debiased_neg"),
    "debiased_neg_drop_fn": debiased("debiased_neg", drop_false_negatives=True),
    "debiased_pos": debiased("debiased_pos"),
    "debiased_pos_floored": debiased("debiased_pos"),
    "debiased_pos_drop_fn": debiased("debiased_pos", drop_false_negatives=True),
    "debiased_pos_V2": debiased("debiased_pos", semantics="released"),
    "debiased_pos_V2_drop_fn": debiased("debiased_pos", semantics="released", drop_false_negatives=True),
    "hcl": debiased("hard_negative"),
    "combination": debiased("combination"),
    "supcon_out": term("loss/supcon", form="out", factor=over_base),
    "supcon_in": term("loss/supcon", form="in"),
    "eps_supinfonce": term("loss/eps_supinfonce"),
    "eps_supinfonce_out": term("loss/eps_supinfonce", semantics="released", form="out"),
    "eps_supinfonce_in_code": term("loss/eps_supinfonce", semantics="released", form="in"),
    "eps_supcon": term("loss/eps_supcon"),
    "eps_supcon_out": term("loss/eps_supcon", semantics="released"),
    "biascon": term("loss/bias_contrastive"),
    "biasbal": bias_balanced,
    "cross_entropy": term("loss/cross_entropy"),
    "gce": term("loss/gce"),
    "triplet": term("loss/triplet"),
    "contrastive_margin": term("loss/contrastive_margin"),
    "npair": term("loss/npair"),
    "mmcl_inv": term("loss/mmcl"),
    "l_softmax": large_margin,
    "fairkl": fairkl,
    "fairkl_posneg": fairkl,
    "fairkl_code": fairkl_code,
    "eps_supinfonce_plus_fairkl": composite,
    "end_orthogonal": term("regularizer/end", alpha=1.0, beta=0.0),
    "end_parallel": term("regularizer/end", alpha=0.0, beta=1.0, semantics="released"),
    "end_parallel_all_pairs": term("regularizer/end", alpha=0.0, beta=1.0),
    "lnl_entropy": lambda case, z, label, bias: negative_entropy(z.flatten(0, 1)),
    "align": unit(lambda z, p: alignment(z[:, 0], z[:, 1], p["alpha"])),
    "uniform": unit(lambda z, p: uniformity(z[:, 0], p["t"])),
    "align_plus_uniform": unit(align_uniform),
}


def evaluate(case: Case) -> tuple[Tensor, Tensor]:
    """The value in float64, and its gradient with respect to the inputs (B, V, D): before normalization, or logits."""
    inputs = case["inputs"]
    raw = raw_inputs(inputs).requires_grad_()
    label, bias = (integers(inputs.get(key), inputs["B"]) for key in ("labels", "bias"))
    value = GOLDENS[case["loss"]](case, raw, label, bias)
    return value, torch.autograd.grad(value, raw)[0]


def check(case: Case) -> tuple[str, str]:
    """(`passed` | `failed` | `out of domain`, details)."""
    adversarial = case["loss"] == "debiased_pos" and case["inputs"]["kind"] == "flip"
    if adversarial and case["params"]["tau_plus"] * case["inputs"]["B"] < 0.5:
        return "out of domain", "tau_plus * B < 1/2: refused when the program is built"
    value, gradient = evaluate(case)
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
