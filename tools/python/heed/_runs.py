"""Runs, studies and pictures as values. The program computes all of them."""

from __future__ import annotations

import base64
import csv
import functools
import html
import os
import pathlib
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import _safetensors
from ._program import Error, call

MAX_PAGE_BYTES = 8_000_000  # of a study's page inside a notebook


class Run:
    """The directory of a training run. Its attributes are read anew each time."""

    def __init__(self, path: str | os.PathLike[str]):
        self.path = os.fsdecode(path)
        """The directory."""

    @property
    def info(self) -> dict[str, Any]:
        """The object that `heed info RUN --json` prints."""
        return call("info", self.path)

    @property
    def config(self) -> dict[str, Any]:
        """The settings of the run, as in its config.toml: heed.train(config=FILE, seed=2) uses that file."""
        return self.info["config"]

    @property
    def result(self) -> dict[str, Any] | None:
        """Loss, best possible loss and accuracy on the evaluation set; None if the run is not finished."""
        return self.info["result"]

    @property
    def vocabulary(self) -> list[str]:
        """The symbol of each token, by id."""
        return self.info["vocabulary"]

    @property
    def metrics(self) -> dict[str, np.ndarray]:
        """The columns of metrics.csv. A value that was not measured is NaN."""
        with open(os.path.join(self.path, "metrics.csv"), newline="") as file:
            lines = file.read().splitlines(keepends=True)
        whole = [line for line in lines if line.endswith("\n")]  # the last one may be incomplete
        header, *rows = csv.reader(whole or ["\n"])
        columns = {name: [row[i] or "nan" for row in rows] for i, name in enumerate(header)}
        return {name: np.array(texts, float).astype(int if name == "step" else float) for name, texts in columns.items()}

    def weights(self, file: str = "") -> dict[str, np.ndarray]:
        """Returns the weights of the last save, or of a weights file of the run, such as "best.safetensors"."""
        path = os.path.join(self.path, file) if file else _safetensors.last_save(self.path)
        call("info", path)  # checks the checksum
        return _safetensors.read_weights(path)[0]

    def encode(self, text: str) -> list[int]:
        """Returns the tokens of a prompt, with those that the task adds, such as a start token."""
        return call("info", self.path, prompt=_prompt(text))["ids"]

    def generate(self, prompt: str | None = None, **options: Any) -> dict[str, Any]:
        """Continues a prompt. Returns the object of `heed generate --json`, such as `text`."""
        return call("generate", self.path, prompt=None if prompt is None else _prompt(prompt), **options)

    def evaluate(self, prompt: str | None = None, **options: Any) -> dict[str, Any]:
        """Evaluates the run, or each token of a prompt. Returns the object of `heed eval --json`, such as `loss`."""
        return call("eval", self.path, prompt=None if prompt is None else _prompt(prompt), **options)

    def study(self, **options: Any) -> Study:
        """Studies the heads. The options are those of `heed study`."""
        return Study(call("study", self.path, **options))

    def __fspath__(self) -> str:
        return self.path

    def __str__(self) -> str:
        return self.path

    def __repr__(self) -> str:
        return f"heed.load({self.path!r})"

    def _repr_html_(self) -> str:
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "loss.svg")
            try:
                call("plot", self.path, out=file)
            except Error as e:  # a run of weights has no loss curve
                return f"<p>{html.escape(f'{self!r}: {e}')}</p>"
            data = base64.b64encode(file.read_bytes()).decode()
        return f'<p>{html.escape(self.path)}</p><img alt="loss curve" src="data:image/svg+xml;base64,{data}">'


def _prompt(text: str) -> str:
    if not isinstance(text, str):
        raise TypeError(f"a prompt is a text, got {type(text).__name__}")
    return text


class Study:
    """A result of `heed study`."""

    def __init__(self, json: dict[str, Any]):
        self.json = json
        """The object that `heed study --json` printed."""
        self.files = [pathlib.Path(file).absolute() for file in json["files"]]
        """All files of the study."""
        self.directory = pathlib.Path(os.path.commonpath([file.parent for file in self.files]))
        """The directory of the study."""
        self.pictures = [file for file in self.files if file.suffix in (".png", ".svg")]
        """The pictures."""
        sections = json.get("sections") or []  # a study over time has none
        claims = [claim["text"] for claim in json.get("claims") or () if claim["text"]]
        self.sentences: list[str] = claims or [text for section in sections for text in section["sentences"]]
        """What the study found: the claims of the first lines or, if there are none, all sentences."""
        self.sections: dict[str, list[dict[str, Any]]] = {s["key"]: _rows(s) for s in sections}
        """The rows of the first table of each section. The keys of a row are the columns. `json` has all tables."""

    @functools.cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays by name, such as "blocks.1.attn.hook_pattern". The gradient of X is "X_grad"."""
        files = [file for file in self.files if file.suffix == ".safetensors"]
        return {name: array for file in files for name, array in _safetensors.read(file)[0].items()}

    def __repr__(self) -> str:
        return "\n".join([f"study in {self.directory}", *self.sentences])

    def _repr_html_(self) -> str:
        page = self.directory / "report.html"
        if page.stat().st_size > MAX_PAGE_BYTES:
            return f'<a href="{html.escape(page.as_uri())}">{html.escape(str(page))}</a>'
        return f'<iframe width="100%" height="800" srcdoc="{html.escape(page.read_text("utf-8"))}"></iframe>'


def _rows(section: dict[str, Any]) -> list[dict[str, Any]]:
    for table in section["tables"]:
        return [dict(zip((column["name"] for column in table["columns"]), row)) for row in table["rows"]]
    return []


class Picture:
    """A picture that heed drew."""

    def __init__(self, data: bytes):
        self.data = data
        """The contents of the PNG file."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the PNG file. Raises ValueError unless its name ends in .png."""
        if pathlib.Path(path).suffix != ".png":
            raise ValueError(f"the picture is a PNG file, got the name {os.fspath(path)!r}; end it with .png")
        pathlib.Path(path).write_bytes(self.data)

    def _repr_png_(self) -> bytes:
        return self.data


def train(task: str | None = None, **options: Any) -> Run:
    """Trains a model and returns the run. The options are those of `heed train`.

    >>> run = heed.train("induction", steps=400, out="runs/a")  # doctest: +SKIP
    """
    return Run(call("train", *([] if task is None else [task]), **options)["run"])


def load(path: str | os.PathLike[str]) -> Run:
    """Returns the run in a directory. Raises Error if it is not a run, or is damaged."""
    run = Run(path)
    if "run" not in run.info:
        raise Error(f"{run} is a file, not the directory of a run; heed import makes a run of weights", 2)
    return run


def runs(directory: str | os.PathLike[str] | None = None) -> list[Run]:
    """Returns the runs in a directory, by default runs/, the newest last. Raises Error if there is none."""
    result = call("info", "runs" if directory is None else directory)
    if "runs" not in result:
        raise Error(f"{directory or 'runs'} is a run or a file, not a directory of runs", 2)
    return [Run(row["run"]) for row in result["runs"]]


def plot(
    array: Any, x_labels: Sequence[Any] | None = None, y_labels: Sequence[Any] | None = None, **options: Any
) -> Picture:
    """Draws a matrix, or several that are stacked in the first axes. The labels are those of columns and of rows.

    The options are those of `heed plot`, such as title, x_axis and y_axis. Raises Error if a label is missing.
    """
    values = np.atleast_2d(np.asarray(array))
    values = values if values.dtype in (np.float32, np.float64) else values.astype(float)
    with tempfile.TemporaryDirectory() as folder:
        matrix, picture = pathlib.Path(folder, "array.safetensors"), pathlib.Path(folder, "array.png")
        _safetensors.write(matrix, {"array": values}, {})
        for key, labels in (("x_labels", x_labels), ("y_labels", y_labels)):
            if labels is not None:
                options[key] = pathlib.Path(folder, key)
                options[key].write_text("".join(str(label).replace("\n", "\\n") + "\n" for label in labels), "utf-8")
        call("plot", matrix, out=picture, **{"title": f"array of {' x '.join(map(str, values.shape))}", **options})
        return Picture(picture.read_bytes())
