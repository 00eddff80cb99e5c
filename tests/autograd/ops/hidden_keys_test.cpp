// Tests that a key which a query may not read changes no bit of the query's results, and that the
// query changes no bit of the key's gradients, even if they are NaN or infinite.
#include "autograd/autograd.h"
#include "tests/support/attention_calls.h"
#include "tests/support/simd_targets.h"

namespace {

using namespace heed::autograd;
using namespace heed::autograd::testing;
using Int = Index;

// The operands of an attention call and of its backward pass, in the order of Operand. Also its
// results: the output, and the gradients of q, k and v.
using FourTensors = std::array<Tensor, 4>;
enum Operand { kQuery, kKey, kValue, kGradOut };
enum class Way { kFused, kComposite, kGraph };

struct MaskedCall {
  std::string name;
  Int tq, tk;
  AttentionOptions options;
  bool composite = false;  // true if the kernel does not support the options

  // Returns bool8 [tq, tk]: true where a query may read a key or, if `values` is true, a value.
  Tensor readable(bool values) const {
    KeepMask keep = options.keep & KeepMask(full({1, 1, tq, tk}, 1, bool8));
    if (options.causal) keep = keep & KeepMask::causal(tq, tk);
    if (options.window > 0) keep = keep & KeepMask::sliding_window(tq, tk, options.window);
    if (options.bias.defined()) keep = keep & KeepMask(ne(options.bias.tensor(), -kInf));
    const Tensor may = select(reshape(keep.tensor(), {-1, tq, tk}), 0, 0);
    if (!values || options.fully_masked != FullyMasked::kUniform) return may;
    return logical_or(may, logical_not(any(may, {1}, true)));
  }
};

std::vector<MaskedCall> masked_calls(Int t, DType dtype) {
  Generator g(1);
  const KeepMask keep(bernoulli(0.5, {t, t}, g));
  const Tensor bias = masked_fill(randn({t, t}, dtype, g), bernoulli(0.4, {t, t}, g), -kInf);
  static const AttentionHooks hooks{.on_raw_scores = [](const Tensor& x) { return tanh(x); }};
  return {{"causal", t, t, {.causal = true}},
          {"window", t, t, {.window = 2}},
          {"causal window", t, t, {.causal = true, .window = 3}},
          {"keep", t, t, {.keep = keep}},
          {"causal keep", t, t, {.causal = true, .keep = keep}},
          {"padding", t, t, {.keep = KeepMask::padding(std::vector<Int>{t / 2}, t)}},
          {"ALiBi", t, t, {.causal = true, .bias = ScoreBias::alibi(2, t, t, dtype)}},
          {"bias", t, t, {.bias = ScoreBias(bias)}},
          {"dropout", t, t, {.causal = true, .dropout = 0.3}},
          {"few queries", 3, t, {.causal = true}},
          {"one query", 1, t, {.causal = true, .window = 2}},
          {"soft cap", t, t, {.soft_cap = 2, .causal = true}, true},
          {"hook", t, t, {.causal = true, .hooks = &hooks}, true},
          {"uniform",
           t,
           t,
           {.keep = keep & !KeepMask(eq(unsqueeze(arange(t), 1), 2.0)),
            .fully_masked = FullyMasked::kUniform},
           true}};
}

FourTensors run(const MaskedCall& m, Way way, const FourTensors& operands,
                RecordedTensors* seen = nullptr) {
  const auto leaf = [&](Operand x) { return operands[x].detach().requires_grad_(); };
  const Tensor q = leaf(kQuery), k = leaf(kKey), v = leaf(kValue);
  Generator key(3);
  AttentionOptions o = m.options;
  o.generator = &key;
  if (seen) o.hooks = &seen->hooks;
  const Tensor y =
      way == Way::kComposite ? attention_with_weights(q, k, v, o).output : attention(q, k, v, o);
  const auto d =
      grad(y, {q, k, v}, {.grad_output = operands[kGradOut], .create_graph = way == Way::kGraph});
  return {y.detach(), d[0].detach(), d[1].detach(), d[2].detach()};
}

// Sets element 1 of row `at` of an operand of head 1 to `bad`, and compares the results that may
// not change with `want`. Returns true if the other results are not finite.
bool compare_rows(const MaskedCall& m, Way way, FourTensors operands, const FourTensors& want,
                  Operand where, Int at, double bad) {
  CAPTURE(m.name, int(way), int(where), at, bad, operands[0].dtype());
  operands[where] = operands[where] * 1.0;
  fill_(slice(select(select(operands[where], 1, 1), 1, at), 1, 1, 2), bad);
  const FourTensors got = run(m, way, operands);
  const Tensor may = m.readable(false), may_values = m.readable(true);
  const bool by_key = where == kKey || where == kValue;
  // The queries [tq, 1] that read the value that is not finite.
  const Tensor queries = by_key ? slice(m.readable(where == kValue), 1, at, at + 1)
                                : eq(unsqueeze(arange(m.tq), 1), double(at));
  const auto keys = [&](const Tensor& x) { return mT(any(logical_and(x, queries), {0}, true)); };
  const Tensor nothing = full({1, 1}, 0, bool8), head = eq(reshape(arange(2), {1, 2, 1, 1}), 1.0);
  const Tensor touched[] = {where == kGradOut ? nothing : queries, queries, keys(may),
                            keys(may_values)};
  for (std::size_t k = 0; k < got.size(); ++k) {
    CAPTURE(k);
    const Tensor gone = logical_and(touched[k], head);
    CHECK(same_bits(masked_fill(got[k], gone, 0), masked_fill(want[k], gone, 0)));
  }
  // An infinite query or key may have weight 0 and then changes nothing.
  if (!std::isnan(bad) && (where == kQuery || where == kKey)) return false;
  const Tensor here = where == kGradOut ? got[3] : got[0];
  Tensor read = where == kGradOut ? touched[3] : queries;
  if (where == kQuery) read = logical_and(queries, any(may, {1}, true));
  const Tensor finite = logical_and(all(isfinite(here), {-1}, true), logical_and(read, head));
  CHECK(any(finite).item() == 0);
  return any(read).item<bool>();
}

// Compares what observers receive in rows of queries that do not read the value.
void compare_observers(const MaskedCall& m, Way way, FourTensors operands, Operand where) {
  CAPTURE(m.name, int(way), int(where));
  RecordedTensors want, got;
  run(m, way, operands, &want);
  const Int at = m.tk / 2;
  operands[where] = operands[where] * 1.0;
  fill_(slice(operands[where], 2, at, at + 1), std::nan(""));
  run(m, way, operands, &got);
  const Tensor queries = slice(m.readable(where == kValue), 1, at, at + 1);
  for (std::size_t i = 0; i < std::size(RecordedTensors::kNames); ++i) {
    CAPTURE(RecordedTensors::kNames[i]);
    // A product with a hidden key or value is 0 if it is not finite; its gradient may be -0.
    Tensor gone = queries;
    if (i == 0 || i > 4) gone = logical_or(queries, eq(arange(m.tk), double(at)));
    CHECK(same_bits(masked_fill(got.x[i], gone, 0), masked_fill(want.x[i], gone, 0)));
    const Tensor zero = masked_fill(got.x[i], queries, 0);
    CHECK(any(ne(zero, zero)).item() == 0);
  }
}

TEST_CASE("NaN and infinity stay where they are read") {
  Int spread = 0;
  const auto check_all = [&](Int t, DType dtype, bool composite) {
    for (const MaskedCall& m : masked_calls(t, dtype)) {
      Generator g(t);
      const auto draw = [&](Int rows, Int width) { return randn({1, 2, rows, width}, dtype, g); };
      const FourTensors operands{draw(m.tq, 5), draw(m.tk, 5), draw(m.tk, 16), draw(m.tq, 16)};
      for (const Way way : {Way::kFused, Way::kComposite, Way::kGraph}) {
        if (composite != (way != Way::kFused || m.composite)) continue;
        const FourTensors want = run(m, way, operands);
        for (const Operand where : {kQuery, kKey, kValue, kGradOut}) {
          const Int rows = operands[where].size(2);
          spread += compare_rows(m, way, operands, want, where, rows / 2, std::nan(""));
          if (t > 10) continue;  // the other calls would take too long
          spread += compare_rows(m, way, operands, want, where, rows - 1, std::nan(""));
          for (const double bad : {kInf, -kInf})
            spread += compare_rows(m, way, operands, want, where, rows / 2, bad);
        }
        if (t < 10 && !m.options.hooks)
          for (const Operand where : {kKey, kValue}) compare_observers(m, way, operands, where);
      }
    }
  };
  for (const DType dtype : {float32, float64}) {
    for (const Int t : {5, 53}) check_all(t, dtype, true);
    for_each_simd_target([&] {
      for (const Int t : {5, 53, 400})
        if (t < 100 || !kSanitized) check_all(t, dtype, false);
    });
  }
  CHECK(spread > 500);
}

}  // namespace
