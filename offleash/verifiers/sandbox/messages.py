"""Messages between processes: JSON with a length prefix, exact for every Python string, lone surrogates included."""

import json
import os
import struct
from collections.abc import Callable

LENGTH = struct.Struct(">Q")
LARGEST = 256 << 20  # a length beyond this is garbage, not a message


class GarbledError(Exception):
    """What came through the pipe is not a message: the other process was taken over, or wrote to the wrong place."""


def packed(message: object) -> bytes:
    """A message as bytes; TypeError, ValueError or RecursionError when it is no JSON."""
    # surrogatepass, not \u escapes: two lone halves written as escapes would come back as one character
    body = json.dumps(message, ensure_ascii=False).encode("utf-8", "surrogatepass")
    return LENGTH.pack(len(body)) + body


def taken(inbox: bytearray) -> object | None:
    """The first whole message of the inbox, removed from it; None when there is none yet."""
    if len(inbox) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack_from(inbox)
    if length > LARGEST:
        raise GarbledError(f"a message of {length} bytes")
    if len(inbox) < LENGTH.size + length:
        return None
    body = bytes(inbox[LENGTH.size : LENGTH.size + length])
    del inbox[: LENGTH.size + length]
    try:
        message: object = json.loads(body.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as error:
        raise GarbledError(str(error)[:200]) from None
    return message


def receive(fd: int) -> object | None:
    """The next message from a blocking file descriptor; None at its end."""
    read: Callable[[int, int], bytes] = os.read
    inbox = bytearray()
    while len(inbox) < LENGTH.size:
        if not (chunk := read(fd, LENGTH.size - len(inbox))):
            return None
        inbox += chunk
    (length,) = LENGTH.unpack_from(inbox)
    if length > LARGEST:
        raise GarbledError(f"a message of {length} bytes")
    while len(inbox) < LENGTH.size + length:
        if not (chunk := read(fd, min(1 << 20, LENGTH.size + length - len(inbox)))):
            return None
        inbox += chunk
    return taken(inbox)


def send(fd: int, message: object) -> None:
    """Write a whole message to a blocking file descriptor."""
    left = memoryview(packed(message))
    while left:
        left = left[os.write(fd, left) :]
