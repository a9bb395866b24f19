"""Pretrain an encoder with a loss of this package in a plain PyTorch loop, and read it with kNN: python minimal.py

No configuration, no trainer, nothing to download: handwritten digits, two views of each image, a small ResNet.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import contrastive
from contrastive.evaluator.knn import nearest, vote

EPOCHS, BATCH_SIZE = 10, 128


def features(encoder: nn.Module, image: torch.Tensor) -> torch.Tensor:
    """(N, F) of uint8 images (N, 3, H, W)."""
    encoder.eval()
    with torch.no_grad():
        return torch.cat([encoder(part / 255) for part in image.split(512)])


def accuracy(encoder: nn.Module, data: contrastive.Data) -> float:
    """Percent of the test images whose class their 20 nearest training images vote for."""
    bank, query = features(encoder, data.pretrain.image), features(encoder, data.test.image)
    similarity, neighbor = nearest(bank, query, k=20)
    score = vote(similarity, data.pretrain.label[neighbor], n_classes=10, temperature=0.1)
    return 100 * (score.argmax(1) == data.test.label).float().mean().item()


torch.manual_seed(0)
data = contrastive.make("dataset/digits")
augment = contrastive.make("augmentation/digits")
encoder = contrastive.ResNet(depth=18, width=8)
head = nn.Sequential(nn.Linear(encoder.dim, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 32))
loss_fn = contrastive.DebiasedPos(temperature=0.5, tau_plus=0.1)
optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=3e-3)
draws = torch.Generator().manual_seed(0)  # of the augmentation
loader = DataLoader(TensorDataset(data.pretrain.image), batch_size=BATCH_SIZE, shuffle=True, drop_last=True)

print(f"untrained  kNN {accuracy(encoder, data):.1f} %")
for epoch in range(1, EPOCHS + 1):
    encoder.train()
    for (image,) in loader:
        z0, z1 = (head(encoder(augment(image, draws))) for _ in range(2))
        loss = loss_fn(z0, z1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch:2}  loss {loss.item():.3f}  kNN {accuracy(encoder, data):.1f} %")
