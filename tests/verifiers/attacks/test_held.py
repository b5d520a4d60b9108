# ruff: noqa: E501  (programs read better unbroken)
"""Memory, files and processor time that no process shows are refused or counted, by both ways to isolate."""

from dataclasses import replace

import pytest

from offleash.data.verdict import Verdict
from offleash.verifiers.registry import VERIFIERS
from offleash.verifiers.sandbox.pool import Pool
from offleash.verifiers.verifier import Case
from tests.verifiers.attacks.test_attacks import only

BACKENDS = pytest.mark.parametrize("backend", ["bwrap", "namespaces"])
DETAILS: dict[str, object] = {"kind": "asserts", "setup": "", "tests": ["assert f() == []"]}
# The names of what could be held.
REFUSED = """
import ctypes, mmap, os, socket
def shared_pages(): mmap.mmap(-1, 4096)
def pages_of_a_device(): mmap.mmap(os.open('/dev/zero', os.O_RDWR), 4096)
def pages_in_a_pipe():
    buffer = ctypes.create_string_buffer(4096)
    vector = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 4096)
    if ctypes.CDLL(None).vmsplice(os.pipe()[1], vector, 1, 0) < 0: raise OSError
def a_network_socket(): socket.socket()
def a_kernel_socket(): socket.socket(16, socket.SOCK_RAW)
def a_pair_of_another_family():
    if ctypes.CDLL(None, use_errno=True).socketpair(30, 1, 0, (ctypes.c_int * 2)()) < 0 and ctypes.get_errno() == 38: raise OSError
def a_large_buffer(): socket.socketpair()[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
def f():
    held = []
    for hold in (shared_pages, pages_of_a_device, pages_in_a_pipe, a_network_socket, a_kernel_socket,
                 a_pair_of_another_family, a_large_buffer):
        try: hold()
        except OSError: continue
        held.append(hold.__name__)
    return held
"""
# What programs may need of the same calls.
ALLOWED = """
import asyncio, mmap, multiprocessing, os, subprocess, tempfile
async def one(): return await asyncio.sleep(0, 1)
def f():
    with tempfile.TemporaryFile() as file:
        file.write(b'x' * 4096)
        file.flush()
        mapped = mmap.mmap(file.fileno(), 4096)[:1]
    mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with multiprocessing.get_context('fork').Manager() as manager:
        shared = list(manager.list([1]))
    printed = subprocess.run(['/bin/echo', '1'], capture_output=True).stdout
    return [] if (asyncio.run(one()), mapped, shared, printed) == (1, b'x', [1], b'1\\n') else 'not allowed'
"""
SOCKETS = """
import os, socket, time
for _ in range(10):
    if os.fork() == 0:
        held = [socket.socketpair() for _ in range(100)]
        time.sleep(5)
        os._exit(0)
time.sleep(1)
def f(): return []
"""
FILES = """
import os, time
for n in range(6000): os.close(os.open(f'/tmp/{n}', os.O_CREAT | os.O_WRONLY))
time.sleep(1)
def f(): return []
"""
UNCOUNTED_CHILDREN = """
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for _ in range(12):
    if os.fork() == 0:
        while time.process_time() < 0.3: pass
        os._exit(0)
    try: os.wait()
    except ChildProcessError: pass
def f(): return []
"""


@BACKENDS
def test_what_no_process_shows_is_refused_and_what_programs_need_is_not(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    only(backend, monkeypatch)
    cases = [Case(program, details=DETAILS) for program in (REFUSED, ALLOWED)]
    with Pool(2) as pool:
        judgements = dict(pool.judge(VERIFIERS["program"], cases))
    assert [(judgements[place].verdict, judgements[place].reason) for place in range(2)] == [(Verdict.CORRECT, "")] * 2


@BACKENDS
def test_sockets_empty_files_and_forgotten_children_count(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    only(backend, monkeypatch)
    verifier = replace(VERIFIERS["program"], seconds=1.0, memory=384 << 20)
    cases = [Case(program, details=DETAILS) for program in (SOCKETS, FILES, UNCOUNTED_CHILDREN)]
    with Pool(3) as pool:
        judgements = dict(pool.judge(verifier, cases))
    assert [judgements[place].verdict for place in range(3)] == [Verdict.WRONG] * 3
    assert judgements[0].reason == "memory limit of 0.375 GiB"
    assert "disk space" in judgements[1].reason or "No space left" in judgements[1].reason
    assert judgements[2].reason == "time limit of 1 s"
