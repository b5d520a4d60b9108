"""The HTTP client against real local servers: connections, proxies, deadlines, and what it must not remember."""

import logging
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from offleash.errors import OffleashError
from offleash.samplers.endpoint.http import Cause, EndpointClient, TryAgainError
from tests.samplers.endpoint.server import Answer, chat, serving

PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def client_of(url: str, timeout: float = 5.0) -> EndpointClient:
    return EndpointClient(url, "NO_SUCH_KEY", timeout, 10_000)


def test_requests_reuse_connections_and_threads_share_them() -> None:
    with serving(lambda call: chat("A"), "HTTP/1.1") as server:
        client = client_of(server.url)
        for _ in range(3):
            client.request("models")
        assert len({call.port for call in server.calls}) == 1
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: client.request("models"), range(40)))
        client.close()
    assert len({call.port for call in server.calls}) <= 5


def test_a_connection_that_the_server_has_closed_is_not_used_again() -> None:
    with serving(lambda call: Answer(body=b"{}", headers={"Connection": "close"}), "HTTP/1.1") as server:
        client = client_of(server.url)
        assert [client.request("models") for _ in range(3)] == [b"{}"] * 3
    assert len({call.port for call in server.calls}) == 3


def test_cookies_are_not_sent_back() -> None:
    with serving(lambda call: Answer(body=b"{}", headers={"Set-Cookie": "replica=3; Path=/"})) as server:
        client = client_of(server.url)
        client.request("models")
        client.request("models")
    assert "Cookie" not in server.calls[1].headers


def test_what_may_be_secret_in_an_address_is_not_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_CODE", "hunter2")
    with caplog.at_level(logging.DEBUG), serving(lambda call: chat("A")) as server:
        client_of(f"{server.url}?code=$MY_CODE").request("models")
    assert server.calls[0].path.endswith("?code=hunter2")
    assert "hunter2" not in caplog.text


def test_the_proxy_of_the_environment_is_used_unless_it_excludes_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(lambda call: chat("proxied")) as proxy, serving(lambda call: chat("direct")) as server:
        monkeypatch.setenv("http_proxy", proxy.url.removeprefix("http://"))  # curl too accepts it without http://
        assert b"proxied" in client_of("http://model.invalid/v1").request("models")
        assert proxy.calls[0].path == "http://model.invalid/v1/models"
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        assert b"direct" in client_of(server.url).request("models")


def test_a_socks_proxy_for_other_hosts_or_protocols_is_no_obstacle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("all_proxy", "socks5h://me:hunter2@127.0.0.1:9")
    with serving(lambda call: chat("A")) as server:
        assert client_of(server.url).request("models")
    monkeypatch.setenv("http_proxy", "gopher://me:hunter2@127.0.0.1:9")
    with pytest.raises(OffleashError, match=r"proxy 'gopher://127.0.0.1:9'.*no_proxy=host") as error:
        client_of("http://host")
    assert "hunter2" not in str(error.value)


def test_a_response_that_drips_is_left_at_the_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        stop = threading.Event()

        def drip() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
                try:
                    while not stop.wait(0.05):
                        connection.sendall(b" ")
                except OSError:  # the client has gone
                    pass

        thread = threading.Thread(target=drip)
        thread.start()
        begun = time.monotonic()
        with pytest.raises(TryAgainError, match="too slowly") as error:
            client_of(f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=0.5).request("models")
        assert error.value.cause is Cause.SLOW
        assert 0.5 <= time.monotonic() - begun < 45  # a thousand bytes take 50 seconds
        stop.set()
        thread.join()


def test_a_host_without_a_name_is_down() -> None:
    with pytest.raises(TryAgainError) as error:
        client_of("http://no-such-host.invalid").request("models")
    assert error.value.cause is Cause.DOWN
