from typing import Any

Augmentation = Any
