"""The Python interface: `pretrain`, and an estimator with scikit-learn's methods for each task."""
