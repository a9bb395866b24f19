"""The picture of views."""

import torch

from contrastive.training.diagnostics import view_grid


def test_first_row_shows_the_images():
    images = torch.randint(0, 256, (8, 3, 16, 16), dtype=torch.uint8)
    views = torch.stack([images / 255, 1 - images / 255])
    grid = view_grid(images, views)
    size, gap = 6 * 16, 2
    assert grid.shape == (3, 3 * size + 4 * gap, 8 * size + 9 * gap)
    rows = [grid[:, gap + i * (size + gap) :][:, :size, gap : gap + size] for i in range(3)]
    torch.testing.assert_close(rows[0][:, ::6, ::6], images[0] / 255)
    torch.testing.assert_close(rows[1], rows[0])
    torch.testing.assert_close(rows[2], 1 - rows[0])


def test_a_large_image_is_shown_at_the_size_of_its_views():
    grid = view_grid(torch.zeros(2, 3, 256, 200, dtype=torch.uint8), torch.zeros(1, 2, 3, 224, 224))
    assert grid.shape == (3, 2 * 224 + 6, 2 * 224 + 6)
