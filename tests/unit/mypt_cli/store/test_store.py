"""Objects in local folders and in a bucket on loopback, by the same calls."""

from __future__ import annotations

import http.server
import os
import pickle
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mypt_cli.errors import UsageError
from mypt_cli.jsonl.paths import expand
from mypt_cli.store import Store, StoreError, find, locate, redacted
from mypt_cli.store import store as stores
from mypt_cli.store.remote import Bucket
from mypt_cli.urls import address
from tests.support.stores import Faulty, LocalFiles, put


@pytest.fixture(
    params=["local", pytest.param("s3", marks=pytest.mark.extra("moto", "flask", "flask_cors"))]
)
def root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A URL to keep objects below: in a folder that stands in for a bucket, or in a bucket."""
    if request.param == "local":
        backend = LocalFiles(str(tmp_path / "objects"))
        monkeypatch.setattr(stores, "_bucket", lambda *_: backend)
        return "s3://bucket/deep/objects"
    return f"{request.getfixturevalue('s3')}/deep/objects"


def test_objects_are_listed_and_read(root: str) -> None:
    store = Store.at(root)
    assert store.entries() == []
    data = bytes(range(256)) * 40
    put(root, "a/one.bin", data)
    put(root, "a/two.txt", b"")
    put(root, "ab/three.txt", b"3")
    sizes = [(entry.key, entry.size) for entry in store.entries("a")]
    assert sizes == [("a/one.bin", len(data)), ("a/two.txt", 0)]
    assert [e.key for e in store.glob("**/*.txt")] == ["a/two.txt", "ab/three.txt"]
    entry = store.head("a/one.bin")
    assert entry in store.entries()
    assert store.read("a/one.bin", 300, 600, etag=entry.etag) == data[300:600]
    assert store.read("a/one.bin", len(data) - 3) == data[-3:]
    assert store.read("a/one.bin", len(data) - 3, len(data) + 9) == data[-3:]
    assert store.read("a/two.txt") == b""
    with pytest.raises(StoreError, match=r"a/two\.bin: there is no such object") as caught:
        store.read("a/two.bin")
    assert caught.value.kind == "missing"


def test_what_changed_is_refused(root: str) -> None:
    store = Store.at(root)
    put(root, "a", b"before" * 1000)
    entry = store.head("a")
    with store.open("a", piece=100) as file:
        assert file.read(10) == b"beforebefo"
        put(root, "a", b"after!" * 1000)
        assert store.head("a").etag != entry.etag
        with pytest.raises(StoreError, match=r"a: has changed .* ETag") as caught:
            file.read()
    assert caught.value.kind == "changed"
    for call in (store.read, store.open):
        with pytest.raises(StoreError, match="ETag"):
            call("a", etag=entry.etag)


def test_objects_are_read_as_files(root: str) -> None:
    store = Store.at(root)
    data = os.urandom(10_000)
    put(root, "a", data)
    with store.open("a", piece=999) as file:
        assert file.read(10) == data[:10]
        assert file.seek(-20, 2) == len(data) - 20
        assert file.read() == data[-20:]
        file.seek(5000)
        assert file.read(3000) == data[5000:8000]
    with store.open("a", piece=999) as file:
        assert file.read() == data
        assert file.read() == b""


def test_paths_name_an_object_a_folder_or_what_matches(root: str) -> None:
    for key in ("x/a.jsonl", "x/b.jsonl.zst", "x/y/c.jsonl", "x.jsonl"):
        put(root, key, key.encode())
    for path, keys in (
        (f"{root}/x/a.jsonl", ["a.jsonl"]),
        (f"{root}/x", ["a.jsonl", "b.jsonl.zst", "y/c.jsonl"]),
        (f"{root}/x/", ["a.jsonl", "b.jsonl.zst", "y/c.jsonl"]),
        (f"{root}/x/*.jsonl", ["a.jsonl"]),
        (f"{root}/**/[ac].jsonl", ["x/a.jsonl", "x/y/c.jsonl"]),
        (f"{root}/x/[!z].jsonl*", ["a.jsonl", "b.jsonl.zst"]),
    ):
        where, found = find(path)
        assert [entry.key for entry in found] == keys, path
        assert where.read(found[0].key).decode().endswith(keys[0])
        assert where.name(keys[0]).startswith(root)
    where, key = locate(f"{root}/x/a.jsonl")
    assert where.read(key) == b"x/a.jsonl"
    for path, why in ((f"{root}/z", "no such object"), (f"{root}/*.zst", "matches no object")):
        with pytest.raises(StoreError, match=why) as caught:
            find(path)
        assert str(caught.value).startswith(path)


def test_keys_of_all_kinds(root: str) -> None:
    keys = ["a b#c.txt", "ü%20+&=.txt", "日本/x.txt", "~'(!)*.txt", "x@y:z.txt"]
    store = Store.at(root)
    for key in keys:
        put(root, key, key.encode())
    assert sorted(entry.key for entry in store.entries()) == sorted(keys)
    for key in keys:
        assert store.read(key) == key.encode()
        if "*" not in key:
            where, (entry,) = find(store.name(key))
            assert where.read(entry.key) == key.encode()


CONTENT = b"0123456789"


@pytest.mark.parametrize("fault", ["fails", "cuts"])
@pytest.mark.parametrize("number", range(1, 6))
def test_a_call_that_fails_is_made_again(tmp_path: Path, fault: str, number: int) -> None:
    slept: list[float] = []
    backend = Faulty(LocalFiles(str(tmp_path)), **{fault: [number]})
    store = Store("x", backend, sleep=slept.append)
    (tmp_path / "a").write_bytes(CONTENT)
    assert store.read("a") == CONTENT
    with store.open("a", piece=4) as file:
        assert file.read() == CONTENT
    # No bytes come with the second call, which asks for the size.
    assert len(slept) == (0 if (fault, number) == ("cuts", 2) else 1)


def test_waits_grow_and_end(tmp_path: Path) -> None:
    slept: list[float] = []
    (tmp_path / "a").write_bytes(CONTENT)
    backend = Faulty(LocalFiles(str(tmp_path)), fails=range(1, 99))
    store = Store("x", backend, tries=4, sleep=slept.append)
    with pytest.raises(StoreError, match=r"x/a: failed 4 times: no answer; check") as caught:
        store.read("a")
    assert caught.value.kind == "transient"
    assert len(slept) == 3
    assert all(0.1 * 2**i <= wait <= 0.2 * 2**i for i, wait in enumerate(slept))


def test_faults_of_a_bucket(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for path, why in (
        (f"{s3}x/a", "there is no such bucket"),
        (f"{s3}/a", "there is no such object"),
        (
            "ftp://h/a",
            r"ftp:// is not a supported store.* use s3://, gs://, az://, http://, https:// or",
        ),
        ("s3:///a", "names no bucket"),
        ("s3://b*/a", "name the bucket whole"),
    ):
        with pytest.raises(StoreError, match=why):
            find(path)
    for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:1/none")
    store = Store.at("s3://another-bucket")
    with pytest.raises(StoreError, match="no credentials were found; set AWS_ACCESS_KEY_ID"):
        store.head("a")


@pytest.mark.parametrize(
    ("status", "kind"),
    [(408, "transient"), (429, "transient"), (500, "transient"), (503, "transient"),
     (400, "refused"), (403, "denied"), (416, "changed"), (501, "refused")],
)  # fmt: skip
def test_what_a_status_means(monkeypatch: pytest.MonkeyPatch, status: int, kind: str) -> None:
    """Only what may pass is tried again."""

    class Refusing(Quiet):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

    with serving(Refusing) as url:
        for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, url)
        with pytest.raises(StoreError) as caught:
            Store("s3://bucket", Bucket("s3", "bucket"), tries=1).read("a")
    assert caught.value.kind == kind


def test_no_credentials_are_shown(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for url in (
        "https://me:hunter2@127.0.0.1:1/a.jsonl",
        "https://127.0.0.1:1/a.jsonl?X-Amz-Signature=hunter2",
        "s3://me:hunter2@bucket/a",
        "ftp://me:hunter2@host/a?sig=hunter2#hunter2",
        "s3://key:hun/ter2@bucket/a",
    ):
        for call in (find, locate, Store.at):
            with pytest.raises(StoreError) as caught:
                call(url)
            assert "ter2" not in str(caught.value)
            assert caught.value.__cause__ is None
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    store = Store("s3://closed", Bucket("s3", "closed"), tries=1)
    with pytest.raises(StoreError, match="no answer") as caught:
        store.head("a")
    for hidden in ("key-of-tests", "secret-of-tests", "Authorization", "127.0.0.1"):
        assert hidden not in str(caught.value)


@given(st.text("ab:@/?#%", max_size=9), st.text("ab:@/?#%", max_size=9))
def test_nothing_between_scheme_and_at_is_shown(user: str, query: str) -> None:
    shown = redacted(f"https://x{user}:pass%WORD@host/file?{query}sig=SECRET")
    assert "WORD" not in shown or "/" in user or "?" in user or "#" in user
    assert "SECRET" not in shown


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(handler: Any) -> Iterator[str]:
    """Runs a web server on loopback; yields its address."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def web(tmp_path: Path) -> Iterator[str]:
    """The address of a plain web server, which knows ranges of files of this name alone."""

    class Handler(Quiet):
        def do_HEAD(self) -> None:
            if "/private/" in self.path:
                return self.send_error(401)
            if self.path.startswith("/datasets/me/moved/"):  # as a hub does with a large file
                self.send_response(302)
                self.send_header(
                    "Location", "/datasets/me/chats/" + self.path[19:] + "?Signature=x"
                )
                return self.end_headers()
            return super().do_HEAD()

        def do_GET(self) -> None:
            if self.path.startswith("/datasets/me/moved/"):
                return self.do_HEAD()
            self.path = self.path.partition("?")[0]
            if not self.path.endswith("/ranges") or "Range" not in self.headers:
                return super().do_GET()
            first, last = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
            path = tmp_path / self.path[1:]
            data = path.read_bytes()
            part = data[first : last + 1]
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {first}-{first + len(part) - 1}/{len(data)}")
            self.send_header("Content-Length", str(len(part)))
            modified = self.date_time_string(int(path.stat().st_mtime))
            self.send_header("Last-Modified", modified)
            self.end_headers()
            self.wfile.write(part)
            return None

        def __init__(self, *given: object) -> None:
            super().__init__(*given, directory=str(tmp_path))  # type: ignore[arg-type]

    with serving(Handler) as url:
        yield url


def test_a_web_server_with_ranges(web: str, tmp_path: Path) -> None:
    (tmp_path / "ranges").write_bytes(CONTENT)
    store, (entry,) = find(f"{web}/ranges")
    assert store.read("ranges", 2, 5, etag=entry.etag) == CONTENT[2:5]
    with store.open("ranges", piece=3) as file:
        assert file.read() == CONTENT


def test_a_web_server_without_them(web: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(CONTENT)
    store, (entry,) = find(f"{web}/a")
    assert store.read("a", etag=entry.etag) == CONTENT
    with pytest.raises(StoreError, match=r"serves no ranges of bytes; download"):
        store.read("a", 2, 4)
    with pytest.raises(StoreError, match="a web server lists no objects; name each one"):
        find(f"{web}/*.jsonl")


def test_a_file_of_a_hub(web: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", f"{web}/")
    for revision in ("main", "v2"):
        path = tmp_path / "datasets" / "me" / "chats" / "resolve" / revision / "a" / "ranges"
        path.parent.mkdir(parents=True)
        path.write_bytes(CONTENT + revision.encode())
    for url, revision in (
        ("hf://datasets/me/chats/a/ranges", "main"),
        ("HF://datasets/me/chats@v2/a/ranges", "v2"),
        ("hf://datasets/me/moved/a/ranges", "main"),
    ):
        (source,) = expand([url])
        assert source.path == f"{web}/datasets/me/{url[17:22]}/resolve/{revision}/a/ranges"
        with source.open() as file:
            assert file.read() == CONTENT + revision.encode()
    monkeypatch.setenv("HF_ENDPOINT", "")
    assert address("hf://me/a/b").startswith("https://huggingface.co/me/a/")
    monkeypatch.setenv("HF_ENDPOINT", web)
    for url, why in (
        (
            "hf://datasets/me/private/b.jsonl",
            r"denied \(401\); check the name, and that all may read it",
        ),
        ("hf://datasets/me/chats", r"names no file; write hf://datasets/OWNER/NAME\[@REVISION\]/"),
        ("hf://datasets/me/chats/b.jsonl", "there is no such object"),
        ("hf://datasets/me/chats/*.jsonl", "a web server lists no objects; name each one"),
    ):
        with pytest.raises(UsageError, match=why):
            expand([url])


def test_without_obstore_stores_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    monkeypatch.setitem(sys.modules, "obstore.exceptions", None)
    with pytest.raises(StoreError) as caught:
        Store.at("s3://never-used-before")
    assert str(caught.value) == (
        "s3://never-used-before: reading a store needs obstore: pip install 'mypt-tags[store]'"
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_is_told_that_it_cannot_use_a_store(s3: str) -> None:
    """It would wait for ever for threads that only its parent has."""
    put(s3, "a", CONTENT)
    child = os.fork()
    if not child:
        try:
            Store.at(s3).read("a")
        except StoreError as error:
            os._exit(0 if "forked" in str(error) and "spawn" in str(error) else 2)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


def test_an_error_is_the_same_in_another_process() -> None:
    error = pickle.loads(pickle.dumps(StoreError("s3://b/a: is gone", "missing")))
    assert (type(error), str(error), error.kind) == (StoreError, "s3://b/a: is gone", "missing")
