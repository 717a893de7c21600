"""The road in Python: `pretrain`, and an estimator with scikit-learn's methods for each task."""
