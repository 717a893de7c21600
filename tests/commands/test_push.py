"""`bertsmith push` by the real client, to a server on this machine that speaks as the hub."""

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from refusals import check_message
from tiny_models import save_tiny

TOKEN = "hf_a_secret_of_tests"


class Hub(BaseHTTPRequestHandler):
    """Makes repositories, takes small files in the commit and others by LFS."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *more):
        pass

    @property
    def state(self):
        return self.server.state

    def answer(self, value, status=200):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def read(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def do_GET(self):
        name = self.path.removeprefix("/api/models/").partition("/")[0]
        private = self.state["repositories"].get(name, {}).get("private", False)
        self.answer({"id": self.path.removeprefix("/api/models/"), "private": private, "sha": "0"})

    def do_PUT(self):
        self.state["stored"][self.path.rpartition("/")[2]] = self.read()
        self.answer({})

    def do_POST(self):
        body = self.read()
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self.answer({"error": "Invalid username or password."}, 401)
        base = f"http://{self.headers['Host']}"
        if self.path == "/api/repos/create":
            given = json.loads(body)
            url = f"{base}/{given['organization']}/{given['name']}"
            if given["organization"] in self.state["repositories"]:
                return self.answer({"error": "there", "url": url}, 409)
            is_private = given.get("private") or given.get("visibility") == "private"
            self.state["repositories"][given["organization"]] = {"private": bool(is_private)}
            return self.answer({"url": url})
        if self.path == "/api/validate-yaml":
            assert "license" in json.loads(body)["content"]
            return self.answer({"errors": [], "warnings": []})
        if "/preupload/" in self.path:
            names = [file["path"] for file in json.loads(body)["files"]]
            modes = {name: "lfs" if name.endswith(".safetensors") else "regular" for name in names}
            files = [{"path": k, "shouldIgnore": False, "uploadMode": v} for k, v in modes.items()]
            return self.answer({"files": files})
        if self.path.endswith("/info/lfs/objects/batch"):
            objects = [
                {**each, "actions": {"upload": {"href": f"{base}/store/{each['oid']}"}}}
                for each in json.loads(body)["objects"]
            ]
            return self.answer({"transfer": "basic", "objects": objects})
        assert "/commit/main" in self.path
        self.state["commits"].append([json.loads(line) for line in body.splitlines()])
        return self.answer(
            {"commitUrl": f"{base}/anna/x/commit/0", "commitOid": "0", "pullRequestUrl": None}
        )


@pytest.fixture
def hub():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    server.state = {"repositories": {}, "stored": {}, "commits": []}
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def push(hub, tmp_path):
    """Push in a process of its own, as the client reads its variables when it is imported."""

    def run(*words, **variables):
        known = {
            "HF_ENDPOINT": f"http://127.0.0.1:{hub.server_address[1]}", "HF_TOKEN": TOKEN,
            "HF_HUB_DISABLE_XET": "1", "HF_HOME": str(tmp_path / "home"), "NO_PROXY": "*",
        }  # fmt: skip
        command = [sys.executable, "-m", "bertsmith", "push", *map(str, words)]
        environment = {**os.environ, **known, **variables}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)
        assert TOKEN not in done.stdout + done.stderr
        return done

    return run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model with files of a run and a checkpoint beside it."""
    place = save_tiny(
        tmp_path_factory.mktemp("models") / "sentiment", "classify", labels=["a", "b"]
    )
    (place / "README.md").write_text("---\nlicense: mit\n---\n# sentiment\n")
    for name in ("journal.jsonl", "events.out.tfevents.1.host", "curves.svg", ".hidden"):
        (place / name).write_text("of the run")
    (place / "run.json").write_text('{"settings": {"train": "/home/anna/train.csv"}}')
    shutil.copytree(place, place / "checkpoints" / "step-00000001")
    return place


def test_model_files_alone_are_sent_as_they_are(push, hub, folder):
    done = push(folder, "anna/sentiment", "--private", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert hub.state["repositories"] == {"anna": {"private": True}}
    [lines] = hub.state["commits"]
    small = {each["value"]["path"]: base64.b64decode(each["value"]["content"])
             for each in lines if each["key"] == "file"}  # fmt: skip
    [large] = [each["value"] for each in lines if each["key"] == "lfsFile"]
    assert large["path"] == "model.safetensors"
    weights = (folder / "model.safetensors").read_bytes()
    assert hub.state["stored"] == {hashlib.sha256(weights).hexdigest(): weights}
    expected = {"config.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt", "README.md",
                "SHA256SUMS"}  # fmt: skip
    assert set(small) == expected and {*found["files"]} == expected | {"model.safetensors"}
    assert all((folder / name).read_bytes() == content for name, content in small.items())
    assert found["url"].endswith("/anna/sentiment")


@pytest.mark.parametrize(("words", "variables", "parts"), [
    (["anna/sentiment"], {"HF_TOKEN": ""}, ["HF_TOKEN"]),
    (["anna/sentiment"], {"HF_TOKEN": "hf_other"}, ["(401)", "HF_TOKEN"]),
    (["anna/sentiment"], {"HF_HUB_OFFLINE": "1"}, ["(OfflineMode", "HF_HUB_OFFLINE"]),
    (["anna/sentiment"], {"HF_ENDPOINT": "http://127.0.0.1:9"}, ["HF_ENDPOINT", "HF_HUB_OFFLINE"]),
    (["taken/sentiment", "--private"], {}, ["--private"]),
])  # fmt: skip
def test_what_hinders_is_said_in_one_line(push, hub, folder, words, variables, parts):
    hub.state["repositories"]["taken"] = {"private": False}
    done = push(folder, *words, **variables)
    assert done.returncode == 2 and done.stdout == ""
    [line] = done.stderr.splitlines()
    worded = "HF_HUB_OFFLINE" not in parts  # the client and the system have words there
    check_message(line, f"bertsmith: {words[0]}: ", *parts, worded=worded)
    assert not hub.state["commits"] and not hub.state["stored"]


def test_folders_without_a_finished_model_are_refused(refused, folder, tmp_path):
    assert f"{folder / 'absent'}: " in refused("push", folder / "absent", "anna/x")
    (tmp_path / "config.json").write_text("{}")
    assert "model.safetensors" in refused("push", tmp_path, "anna/x")
    stopped = shutil.copytree(folder, tmp_path / "stopped")
    (stopped / "run.json").write_text('{"config": {}}')
    assert f"{stopped}: " in refused("push", stopped, "anna/x")
    for name in ("sentiment", "a b/c"):
        assert f"found '{name}'; allowed is org/name" in refused("push", folder, name)
