"""What `transformers.AutoModel` needs beside the weights, for networks that neither it nor timm has."""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

from contrastive.config.targets import resolve_builtin
from contrastive.run.files import RGB, encoder_node

OWN_IMPORT = re.compile(r"^from (contrastive(?:\.\w+)*)\.(\w+) import", re.MULTILINE)
BILINEAR = 2  # PIL's number


def automodel_config(metadata: dict[str, Any]) -> dict[str, Any]:
    """What config.json says of the code of `code_files`."""
    node = encoder_node(metadata["node"], metadata["image_size"][1], len(metadata["mean"]))
    arguments = {key: value for key, value in node.items() if key not in ("_target_", "pretrained")}
    return {
        "model_type": "contrastive_encoder",
        "architectures": ["Encoder"],
        "auto_map": {"AutoConfig": "modeling.EncoderConfig", "AutoModel": "modeling.Encoder"},
        "network": arguments,
    }


def code_files(metadata: dict[str, Any]) -> dict[str, str]:
    """{name: text}: modeling.py and the modules of this package that it imports, which import one another as neighbors.

    {} for an encoder that is not of this package.
    """
    network = resolve_builtin(metadata["node"]["_target_"], "encoder")
    if network is None:
        return {}
    text = Path(__file__).with_name("modeling.py").read_text()
    text = re.sub(
        r"^from .* as Network", f"from {network.__module__} import {network.__name__} as Network", text, flags=re.M
    )
    files, waiting = {}, [("modeling.py", text)]
    while waiting:
        name, text = waiting.pop()
        files[name] = OWN_IMPORT.sub(r"from .\2 import", text)
        for package, module in OWN_IMPORT.findall(text):
            source = import_module(f"{package}.{module}").__file__
            if f"{module}.py" not in files and source is not None:
                waiting.append((f"{module}.py", Path(source).read_text()))
    return files


def preprocessor_config(metadata: dict[str, Any]) -> dict[str, Any] | None:
    """preprocessor_config.json for `AutoImageProcessor`; None for other images than square ones of RGB with 8 bits."""
    height, width = metadata["image_size"]
    if height != width or len(metadata["mean"]) != RGB or metadata.get("dtype") == "uint16":
        return None
    return {
        "image_processor_type": "CLIPImageProcessor",  # its steps are those of the transform: no part of CLIP
        "do_convert_rgb": True,
        "do_resize": True,
        "size": {"shortest_edge": height},
        "resample": BILINEAR,
        "do_center_crop": True,
        "crop_size": {"height": height, "width": width},
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": metadata["mean"],
        "image_std": metadata["std"],
    }
