#!/usr/bin/env python3
"""Writes unary_functions.txt: right values of functions of one operand, with two derivatives.

usage: python3 tests/data/unary_functions.py > tests/data/unary_functions.txt     needs mpmath and NumPy

Each function has a line with its name, and then lines "x value first_derivative second_derivative". All x are
float32 numbers. The values are computed with 60 digits and rounded to 19. Values below 1e-330 are written as 0.
"""
import mpmath as mp
import numpy as np

mp.mp.dps = 60
C, K = 2 * mp.sqrt(2 / mp.pi), mp.mpf('0.044715')


def Phi(x):
    return mp.erfc(-x / mp.sqrt(2)) / 2


def phi(x):
    return mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi)


def s(x):
    return 1 / (1 + mp.exp(-x)) if x > 0 else mp.exp(x) / (1 + mp.exp(x))


def ds(x):
    e = mp.exp(-abs(x))
    return e / (1 + e)**2


def dds(x):
    return -ds(x) * mp.tanh(x / 2)


def u(x):
    return C * (x + K * x**3)


def du(x):
    return C * (1 + 3 * K * x**2)


FUNCTIONS = {
    'tanh': (mp.tanh, lambda x: 4 * ds(2 * x), lambda x: 8 * dds(2 * x)),
    'sigmoid': (s, ds, dds),
    'gelu': (lambda x: x * Phi(x), lambda x: Phi(x) + x * phi(x), lambda x: phi(x) * (2 - x * x)),
    'gelu_tanh': (lambda x: x * s(u(x)), lambda x: s(u(x)) + x * ds(u(x)) * du(x),
                  lambda x: 2 * ds(u(x)) * du(x) + x * (dds(u(x)) * du(x)**2 + ds(u(x)) * 6 * C * K * x)),
    'silu': (lambda x: x * s(x), lambda x: s(x) + x * ds(x), lambda x: 2 * ds(x) + x * dds(x)),
    'exp': (mp.exp, mp.exp, mp.exp),
    'log': (mp.log, lambda x: 1 / x, lambda x: -1 / x**2),
    'sqrt': (mp.sqrt, lambda x: 1 / (2 * mp.sqrt(x)), lambda x: -1 / (4 * x * mp.sqrt(x))),
    'rsqrt': (lambda x: 1 / mp.sqrt(x), lambda x: -1 / (2 * x * mp.sqrt(x)), lambda x: 3 / (4 * x**2 * mp.sqrt(x))),
    'pow_2.5': (lambda x: x**mp.mpf(2.5), lambda x: 2.5 * x**mp.mpf(1.5), lambda x: 3.75 * mp.sqrt(x)),
}
# Zeros of the first and of the second derivatives of gelu, gelu_tanh and silu.
ZEROS = {'gelu': (0.7517915, 1.4142136), 'gelu_tanh': (0.7524614, 1.4185040), 'silu': (1.2784645, 2.3993573)}


def text(value):
    return '0' if abs(value) < mp.mpf('1e-330') else mp.nstr(value, 19, strip_zeros=True).replace('.0e', 'e')


for name, functions in FUNCTIONS.items():
    magnitudes = list(10**np.linspace(-37, 37, 180)) + list(np.linspace(0.083, 15, 90)) + list(np.linspace(16, 110, 30))
    points = [sign * m for m in magnitudes for sign in (1, -1)]
    for zero in ZEROS.get(name, ()):
        points += [-zero * (1 + sign * d) for d in (1e-5, 1e-3, 0.009, 0.0101, 0.012, 0.03) for sign in (1, -1)]
    if name in ('log', 'sqrt', 'rsqrt', 'pow_2.5'):
        points = [p for p in points if p > 0]
    print(name)
    for x in sorted({float(np.float32(p)) for p in points}):
        if name == 'exp' and abs(x) > 1000:
            continue
        X = mp.mpf(x)
        print(repr(np.float32(x).item()), *[text(f(X)) for f in functions])
