"""Runs the program heed, which is a file of this package."""

from __future__ import annotations

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from typing import Any

INTERRUPTED = 130  # exit code after a signal, if the run was saved
MAX_BYTES = 2**17  # limit of one argument on Linux, including the zero byte at its end


class Error(Exception):
    """The program failed."""

    def __init__(self, message: str, code: int):
        super().__init__(message, code)
        self.message = message
        """Its error text."""
        self.code = code
        """Its exit code, or minus the number of the signal that ended it. heed --help lists the codes."""

    def __str__(self) -> str:
        return self.message


def path() -> str:
    """Returns the path of the program. Raises Error if the package lacks it."""
    program = pathlib.Path(__file__).with_name("bin") / "heed"
    if not program.exists():
        raise Error(f"{program} is missing; install a wheel of tools/package/wheel, or build the target heed_python", 4)
    return str(program)


def main() -> None:
    """The command heed: replaces this process by the program."""
    os.execv(path(), ["heed", *sys.argv[1:]])


def call(command: str, *arguments: Any, **options: Any) -> dict[str, Any]:
    """Runs a command of the program, and returns the object that --json prints.

    Options are those of the command line, with _ for - in their names. A trailing _ is ignored (`from_`). None leaves
    an option out, True and False switch it on and off, and a list is joined by commas.

    Progress and warnings are printed to stderr, in a notebook to stdout. After Ctrl-C the program saves a training
    run, and then KeyboardInterrupt is raised, or Error if the run was not saved; a second Ctrl-C kills the program.
    Raises TypeError for an unknown option, and Error for other failures.
    """
    words = [path(), command, *_words(options), "--json", "--", *map(_text, arguments)]
    if (longest := max(len(os.fsencode(word)) for word in words)) >= MAX_BYTES:
        raise ValueError(f"an argument has {longest} bytes; Linux accepts {MAX_BYTES - 1}; use less, or a text file")
    with tempfile.TemporaryFile() as out:
        with subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.PIPE, encoding="utf-8", errors="replace",
            env={**os.environ, "HEED_PROGRESS": "lines"},
        ) as child:  # fmt: skip
            lines = child.stderr or ()
            try:
                errors = _errors(lines)
            except BaseException:  # KeyboardInterrupt, or an exception of the caller's signal handler
                # A terminal and Jupyter send SIGINT to the program, too, and a second SIGINT would end it at once.
                # SIGTERM after SIGINT does not.
                child.send_signal(signal.SIGTERM)
                try:
                    errors = _errors(lines)
                    code = child.wait()
                except BaseException:
                    child.kill()
                    raise
                if code not in (0, INTERRUPTED) and errors:
                    raise Error(errors[-1], code) from None
                raise
        out.seek(0)
        text = out.read()
    if child.returncode == 0:
        return json.loads(text)
    message = errors[-1] if errors else f"heed {command} ended with exit code {child.returncode}"
    if message.startswith("unknown option "):
        raise TypeError(re.sub("--(?!help)([a-z0-9-]+)", lambda name: name[1].replace("-", "_"), message))
    raise Error(message, child.returncode)


def _text(value: Any) -> str:
    if isinstance(value, bytes):  # a path
        return os.fsdecode(value)
    return ",".join(map(_text, value)) if isinstance(value, (list, tuple)) else str(value)


def _words(options: dict[str, Any]) -> Iterator[str]:
    for name, value in options.items():
        key = "--" + name.rstrip("_").replace("_", "-")
        if type(value).__name__ in ("bool", "bool_"):  # also those of NumPy
            yield f"{key}={'true' if value else 'false'}"
        elif value is not None:
            yield f"{key}={_text(value)}"


def _errors(lines: Iterable[str]) -> list[str]:
    """Prints progress and warnings as they arrive. Returns the errors."""
    errors = []
    for line in lines:
        if line.startswith("heed: ") and not line.startswith(("heed: note: ", "heed: warning: ")):
            errors.append(line[len("heed: ") :].rstrip())
        else:
            print(line, end="", file=sys.stdout if "ipykernel" in sys.modules else sys.stderr, flush=True)
    return errors
