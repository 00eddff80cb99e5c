"""What the test scripts of trained runs share: calls of heed, counted checks, and safetensors files.

A script gets the path of heed as its first argument. Only the standard library is used.
"""

import json
import os
import struct
import subprocess
import sys

HEED = os.path.abspath(sys.argv[1])
checks = failures = 0


def check(what, good, *seen):
    global checks, failures
    checks += 1
    if not good:
        failures += 1
        print(f"FAILED: {what}", *seen, file=sys.stderr)


def finish():
    """Prints the number of checks, and exits with 1 if one of them failed."""
    print(f"{checks} checks, {failures} failed")
    sys.exit(failures > 0)


def heed(*arguments):
    """Returns the output of heed; a failed call ends the script."""
    done = subprocess.run([HEED, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"heed {arguments} failed: {done.stderr}")
    return done.stdout


def table_of(study, key, title="", number=0):
    """Returns the rows of a table of `heed study --json` as {column: value}. Of the tables of a section whose title
    begins with `title`, it is the one with this number."""
    section = next(s for s in study["sections"] if s["key"] == key)
    table = [t for t in section["tables"] if t["title"].startswith(title)][number]
    names = [column["name"] for column in table["columns"]]
    return [dict(zip(names, row)) for row in table["rows"]]


def read_tensors(path):
    """Returns {name: (shape, bytes)} of the tensors of a safetensors file."""
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    return {name: (entry["shape"], data[slice(*entry["data_offsets"])])
            for name, entry in header.items() if name != "__metadata__"}
