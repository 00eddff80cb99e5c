#!/usr/bin/env python3
"""Compares gradient checkers on public gradient bugs of 2023 to 2026 (public_bugs_cases.py). The checkers are
torch.autograd.gradcheck and gradgradcheck, jax.test_util.check_grads and heed, each with its default options. Each
checks the wrong function and its right twin. Prints the Markdown table of all cases, the counts and what heed misses,
and exits with 1 if heed misses one without a known reason.

    cmake --build build/release --target heed_python
    python tools/peers/public_bugs.py                          # all cases: 20 minutes
    python tools/peers/public_bugs.py warp-1732-1 mlx-628      # these cases
    python tools/peers/public_bugs.py --check tools/peers/PUBLIC_BUGS_TABLE.md   # compares a page with a new run
"""
import argparse
import difflib
import functools
import itertools
import multiprocessing
import os
import pathlib
import sys
import warnings

import numpy as np
import torch

from public_bugs_cases import CASES, RIGHT

TIMEOUT = 1800  # seconds for a checker and a function
LOW = (torch.float16, torch.bfloat16)
# Why heed misses a wrong function, or does not accept a right one. A miss that is not in this list is printed, too.
REASONS = {
    "mlx-628": "The right twin is refused, too: the function is not finite on one side of base 0, so it "
               "cannot be compared on both sides. The report of the wrong one names its NaN.",
    "tt-metal-53386": "PyTorch's own backward of the plain version, table[tokens] in bfloat16, adds in bfloat16, too. "
                      "heed accepts errors as large as those of the plain version (R = 1).",
    "liger-1329": "heed requires one type; the inputs are bfloat16, and the output is float32.",
    "jax-40128": "heed requires one type; q, k and v are bfloat16, and the sink is float32.",
    "right-mnemosyne-987": "The true gradient is zero, and differences of the outputs consist of rounding; wrong "
                           "gradients of that size would pass, too.",
    "right-once-differentiable": "The function has only a first derivative. With order 1, heed accepts the "
                                 "function.",
}


def is_second(case):
    return "second derivative" in case.kind


def gradcheck(case, wrong):
    if case.form == "module":
        return "not possible"       # tokens have no gradient
    if case.form == "jvp":
        forward, jvp, x = case.build(wrong)
        return verdict(torch.autograd.gradcheck(with_jvp(forward, jvp), x, raise_exception=False,
                                                check_forward_ad=True, check_backward_ad=False))
    function, x = case.build(wrong)
    return verdict(torch.autograd.gradcheck(function, x, raise_exception=False))


def with_jvp(forward, jvp):
    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *x):
            ctx.save_for_forward(*x)
            return forward(*x)

        @staticmethod
        def jvp(ctx, *v):
            return jvp(ctx.saved_tensors, v)
    return Function.apply


def gradgradcheck(case, wrong):
    if not is_second(case):
        return "-"
    return verdict(torch.autograd.gradgradcheck(*case.build(wrong), raise_exception=False))


def check_grads(case, wrong):
    # JAX's arrays have no strides, and its functions no state: a bridge passes copies to a new graph in each call.
    if case.form == "module" or case.kind.startswith("layout") or case.kind in ("repetition", "single use"):
        return "not possible"
    try:
        import jax
        import jax.test_util
    except ImportError:
        return "not installed"

    jax.config.update("jax_enable_x64", True)
    function, *jvp, x = case.build(wrong)
    order, mode = 2 if is_second(case) else 1, "fwd" if jvp else "rev"
    try:
        bridge = jax_jvp(function, *jvp, x) if jvp else jax_function(function, x, order)
        jax.test_util.check_grads(bridge, [to_jax(t) for t in x], order=order, modes=[mode])
    except AssertionError:
        return "refused"
    return "accepted"


def to_jax(t):
    import jax

    return jax.numpy.asarray(t.detach().double().numpy()).astype(str(t.dtype).split(".")[1])


def jax_call(function, x):
    """Returns a JAX function that calls a function of tensors like x, which returns a tensor or several."""
    import jax

    def call(*arrays):
        tensors = [torch.tensor(np.asarray(a, np.float64)).to(t.dtype) for a, t in zip(arrays, x)]
        y = function(*(t.requires_grad_() for t in tensors))
        return jax.tree.map(lambda t: np.asarray(to_jax(t)), y)

    y = jax.tree.map(to_jax, function(*x))
    shapes = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), y)
    return lambda *arrays: jax.pure_callback(call, shapes, *arrays)


def jax_function(function, x, order):
    """Returns a JAX function whose vjp, up to this order, is that of PyTorch."""
    import jax

    y = function(*x)
    several, dys = isinstance(y, tuple), [torch.ones_like(t) for t in (y if isinstance(y, tuple) else [y])]

    def vjp(*xs_and_dys):
        xs, given = xs_and_dys[:len(x)], xs_and_dys[len(x):]
        return torch.autograd.grad(function(*xs), xs, given, create_graph=order > 1, allow_unused=True,
                                   materialize_grads=True)

    wide = [*x, *(d.requires_grad_() for d in dys)]
    jax_vjp = jax_function(vjp, wide, order - 1) if order > 1 else jax_call(vjp, wide)
    result = jax.custom_vjp(jax_call(function, x))
    result.defvjp(lambda *xs: (result(*xs), xs), lambda xs, dy: jax_vjp(*xs, *(dy if several else [dy])))
    return result


def jax_jvp(forward, jvp, x):
    import jax

    result = jax.custom_jvp(jax_call(forward, x))
    jax_tangent = jax_call(lambda *a: jvp(a[:len(x)], a[len(x):]), [*x, *x])
    result.defjvp(lambda xs, vs: (result(*xs), jax_tangent(*xs, *vs)))
    return result


def check_heed(case, wrong):
    import heed.torch

    function, *jvp, x = case.build(wrong)
    if case.form == "module":
        report = heed.torch.check_causality(function, x)
    elif jvp:
        tensors = lambda arrays: [torch.tensor(a) for a in arrays]
        report = heed.check_jvp(lambda *a: function(*tensors(a)).detach().numpy(),
                                lambda *a: jvp[0](tensors(a[:len(x)]), tensors(a[len(x):])).numpy(),
                                [t.detach().numpy() for t in x])
    elif x[0].dtype in LOW:
        report = heed.torch.check(function, x, reference=case.forward)
    else:
        report = heed.torch.check(function, x, order=2 if is_second(case) else 1)
    return {"right": "accepted", "wrong": "refused", "vacuous": "undecided"}[report.verdict] + ": " + report.text


CHECKERS = {"gradcheck": gradcheck, "gradgradcheck": gradgradcheck, "JAX check_grads": check_grads, "heed": check_heed}


def verdict(right):
    return "accepted" if right else "refused"


def isolated(checker, case, variants):
    """Runs a checker in a process of its own on the right function, then on the wrong one. Returns the answers."""
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)

    def work():
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)    # warnings, and messages of crashes
        warnings.simplefilter("ignore")
        for wrong in variants:
            torch.manual_seed(1)
            try:
                send.send(CHECKERS[checker](case, wrong))
            except Exception as e:
                send.send(f"raises: {type(e).__name__}: {e}")

    process = context.Process(target=work)
    process.start()
    send.close()
    answers = []
    try:
        while len(answers) < len(variants) and receive.poll(TIMEOUT):
            answers.append(receive.recv())
    except EOFError:                                    # the process has ended
        process.join()
        answers += [f"crashes: exit code {process.exitcode}"] * (len(variants) - len(answers))
    process.kill()
    process.join()
    return answers + ["no answer: timeout"] * (len(variants) - len(answers))


WORDS = {"accepted": "passes", "refused": "refuses"}
NO_ANSWER = ("not possible", "not installed", "-")


def word(answers):
    """Returns the word of the table: for a right function, or for a right one and its wrong twin."""
    right, *wrong = [a.split(":")[0] for a in answers]
    if right in NO_ANSWER:
        return right
    if not wrong:
        return "passes" if right == "accepted" else f"**{WORDS.get(right, right)}**"
    if right == "accepted":
        return {"refused": "found", "raises": "found, raises"}.get(wrong[0], f"**{WORDS.get(wrong[0], wrong[0])}**")
    first = WORDS.get(right, right)
    return f"**{first} both**" if right == wrong[0] else f"**right one: {first}**"


def run(cases):
    """Returns {(key, checker): answers}."""
    answers = {}
    for i, case in enumerate(cases):
        print(f"{i + 1} of {len(cases)}: {case.key}", file=sys.stderr)
        for checker in CHECKERS:
            answers[case.key, checker] = isolated(checker, case, [False] if case in RIGHT else [False, True])
    return answers


def table(cases, answers):
    lines = ["| bug | defect | " + " | ".join(CHECKERS) + " |", "| --- | --- |" + " --- |" * len(CHECKERS)]
    for case in cases:
        name = f"[{case.key}]({case.link})" if case.link else case.key
        words = [word(answers[case.key, checker]) for checker in CHECKERS]
        lines.append(f"| {name} | {'right: ' if case in RIGHT else ''}{case.defect} | " + " | ".join(words) + " |")
    return lines


def summary(cases, answers):
    """Counts wrong functions that are found, and right ones that are accepted, of those that a checker can be given."""
    def row(name, count):
        return f"| {name} | " + " | ".join(count(checker) for checker in CHECKERS) + " |"

    def found(chosen, checker):
        words = [word(answers[c.key, checker]) for c in chosen]
        if set(words) in ({"-"}, {"not possible"}):
            return words[0]
        return f"{sum(w.startswith('found') for w in words)} of {len(words) - words.count('-')}"

    def accepted(chosen, checker):
        rights = [answers[c.key, checker][0].split(":")[0] for c in chosen]
        rights = [r for r in rights if r not in NO_ANSWER]
        return f"{rights.count('accepted')} of {len(rights)}"

    wrong, right = [c for c in cases if c in CASES], [c for c in cases if c in RIGHT]
    kinds = {kind: [c for c in wrong if c.kind == kind] for kind in dict.fromkeys(c.kind for c in wrong)}
    return [row("kind", str), "| --- |" + " --- |" * len(CHECKERS),
            *(row(f"wrong: {kind}", functools.partial(found, chosen)) for kind, chosen in kinds.items()),
            row("wrong, all", functools.partial(found, wrong)),
            row("right twins accepted", functools.partial(accepted, wrong)),
            row("right functions accepted", functools.partial(accepted, right))]


NO_REASON = "no reason known; heed: "


def misses(cases, answers):
    """What heed does not find, or does not accept, with the reasons."""
    lines = []
    for case in cases:
        said = word(answers[case.key, "heed"])
        if said not in ("found", "found, raises", "passes"):
            reason = REASONS.get(case.key, NO_REASON + " / ".join(answers[case.key, "heed"]))
            lines.append(f"- `{case.key}` ({said.strip('*')}): {reason}")
    return lines


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("keys", nargs="*", metavar="KEY", help="keys of cases; default: all")
    parser.add_argument("--build", default="build/release", type=pathlib.Path)
    parser.add_argument("--check", type=pathlib.Path, metavar="FILE", help="compare this page with the result")
    parser.add_argument("--checkers", nargs="+", choices=CHECKERS, default=list(CHECKERS), metavar="NAME",
                        help="columns: " + ", ".join(CHECKERS))
    parser.add_argument("--verbose", action="store_true", help="print every answer")
    options = parser.parse_args(arguments)
    sys.path.insert(0, str(options.build.resolve() / "python"))
    if unknown := set(options.keys) - {c.key for c in CASES + RIGHT}:
        sys.exit(f"unknown keys: {', '.join(sorted(unknown))}; see public_bugs_cases.py")
    torch.set_num_threads(1)
    for name in set(CHECKERS) - set(options.checkers):
        del CHECKERS[name]
    cases = [c for c in CASES + RIGHT if not options.keys or c.key in options.keys]
    answers = run(cases)
    blocks = [table(cases, answers), summary(cases, answers), misses(cases, answers)]
    if options.verbose:
        blocks.append([f"{key} {checker}: {a}" for (key, checker), a in answers.items()])
    if not options.check:
        print("\n\n".join("\n".join(lines) for lines in blocks))
        if any(NO_REASON in line for line in blocks[2]):
            sys.exit(1)
        return
    changed = differences(options.check.read_text().splitlines(), blocks[:2], whole=not options.keys)
    print("\n".join([*changed, f"{len(changed)} lines of {options.check} differ"]))
    sys.exit(bool(changed))


def differences(page, tables, whole):
    """Compares tables with those of a page that have the same heads. Returns the lines that differ, as diff does. If
    not `whole`, the page may have more rows."""
    lines = []
    for rows in tables if whole else tables[:1]:
        if rows[0] in page:
            theirs = list(itertools.takewhile(lambda line: line.startswith("|"), page[page.index(rows[0]):]))
            compared = difflib.unified_diff(theirs, rows, n=0)
            lines += [d for d in compared if d.startswith(("+|", "-|") if whole else "+|")]
    return lines if tables[0][0] in page or tables[1][0] in page else ["the page has none of the tables"]


if __name__ == "__main__":
    main()
