"""Messages between processes: JSON with a length prefix, exact for every Python string, lone surrogates included."""

import json
import os
import struct
from collections.abc import Callable

LENGTH = struct.Struct(">Q")
MAX_MESSAGE_BYTES = 256 << 20  # a length beyond this is garbage, not a message


class MalformedMessageError(Exception):
    """What came through the pipe is not a message: the other process was taken over, or wrote to the wrong place."""


def pack_message(message: object) -> bytes:
    """A message as bytes; TypeError, ValueError or RecursionError when it is no JSON."""
    # surrogatepass, not \u escapes: two lone halves written as escapes would come back as one character
    body = json.dumps(message, ensure_ascii=False).encode("utf-8", "surrogatepass")
    return LENGTH.pack(len(body)) + body


def take_message(buffer: bytearray) -> object | None:
    """The first whole message of the inbox, removed from it; None when there is none yet."""
    if len(buffer) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack_from(buffer)
    if length > MAX_MESSAGE_BYTES:
        raise MalformedMessageError(f"a message of {length} bytes")
    if len(buffer) < LENGTH.size + length:
        return None
    body = bytes(buffer[LENGTH.size : LENGTH.size + length])
    del buffer[: LENGTH.size + length]
    try:
        message: object = json.loads(body.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as error:
        raise MalformedMessageError(str(error)[:200]) from None
    return message


def receive(fd: int) -> object | None:
    """The next message from a blocking file descriptor; None at its end."""
    read: Callable[[int, int], bytes] = os.read
    buffer = bytearray()
    while len(buffer) < LENGTH.size:
        if not (chunk := read(fd, LENGTH.size - len(buffer))):
            return None
        buffer += chunk
    (length,) = LENGTH.unpack_from(buffer)
    if length > MAX_MESSAGE_BYTES:
        raise MalformedMessageError(f"a message of {length} bytes")
    while len(buffer) < LENGTH.size + length:
        if not (chunk := read(fd, min(1 << 20, LENGTH.size + length - len(buffer)))):
            return None
        buffer += chunk
    return take_message(buffer)


def send(fd: int, message: object) -> None:
    """Write a whole message to a blocking file descriptor."""
    left = memoryview(pack_message(message))
    while left:
        left = left[os.write(fd, left) :]
