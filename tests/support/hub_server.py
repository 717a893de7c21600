"""A server on this machine that answers the client of the Hugging Face hub as the hub does."""

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

TOKEN = "hf_a_secret_of_tests"


@dataclass
class Repository:
    private: bool = False
    files: dict[str, bytes] = field(default_factory=dict)
    num_commits: int = 0
    is_cut: bool = False
    """Whether the connection ends in the middle of each file."""

    @property
    def commit(self) -> str:
        return hashlib.sha1(str(self.num_commits).encode()).hexdigest()


class Hub:
    """Repositories by their names, and the files that the client uploaded and downloaded."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.repositories: dict[str, Repository] = {}
        self.uploads: dict[str, bytes] = {}
        """Large files by their SHA-256; a later commit refers to them."""
        self.fetched: list[str] = []
        """Paths of the files that were downloaded."""

    def variables(self, home: Path) -> dict[str, str]:
        """Return environment variables that give the client this hub, and `home` for its cache."""
        return {
            "HF_ENDPOINT": self.address, "HF_TOKEN": TOKEN, "HF_HOME": str(home),
            "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1", "NO_PROXY": "*",
            "HF_HUB_OFFLINE": "",  # also on a computer that sets it
        }  # fmt: skip


@contextmanager
def serve_hub() -> Iterator[Hub]:
    """Serve an empty hub on a free port of 127.0.0.1."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    server.hub = Hub(f"http://127.0.0.1:{server.server_address[1]}")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.hub
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    """Handler of requests: it creates repositories, takes uploads and serves files.

    Small files are uploaded as part of the commit, and weights by LFS.
    """

    protocol_version = "HTTP/1.1"

    def log_message(self, *more):
        pass

    @property
    def hub(self) -> Hub:
        return self.server.hub

    @property
    def parts(self) -> list[str]:
        return unquote(urlsplit(self.path).path).strip("/").split("/")

    @property
    def has_token(self) -> bool:
        return self.headers.get("Authorization") == f"Bearer {TOKEN}"

    def answer(self, value, status=200, **headers):
        self.send(json.dumps(value).encode(), status, Content_Type="application/json", **headers)

    def send(self, body, status=200, **headers):
        self.send_response(status)
        for name, value in {**headers, "Content_Length": len(body)}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        if self.command != "HEAD":
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
        is_api = self.parts[:2] == ["api", "models"]
        org, name, *rest = self.parts[2:] if is_api else self.parts
        repository = self.hub.repositories.get(f"{org}/{name}")
        if repository is None or (repository.private and not self.has_token):
            return self.answer({"error": "none"}, 401, X_Error_Code="RepoNotFound")
        if is_api and rest[:1] == ["tree"]:
            return self.answer([_listed(*file) for file in repository.files.items()])
        if is_api:
            files = [{"rfilename": path} for path in repository.files]
            return self.answer({
                "id": f"{org}/{name}", "private": repository.private, "sha": repository.commit,
                "siblings": files,
            })  # fmt: skip
        path = "/".join(rest[2:])  # behind "resolve" and the revision
        commit = {"X_Repo_Commit": repository.commit}
        if path not in repository.files:
            return self.answer({"error": "none"}, 404, X_Error_Code="EntryNotFound", **commit)
        if self.command == "GET":
            self.hub.fetched.append(path)
        listed = _listed(path, repository.files[path])
        etag = listed["lfs"]["oid"] if "lfs" in listed else listed["oid"]
        if repository.is_cut and self.command == "GET":
            self.send_response(200)
            self.send_header("Content-Length", str(len(repository.files[path]) + 1))
            self.end_headers()
            self.close_connection = True
            return None
        return self.send(repository.files[path], ETag=f'"{etag}"', **commit)

    do_HEAD = do_GET

    def do_PUT(self):
        self.hub.uploads[self.parts[-1]] = self.read()
        self.answer({})

    def do_POST(self):
        body = self.read()
        if not self.has_token:
            return self.answer({"error": "Invalid username or password."}, 401)
        if self.parts == ["api", "repos", "create"]:
            return self.create(json.loads(body))
        if self.parts == ["api", "validate-yaml"]:
            assert "license" in json.loads(body)["content"]
            return self.answer({"errors": [], "warnings": []})
        if "preupload" in self.parts:
            paths = [file["path"] for file in json.loads(body)["files"]]
            modes = {path: "lfs" if _is_large(path) else "regular" for path in paths}
            files = [{"path": k, "shouldIgnore": False, "uploadMode": v} for k, v in modes.items()]
            return self.answer({"files": files})
        if self.parts[-4:] == ["info", "lfs", "objects", "batch"]:
            objects = [
                {**each, "actions": {"upload": {"href": f"{self.hub.address}/s/{each['oid']}"}}}
                for each in json.loads(body)["objects"]
            ]
            return self.answer({"transfer": "basic", "objects": objects})
        assert self.parts[4:] == ["commit", "main"]
        return self.commit("/".join(self.parts[2:4]), map(json.loads, body.splitlines()))

    def create(self, request):
        name = f"{request['organization']}/{request['name']}"
        url = f"{self.hub.address}/{name}"
        if name in self.hub.repositories:
            return self.answer({"error": "there", "url": url}, 409)
        is_private = request.get("private") or request.get("visibility") == "private"
        self.hub.repositories[name] = Repository(bool(is_private))
        return self.answer({"url": url})

    def commit(self, name, lines):
        repository = self.hub.repositories[name]
        for line in lines:
            value = line["value"]
            if line["key"] == "file":
                repository.files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                repository.files[value["path"]] = self.hub.uploads[value["oid"]]
        repository.num_commits += 1
        url = f"{self.hub.address}/{name}/commit/{repository.commit}"
        return self.answer({"commitUrl": url, "commitOid": "0", "pullRequestUrl": None})


def _is_large(path: str) -> bool:
    return path.endswith((".safetensors", ".bin"))


def _listed(path: str, content: bytes) -> dict:
    """Return a file's entry in the listing of a repository."""
    blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    entry = {"type": "file", "path": path, "size": len(content), "oid": blob}
    if _is_large(path):
        sha256 = hashlib.sha256(content).hexdigest()
        entry["lfs"] = {"oid": sha256, "size": len(content), "pointerSize": 134}
    return entry
