"""Copies of model folders; test_predictor.py saves the models that were loaded."""

from refusals import refuses
from tiny_models import save_tiny

from bertsmith.errors import ConfigError, InputError
from bertsmith.model.saving import copy_folder


def test_a_copy_does_not_replace_a_file_or_a_link_to_itself(tmp_path):
    source = save_tiny(tmp_path / "model", "classify", labels=("neg", "pos"))
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_text("text")
    link.symlink_to("link")
    with refuses(ConfigError, f"{file}: a file"):
        copy_folder(source, file)
    with refuses(InputError, f"{link}: ", worded=False):  # the system words the cause
        copy_folder(source, link)
    assert file.read_text() == "text" and link.is_symlink()
