"""Compiles every C++ snippet of the pages, without code, in one file.

Usage: snippets_test.py COMPILER. A snippet with an #include must be complete. Any other snippet is compiled with all
headers of heed and its line of CONTEXT. The headers of test frameworks need not be installed: consumer_test.sh
compiles the snippet with them.
"""

import pathlib
import re
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = "heed::nn::Transformer& model"
CONTEXT = {  # by page: the names that its snippets use, as parameters of a function
    "autograd/base": "const Shape& shape, const Strides& x_strides, const Strides& y_strides, double* x, double* y",
    "autograd/graph": "Tensor x, Tensor w",
    "autograd/kernels": "const float* a, const float* b, float* y, std::int64_t i, std::int64_t n",
    "nn/io": MODEL,
    "nn/optim": MODEL + ", Tensor loss, const heed::nn::Schedule& schedule, std::int64_t step",
    "nn/lab/study": MODEL + ", const heed::lab::Batch& batch, std::int64_t c, std::int64_t d",
}
NAMES = "using namespace heed; using namespace heed::autograd; using namespace heed::lab;"
DEFINITIONS = re.compile(r"(?m)^(static|int|void|struct|[A-Z]\w+ \w+\(.*\{$)")

unit = ["#include <iostream>", "#include <hwy/highway.h>", '#include "autograd/base/strided.h"', '#include "nn/lab.h"']
count = 0
for page in sorted(ROOT.rglob("*.md")):
    folder = page.parent.relative_to(ROOT)
    if folder.parts[:1] == ("build",):
        continue
    for indent, text in re.findall(r"(?ms)^( *)```cpp\n(.*?)^ *```$", page.read_text()):
        text = textwrap.dedent(text)
        count += 1
        includes = re.findall(r"(?m)^#include .*$", text)
        body = text if includes else f"{NAMES}\n{text}"
        body = re.sub(r"(?m)^#include .*$", "", body)
        unit += includes
        if "namespace heed {" in body:
            unit.append(body)
        elif DEFINITIONS.search(text):
            declared = "heed::autograd::Tensor cube(const heed::autograd::Tensor& x);" if "cube" in text else ""
            unit.append(f"namespace snippet_{count} {{\n{declared}\n{body}\n}}")
        else:
            parameters = re.sub(r"\b(Tensor|Shape|Strides)\b", r"heed::autograd::\1", CONTEXT.get(str(folder), ""))
            unit.append(f"void snippet_{count}({parameters}) {{\n{body}\n}}")
assert count >= 11, count
command = [sys.argv[1], "-std=c++20", "-fsyntax-only", "-w", f"-I{ROOT}", "-x", "c++", "-"]
sys.exit(subprocess.run(command, input="\n".join(unit), text=True).returncode)
