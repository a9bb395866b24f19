"""The settings of `pretrain` at the top level, for editors. Made by scripts/generate.py from configs/."""

from typing import Literal, TypedDict

class Keywords(TypedDict, total=False):
    """Each is what it is on the command line; `python train.py --help KEY` explains one."""

    # images, with a recipe for them
    dataset: Literal[
        "arrays", "bffhq", "biased_digits", "biased_mnist", "celeba", "cifar10", "cifar100", "corrupted_cifar10",
        "digits", "image_folder", "mnist", "shards", "stl10", "utkface",
    ]  # fmt: skip
    # how views are made of an image
    augmentation: Literal[
        "callable", "crop_flip", "digits", "flip", "intensity", "none", "padded_crop", "rotation_jitter", "simclr",
        "supcon",
    ]  # fmt: skip
    # the network that is trained
    encoder: Literal[
        "resnet18", "resnet18_narrow", "resnet34", "resnet50", "simple_convnet", "timm", "torchvision",
    ]  # fmt: skip
    # projection head: from features to what the loss reads; not used afterwards
    head: Literal["identity", "linear", "mlp", "predictor", "simclr_cifar", "supcon"]
    # what training minimizes
    loss: Literal[
        "barlow", "bcl", "bias_balanced", "bias_contrastive", "byol", "combination", "contrastive_margin",
        "cross_entropy", "debiased_neg", "debiased_pos", "decoupled", "dhel", "eps_supcon", "eps_supinfonce", "fnc",
        "gce", "glofnd", "group_dro", "hard_negative", "infonce_anchor", "jtt", "kcl", "large_margin_softmax",
        "lejepa", "mmcl", "npair", "nt_xent", "rince", "sigmoid", "simsiam", "sincere", "soft_supcon", "softcon",
        "sogclr", "spectral", "supcon", "triplet", "vicreg", "visreg",
    ]  # fmt: skip
    # a second network whose projections the loss compares with
    teacher: Literal["ema", "none"]
    # a second term of the loss
    regularizer: Literal["bias_balanced", "cross_entropy", "end", "fairkl", "lnl", "none"]
    # optimizer, with learning rate and weight decay
    optimizer: Literal["adam", "adamw", "lars", "sgd"]
    # schedule of the learning rate
    schedule: Literal["constant", "cosine", "step"]
    # how the features are judged
    evaluator: list[Literal[
        "adam_probe", "alignment_uniformity", "alpha_req", "bias_audit", "class_audit", "classifier", "dfr",
        "few_label", "few_shot", "fine_tune", "knn", "knn_sweep", "linear", "linear_sgd", "online_probe", "rankme",
        "retrieval", "transfer",
    ]]  # fmt: skip
    # moving average of the encoder's weights, which evaluators then read
    average: Literal["ema", "none"]
    # hooks of your own that watch training
    hook: list[str]
    # where metrics are sent, besides metrics.jsonl
    tracker: list[Literal["mlflow", "tensorboard", "trackio", "wandb"]]
    # a paper's recipe; overrides take precedence
    experiment: Literal[
        "bc_bb", "bc_ce", "bffhq_ce", "bffhq_fairkl", "byol", "celeba_bc_bb", "celeba_ce", "corrupted_cifar10_ce",
        "corrupted_cifar10_fairkl", "cross_entropy_cifar10", "dcl", "dcl_cifar10", "debiased_positive", "domain",
        "eps_supinfonce_fairkl", "gray16", "hong_yang_bb", "hong_yang_bc_bb", "hong_yang_bc_ce", "hong_yang_ce",
        "hong_yang_end", "hong_yang_lnl", "hong_yang_softcon", "imagenet100", "imagenet9_ce", "moco_v2", "moco_v3",
        "multispectral", "simclr_cifar10", "simclr_cifar10_lightly", "simsiam", "supervised_cifar10",
        "supervised_cifar100", "supervised_imagenet100", "utkface_bc_bb", "utkface_ce",
    ]  # fmt: skip
    # random seed; also the last folder of the run's path
    seed: int
    # passes over the training images; 0: evaluate only
    epochs: int
    # images (not views) per step
    batch_size: int
    # augmented views of each image
    n_views: int
    # divides the similarities in contrastive losses
    temperature: float
    # probability that a random image shares the anchor's class
    tau_plus: float
    # uniform | class_balanced | group_balanced | bias_balanced (weights 1 / p(bias|class), clipped)
    sampler: Literal["uniform", "class_balanced", "group_balanced", "bias_balanced"]
    # a run: bias labels for training are inferred from its encoder
    bias_from: str | None
    # predictions | errors: what bias_from uses as bias label of an image
    bias_as: str
    # 0, 1, ...: evaluate on validation images, else on a tenth of the training ones, drawn by it; not on test images
    held_out: int | None
    # probability that the second view shows an image of another class
    noise_frac: float
    # probability that the second view is taken from a blurred image
    blur_frac: float
    # fused | per_view: BatchNorm normalizes all views together, or each view by itself
    views_forward: str
    # auto | fp32 | tf32 | bf16 | fp16; auto is bf16 where the device supports it, tf32 is torch's default
    precision: Literal["auto", "fp32", "tf32", "bf16", "fp16"]
    # layout of images in memory: faster; not used for very narrow networks on a CPU
    channels_last: bool
    # auto | true | false: torch.compile, 40 s at the start; auto: on a GPU the augmentation, all if it pays
    compile: bool | str
    # auto | true | false: launch a step as one CUDA graph; auto: on one GPU, unless code of your own is in it
    graphs: bool | str
    # auto | cpu | cuda | cuda:N | mps (Apple)
    device: str
    # processes on this machine, one GPU each (torchrun works too); batch_size counts all of them
    devices: int
    # images per chunk of a large batch on a small device, with the exact gradient; 0: no chunks
    grad_cache_chunk: int
    # auto | true | false: keep the images on the device, or stream batches from the host
    resident: bool | str
    # auto | N: CPU threads of each process; auto is OMP_NUM_THREADS, else torch's own number
    threads: int | str
    # folder for downloads and decoded images
    data_root: str
    # steps between lines of metrics.jsonl
    log_every: int
    # auto | N epochs; auto: at an epoch's end, if the last checkpoint is a minute old or saving is quick
    checkpoint_every: int | str
    # also inside an epoch: the most that a kill can lose
    checkpoint_every_minutes: float
    # start over, replacing the run in the directory
    rerun: bool
    # estimate time and memory, then exit; may download and decode the data
    dry_run: bool
    # bitwise reproducible on a GPU, slower; a CPU always is
    deterministic: bool
    # true: the same weights on every x86 processor with AVX2; in fp32, on one thread unless threads=N
    reproducible: bool
    # record a trace of 20 steps and the slowest operations, in the run's folder profile/
    profile: bool
    # print only errors and the final table
    quiet: bool
