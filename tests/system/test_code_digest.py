"""The digest of the code changes with each module, and with nothing else."""

from bertsmith.system import code_digest


def test_modules_decide(tmp_path, monkeypatch):
    monkeypatch.setattr(code_digest, "CODE_FOLDER", tmp_path)

    def digest():
        code_digest.digest_code.cache_clear()
        return code_digest.digest_code()

    (tmp_path / "b").mkdir()
    (tmp_path / "a.py").write_text("one")
    first = digest()
    assert len(first) == 12
    (tmp_path / "page.html").write_text("not code")
    assert digest() == first
    (tmp_path / "a.py").write_text("two")
    second = digest()
    (tmp_path / "a.py").rename(tmp_path / "b" / "a.py")
    assert len({first, second, digest()}) == 3
    code_digest.digest_code.cache_clear()
