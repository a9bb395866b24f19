"""512 images of 32 pixels into views: augmenting.py (ours|compiled|pil|exactness)."""

import sys
import time

import torch
import torchvision.transforms.v2.functional as tv
from measure import Clock, report
from torch.utils.data import DataLoader
from torchvision import transforms
from training import Views, as_tensor, pictures

from contrastive.experiment.make import make
from contrastive.seeding import generator

N, SECONDS = 512, 4.0
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def images() -> torch.Tensor:
    return as_tensor(pictures(N)).to(DEVICE)


def ours(*, compiled: bool) -> None:
    """Batched augmentation on the device, for a few seconds."""
    augmentation, x, rng = make("augmentation/simclr"), images(), generator(DEVICE, 0)
    apply = torch.compile(augmentation.apply, dynamic=False) if compiled else augmentation.apply
    for _ in range(3):
        apply(x, augmentation.draw(N, 32, 32, rng))
    clock, n = Clock(), 0
    clock.start()
    since = time.perf_counter()
    while time.perf_counter() - since < SECONDS:
        apply(x, augmentation.draw(N, 32, 32, rng))
        n += N
    report(views=n, **clock.stop())


def pil() -> None:
    """The pipeline of the debiased papers' code, an image at a time, in two DataLoader workers."""
    jitter = transforms.RandomApply([transforms.ColorJitter(0.4, 0.4, 0.4, 0.1)], p=0.8)
    blur = transforms.RandomApply([transforms.GaussianBlur(3, (0.1, 2.0))], p=0.5)
    transform = transforms.Compose(
        [
            transforms.RandomResizedCrop(32),
            transforms.RandomHorizontalFlip(),
            jitter,
            transforms.RandomGrayscale(0.2),
            blur,
            transforms.ToTensor(),
        ]
    )
    loader = DataLoader(Views(pictures(N) * 100, transform), batch_size=N, num_workers=2)
    clock, n = Clock(), 0
    batches = iter(loader)
    clock.pids = [worker.pid for worker in batches._workers]  # type: ignore[attr-defined]
    for i, batch in enumerate(batches):
        if i == 4:  # the batches prepared before the clock starts are used up
            clock.start()
            since = time.perf_counter()
        elif i > 4:
            n += len(batch)
            if time.perf_counter() - since > SECONDS:
                break
    report(views=n, **clock.stop())


def exactness() -> None:
    """The largest difference from torchvision's functionals on the same images with the same parameters."""
    augmentation, x = make("augmentation/simclr"), images().cpu()
    parameters = augmentation.draw(N, 32, 32, generator("cpu", 0))
    views = augmentation.apply(x, parameters)
    names = ("brightness", "contrast", "saturation", "hue")
    worst = 0.0
    for i in range(N):
        crop, jitter, gray, blur = (
            {key: value[i] for key, value in parameters[name].items()}
            for name in ("crop", "jitter", "grayscale", "blur")
        )
        box = [int(crop[key]) for key in ("top", "left", "height", "width")]
        y = tv.resized_crop(x[i].float() / 255, *box, [32, 32], antialias=True)
        y = tv.horizontal_flip(y) if crop["flip"] else y
        for kind in jitter["order"].tolist():
            y = getattr(tv, f"adjust_{names[kind]}")(y, float(jitter[names[kind]]))
        y = tv.rgb_to_grayscale(y, 3) if gray["applied"] else y
        if blur["sigma"] > 0:
            y = tv.gaussian_blur(y, [3, 3], [float(blur["sigma"])] * 2)
        worst = max(worst, (views[i] - y).abs().max().item())
    report(worst=worst)


if __name__ == "__main__":
    if sys.argv[1] in ("ours", "compiled"):
        ours(compiled=sys.argv[1] == "compiled")
    else:
        {"pil": pil, "exactness": exactness}[sys.argv[1]]()
