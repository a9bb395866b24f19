"""Check losses against golden values: `python -m contrastive.testing FILE.json`.

A case names a loss, its parameters and regenerable inputs (an integer-hash sine), and the value and gradient norm the
authors' code or the paper's formula gives. Each case's loss is built from its YAML under configs/loss, so what is
checked is what a run would use.
"""

import json
import math
import sys
from pathlib import Path
from typing import Any

import torch
from hydra.utils import instantiate
from omegaconf import OmegaConf
from torch import Tensor

from contrastive.refusal import Refusal

CONFIGS = Path(__file__).resolve().parent.parent / "configs"
NAMES = {"t": "temperature", "agg": "aggregation"}  # golden parameter names that differ from ours


class NotImplementedCase(Exception):
    """The case names something this project does not have."""


class OutOfDomain(Exception):
    """The case lies where the loss is not defined, and a run that asks for it is refused."""


def build(group: str, name: str, **arguments: Any) -> Any:
    """Instantiate configs/<group>/<name>.yaml with these arguments in place of its own."""
    path = CONFIGS / group / f"{name}.yaml"
    if not path.exists():
        raise NotImplementedCase(f"{group}={name}")
    root = OmegaConf.load(CONFIGS / "train.yaml")
    node = OmegaConf.merge(OmegaConf.load(path), arguments)
    knobs = {key: OmegaConf.select(root, key) for key in ("temperature", "tau_plus")}
    return instantiate(OmegaConf.create({**knobs, "node": node}).node, _convert_="all")


def u(a: Tensor, k: Tensor) -> Tensor:
    """sin(2π h / 65537) of an integer hash h of (a, k): the same inputs in every language."""
    h = (7919 * a * a + 104729 * a * k + 31337 * k * k + 1299709 * a + 15485863 * k) % 65537
    return torch.sin(2 * math.pi * h.to(torch.float64) / 65537)


def raw_inputs(inputs: dict[str, Any]) -> Tensor:
    """(B, V, D) float64 embeddings before normalisation, of kind hash, sinplane or flip."""
    if inputs["kind"] not in ("hash", "sinplane", "flip"):
        raise NotImplementedCase(f"inputs of kind {inputs['kind']}")
    views, images, dims = inputs["V"], inputs["B"], inputs["D"]
    v, i, k = torch.meshgrid(*(torch.arange(n) for n in (views, images, dims)), indexing="ij")
    if inputs["kind"] == "hash":
        raw = u(i + 1, k + 1) + 0.6 * u(20011 * (v + 1) + i + 1, k + 1)
    elif inputs["kind"] == "sinplane":
        raw = torch.sin(12.9898 * (i + 1).double() + 78.233 * (k + 1).double() + 0.4 * v.double())
    else:
        raw = torch.zeros(views, images, dims, dtype=torch.float64)
        raw[:, :, 0] = 1.0
        raw[1, 0, 0] = -1.0
        raw[:, :, 1] = 0.1 * (v + i)[:, :, 0].double()
    return raw.transpose(0, 1).contiguous()


def integers(rule: str | None, n: int) -> Tensor | None:
    """Labels or biases from a rule such as `i%5` or `(3*i)%4`."""
    if rule is None:
        return None
    return torch.tensor([int(eval(rule, {"__builtins__": {}}, {"i": i})) for i in range(n)])


def split_name(case: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """A golden's loss name and parameters in this project's words: (configs/loss name, arguments)."""
    name, arguments = case["loss"], {NAMES.get(k, k): v for k, v in case["params"].items() if k != "M"}
    if name.endswith("_drop_fn"):
        name, arguments["drop_false_negatives"] = name.removesuffix("_drop_fn"), True
    if name == "debiased_pos_V2":
        name, arguments["semantics"] = "debiased_pos", "released"
    if name == "debiased_pos_floored":
        name = "debiased_pos"
    if name in ("debiased_neg", "debiased_pos"):
        arguments.setdefault("aggregation", "pos_grouping")
    return name, arguments


def run_case(case: dict[str, Any]) -> tuple[float, float]:
    """Evaluate one golden case in float64.

    Returns:
        value: the loss; grad_raw: the Euclidean norm of its gradient with respect to the un-normalised inputs.

    Raises:
        NotImplementedCase, OutOfDomain: when there is no number to compare.
    """
    inputs = case["inputs"]
    raw = raw_inputs(inputs).requires_grad_()
    label, bias = (integers(inputs.get(key), inputs["B"]) for key in ("labels", "bias"))
    scale = 1.0
    if case["loss"] == "nt_xent_x_t_over_base":
        case = {**case, "loss": "nt_xent", "params": {"t": case["params"]["t"]}}
        scale = case["params"]["t"] / 0.07
    elif case["loss"] == "nt_xent_tf_sum":
        case, scale = {**case, "loss": "nt_xent"}, 2.0
    name, arguments = split_name(case)
    try:
        loss = build("loss", name, **arguments)
    except Refusal as refusal:
        raise OutOfDomain(str(refusal)) from None
    value = scale * loss(raw, label, bias)
    (gradient,) = torch.autograd.grad(value, raw)
    return value.item(), gradient.norm().item()


def close(x: float, golden: float) -> bool:
    return abs(x - golden) <= 1e-9 * abs(golden) + 1e-14


def out_of_domain(case: dict[str, Any]) -> bool:
    """The adversarial inputs of kind flip, at a prior so small that a run is refused before it starts."""
    return (case["loss"] == "debiased_pos" and case["inputs"]["kind"] == "flip"
            and case["params"]["tau_plus"] * case["inputs"]["B"] < 0.5)


def check(case: dict[str, Any]) -> tuple[str, str]:
    """(`passed` | `failed` | `not implemented` | `out of domain`, what was seen)."""
    if out_of_domain(case):
        return "out of domain", "tau_plus * B < 1/2: refused when the program is built"
    try:
        value, grad_raw = run_case(case)
    except NotImplementedCase as missing:
        return "not implemented", str(missing)
    except OutOfDomain as reason:
        return "out of domain", str(reason)
    wrong = [f"{key} {x!r} instead of {case[key]!r}" for key, x in (("value", value), ("grad_raw_l2", grad_raw))
             if case.get(key) is not None and not close(x, case[key])]
    if case.get("value") is None and not (math.isfinite(value) and math.isfinite(grad_raw)):
        wrong.append(f"not finite: {value}, {grad_raw}")
    return ("failed", "; ".join(wrong)) if wrong else ("passed", "")


def main(path: str) -> int:
    count = {"passed": 0, "failed": 0, "not implemented": 0, "out of domain": 0}
    for case in json.loads(Path(path).read_text())["cases"]:
        verdict, seen = check(case)
        count[verdict] += 1
        if verdict != "passed":
            print(f"case {case.get('id')} {case['loss']} {case['params']}: {verdict}: {seen}")
    if count["out of domain"]:
        print(f"{count['out of domain']} out of domain")
    print(f"{count['passed']} passed, {count['failed']} failed, {count['not implemented']} not implemented")
    return 1 if count["failed"] else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m contrastive.testing FILE.json")
    sys.exit(main(sys.argv[1]))
