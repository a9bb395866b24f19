"""Draw Figure 5 of Chuang et al. 2020 in small form: t-SNE of test images, of three runs of this table.

    python studies/batch_and_positives/tsne.py outputs/table/batch_and_positives-HASH

It writes tsne.png beside this file, and prints how many of the ten nearest points in each map are of a point's class.
"""

import sys
from pathlib import Path

import numpy as np
from sklearn.manifold import TSNE
from sklearn.neighbors import NearestNeighbors

from contrastive.gallery.run import judged
from contrastive.report.curves import COLORS
from contrastive.run.run import read_finished

sys.path.append(str(Path(__file__).resolve().parents[2] / "scripts"))
from plot import new_figure, write_figure

ROWS = {"nt-xent": "NT-Xent (biased)", "debiased": "debiased negatives", "oracle": "oracle (unbiased)"}
N_IMAGES = 2000  # of the test split, evenly spread
N_NEAR = 10


def main(base: Path) -> None:
    """Draw the picture from the runs of the folder, batch 128, seed 0."""
    figure, panels = new_figure(len(ROWS))
    for panel, (row, title) in zip(panels, ROWS.items(), strict=True):
        run = base / f"{row}-batch_size-128" / "seed=0"
        found = judged(read_finished(run))
        rows = np.linspace(0, len(found.h) - 1, N_IMAGES).round().astype(int)
        place = TSNE(metric="cosine", init="pca", random_state=0).fit_transform(found.h.numpy()[rows])
        label = found.data.test.label.cpu().numpy()[rows]
        near = NearestNeighbors(n_neighbors=N_NEAR).fit(place).kneighbors(return_distance=False)
        print(f"{title}: {100 * (label[near] == label[:, None]).mean():.1f} %")
        for k, name in enumerate(found.data.classes):
            own = place[label == k]
            panel.scatter(own[:, 0], own[:, 1], s=3, color=COLORS[k], linewidths=0, label=name)
        panel.set(title=title, xticks=[], yticks=[])
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=7, markerscale=3
    )
    write_figure(figure, [Path(__file__).with_name("tsne.png")])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
