"""kNN for runs whose training costs about as much as an evaluation."""

from contrastive.evaluator.knn import KNN


class KNNAfter(KNN):
    """`KNN` that leaves the untrained encoder out."""

    before_training = False
