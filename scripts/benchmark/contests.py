"""The contests of `make bench`: this project beside the field's tools, each contestant a command line."""

from typing import NamedTuple


class Contest(NamedTuple):
    """One comparison; the first contestant is the peer that ratios refer to."""

    title: str
    contestants: dict[str, str]  # {name: script and arguments, below this folder}
    unit: str = "views/s"  # `views/s`: more is better; `s`: less is better
    floor: str = ""  # the least ratio, or the most memory, that counts as a success
    goal: str = ""
    isolated: bool = True  # a contestant sets switches of torch, starts workers or compiles


def training(depth: int, width: int, *, batch: int, steps: int, compiled: bool = False) -> dict[str, str]:
    """SimCLR with a ResNet: lightly in float32 and bf16, this project in bf16 and float32, and compiled in bf16."""
    size = f"{depth} {width} {batch}"
    contestants = {
        "lightly, as documented (fp32)": f"training.py lightly {size} fp32 {steps}",
        "lightly under bf16 autocast": f"training.py lightly {size} bf16 {steps}",
        "ours, bf16": f"training.py ours {size} bf16 {steps}",
        "ours, fp32": f"training.py ours {size} fp32 {steps}",
    }
    if compiled:
        contestants["ours, bf16, compiled"] = f"training.py compiled {size} bf16 {steps}"
    return contestants


def nt_xent(anchors: int, *, floor: str = "", goal: str = "") -> Contest:
    """NT-Xent, forward and backward, at one batch size."""
    return Contest(
        f"NT-Xent, {anchors:,} anchors × 128, forward + backward",
        {"lightly": f"loss.py lightly {anchors}", "ours": f"loss.py ours {anchors}"},
        unit="s",
        floor=floor,
        goal=goal,
        isolated=False,
    )


ON_ANY_DEVICE = {
    "augmentation": Contest(
        "Augmentation, 32 px",
        {
            "PIL, 2 workers": "augmenting.py pil",
            "ours": "augmenting.py ours",
            "ours, compiled": "augmenting.py compiled",
        },
        floor="6×",
        goal="10×",
    ),
    "loss_1024": nt_xent(1024),
    "loss_4096": nt_xent(4096),
    "loss_16384": nt_xent(16384, floor="2×, 200 MiB", goal="3.3×"),
    "probe": Contest(
        "Linear probe, 50,000 × 512",
        {"Adam, 100 epochs": "probe.py adam", "ours": "probe.py ours"},
        unit="s",
        floor="4×, accuracy ± 0.1",
        goal="8×",
        isolated=False,
    ),
}
ON_CPU = {
    "resnet18": Contest(
        "SimCLR, ResNet-18, 128 × 2 views, end to end",
        training(18, 64, batch=128, steps=4),
        floor="bf16 2×, fp32 1.25×",
        goal="3×, 1.6×",
    ),
    "narrow": Contest(
        "SimCLR, ResNet-18 of width 16, 128 × 2 views, end to end",
        training(18, 16, batch=128, steps=16),
        floor="5×",
        goal="10×",
    ),
    "reproducible": Contest(
        "The same narrow network, fp32 on one thread, as in tables",
        {name: f"training.py {name} 18 16 128 fp32 16" for name in ("one_thread", "reproducible")},
    ),
    **ON_ANY_DEVICE,
}
ON_GPU = {
    "resnet18": Contest(
        "SimCLR, ResNet-18, 512 × 2 views, end to end",
        training(
            18, 64, batch=512, steps=200, compiled=True
        ),  # lightly's workers hold 32 batches when the clock starts
        floor="68,000 views/s; 4×",
        goal="89,000; 6×",
    ),
    "resnet50": Contest(
        "SimCLR, ResNet-50, 512 × 2 views, end to end",
        training(50, 64, batch=512, steps=100, compiled=True),
        floor="19,000 views/s",
        goal="24,000",
    ),
    **ON_ANY_DEVICE,
}
