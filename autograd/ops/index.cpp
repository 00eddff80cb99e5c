// Ops that read or add at places given by int64 indices. The derivative of gather is scatter_add
// and vice versa. The derivative of index_select is index_add and vice versa. Every index is
// checked before the first write. If a place is repeated, its values are added in the order of the
// index, so results do not depend on the number of threads. Sums of float32 are accumulated in
// float64.
#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "autograd/base/strided.h"
#include "autograd/graph/graph.h"
#include "autograd/kernels/kernels.h"
#include "autograd/ops/operands.h"
#include "autograd/ops/ops.h"
#include "autograd/tensor/copy.h"
#include "autograd/tensor/create.h"

namespace heed::autograd {
namespace {

using kernels::kColumnBlock;

Samples gather_samples(SampleGen& g);
Samples scatter_add_samples(SampleGen& g);
Samples index_select_samples(SampleGen& g);
Samples index_add_samples(SampleGen& g);
const Op kGather({.name = "gather",
                  .saves = Saves::kNothing,
                  .samples = gather_samples,
                  .no_sizes = needs_axis()});

const Op kScatterAdd({.name = "scatter_add",
                      .saves = Saves::kNothing,
                      .samples = scatter_add_samples,
                      .no_sizes = needs_axis()});

const Op kIndexSelect({.name = "index_select",
                       .saves = Saves::kNothing,
                       .samples = index_select_samples,
                       .no_sizes = needs_axis()});

const Op kIndexAdd({.name = "index_add",
                    .saves = Saves::kNothing,
                    .samples = index_add_samples,
                    .no_sizes = needs_axis()});

// Returns the place of the first value, in row-major order, that is outside [0, n).
std::optional<Dims> first_outside(const Tensor& index, Index n) {
  const std::int64_t* in = index.data<std::int64_t>();
  Index at_element = 0, found = -1;
  StridedLoop<1>(index.shape(), {&index.strides()})
      .run([&](const auto& at, Index count, const auto& s) {
        for (Index i = 0; found < 0 && i < count; ++i, ++at_element)
          if (const Index v = in[at[0] + i * s[0]]; v < 0 || v >= n) found = at_element;
      });
  if (found < 0) return std::nullopt;
  return unravel(found, index.shape());
}

Index value_at(const Tensor& index, const Dims& place) {
  return index.data<std::int64_t>()[index.layout().offset_of(place)];
}

void check_index(std::string_view op, const Tensor& index, const Shape& shape, int axis) {
  check<DTypeError>(index.dtype() == int64, op, "needs an int64 index, got ", index.dtype());
  if (const auto place = first_outside(index, shape[axis]))
    fail<ValueError>(op, "index ", value_at(index, *place), " at ", *place,
                     " is out of range for axis ", axis, " of ", shape);
}

// Checks the rule of gather: the index has x's rank and, on every other axis, at most x's size.
void check_places(std::string_view op, const Tensor& x, int axis, const Tensor& index) {
  bool fits = index.rank() == x.rank();
  for (int i = 0; fits && i < x.rank(); ++i) fits = i == axis || index.shape()[i] <= x.shape()[i];
  check(fits, op, "the index needs ", x.rank(), " axes, and only axis ", axis,
        " may be larger than that of x; got x ", x.shape(), " and index ", index.shape());
  check_index(op, index, x.shape(), axis);
}

void check_slices(std::string_view op, const Tensor& x, int axis, const Tensor& index) {
  check(index.rank() == 1, op, "needs an index of rank 1, got ", index.shape());
  check_index(op, index, x.shape(), axis);
}

// The positions k of an index, grouped by their value p = index[k]. Group p is of[first[p]] to
// of[first[p + 1] - 1], in increasing order.
struct Positions {
  PoolVector<Index> first, of;

  Positions(const Tensor& index, Index places) {
    first.resize(std::size_t(places) + 2), of.resize(std::size_t(index.numel()));
    const std::int64_t *in = index.data<std::int64_t>(), stride = index.strides()[0];
    const auto place = [&](std::size_t k) { return std::size_t(in[Index(k) * stride]); };
    for (std::size_t k = 0; k < of.size(); ++k) ++first[place(k) + 2];
    for (std::size_t p = 2; p < first.size(); ++p) first[p] += first[p - 1];
    for (std::size_t k = 0; k < of.size(); ++k) of[std::size_t(first[place(k) + 1]++)] = Index(k);
  }
  std::span<const Index> at(Index place) const {
    const auto p = std::size_t(place);
    return {of.data() + first[p], of.data() + first[p + 1]};
  }
};

// Returns the slices of x along axis a at the given indices. The caller has checked the indices.
Tensor slices_at(const Tensor& x, int a, const Tensor& index) {
  const Index n = index.numel(), stride = index.strides()[0];
  Tensor y = empty(x.shape().with(a, n), x.dtype());
  const Strides to = y.strides().without(a), from = x.strides().without(a);
  const StridedLoop<2> one_slice(x.shape().without(a), {&to, &from});
  const Index work = one_slice.outer() * one_slice.inner();
  const Index y_step = y.strides()[a], x_step = x.strides()[a];
  const std::int64_t* places = index.data<std::int64_t>();
  const detail::Elements out(y), in(x);
  parallel_for(n, kGrain / std::max<Index>(1, work), [&](Index b, Index e) {
    for (Index k = b; k < e; ++k)
      one_slice.run([&](const auto& at, Index count, const auto& s) {
        detail::copy_elements(out.at(k * y_step + at[0]), s[0],
                              in.at(places[k * stride] * x_step + at[1]), s[1], count, in.size);
      });
  });
  return record(kIndexSelect, {x}, y,
                [a, ids = Captured(kIndexSelect, index), full = x.shape()](const Vjp& v) -> Grads {
                  return {index_add(zeros(full, v.grad.dtype()), a, ids.get(), v.grad)};
                });
}

}  // namespace

Tensor gather(const Tensor& x, Index axis, const Tensor& index) {
  const int a = normalized_axis(kGather, x.shape(), axis);
  check_places(kGather, x, a, index);
  Tensor y = empty(index.shape(), x.dtype());
  const Index step = x.strides()[a];
  const Strides base = x.strides().with(a, 0);  // stride 0, because the index selects along axis a
  const std::int64_t* places = index.data<std::int64_t>();
  dispatch_any(x.dtype(), [&]<class T> {
    T* out = y.mutable_data<T>();
    const T* in = x.data<T>();
    for_each_run(StridedLoop<3>(index.shape(), {&y.strides(), &index.strides(), &base}),
                 [&](const auto& at, Index n, const auto& s) {
                   for (Index i = 0; i < n; ++i)
                     out[at[0] + i * s[0]] = in[at[2] + i * s[2] + places[at[1] + i * s[1]] * step];
                 });
  });
  return record(kGather, {x}, y,
                [a, ids = Captured(kGather, index), shape = x.shape()](const Vjp& v) -> Grads {
                  return {scatter_add(zeros(shape, v.grad.dtype()), a, ids.get(), v.grad)};
                });
}

Tensor scatter_add(const Tensor& x_in, Index axis, const Tensor& index, const Tensor& src_in) {
  Tensor x = x_in, src = src_in;
  const DType dtype = detail::unify(kScatterAdd, x, src);
  const int a = normalized_axis(kScatterAdd, x.shape(), axis);
  check_places(kScatterAdd, x, a, index);
  check(src.shape() == index.shape(), kScatterAdd, "needs src of the index's shape ", index.shape(),
        ", got ", src.shape());
  Tensor y = detached_copy(x);
  const Index step = y.strides()[a];
  const Strides base = y.strides().with(a, 0);
  const std::int64_t* places = index.data<std::int64_t>();
  dispatch_numeric(dtype, kScatterAdd, [&]<class T> {
    using Acc = kernels::Accumulator<T>;
    T* out = y.mutable_data<T>();
    const T* in = src.data<T>();
    const auto for_each = [&](auto f) {  // calls f(place in y, value to add)
      StridedLoop<3>(index.shape(), {&base, &index.strides(), &src.strides()})
          .run([&](const auto& at, Index n, const auto& s) {
            for (Index i = 0; i < n; ++i)
              f(at[0] + i * s[0] + places[at[1] + i * s[1]] * step, in[at[2] + i * s[2]]);
          });
    };
    if constexpr (sizeof(T) == sizeof(Acc)) {
      for_each([&](Index to, T value) { out[to] = T(Acc(out[to]) + Acc(value)); });
    } else {
      // Only the sums of the places in the index are written, so few pages of memory are used.
      const Tensor wide = empty(y.shape(), float64);
      double* sums = wide.mutable_data<double>();
      for_each([&](Index to, T) { sums[to] = double(out[to]); });
      for_each([&](Index to, T value) { sums[to] += double(value); });
      for_each([&](Index to, T) { out[to] = T(sums[to]); });
    }
  });
  return record(kScatterAdd, {x_in, src_in}, y,
                [a, ids = Captured(kScatterAdd, index)](const Vjp& v) -> Grads {
                  return {v.grad, v.needs(1) ? gather(v.grad, a, ids.get()) : Tensor()};
                });
}

Tensor index_select(const Tensor& x, Index axis, const Tensor& index) {
  const int a = normalized_axis(kIndexSelect, x.shape(), axis);
  check_slices(kIndexSelect, x, a, index);
  return slices_at(x, a, index);
}

Tensor index_add(const Tensor& x_in, Index axis, const Tensor& index, const Tensor& src_in) {
  Tensor x = x_in, src = src_in;
  const DType dtype = detail::unify(kIndexAdd, x, src);
  const int a = normalized_axis(kIndexAdd, x.shape(), axis);
  check_slices(kIndexAdd, x, a, index);
  const Index n = index.numel();
  const Shape needed = x.shape().with(a, n);
  check(src.shape() == needed, kIndexAdd, "needs src ", needed, " for x ", x.shape(), " and ", n,
        " indices of axis ", a, ", got ", src.shape());
  Tensor y = detached_copy(x);
  const Strides to = y.strides().without(a), from = src.strides().without(a);
  const StridedLoop<2> one_slice(x.shape().without(a), {&to, &from});
  const Index places = x.size(a), y_step = y.strides()[a], src_step = src.strides()[a];
  const Positions positions(index, places);
  dispatch_numeric(dtype, kIndexAdd, [&]<class T> {
    using Acc = kernels::Accumulator<T>;
    T* out = y.mutable_data<T>();
    const T* in = src.data<T>();
    // Only one thread writes a block of columns of a place, and it adds in the order of the index.
    const Index columns = one_slice.inner(), blocks = (columns + kColumnBlock - 1) / kColumnBlock;
    const Index work = src.numel() / std::max<Index>(1, places * blocks);
    parallel_for(places * blocks, kGrain / (work + 1), [&](Index begin, Index end) {
      std::array<Acc, kColumnBlock> block;
      for (Index b = begin; b < end; ++b) {
        const auto rows = positions.at(b / blocks);
        if (rows.empty()) continue;
        const Index c = b % blocks * kColumnBlock, width = std::min(kColumnBlock, columns - c);
        one_slice.run([&](const auto& at, Index, const auto& s) {
          T* sums = out + b / blocks * y_step + at[0] + c * s[0];
          const T* values = in + at[1] + c * s[1];
          for (Index i = 0; i < width; ++i) block[std::size_t(i)] = Acc(sums[i * s[0]]);
          if (s[1] == 1)
            kernels::add_columns(block.data(), values, std::ssize(rows), src_step, width,
                                 rows.data());
          else
            for (Index i = 0; i < width; ++i)
              for (const Index k : rows)
                block[std::size_t(i)] += Acc(values[k * src_step + i * s[1]]);
          for (Index i = 0; i < width; ++i) sums[i * s[0]] = T(block[std::size_t(i)]);
        });
      }
    });
  });
  return record(kIndexAdd, {x_in, src_in}, y,
                [a, ids = Captured(kIndexAdd, index)](const Vjp& v) -> Grads {
                  return {v.grad, v.needs(1) ? index_select(v.grad, a, ids.get()) : Tensor()};
                });
}

Tensor embedding(const Tensor& weight, const Tensor& ids) {
  check(weight.rank() == 2, "embedding", "needs a weight [vocabulary, D], got ", weight.shape());
  check<DTypeError>(ids.dtype() == int64, "embedding", "needs int64 ids, got ", ids.dtype());
  if (const auto place = first_outside(ids, weight.size(0)))
    fail<ValueError>("embedding", "id ", value_at(ids, *place), " at ", *place,
                     " is outside the vocabulary of ", weight.size(0), " rows");
  return reshape(slices_at(weight, 0, reshape(ids, {ids.numel()})),
                 ids.shape().joined(weight.size(1)));
}

namespace {

Samples gather_samples(SampleGen& g) {
  const Tensor columns = g.integers(0, 3, {2, 4}), rows = g.integers(0, 2, {3, 3});
  return {{"columns", [columns](Args t) { return gather(t[0], 1, columns); }, {g.normal({2, 3})}},
          {"rows, repeated", [rows](Args t) { return gather(t[0], 0, rows); }, {g.normal({2, 3})}},
          {"of a product",
           [columns](Args t) { return gather(t[0] * t[0], -1, columns); },
           {g.normal({2, 3})}},
          {"size 0",
           [](Args t) {
             return gather(t[0], 0, zeros({0, 2}, int64));
           },
           {g.normal({3, 2})}}};
}

Samples scatter_add_samples(SampleGen& g) {
  const Tensor columns = g.integers(0, 3, {2, 4}), rows = g.integers(0, 2, {3, 3});
  return {{"columns",
           [columns](Args t) { return scatter_add(t[0], 1, columns, t[1]); },
           {g.normal({2, 3}), g.normal({2, 4})}},
          {"rows, repeated",
           [rows](Args t) { return scatter_add(t[0], 0, rows, t[1] * t[1]); },
           {g.normal({2, 3}), g.normal({3, 3})}}};
}

Samples index_select_samples(SampleGen& g) {
  const Tensor index = g.integers(0, 3, {5});
  return {{"rows", [index](Args t) { return index_select(t[0], 0, index); }, {g.normal({3, 2})}},
          {"middle axis",
           [index](Args t) { return index_select(t[0], 1, index); },
           {g.normal({2, 3, 2})}},
          {"of a product",
           [index](Args t) { return index_select(t[0] * t[0], -1, index); },
           {g.normal({2, 3})}},
          {"size 0",
           [](Args t) { return index_select(t[0], 0, zeros({0}, int64)); },
           {g.normal({3, 2})}}};
}

Samples index_add_samples(SampleGen& g) {
  const Tensor index = g.integers(0, 3, {5});
  return {{"rows",
           [index](Args t) { return index_add(t[0], 0, index, t[1]); },
           {g.normal({3, 2}), g.normal({5, 2})}},
          {"last axis",
           [index](Args t) { return index_add(t[0], -1, index, t[1] * t[1]); },
           {g.normal({2, 3}), g.normal({2, 5})}}};
}

const Check kEmbedding(
    "embedding",
    [](SampleGen& g) -> Samples {
      const Tensor ids = g.integers(0, 5, {2, 4});
      return {{"tokens", [ids](Args t) { return embedding(t[0], ids); }, {g.normal({5, 3})}},
              {"one id",
               [](Args t) { return embedding(t[0], full({}, 1, int64)); },
               {g.normal({2, 3})}}};
    },
    needs_axis());

}  // namespace

}  // namespace heed::autograd
