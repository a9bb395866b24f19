"""(De)biased contrastive representation learning: images → views → encoder → head → pairs → a scalar.

The public names stand in __init__.pyi and are imported at their first use: `import contrastive` loads no torch.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
