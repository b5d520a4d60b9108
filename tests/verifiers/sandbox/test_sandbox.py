"""The sandbox, by both ways to build it: what is inside, what is not, and that everything in it ends."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from uuid import uuid4

import pytest

import offleash
from offleash.verifiers.sandbox import interpreter
from offleash.verifiers.sandbox.run import (
    CompletedCommand,
    Launcher,
    ProcessEnd,
    ResourceLimits,
    run,
    unavailable_reason,
)
from tests.verifiers.sandbox.outside import crowded, gone, listening

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has namespaces")


@pytest.fixture(params=["bwrap", "namespaces"])
def backend(request: pytest.FixtureRequest) -> str:
    if why := unavailable_reason(request.param):
        pytest.skip(f"{request.param} is not to be had here: {why}")
    name: str = request.param
    return name


LAUNCHER = Launcher()  # one for all tests: it ends with this process


def python(backend: str, script: str, **limits: float) -> CompletedCommand:
    command = [interpreter.PYTHON, "-S", "-c", script]
    return run(command, ResourceLimits(**({"seconds": 8.0} | limits)), backend=backend, launcher=LAUNCHER)  # type: ignore[arg-type]


def said(backend: str, script: str) -> str:
    finished = python(backend, script)
    assert finished.ended is ProcessEnd.DONE, finished
    return finished.output.decode().strip()


def test_a_command_in_it_answers(backend: str) -> None:
    assert said(backend, "print(6 * 7)") == "42"


def test_files_of_the_host_are_not_there(backend: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("a secret")
    paths = [secret, Path.home(), Path.cwd() / "pyproject.toml", Path(__file__), "/etc/passwd", "/etc/shadow"]
    script = f"import os\nfor p in {[str(path) for path in paths]!r}:\n"
    script += "    print(os.path.isdir(p) and os.listdir(p) or os.path.exists(p))"
    for path, inside in zip(paths, said(backend, script).splitlines(), strict=True):
        for above in {parent for needed in interpreter.needed_files() for parent in Path(needed).parents}:
            inside = inside.replace(repr(above.name), "")  # folders on the way to a Python that lives there
        assert inside in ("False", "[]"), path


def test_of_a_home_that_holds_the_python_only_the_python_is_there(backend: str) -> None:
    inside = said(
        backend, "import os, sys\nprint([os.path.join(d, n) for d, _, f in os.walk('/root') for n in f][:1000])"
    )
    for name in (".bashrc", ".profile", ".bash_history", ".gitconfig"):
        assert f"/root/{name}'" not in inside


def test_the_environment_is_not_there(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OFFLEASH_SECRET", "a secret")
    assert "SECRET" not in said(backend, "import os\nprint(dict(os.environ))")
    everyone = "from pathlib import Path\nprint([p.read_bytes() for p in Path('/proc').glob('[2-9]*/environ')])"
    assert "SECRET" not in said(backend, everyone)


def test_there_is_no_network_and_no_loopback_of_the_host(backend: str) -> None:
    with listening() as (port, calls):
        script = f"import socket\ntry: socket.create_connection(('127.0.0.1', {port}), 2)\nexcept OSError: print('no')"
        assert said(backend, script) == "no"
        script = "import socket\ntry: socket.create_connection(('1.1.1.1', 53), 2)\nexcept OSError: print('no')"
        assert said(backend, script) == "no"
    assert not calls


def test_only_its_own_folder_can_be_written(backend: str) -> None:
    script = """
import os, sys
places = [os.path.dirname(sys.executable), os.path.dirname(os.__file__)]
for folder in ('/', '/usr', '/usr/lib', '/dev', '/proc', '/etc', *places):
    try:
        open(os.path.join(folder, 'written'), 'w')
    except OSError:
        continue
    print(folder)
open('/tmp/written', 'w').write('x')
print(os.getcwd(), 'written' in os.listdir('.'))  # Python itself may lie below
"""
    assert said(backend, script) == "/tmp True"


def test_other_processes_are_not_seen_and_cannot_be_killed(backend: str) -> None:
    with subprocess.Popen(["sleep", "30"]) as bystander:
        script = f"""
import os, signal
try: os.kill({bystander.pid}, signal.SIGKILL)
except OSError: pass
print(sorted(int(name) for name in os.listdir('/proc') if name.isdigit()))
"""
        seen = said(backend, script)
        assert bystander.poll() is None
        bystander.kill()
    assert seen == "[1, 2]"


def test_the_command_is_nobody_and_cannot_become_more(backend: str) -> None:
    script = """
import os, re
status = open('/proc/self/status').read()
print(os.getuid(), re.search('CapEff:\\\\s*(\\\\w+)', status)[1], re.search('NoNewPrivs:\\\\s*(\\\\d)', status)[1])
"""
    assert said(backend, script) == "65534 0000000000000000 1"


def test_the_first_process_cannot_be_killed_or_read_from_inside(backend: str) -> None:
    script = """
import os, signal, time
try: os.kill(1, signal.SIGKILL)
except OSError: pass
time.sleep(0.2)
try: open('/proc/1/mem', 'rb')
except OSError: print('alive and closed')
"""
    assert said(backend, script) == "alive and closed"


def test_time_ends_it_even_when_it_ignores_signals(backend: str) -> None:
    script = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: time.sleep(1)"
    assert python(backend, script, seconds=0.3).ended is ProcessEnd.WALL  # without it, this would not return
    assert python(backend, script.replace("time.sleep(1)", "pass"), seconds=0.3).ended is ProcessEnd.TIME


def test_processor_time_of_all_processes_counts_together_even_of_those_that_ended(backend: str) -> None:
    script = """
import os, time
def burn(seconds):
    while time.process_time() < seconds: pass
while True:
    if os.fork() == 0:
        burn(0.2)
        os._exit(0)
    os.wait()
"""
    assert python(backend, script, seconds=1.0).ended is ProcessEnd.TIME


@pytest.mark.attacks  # a crowd of busy processes takes long
def test_a_busy_machine_takes_no_time_from_a_command(backend: str) -> None:
    script = "import time\nwhile time.process_time() < 1.0: pass\nprint('done')"
    with crowded():
        assert python(backend, script, seconds=2.0).output == b"done\n"
        assert python(backend, script, seconds=0.5).ended is ProcessEnd.TIME


def test_daemons_end_with_it(backend: str) -> None:
    marker = uuid4().hex
    script = f"""
import os, time
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execv('/bin/sh', ['sh', '-c', 'sleep 60; echo {marker}'])
        os._exit(0)
time.sleep(0.3)
print('done')
"""
    assert said(backend, script) == "done"
    assert gone(marker, 0.0), "run returns when everything has ended"


def test_daemons_end_with_it_when_it_is_cut_short(backend: str) -> None:
    marker = uuid4().hex
    script = f"""
import os, time
if os.fork() == 0:
    os.setsid()
    os.execv('/bin/sh', ['sh', '-c', 'sleep 60; echo {marker}'])
time.sleep(60)
"""
    assert python(backend, script, seconds=0.5).ended is ProcessEnd.WALL
    assert gone(marker, 0.0)


def test_a_fork_bomb_is_bounded_and_ends(backend: str) -> None:
    marker = uuid4().hex
    script = f"# {marker}\nimport os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
    assert python(backend, script, seconds=2.0).ended in (ProcessEnd.TIME, ProcessEnd.PROCESSES)
    assert gone(marker, 0.0)


def test_the_number_of_processes_is_bounded_by_the_kernel(backend: str) -> None:
    script = """
import os, time
count = 0
try:
    for _ in range(200):
        if os.fork() == 0:
            time.sleep(5)
            os._exit(0)
        count += 1
except OSError:
    pass
print(count, flush=True)
"""
    finished = python(backend, script)
    assert finished.ended is ProcessEnd.PROCESSES or int(finished.output) < 48


def test_memory_of_one_process_and_of_all_together_is_bounded(backend: str) -> None:
    item = "try: bytearray(1 << 30)\nexcept MemoryError: print('refused')"
    assert python(backend, item, memory=1 << 29).output == b"refused\n"
    every = "import os, time\nfor _ in range(3): os.fork()\nx = bytearray(b'x') * (100 << 20)\ntime.sleep(30)"
    assert python(backend, every, memory=1 << 29).ended is ProcessEnd.MEMORY


@pytest.mark.parametrize(
    "hold",
    [
        # each within the limit of a file's size
        "for _ in range(25):\n    fd = os.memfd_create('x')\n    for _ in range(5): os.write(fd, bytes(1 << 23))",
        "for _ in range(25):\n    fd = libc.syscall(319 if os.uname().machine == 'x86_64' else 279, b'x', 0)\n"
        "    assert fd >= 0\n    for _ in range(5): os.write(fd, bytes(1 << 23))",
        "for n in range(8):\n    i = libc.shmget(n + 1, ctypes.c_size_t(1 << 27), 0o1600)\n    assert i >= 0\n"
        "    libc.shmat.restype = ctypes.c_void_p\n    p = libc.shmat(i, 0, 0)\n    ctypes.memset(p, 1, 1 << 27)\n"
        "    libc.shmdt(ctypes.c_void_p(p))",
        "for n in range(8):\n    i = libc.shmget(n + 1, ctypes.c_size_t(1 << 27), 0o1600)\n    assert i >= 0\n"
        "    libc.shmat.restype = ctypes.c_void_p\n    ctypes.memset(libc.shmat(i, 0, 0), 1, 1 << 27)",
        "for n in range(4000): assert libc.msgget(n + 1, 0o1600) >= 0",
    ],
)
def test_memory_that_belongs_to_no_process_is_refused(backend: str, hold: str) -> None:
    script = f"import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\n{hold}\nprint('held')"
    assert python(backend, script, memory=1 << 29).output == b""


def test_disk_is_bounded(backend: str) -> None:
    item = "f = open('big', 'wb')\ntry:\n    while True: f.write(bytes(1 << 20))\nexcept OSError: print('refused')"
    assert (
        python(backend, "import signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n" + item).output == b"refused\n"
    )
    many = """
try:
    for n in range(200):
        with open(f'big{n}', 'wb') as f: f.write(bytes(1 << 20))
    print('written')
except OSError: print('refused')
"""
    finished = python(backend, many)
    assert finished.ended is ProcessEnd.DISK or finished.output == b"refused\n"


def test_output_is_bounded(backend: str) -> None:
    finished = python(backend, "while True: print('y' * 10_000)", output=1 << 20)
    assert finished.ended is ProcessEnd.OUTPUT
    assert len(finished.output) == 1 << 20


def test_errors_without_end_are_bounded_too(backend: str) -> None:
    finished = python(backend, "import os\nwhile True: os.write(2, b'y' * 10_000)", seconds=2.0)
    assert finished.ended in (ProcessEnd.TIME, ProcessEnd.WALL, ProcessEnd.DONE)
    assert len(finished.errors) <= 4000


def test_it_ends_when_the_caller_says_so(backend: str) -> None:
    stop = threading.Event()
    threading.Timer(0.5, stop.set).start()
    command = [interpreter.PYTHON, "-S", "-c", "import time\ntime.sleep(60)"]
    assert run(command, ResourceLimits(), backend=backend, stopped=stop).ended is ProcessEnd.STOPPED


def test_it_ends_when_the_caller_is_killed(backend: str) -> None:
    marker = uuid4().hex
    script = f"""
from offleash.verifiers.sandbox import interpreter
from offleash.verifiers.sandbox.run import ResourceLimits, run
command = [interpreter.PYTHON, "-S", "-c", "import time; time.sleep(60)  # {marker}"]
run(command, ResourceLimits(seconds=60), backend="{backend}")
"""
    with subprocess.Popen([sys.executable, "-c", script]) as caller:
        end = time.monotonic() + 20
        while gone(f"time.sleep(60)  # {marker}", 0.0) and time.monotonic() < end:
            time.sleep(0.05)
        time.sleep(1.0)
        caller.kill()
    assert gone(marker, 5.0)


def test_an_ordinary_user_gets_the_same_isolation(backend: str) -> None:
    system = "/usr/bin/python3"
    script = f"""
import sys
sys.path.append({str(Path(offleash.__file__).parents[1])!r})
assert sys.version_info >= (3, 11)
from offleash.verifiers.sandbox import interpreter
from offleash.verifiers.sandbox.run import ResourceLimits, run, unavailable_reason
command = [interpreter.PYTHON, "-S", "-c", "import os; print(os.getuid(), os.listdir('/home'))"]
print(unavailable_reason({backend!r}) or run(command, ResourceLimits(), backend={backend!r}).output.decode())
"""
    if os.geteuid() != 0:
        pytest.skip("this user is an ordinary one already")
    options = {"user": 65534, "group": 65534, "extra_groups": [], "cwd": "/", "capture_output": True, "check": False}
    try:
        usable = subprocess.run([system, "-c", script.partition("from")[0] + "import offleash"], **options)  # type: ignore[call-overload]
    except OSError:
        pytest.skip(f"there is no {system} for another user")
    if usable.returncode != 0:
        pytest.skip(f"another user cannot run offleash with {system}")
    made = subprocess.run([system, "-c", script.replace("'/home'", "'/'")], **options)  # type: ignore[call-overload]
    assert made.stdout.startswith(b"65534 ["), made
    assert b"home" not in made.stdout
