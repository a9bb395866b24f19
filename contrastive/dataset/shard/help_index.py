"""Index the shards that standard input names, beside the process that asked for it and waits for none of them."""

import json
import sys
from pathlib import Path

import torch

from contrastive.dataset.shard.index import index_shards
from contrastive.dataset.shard.sample import Fields
from contrastive.dataset.shard.store import look_up

if __name__ == "__main__":
    torch.set_num_threads(1)
    shards, cache, fields = json.load(sys.stdin)
    index_shards(look_up(shards), cache and Path(cache), Fields(*fields))
