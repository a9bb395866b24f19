"""What each file of a run holds, for `schema.misfit`: what a reader relies on, and no more. Imports no torch."""

from typing import Any, NotRequired, TypedDict

from contrastive.listing.places import Place

Figures = dict[str, float]  # {metric: value}

Group = TypedDict("Group", {"class": str, "bias": str, "n": int, "top1": Figures})


class ClassAudit(TypedDict):
    """What `class_audit` found of one read-out; `top1` by class."""

    mean_top1: float
    worst_top1: float
    top1: Figures


Class = TypedDict("Class", {"class": str, "label": int, "n": int})

Majority = TypedDict("Majority", {"class": str, "percent": float})  # the class of more than half of the test images


class Reported(TypedDict):
    """The figure that a paper reports."""

    read_out: str
    metric: str
    accuracy: float


class Audit(TypedDict, total=False):
    """What `bias_audit` and `class_audit` found; further keys are read-outs with their accuracies."""

    groups: list[Group]
    by_class: dict[str, ClassAudit]
    classes: list[Class]  # missing in results of earlier versions
    bias_top1: float
    reported: Reported


class Time(TypedDict):
    """Seconds that a run or an evaluation took, and the day and hour of its end."""

    seconds: float
    finished: NotRequired[str]


class EncoderFacts(TypedDict):
    """What the features are, and the file that the encoder started from."""

    features: str
    weights: str | None
    epochs: int
    before: NotRequired[str]  # what it was before training: untrained, or as loaded
    average: NotRequired[str]


class MadeBy(TypedDict):
    """The hash of the configuration, and others that are only compared."""

    config: str


class Log(TypedDict):
    """How much of metrics.jsonl belongs to the run."""

    lines: int
    sha256: str


class Result(TypedDict):
    """result.json; what is not required is missing in results of earlier versions."""

    test: Figures
    untrained: Figures
    val: Figures
    audit: Audit
    protocol: dict[str, str]
    time: Time
    encoder: NotRequired[EncoderFacts]
    log: NotRequired[Log]
    made_by: NotRequired[MadeBy]
    weights: NotRequired[dict[str, str]]
    correct: NotRequired[dict[str, str]]
    left_out: NotRequired[list[str]]
    majority: NotRequired[Majority]
    untrained_correct: NotRequired[dict[str, str]]  # of a run that was trained and judged on the test split
    resumed_with: NotRequired[list[dict[str, Any]]]


class Environment(TypedDict):
    """environment.json."""

    command: str
    code: str
    data: str
    threads: int
    files: NotRequired[dict[str, Place]]
    commit: NotRequired[str | None]
    package: NotRequired[str]
    overrides: NotRequired[list[str]]
    earlier: NotRequired[list[dict[str, Any]]]
    resumed_with: NotRequired[list[dict[str, Any]]]


class EvaluationSettings(TypedDict):
    """The nodes of the dataset and of each evaluator."""

    dataset: dict[str, Any]
    evaluator: dict[str, dict[str, Any]]


class Evaluation(TypedDict):
    """RUN/evaluation/NAME.json."""

    weights: str
    dataset: str
    is_transfer: bool
    settings: EvaluationSettings
    test: Figures
    val: Figures
    audit: NotRequired[Audit]
    protocol: dict[str, str]
    time: Time
    correct: NotRequired[dict[str, str]]
    majority: NotRequired[Majority]
    environment: "EvaluationEnvironment"


class EvaluationEnvironment(TypedDict):
    """What computed an evaluation; `modules` are those of the user's own."""

    code: str
    modules: NotRequired[dict[str, str]]


class Node(TypedDict):
    _target_: str  # further keys are arguments


class EncoderMetadata(TypedDict):
    """The metadata of encoder.safetensors: how to build the network, and how its images were prepared."""

    node: Node
    image_size: tuple[int, int]
    mean: list[float]
    std: list[float]
    dtype: NotRequired[str]  # of the images, where it is not uint8
    orientation: NotRequired[bool]  # False where images were not turned upright
    classes: list[str]
    dataset: str
    loss: str
    encoder: EncoderFacts
    metrics: Figures
    protocol: dict[str, str]


class HeadMetadata(TypedDict):
    """The metadata of head.safetensors that building it needs."""

    node: Node
    in_dim: int


class ProcessState(TypedDict):
    """What a process has of its own inside an epoch: random states and the window of the log."""

    device: str
    augmentation: Any
    layers: Any
    window: dict[str, Any]


class Checkpoint(TypedDict):
    """last.pt: where the run stands. What step and hooks restore, they check when they load it."""

    epoch: int
    batch: int
    seconds: float
    process: list[ProcessState] | None
    made_by: dict[str, str]
    logs: Log
    hooks: NotRequired[dict[str, dict[str, Any]]]
