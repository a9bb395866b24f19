"""The encoder as a model of transformers. This file is copied into a folder for the Hub and needs nothing else of the
package there than what it imports, which is copied with it."""

from typing import Any

from torch import Tensor
from transformers import PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutputWithPooling

from contrastive.encoder.resnet import ResNet as Network  # the copy names the encoder of its folder


class EncoderConfig(PretrainedConfig):  # type: ignore[misc]
    """config.json of the folder.

    Args:
        network: arguments of the network's constructor.
    """

    model_type = "contrastive_encoder"

    def __init__(self, network: dict[str, Any] | None = None, **others: Any) -> None:
        self.network = network or {}
        super().__init__(**others)


class Encoder(PreTrainedModel):  # type: ignore[misc]
    """Standardized images (N, K, H, W) → `pooler_output`, the features (N, F)."""

    config_class = EncoderConfig
    base_model_prefix = "network"  # model.safetensors names the network's own parameters
    main_input_name = "pixel_values"

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__(config)
        self.network = Network(**config.network)
        self.post_init()

    def _init_weights(self, module: object) -> None:
        """Nothing: the network's constructor has drawn its weights."""

    def forward(self, pixel_values: Tensor, **_: object) -> BaseModelOutputWithPooling:
        return BaseModelOutputWithPooling(pooler_output=self.network(pixel_values))
