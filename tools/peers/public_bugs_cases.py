"""Public gradient bugs of 2023 to 2026, each reduced to a CPU function with the same defect, in our own code.

CASES are wrong functions with their right twins. RIGHT are right functions that checkers refuse, or that are
difficult for them; `defect` says why. The search is in PUBLIC_BUGS.md. No checker was run on these functions while
they were written.

A case is a forward formula and a backward with a flag: `backward(x, dy, wrong)` gets the inputs, dy (the gradient
of the output, or a tuple of them), and whether it has the defect. `case.build(wrong=True)` returns
(function, inputs), where the function takes the inputs as arguments. Two forms differ: "module" returns
(module, tokens), with logits [batch, length, vocabulary]; "jvp" returns (forward, jvp, inputs), with
jvp(inputs, tangents). `when` names the circumstance in which the wrong one is wrong.
tests/tools/peers/public_bugs_test.py tests all of this.
"""
import dataclasses
import math
from typing import Callable

import torch
import torch.nn.functional as F

GITHUB = "https://github.com/"

@dataclasses.dataclass
class Case:
    key: str         # repository and number
    link: str        # below https://github.com/
    kind: str        # class of the defect
    defect: str      # one sentence
    when: str        # circumstance in which the gradient is wrong; see wrong_in()
    inputs: Callable     # () -> list of tensors
    forward: Callable = None    # plain differentiable formula; with `form` "plain": forward(*x, wrong=False)
    backward: Callable = None   # backward(x, dy, wrong) -> gradients of the inputs
    form: str = "function"      # "function", "plain", "module", "jvp", or "built": forward(wrong) returns the function
    plain: Callable = None      # the plain formula of a "built" function
    once: bool = False          # True: the backward is marked once_differentiable, as a kernel that autograd cannot see

    def build(self, wrong=True):
        x = self.inputs()
        if self.form == "jvp":
            return self.forward, lambda x, v: self.backward(x, v, wrong), x
        if self.form == "plain":
            return (lambda *x: self.forward(*x, wrong=wrong)), x
        if self.form in ("built", "module"):
            return self.forward(wrong), (x if self.form == "built" else x[0])
        return make(self.forward, lambda x, dy: self.backward(x, dy, wrong), self.once), x

def make(forward, backward, once=False):
    """Returns a torch function with this forward and this backward(inputs, dy)."""
    def run_backward(ctx, *dy):
        grads = backward(list(ctx.saved_tensors), dy if len(dy) > 1 else dy[0])
        return tuple(grads) if isinstance(grads, (tuple, list)) else (grads,)

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *x):
            ctx.save_for_backward(*x)
            return forward(*x)
        backward = staticmethod(torch.autograd.function.once_differentiable(run_backward) if once else run_backward)
    return Function.apply

def vjp(formula, x, dy):
    """Gradients of a formula by autograd. The result is differentiable."""
    with torch.enable_grad():
        x = [t if t.requires_grad else t.detach().requires_grad_() for t in x]
        y = formula(*x)
        return list(torch.autograd.grad(y, x, dy, create_graph=True, allow_unused=True, materialize_grads=True))

def read(t, strides=None, shape=None):
    """Reads the memory of t from its first element with these strides (default: contiguous), as a kernel does.

    An address outside the storage gives NaN: there the original reads foreign memory or crashes.
    """
    shape = shape or t.shape
    strides = strides or torch.empty(shape, device="meta").stride()
    memory = torch.empty(0, dtype=t.dtype).set_(t.detach().untyped_storage())
    where = torch.tensor(t.storage_offset())
    for size, stride in zip(shape, strides):
        where = where[..., None] + torch.arange(size) * stride
    return memory[where.clamp(max=len(memory) - 1)].masked_fill(where >= len(memory), float("nan"))

def normal(*shapes, seed=1, dtype=torch.float64):
    """Returns () -> list of standard normal tensors that require gradients."""
    def inputs():
        gen = torch.Generator().manual_seed(seed)
        return [torch.randn(s, generator=gen, dtype=torch.float64).to(dtype).requires_grad_() for s in shapes]
    return inputs

CASES, RIGHT = [], []

def case(key, link, kind, when, defect, inputs, forward, backward=None, **more):
    CASES.append(Case(key, GITHUB + link, kind, defect, when, inputs, forward, backward, **more))

def right(key, link, kind, why, inputs, forward, backward=None, **more):
    RIGHT.append(Case(key, link and GITHUB + link, kind, why, "never", inputs, forward, backward, **more))

# ---- layout of dy ------------------------------------------------------------------------------------------------

def scaled_sin(x, w):
    return x.sin() * w

def scaled_sin_backward(x, dy, wrong):
    (x, w), d = x, dy
    if wrong:
        d = read(dy, x.stride())
    return d * x.cos() * w, (d * x.sin()).sum(0)

case("pytorch-194719", "pytorch/pytorch/issues/194719", "layout of dy", "slice",
     "The backward kernel reads dy with the strides of x; after torch.cat dy is a slice of a larger array.",
     normal((3, 5), (5,)), scaled_sin, scaled_sin_backward, once=True)

case("taichi-8443", "taichi-dev/taichi/issues/8443", "layout of dy", "expanded",
     "The kernel takes a dy of stride 0 as a dense array and reads behind its one element (a segmentation fault).",
     normal((7,)), lambda x: 2 * x, lambda x, dy, wrong: 2 * (read(dy) if wrong else dy), once=True)

TARGET = torch.tensor([[6, 0, 3], [1, 5, 2], [4, 4, 0], [2, 6, 1], [3, 5, 5]])

def token_loss(logits):
    return -logits.log_softmax(-1).gather(-1, TARGET[..., None])[..., 0]

def token_loss_backward(x, dy, wrong):
    d = read(dy) if wrong else dy
    return (x[0].softmax(-1) - F.one_hot(TARGET, 7)) * d[..., None]

case("transformerengine-2402", "NVIDIA/TransformerEngine/pull/2402", "layout of dy", "transposed",
     "The cross-entropy backward reads one dy per row at stride 1, although the loss was transposed afterwards.",
     normal((5, 3, 7)), token_loss, token_loss_backward, once=True)

case("rocm-transformerengine-623", "ROCm/TransformerEngine/pull/623", "layout of dy", "expanded",
     "The same kernel after loss.sum(): dy has stride 0, and rows after the first read past the allocation.",
     normal((5, 3, 7)), token_loss, token_loss_backward, once=True)

def attention(q, k, v, bias=0):
    return ((q @ k.mT / math.sqrt(q.shape[-1]) + bias).softmax(-1)) @ v

def attention_backward(q, k, v, do, p=None, delta=None, bias=0):
    """The usual formulas; p and delta may be given by a wrong caller."""
    scale = 1 / math.sqrt(q.shape[-1])
    p = (q @ k.mT * scale + bias).softmax(-1) if p is None else p
    dp = do @ v.mT
    delta = (p * dp).sum(-1, keepdim=True) if delta is None else delta
    ds = p * (dp - delta)
    return ds @ k * scale, ds.mT @ q * scale, p.mT @ do

ATTENTION = normal((3, 4, 5), (3, 6, 5), (3, 6, 7))
case("flash-attention-355", "Dao-AILab/flash-attention/issues/355", "layout of dy", "slice",
     "The attention backward addresses dout as if it were contiguous.", ATTENTION, attention,
     lambda x, dy, wrong: attention_backward(*x, read(dy) if wrong else dy), once=True)

LENGTHS = (4, 3, 5)

def pack_segments(t):
    return torch.stack([F.pad(part, (0, 0, 0, max(LENGTHS) - len(part))) for part in t.split(LENGTHS)])

case("fbgemm-3006", "pytorch/FBGEMM/pull/3006", "layout of dy", "slice",
     "The backward of pack_segments takes a non-contiguous dy as contiguous.", normal((12, 4)), pack_segments,
     lambda x, dy, wrong: torch.cat([d[:n] for d, n in zip(read(dy) if wrong else dy, LENGTHS)]), once=True)

def causal_conv(x, w, h0=None):
    """x [B, T, D], w [W, D], h0 [B, W - 1, D]: y[t] = sum_i w[i] x[t - W + 1 + i]."""
    full = F.pad(x, (0, 0, len(w) - 1, 0)) if h0 is None else torch.cat([h0, x], 1)
    return sum(w[i] * full[:, i:i + x.shape[1]] for i in range(len(w)))

case("fla-871", "fla-org/flash-linear-attention/pull/871", "layout of dy", "slice",
     "The causal convolution's backward has the strides (D, 1) of dy hard-coded; q, k and v joined by cat break it.",
     normal((3, 6, 5), (4, 5)), causal_conv,
     lambda x, dy, wrong: [g.detach() for g in vjp(causal_conv, x, read(dy) if wrong else dy)], once=True)

def state_conv_backward(x, dy, wrong):
    """The gradient of h0 comes from a kernel of its own."""
    good = [g.detach() for g in vjp(lambda *a: F.silu(causal_conv(*a)), x, dy)]
    if wrong:
        pre = causal_conv(*x).detach().contiguous()
        strides = (*dy.stride()[:2], 1)
        d, pre = read(dy, strides), read(pre, strides)   # y is contiguous, but is read with the strides of dy
        slope = pre.sigmoid() * (1 + pre * (1 - pre.sigmoid()))
        good[2] = vjp(causal_conv, x, d * slope)[2].detach()
    return good

case("fla-1138", "fla-org/flash-linear-attention/issues/1138", "layout of dy", "slice",
     "The kernel of dh0 reads y with the strides of dy, and dy's last axis with stride 1; dx and dw are right.",
     normal((3, 6, 5), (4, 5), (3, 3, 5)), lambda *a: F.silu(causal_conv(*a)), state_conv_backward, once=True)

case("apex-1601", "NVIDIA/apex/pull/1601", "layout of dy", "transposed",
     "The backward calls view() on dy and raises if dy is not contiguous.", normal((3, 4, 5), (6, 5)),
     lambda x, w: x @ w.mT, lambda x, dy, wrong: (dy @ x[1], (dy.view(12, 6) if wrong else dy.reshape(12, 6)).mT
                                                  @ x[0].reshape(12, 5)))

def like_q_attention(q, k, v):
    return torch.empty_like(q).copy_(attention(q, k, v)) if not torch.is_grad_enabled() else attention(q, k, v)

def like_q_backward(x, dy, wrong):
    out = like_q_attention(*[t.detach() for t in x]) if not wrong else torch.empty_like(x[0]).copy_(attention(*x))
    delta = (read(out) * read(dy)).sum(-1, keepdim=True) if wrong else (out * dy).sum(-1, keepdim=True)
    return [g.detach() for g in attention_backward(*x, dy, delta=delta)]

case("flagattention-1", "flagos-ai/FlagAttention/pull/1", "layout of an input", "input transposed",
     "out has the strides of q, but the sum of out * dout is computed as if both were C-contiguous.",
     normal((3, 4, 5, 6), (3, 4, 7, 6), (3, 4, 7, 6)), like_q_attention, like_q_backward, once=True)

# ---- repetition --------------------------------------------------------------------------------------------------

def taped(wrong):
    """A torch function around a foreign tape that keeps memory between calls; `wrong` names the mistake."""
    buffer = torch.zeros(4, 5, dtype=torch.float64)

    class Taped(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.adjoint, ctx.dx = torch.ones_like(x), torch.zeros_like(x)   # memory of the tape
            buffer.copy_(x.detach())
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def backward(ctx, dy):
            x = buffer if wrong == "buffer" else ctx.saved_tensors[0]
            dx = dy * ctx.adjoint * x.cos()
            if wrong == "consumed":
                ctx.adjoint.zero_()
            if wrong == "dy":
                dy.data.zero_()       # the tape adopted dy's memory as its own adjoint and clears it
            if wrong == "added":
                ctx.dx += dx.detach()
                return ctx.dx.clone()
            return dx
    return Taped.apply

def tape_case(key, link, when, mistake, defect):
    case(key, link, "repetition", when, defect, normal((4, 5)), lambda wrong: taped(wrong and mistake), form="built",
         plain=torch.sin)

tape_case("warp-1732-1", "NVIDIA/warp/issues/1732", "second backward", "consumed",
          "The second backward on one graph gives zero, because the first consumed the tape's adjoints.")
tape_case("warp-1732-2", "NVIDIA/warp/issues/1732", "dy reused", "dy",
          "The tape shares dy's memory and clears it; the same dy in a new graph gives zero.")
tape_case("warp-159", "NVIDIA/warp/issues/159", "second backward", "added",
          "The gradient buffer is not cleared, so a second backward returns the sum of both.")
tape_case("warp-1350", "NVIDIA/warp/issues/1350", "forward between", "buffer",
          "The backward uses the values that the array has at that time, not those of its forward.")

def overwriting_loss(wrong):
    class Loss(torch.autograd.Function):
        @staticmethod
        def forward(ctx, logits):
            loss, grad = token_loss(logits), logits.softmax(-1) - F.one_hot(TARGET, 7)
            ctx.save_for_backward(grad)
            if wrong:
                logits.data.copy_(grad)     # written by a kernel: the version counter does not notice
            return loss

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, dy):
            return ctx.saved_tensors[0] * dy[..., None]
    return Loss.apply

case("liger-262", "linkedin/Liger-Kernel/pull/262", "repetition", "input overwritten",
     "The loss stores its gradient in the memory of its input, which an earlier operation has saved.",
     normal((5, 3, 7)), overwriting_loss, form="built", plain=token_loss)

# ---- second derivative -------------------------------------------------------------------------------------------

def saved_intermediate_backward(x, dy, wrong):
    t = x[0].exp()
    t = t.detach() if wrong else t      # stored on ctx in forward, so that double backward takes it as a constant
    return dy * t.cos() * t

case("pytorch-104040", "pytorch/pytorch/issues/104040", "second derivative", "second derivative",
     "An intermediate saved in forward is neither input nor output; double backward takes it as a constant.",
     normal((4, 5)), lambda x: x.exp().sin(), saved_intermediate_backward)

def energy(pos, charge):
    i, j = torch.triu_indices(len(pos), len(pos), 1)
    return charge[i] @ (charge[j] / (1 + (pos[i] - pos[j]).square().sum(-1)).sqrt())

def energy_backward(x, dy, wrong):
    grads = vjp(energy, x, torch.ones((), dtype=x[0].dtype))
    return [(g.detach() if wrong else g) * dy for g in grads]

case("nnpops-103", "openmm/NNPOps/pull/103", "second derivative", "second derivative",
     "The energy's backward multiplies dy by derivatives that forward saved; their own derivative is lost.",
     normal((5, 3), (5,)), energy, energy_backward)

def same_points():
    x, = normal((6,))()
    return [x, x.detach().clone().requires_grad_()]

case("pytorch-92075", "pytorch/pytorch/issues/92075", "second derivative", "second derivative",
     "exp(-norm(x1 - x2)^2) is smooth, but through norm its Hessian at x1 = x2 is zero instead of 2.",
     same_points, lambda x1, x2, wrong=False: (-(torch.linalg.norm(x1 - x2).square() if wrong
                                                 else (x1 - x2).square().sum())).exp(), form="plain")

# ---- first order: normalization ----------------------------------------------------------------------------------

def layer_norm(x, w):
    return F.layer_norm(x, x.shape[-1:]) * w

def layer_norm_backward(x, dy, wrong):
    """wrong: False, "twice" (the mean is subtracted twice) or "block" (sums run over blocks of 3 rows)."""
    x, w = x
    rstd = (x.var(-1, unbiased=False, keepdim=True) + 1e-5).rsqrt()
    xhat, d = (x - x.mean(-1, keepdim=True)) * rstd, dy * w
    c1, c2 = d.mean(-1, keepdim=True), (d * xhat).mean(-1, keepdim=True)
    if wrong == "block":
        c1, c2 = (c.view(-1, 3, 1).sum(1, keepdim=True).expand(-1, 3, 1).reshape(c.shape) for c in (c1, c2))
    dx = rstd * (d - (2 if wrong == "twice" else 1) * c1 - xhat * c2)
    return dx, (dy * xhat).sum(0)

case("tt-metal-53204", "tenstorrent/tt-metal/issues/53204", "first order", "always",
     "The layer norm's dx subtracts mean(dy * gamma) twice.", normal((6, 5), (5,)), layer_norm,
     lambda x, dy, wrong: layer_norm_backward(x, dy, wrong and "twice"))
case("flaggems-59", "flagos-ai/FlagGems/pull/59", "first order", "always",
     "The layer norm's backward sums over a block of rows instead of over each row.", normal((9, 5), (5,)), layer_norm,
     lambda x, dy, wrong: layer_norm_backward(x, dy, wrong and "block"))

def rms_norm(x, w):
    return x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * w

def rms_norm_backward(x, dy, wrong=False):
    x, w = x
    rstd = (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt()
    d = dy if wrong else dy * w
    return rstd * (d - x * rstd.square() * (d * x).mean(-1, keepdim=True)), (dy * x * rstd).sum(0)

case("llm.c-763", "karpathy/llm.c/pull/763", "first order", "always",
     "The RMS norm's dx lacks the factor gamma (a comment in the thread on the commenter's own code).",
     normal((4, 5), (5,)), rms_norm, rms_norm_backward)

def prenorm_backward(x, dy, wrong):
    r, (dout, dres) = x[0] + x[1], dy
    if wrong:
        dr, dw = rms_norm_backward((r, x[2]), dout + dres)[0], rms_norm_backward((r, x[2]), dout)[1]
    else:
        dr, dw = rms_norm_backward((r, x[2]), dout)
        dr = dr + dres
    return dr, dr, dw

case("quack-53", "Dao-AILab/quack/pull/53", "first order", "always",
     "The residual's gradient is added before the norm's backward instead of after it.",
     normal((4, 5), (4, 5), (5,)), lambda x, res, w: (rms_norm(x + res, w), x + res), prenorm_backward)

def gated_linear(x, g, w, weight):
    return (rms_norm(x, w) * F.silu(g)) @ weight.mT

def gated_linear_backward(x, dy, wrong):
    grads = vjp(gated_linear, x, dy)
    if wrong:
        grads[3] = dy.mT @ rms_norm(x[0], x[2])      # recomputed for memory, without the gate
    return grads

case("fla-1071", "fla-org/flash-linear-attention/pull/1071", "first order", "always",
     "The linear weight's gradient uses the recomputed output before the gate; the other three are right.",
     normal((4, 5), (4, 5), (5,), (6, 5)), gated_linear, gated_linear_backward)

# ---- first order: attention and recurrences ----------------------------------------------------------------------

def normalized_linear_attention(q, k, v, wrong=False):
    q, k = q.abs() + 0.1, k.abs() + 0.1
    z = (k.detach() if wrong else k).cumsum(1)
    return (q @ k.mT).tril() @ v / (q * z).sum(-1, keepdim=True)

case("fla-875", "fla-org/flash-linear-attention/pull/875", "first order", "always",
     "The normalizer's cumulative sum of k is computed by a kernel outside the graph, so dk lacks a term.",
     normal((3, 6, 5), (3, 6, 5), (3, 6, 4)), normalized_linear_attention, form="plain")

def conv_with_state(x, h0, w):
    full = torch.cat([h0, x], 1)        # h0 [B, W, D], x [B, T, D]
    T = x.shape[1]
    return sum(w[i] * full[:, i + 1:i + 1 + T] for i in range(len(w))), full[:, T:]

def conv_with_state_backward(x, dy, wrong):
    (a, h0, w), (dy, dstate), T, W = x, dy, x[0].shape[1], len(x[2])
    dx, dh0, dw = vjp(lambda *t: conv_with_state(*t)[0], x, dy)
    if wrong:
        slot = 1 - max(0, T - (W - 1))
        return dx + dstate[:, slot:slot + T], dh0, dw
    dfull = F.pad(dstate, (0, 0, T, 0))
    return dx + dfull[:, W:], dh0 + dfull[:, :W], dw

case("fla-1140", "fla-org/flash-linear-attention/issues/1140", "first order", "always",
     "In a chunk shorter than the kernel the final state's gradient goes to shifted tokens, and h0 gets none.",
     normal((4, 3, 5), (4, 6, 5), (6, 5)), conv_with_state, conv_with_state_backward)

def gated_recurrence(x, g):
    h = [x[:, 0]]                       # [heads, T, D]
    for t in range(1, x.shape[1]):
        h.append(g[:, t].sigmoid() * h[-1] + x[:, t])
    return torch.stack(h, 1)

def gated_recurrence_backward(x, dy, wrong):
    h, a, dh = gated_recurrence(*x), x[1].sigmoid(), [dy[:, -1]]
    gate = a[:1].expand_as(a) if wrong else a
    for t in range(dy.shape[1] - 1, 0, -1):
        dh.insert(0, dy[:, t - 1] + gate[:, t] * dh[0])
    dh = torch.stack(dh, 1)
    return dh, F.pad(dh[:, 1:] * h[:, :-1], (0, 0, 1, 0)) * a * (1 - a)

case("fla-1115", "fla-org/flash-linear-attention/issues/1115", "first order", "always",
     "The backward recurrence loads the gate without the head's offset (reduced without its two ranks).",
     normal((3, 6, 5), (3, 6, 5)), gated_recurrence, gated_recurrence_backward)

def narrow_dq_backward(x, dy, wrong):
    dq, dk, dv = attention_backward(*x, dy)
    if wrong:
        q, k, v = x
        dq = attention_backward(q, k, v[..., :q.shape[-1]], dy[..., :q.shape[-1]])[0]
    return dq, dk, dv

case("nsa-triton-27-1", "XunhaoLai/native-sparse-attention-triton/issues/27", "first order", "always",
     "dq uses only as many channels of v and dout as q has, although v has more.", ATTENTION, attention,
     narrow_dq_backward)

def grouped_attention(q, k, v):
    return attention(q, k.repeat(4, 1, 1), v.repeat(4, 1, 1))      # head h uses key head h % 3

def grouped_backward(x, dy, wrong):
    q, k, v = x
    dq, dk, dv = attention_backward(q, k.repeat(4, 1, 1), v.repeat(4, 1, 1), dy)
    owner = torch.arange(12) % (4 if wrong else 3)
    keep = owner < 3                    # the original writes the other heads out of range
    return [dq] + [torch.zeros_like(t).index_add(0, owner[keep], g[keep]) for t, g in ((k, dk), (v, dv))]

case("nsa-triton-27-2", "XunhaoLai/native-sparse-attention-triton/issues/27", "first order", "always",
     "dk and dv divide the query head's index by the group size instead of by the number of key heads.",
     normal((12, 4, 5), (3, 6, 5), (3, 6, 7)), grouped_attention, grouped_backward)

def partial_delta_backward(x, dy, wrong):
    delta = (attention(*x) * dy).sum(-1, keepdim=True)
    if wrong:
        delta = torch.cat([delta[:, :4], torch.zeros_like(delta[:, 4:])], 1)
    return attention_backward(*x, dy, delta=delta)

case("triton-2020", "triton-lang/triton/pull/2020", "first order", "always",
     "Half of the row sums of out * dout are missing if the backward's blocks are half as long as the forward's.",
     normal((3, 8, 5), (3, 6, 5), (3, 6, 7)), attention, partial_delta_backward)

def sink_attention(q, k, v, sink):
    s = q @ k.mT / math.sqrt(q.shape[-1])
    return torch.cat([s, sink[:, None, None].expand(*s.shape[:2], 1)], -1).softmax(-1)[..., :-1] @ v

def sink_backward(x, dy, wrong):
    q, k, v, sink = x
    s = q @ k.mT / math.sqrt(q.shape[-1])
    lse = s.logsumexp(-1, keepdim=True)
    full = torch.logaddexp(lse, sink[:, None, None])
    delta = (sink_attention(*x) * dy).sum(-1, keepdim=True)
    grads = attention_backward(q, k, v, dy, p=(s - (lse if wrong else full)).exp(), delta=delta)
    dsink = -((sink[:, None, None] - full).exp() * delta).sum((1, 2))
    return *grads, torch.zeros_like(sink) if wrong else dsink

case("cudnn-frontend-421", "NVIDIA/cudnn-frontend/pull/421", "first order", "always",
     "The probabilities are rebuilt without the sink in the denominator, and the sink's gradient is zero.",
     normal((3, 4, 5), (3, 6, 5), (3, 6, 7), (3,)), sink_attention, sink_backward)

def attention_lse(q, k, v):
    return attention(q, k, v), (q @ k.mT / math.sqrt(q.shape[-1])).logsumexp(-1)

case("flash-attention-404", "Dao-AILab/flash-attention/issues/404", "first order", "always",
     "The second output, the log-sum-exp, gets a gradient that the backward ignores (stated by the maintainer).",
     ATTENTION, attention_lse, lambda x, dy, wrong: vjp(attention_lse, x, (dy[0], dy[1] * 0 if wrong else dy[1])))

# ---- first order: others -----------------------------------------------------------------------------------------

LABEL = torch.tensor([3, 0, 6, 2, 2])

def linear_loss(x, w):
    return F.cross_entropy(x @ w.mT, LABEL, reduction="none")

case("liger-968", "linkedin/Liger-Kernel/issues/968", "first order", "always",
     "With reduction none the backward multiplies all rows by one element of dy (fix: Liger-Kernel pull 680).",
     normal((5, 6), (7, 6)), linear_loss, lambda x, dy, wrong: vjp(linear_loss, x, dy[:1].expand(5) if wrong else dy))

def swiglu(gate, up):
    return F.silu(gate) * up

def swiglu_backward(x, dy, wrong):
    grads = vjp(swiglu, x, dy)
    return [F.pad(g[-1:], (0, 0, 0, len(g) - 1)) if wrong else g for g in grads]

case("triton-distributed-180", "ByteDance-Seed/Triton-distributed/issues/180", "first order", "always",
     "Each row's gradient is written to row 0; the other rows stay as allocated.", normal((4, 5), (4, 5)), swiglu,
     swiglu_backward)

def rotation(q):
    q = q / q.norm(dim=-1, keepdim=True)
    w, x, y, z = q.unbind(-1)
    return torch.stack([1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
                        2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
                        2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)], -1)

def rotation_backward(x, dy, wrong):
    n = x[0].norm(dim=-1, keepdim=True)
    u = x[0] / n
    w, a, b, c = u.unbind(-1)
    d, o = 2 * dy.unflatten(-1, (3, 3)), torch.zeros_like(w)
    parts = [[o, -c, b, c, o, -a, -b, a, o], [o, b, c, b, -2 * a, -w, c, w, -2 * a],
             [-2 * b, a, w, a, o, c, -w, c, -2 * b], [-2 * c, -w, a, w, -2 * c, b, a, b, o]]
    du = torch.stack([(d.flatten(-2) * torch.stack(p, -1)).sum(-1) for p in parts], -1)
    return du if wrong else (du - u * (u * du).sum(-1, keepdim=True)) / n

case("gsplat-153", "nerfstudio-project/gsplat/issues/153", "first order", "always",
     "Forward normalizes the quaternion; the backward leaves out the derivative of the normalization.",
     normal((5, 4)), rotation, rotation_backward)

GLOBAL_SCALE = 1.7

def covariance(m, scale):
    a = m * (GLOBAL_SCALE * scale)[:, None, :]
    return a @ a.mT

def covariance_backward(x, dy, wrong):
    dm, dscale = vjp(covariance, x, dy)
    return dm, dscale / GLOBAL_SCALE if wrong else dscale

case("gsplat-136", "nerfstudio-project/gsplat/pull/136", "first order", "always",
     "The gradient of the scales lacks the factor glob_scale.", normal((5, 3, 3), (5, 3)), covariance,
     covariance_backward)

case("warp-1062", "NVIDIA/warp/issues/1062", "first order", "always",
     "An array is written twice; the overwritten first value still gets a gradient.",
     normal((4, 5), (4, 5)), lambda a, b: torch.where(torch.ones_like(a, dtype=bool), b.sin(), 2 * a),
     lambda x, dy, wrong: (2 * dy if wrong else 0 * dy, dy * x[1].cos()))

def equal_pair():
    a, = normal((4, 5))()
    return [a, a.detach().clone().requires_grad_()]

def equal_backward(x, dy, wrong):
    da, db = dy * x[1].sin(), dy * x[0] * x[1].cos()
    return (da + db, da + db) if wrong and torch.equal(*x) else (da, db)

case("tinygrad-9597", "tinygrad/tinygrad/issues/9597", "first order", "always",
     "Two inputs with equal values are taken for one node; each gets the sum of both gradients.",
     equal_pair, lambda a, b: a * b.sin(), equal_backward)

COLUMN_INDEX = torch.tensor([[0, 2, 1, 0, 2]])

def scatter_prod(base, src):
    used = torch.ones_like(base).scatter(0, COLUMN_INDEX, src[:1])      # the index covers one row of src
    return base * used

def scatter_prod_backward(x, dy, wrong):
    base, src = x
    good = vjp(scatter_prod, x, dy)
    if wrong:
        good[1] = (dy * scatter_prod(*x)).gather(0, COLUMN_INDEX) / src  # [1, 5] / [4, 5] broadcasts
    return good

case("pytorch-188843", "pytorch/pytorch/pull/188843", "first order", "always",
     "scatter_reduce(prod): an index smaller than src broadcasts, so that unused rows of src get gradients.",
     normal((3, 5), (4, 5)), scatter_prod, scatter_prod_backward)

def dropped(x, w, seed=0):
    keep = torch.rand(x.shape[0], w.shape[1], generator=torch.Generator().manual_seed(seed)) < 0.6
    return (x @ w).tanh() * keep / 0.6

case("guided-diffusion-167", "openai/guided-diffusion/issues/167", "first order", "always",
     "The checkpoint recomputes forward with another random state, so the backward has another dropout mask.",
     normal((6, 5), (5, 4)), dropped, lambda x, dy, wrong: vjp(lambda *a: dropped(*a, seed=int(wrong)), x, dy))

ROWS = torch.tensor([4, 0, 4, 6, 1, 4])

def gather_backward(x, dy, wrong):
    if wrong:
        return dy[ROWS[torch.arange(len(x[0])) % len(ROWS)] % len(dy)]
    return torch.zeros_like(x[0]).index_add(0, ROWS, dy)

case("aidotnet-894", "ooples/AiDotNet.Tensors/pull/894", "first order", "always",
     "The backward of a gather gathers again instead of adding up repeated indices.", normal((7, 5)),
     lambda table: table[ROWS], gather_backward)

def log_density(theta, x, wrong=False):
    n = len(theta)
    q = torch.diag(theta.exp()) + 2 * torch.eye(n) - torch.eye(n).roll(1, 0) / 2 - torch.eye(n).roll(-1, 0) / 2
    return 0.5 * torch.logdet(q.detach() if wrong else q) - 0.5 * ((x @ q) * x).sum(-1)

case("gmrf.jl-193", "timweiland/GaussianMarkovRandomFields.jl/pull/193", "first order", "always",
     "The log-determinant reads a factorization that has no derivative, so its term of the gradient is missing.",
     normal((4,), (6, 4)), log_density, form="plain")

def power_inputs():
    gen = torch.Generator().manual_seed(1)
    b = 1.5 + torch.rand(4, 5, generator=gen, dtype=torch.float64)
    base = torch.rand(4, 5, generator=gen, dtype=torch.float64) + 0.5
    base[::3, ::2] = 0
    return [(b + base).requires_grad_(), b.requires_grad_()]

def power_backward(x, dy, wrong):
    a, b = x
    base = a - b
    zero = base == 0
    log = base.log() if wrong else torch.where(zero, torch.ones_like(base), base).log()
    da = dy * b * base ** (b - 1)
    return da, dy * base ** b * log - da

case("mlx-628", "ml-explore/mlx/issues/628", "edge of the domain", "always",
     "d(base^e)/de at base 0 is computed as 0 * log 0 = NaN instead of 0.",
     power_inputs, lambda a, b: (a - b) ** b, power_backward)

case("raven-153", "raven-ml/raven/issues/153", "jvp", "jvp",
     "Forward mode stores the tangent of a matmul after the rest has run, so that the tangent is zero.",
     normal((4, 5), (5, 6)), lambda a, b: a @ b,
     lambda x, v, wrong: torch.zeros(4, 6, dtype=torch.float64) if wrong else v[0] @ x[1] + x[0] @ v[1], form="jvp")

# ---- low precision: forward computes in float32 (float64 for the truth) and rounds the result --------------------

def up(*tensors):
    return [t.to(torch.promote_types(t.dtype, torch.float32)) for t in tensors]

def add_up(rows, dtype, index=None, size=1):
    """Sums rows into size slots one after the other in this precision."""
    total = torch.zeros(size, rows.shape[-1], dtype=dtype)
    for i, row in zip([0] * len(rows) if index is None else index.tolist(), rows.to(dtype)):
        total[i] += row
    return total

def low_rms_norm(x, w):
    return rms_norm(*up(x, w)).to(x.dtype)

def low_rms_backward(x, dy, wrong):
    a, w = x
    dx, _ = rms_norm_backward((a.float(), w.float()), dy.float())
    rows = dy.float() * (a.float() * (a.float().square().mean(-1, keepdim=True) + 1e-5).rsqrt())
    if wrong == "bfloat16 rounding":
        return dx.to(a.dtype), rows.sum(0).bfloat16().to(w.dtype)
    return dx.to(a.dtype), add_up(rows, torch.bfloat16 if wrong else torch.float32)[0].to(w.dtype)

case("liger-950", "linkedin/Liger-Kernel/pull/950", "low precision", "low precision",
     "The RMS norm's weight gradient is summed over the rows in bfloat16.",
     normal((600, 7), (7,), dtype=torch.bfloat16), low_rms_norm, low_rms_backward, once=True)
case("liger-1253", "linkedin/Liger-Kernel/pull/1253", "low precision", "low precision",
     "The float16 weight gradient is rounded to bfloat16 first (a group norm in the original, an RMS norm here).",
     normal((60, 7), (7,), dtype=torch.float16), low_rms_norm,
     lambda x, dy, wrong: low_rms_backward(x, dy, wrong and "bfloat16 rounding"), once=True)

TOKENS = torch.randint(0, 5, (2100,), generator=torch.Generator().manual_seed(3))
case("tt-metal-53386", "tenstorrent/tt-metal/pull/53386", "low precision", "low precision",
     "The embedding's gradient adds repeated indices in bfloat16 and loses the later ones.",
     normal((5, 3), dtype=torch.bfloat16), lambda table: table[TOKENS],
     lambda x, dy, wrong: add_up(dy, torch.bfloat16 if wrong else torch.float32, TOKENS, 5).bfloat16(), once=True)

def confident_logits():
    logits, = normal((5, 3, 7))()
    logits = logits.detach() + 7 * F.one_hot(TARGET, 7)
    return [logits.bfloat16().requires_grad_()]

def confident_backward(x, dy, wrong):
    p, one = x[0].float().softmax(-1), F.one_hot(TARGET, 7)
    if wrong:
        return ((p * dy[..., None]).bfloat16().float() - one * dy[..., None]).bfloat16()
    return ((p - one) * dy[..., None]).bfloat16()

case("liger-1329", "linkedin/Liger-Kernel/pull/1329", "low precision", "low precision",
     "softmax is rounded to bfloat16 before 1 is subtracted at the true class, where both almost cancel.",
     confident_logits, lambda x: token_loss(*up(x)),
     confident_backward, once=True)

def low_sink_inputs():
    *qkv, sink = normal((3, 40, 5), (3, 40, 5), (3, 40, 7), (3,))()
    return [t.detach().bfloat16().requires_grad_() for t in qkv] + [sink.detach().float().requires_grad_()]

def low_sink(q, k, v, sink):
    return sink_attention(*up(q, k, v, sink)).to(q.dtype)

def low_sink_backward(x, dy, wrong):
    wide = [t.float() for t in x]
    grads = [g.to(t.dtype) for g, t in zip(sink_backward(wide, dy.float(), False), x)]
    if wrong:
        q, k, v, sink = wide
        full = torch.logaddexp((q @ k.mT / math.sqrt(q.shape[-1])).logsumexp(-1, keepdim=True), sink[:, None, None])
        share = (sink[:, None, None] - full).exp()
        grads[3] = -(sink_attention(*wide) * dy.float() * share).bfloat16().float().sum((1, 2))
    return grads

case("jax-40128", "jax-ml/jax/issues/40128", "low precision", "low precision",
     "The float32 sink's gradient rounds each product to bfloat16 before a sum that cancels strongly.",
     low_sink_inputs, low_sink, low_sink_backward, once=True)

def max_backward(x, dy, wrong):
    tie = x[0] == x[0].max()
    count = tie.half().sum() if wrong else tie.float().sum()     # 70000 is infinite in float16
    return (tie * (dy / count)).to(x[0].dtype)

case("tinygrad-12296", "tinygrad/tinygrad/issues/12296", "low precision", "low precision",
     "The maximum's backward counts ties in float16; more than 65504 give infinity and a gradient of zero.",
     lambda: [torch.ones(70000, dtype=torch.float16).requires_grad_()], lambda x: x.amax(), max_backward, once=True)

# ---- causality ---------------------------------------------------------------------------------------------------

class Tiny(torch.nn.Module):
    """Embedding, one mixing step over positions, a head. mix(h) maps [B, T, C] to [B, T, C]."""

    def __init__(self, mix):
        super().__init__()
        gen = torch.Generator().manual_seed(5)
        self.embed = torch.nn.Embedding.from_pretrained(torch.randn(11, 8, generator=gen), freeze=False)
        self.head = torch.nn.Linear(8, 11)
        self.head.load_state_dict({"weight": torch.randn(11, 8, generator=gen), "bias": torch.randn(11, generator=gen)})
        self.mix = mix

    def forward(self, tokens):
        h = self.embed(tokens)
        return self.head(h + self.mix(h))

def fixed(*shape, seed=7):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) / 3

def self_attention(h, mask):
    """mask is added to the scores."""
    return attention(h @ fixed(8, 8).to(h), h @ fixed(8, 8, seed=8).to(h), h, mask.to(h))

def causal_mask(t, visible=0.0):
    return torch.full((t, t), torch.finfo(torch.float32).min).triu(1) + visible

def chunk_means(h, size):
    """Means of the complete chunks, [B, chunks, C]."""
    n = h.shape[1] // size
    return h[:, :n * size].unflatten(1, (n, size)).mean(2)

def spread(means, size, length, wrong):
    """Adds chunk values to positions: those of the position's own chunk (wrong) or of the chunk before it."""
    if not wrong:
        means = F.pad(means, (0, 0, 1, 0))
    out = means.repeat_interleave(size, 1)[:, :length]
    return F.pad(out, (0, 0, 0, length - out.shape[1]))

def block_summary(wrong):
    return Tiny(lambda h: self_attention(h + 2 * spread(chunk_means(h, 64), 64, h.shape[1], wrong),
                                         causal_mask(h.shape[1])))

def chunk_recurrence(wrong):
    def mix(h):
        means, state, states = chunk_means(h, 16), 0, []
        for c in range(means.shape[1]):
            state = (0.7 * state + means[:, c]).tanh()
            states.append(state)
        return spread(torch.stack(states, 1), 16, h.shape[1], wrong)
    return Tiny(mix)

def spectral_filter(wrong):
    def mix(h):
        t = h.shape[1]
        response = torch.complex(fixed(t + 1, 8), fixed(t + 1, 8, seed=8)) if wrong \
            else torch.fft.rfft(fixed(t, 8).to(h), n=2 * t, dim=0)
        return torch.fft.irfft(torch.fft.rfft(h, n=2 * t, dim=1) * response, n=2 * t, dim=1)[:, :t]
    return Tiny(mix)

def plain_decoder(wrong):
    return Tiny(lambda h: self_attention(h, torch.zeros(()) if wrong else causal_mask(h.shape[1])))

def window_decoder(wrong, window=9):
    def mix(h):
        mask = causal_mask(h.shape[1])
        far = torch.ones_like(mask).tril(-window)
        return self_attention(h, mask * far if wrong else mask.masked_fill(far.bool(), mask.min()))
    return Tiny(mix)

def padded_decoder(wrong):
    def mix(h):
        t = h.shape[1]
        padding = torch.zeros(t, t)
        padding[:, -5:] = torch.finfo(torch.float32).min     # the last 5 tokens are padding
        return self_attention(h, padding if wrong else torch.minimum(padding, causal_mask(t)))
    return Tiny(mix)

def chunked_scan(wrong, size=10):
    def mix(h):
        b, n = h.shape[0], h.shape[1] // size
        x = h[:, :n * size].unflatten(1, (n, size))
        a = -F.softplus(x @ fixed(8).to(h)).cumsum(2)              # log decay since the chunk began, [B, n, size]
        states = ((a[..., -1:] - a).exp()[..., None] * x).sum(2)   # [B, n, C]
        total = F.pad(a[..., -1].cumsum(1), (1, 0))                # [B, n + 1]
        states = F.pad(states, (0, 0, 1, 0))                       # states[i]: left by chunk i - 1
        decay = (total[:, :, None] - total[:, None, :]).tril().exp().tril()
        new = states * decay.sum(1)[..., None] if wrong else decay @ states
        return F.pad((a.exp()[..., None] * new[:, :-1, None]).flatten(1, 2), (0, 0, 0, h.shape[1] - n * size))
    return Tiny(mix)

def tokens(length):
    return lambda: [torch.randint(0, 11, (4, length), generator=torch.Generator().manual_seed(9))]

for _key, _link, _build, _length, _defect in (
    ("nanochat-844-1", "karpathy/nanochat/issues/844", block_summary, 70,
     "q, k and v get the mean of their complete block of 64 tokens."),
    ("nanochat-844-2", "karpathy/nanochat/issues/844", chunk_recurrence, 40,
     "A recurrence over means of 16 tokens gives each position the state of its own chunk."),
    ("nanochat-844-3", "karpathy/nanochat/issues/844", spectral_filter, 37,
     "A free complex response multiplies the padded spectrum; its negative lags wrap around."),
    ("transformers-48745", "huggingface/transformers/issues/48745", plain_decoder, 37,
     "Four decoders attend without the causal mask."),
    ("transformers-31673", "huggingface/transformers/issues/31673", window_decoder, 37,
     "The additive mask is multiplied by a window that is 0 above the diagonal, so future tokens are visible."),
    ("unsloth-zoo-963", "unslothai/unsloth-zoo/pull/963", padded_decoder, 37,
     "A padding mask that is passed replaces the causal mask instead of joining it."),
    ("transformers-47475", "huggingface/transformers/issues/47475", chunked_scan, 53,
     "The recurrence between chunks sums decays over the wrong axis, which contains later chunks."),
):
    case(_key, _link, "causality", "leak", _defect, tokens(_length), _build, form="module")

# ---- right functions ---------------------------------------------------------------------------------------------

right("right-trifast-5", "latkins/trifast/issues/5", "float32",
      "float32 attention with a bias: gradcheck's differences of step 1e-6 are rounding (multiples of 2^-27 / 1e-6).",
      normal((3, 4, 5), (3, 6, 5), (3, 6, 7), (3, 4, 6), dtype=torch.float32), attention,
      lambda x, dy, wrong: (*attention_backward(*x[:3], dy, bias=x[3]), vjp(attention, x, dy)[3]))

def with_zeros():
    x, = normal((6, 7))()
    with torch.no_grad():
        x[::2, ::3] = 0
    return [x]

right("right-jax-37821", "jax-ml/jax/issues/37821", "kink",
      "maximum(x, 0) with derivative 1/2 at 0: between the one-sided derivatives.", with_zeros,
      lambda x: x.clamp(min=0), lambda x, dy, wrong: dy * ((x[0] > 0) + 0.5 * (x[0] == 0)))
right("right-pytorch-184572", "pytorch/pytorch/issues/184572", "kink",
      "clamp(x, min=0) with derivative 1 at 0: a one-sided derivative.", with_zeros,
      lambda x: x.clamp(min=0), lambda x, dy, wrong: dy * (x[0] >= 0))

def shuffled_backward(x, dy, wrong):
    order = torch.randperm(len(dy))     # as atomic additions: another order, and another rounding, in each call
    return torch.zeros_like(x[0]).index_add(0, TOKENS[order], dy[order])

right("right-torch-xpu-ops-3343", "intel/torch-xpu-ops/issues/3343", "not deterministic",
      "float32 additions in an order that differs between calls: bits differ, the gradient is right.",
      normal((5, 3), dtype=torch.float32), lambda table: table[TOKENS], shuffled_backward)
right("right-mnemosyne-987", "HomericIntelligence/Mnemosyne/pull/987", "flat",
      "A batch norm summed over the batch, float32: the true gradient is zero, relative errors mean nothing.",
      normal((7, 5), dtype=torch.float32), lambda x: F.batch_norm(x, None, None, training=True).sum(0),
      lambda x, dy, wrong: torch.zeros_like(x[0]) + 0 * dy)

def wide_attention():
    return [(5 * t.detach()).bfloat16().requires_grad_() for t in ATTENTION()]

right("right-pytorch-163588", "pytorch/pytorch/issues/163588", "low precision",
      "bfloat16 attention of inputs times 5, computed in float32: reported as wrong, within one rounding.",
      wide_attention, lambda *x: attention(*up(*x)).to(x[0].dtype),
      lambda x, dy, wrong: [g.to(t.dtype) for g, t in zip(attention_backward(*up(*x, dy)), x)])

def single_use(wrong):
    class Once(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.tape = [x.detach().cos()]
            return x.sin()

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, dy):
            if not ctx.tape:
                raise RuntimeError("the tape of this graph was released by its first backward")
            return dy * ctx.tape.pop()
    return Once.apply

right("right-nvalchemi-64", "NVIDIA/nvalchemi-toolkit-ops/pull/64", "single use",
      "A second backward on one graph raises, even with retain_graph: single use, not a wrong gradient.",
      normal((4, 5)), single_use, form="built", plain=torch.sin)
right("right-mamba-700", "state-spaces/mamba/issues/700", "causality",
      "A causal scan or FFT convolution has other bits if later tokens change (reported; no cause given there).",
      tokens(37), lambda wrong: spectral_filter(False), form="module")
right("right-once-differentiable", "", "no second derivative",
      "The first derivative is right; the second one raises openly. No report: PyTorch documents it.",
      normal((4, 5)), lambda x: x.sin(), lambda x, dy, wrong: dy * x[0].cos(), once=True)
right("right-saturated-softmax", "", "flat",
      "float32 softmax of logits up to 100: most derivatives underflow to zero. No report.",
      lambda: [(40 * normal((4, 6))()[0].detach()).float().requires_grad_()], lambda x: x.softmax(-1),
      lambda x, dy, wrong: (lambda y: y * (dy - (y * dy).sum(-1, keepdim=True)))(x[0].softmax(-1)))
right("right-hardtanh", "", "flat", "hardtanh far from its kinks, three quarters of it flat. No report.",
      lambda: [(5 * normal((6, 7))()[0].detach()).requires_grad_()], lambda x: x.clamp(-1, 1),
      lambda x, dy, wrong: dy * (x[0].abs() < 1))
