"""Isolation by bubblewrap (bwrap(1)), where it is installed: the command line that gives what namespaces.py builds."""

import json
import re
import subprocess
from pathlib import Path

DEVICES = ("null", "zero", "full", "random", "urandom")
SIZED = (0, 8)  # from this version --tmpfs surely takes a size; before it the supervisor alone bounds the disk


def bubblewrap_version(program: str) -> tuple[int, int] | None:
    """Version of a bwrap program, or None when it does not say."""
    try:
        said = subprocess.run([program, "--version"], capture_output=True, timeout=5, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(rb"(\d+)\.(\d+)", said)
    return (int(found[1]), int(found[2])) if found else None


def bubblewrap_command(spec: dict[str, object], already_in_user_namespace: bool) -> list[str]:
    """The command line; in a user namespace of the launcher's the supervisor starts as its root and lets it go."""
    binds: list[str] = spec["binds"]  # type: ignore[assignment]
    links: dict[str, str] = spec["links"]  # type: ignore[assignment]
    limits: dict[str, int] = spec["limits"]  # type: ignore[assignment]
    supervisor: list[str] = spec["supervisor"]  # type: ignore[assignment]
    command = [str(spec["bwrap"]), "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"]
    command += ["--unshare-cgroup-try", "--hostname", "sandbox", "--die-with-parent", "--as-pid-1", "--new-session"]
    command += ["--cap-drop", "ALL"]
    if already_in_user_namespace:
        command += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    else:
        command += ["--unshare-user", "--uid", "65534", "--gid", "65534"]
    if spec["sized"]:
        command += ["--size", str(limits["disk"])]
    command += ["--tmpfs", "/tmp"]
    # its own way of making the folders above a bind copies their modes: nobody could not pass those of root's home
    for folder in sorted({str(above) for path in binds for above in Path(path).parents} | {"/dev"} - {"/", "/tmp"}):
        command += ["--dir", folder]
    for path in binds:
        command += ["--ro-bind", path, path]
    for device in DEVICES:
        command += ["--dev-bind", f"/dev/{device}", f"/dev/{device}"]
    for link, to in links.items():
        command += ["--symlink", to, link]
    command += ["--proc", "/proc", "--remount-ro", "/", "--chdir", "/tmp"]
    inside = {key: spec[key] for key in ("route", "limits", "command", "environment")}
    return [*command, "--", *supervisor, json.dumps(inside)]
