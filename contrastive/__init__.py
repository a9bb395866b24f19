"""(De)biased contrastive representation learning: images → views → encoder → head → pairs → a scalar."""
