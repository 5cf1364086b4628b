from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainfl.errors import InputError
from chainfl.store import DirectoryStore, IpfsStore, open_store


@pytest.mark.parametrize(
    ("address", "endpoint"),
    [
        ("ipfs:/ip4/127.0.0.1/tcp/5001", "http://127.0.0.1:5001"),
        ("ipfs:/ip4/127.0.0.1/tcp/5001/http", "http://127.0.0.1:5001"),
        ("ipfs:/ip6/::1/tcp/5001", "http://[::1]:5001"),
        ("ipfs:/dns/ipfs.example/tcp/443/https", "https://ipfs.example:443"),
        ("http://127.0.0.1:5001", "http://127.0.0.1:5001"),
        ("http://localhost", "http://localhost:5001"),
        ("https://ipfs.example:8443/api/v0", "https://ipfs.example:8443"),
    ],
)
def test_an_address_names_the_daemon(address: str, endpoint: str) -> None:
    store = open_store(address)

    assert isinstance(store, IpfsStore)
    assert repr(store) == f"IpfsStore({endpoint!r})"


def test_an_address_names_the_directory(tmp_path: Path) -> None:
    store = open_store(f"dir:{tmp_path}/blobs")

    assert isinstance(store, DirectoryStore)
    assert (tmp_path / "blobs" / "blocks").is_dir()


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("", "expected dir:/path, ipfs:"),
        ("dir:", "expected dir:/path"),
        ("s3://bucket", "expected dir:/path"),
        ("ipfs:", "expected a multiaddr"),
        ("ipfs:/ip4/localhost/tcp/5001", "expected a multiaddr"),
        ("ipfs:/ip4/127.0.0.1/udp/5001", "expected a multiaddr"),
        ("ipfs:/ip4/127.0.0.1/tcp/0", "port '0'"),
        ("ipfs:/ip4/127.0.0.1/tcp/99999", "port '99999'"),
        ("http://", "expected a URL"),
        ("http://a..b", "expected a URL"),
        ("http://" + "a" * 64, "expected a URL"),
        ("ipfs:/dns/a b/tcp/1", "expected a multiaddr"),
        ("ipfs:/ip4/127.0.0.1/tcp/" + "9" * 5000, "port '9999"),
        ("http://host/other", "expected a URL"),
        ("http://host:port", "expected a URL"),
        ("http://host:", "port '0'"),
        ("http://[::1", "expected a URL"),
        ("http://name:secret@host", "does not belong in it"),
    ],
)
def test_another_address_is_refused_with_the_forms_that_are_known(address: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        open_store(address)


def test_a_password_in_an_address_is_not_repeated() -> None:
    with pytest.raises(InputError) as caught:
        open_store("http://name:secret@host:5001")

    assert "secret" not in str(caught.value)


@given(st.text().filter(lambda text: not text.startswith("dir:")))
def test_any_text_opens_a_daemon_or_is_refused_by_name(text: str) -> None:
    for address in (text, f"ipfs:{text}", f"http://{text}"):
        try:
            assert isinstance(open_store(address), IpfsStore)
        except InputError:
            continue
