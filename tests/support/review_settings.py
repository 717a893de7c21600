"""Settings of a run that fits some head to reviews."""

from tiny_models import save_tiny, write_reviews

from bertsmith.tasks.settings.classify import ClassifySettings


def settings_on_reviews(folder, num_train, num_eval=60, **changes):
    """Write a tiny model and both files to `folder`; return settings of a run on them."""
    return ClassifySettings(
        model=save_tiny(folder / "model", "masked_lm"),
        train=write_reviews(folder / "train.csv", num_train),
        eval=write_reviews(folder / "eval.csv", num_eval, seed=1),
        out=folder / "out",
        precision="fp32",
        threads=1,
        **changes,
    )
