#include "nn/layers/kv_cache.h"

#include "autograd/graph/graph.h"
#include "autograd/graph/inplace.h"
#include "autograd/ops/ops.h"

namespace heed::nn {

using namespace autograd;

KVCache::KVCache(const Options& o) : options_(o) {
  if (options_.d_value == 0) options_.d_value = o.d_head;
  const auto buffer = [&](Index d) { return empty({o.batch, o.heads, o.capacity, d}, o.dtype); };
  for (Index i = 0; i < o.layers; ++i)
    layers_.push_back({buffer(o.d_head), buffer(options_.d_value)});
}

KVCache::KV KVCache::append(Index layer, const Tensor& k, const Tensor& v) {
  const Options& o = options_;
  check<ValueError>(!grad_enabled(), "KVCache",
                    "needs NoGrad: cached keys and values have no gradient history; run the "
                    "forward pass under NoGrad");
  check<ValueError>(layer >= 0 && layer < o.layers, "KVCache", "has layers 0 to ", o.layers - 1,
                    ", got layer ", layer);
  const Index n = k.rank() == 4 ? k.size(2) : 0;
  check(k.shape() == Shape{o.batch, o.heads, n, o.d_head} &&
            v.shape() == Shape{o.batch, o.heads, n, o.d_value},
        "KVCache", "needs k [", o.batch, ", ", o.heads, ", n, ", o.d_head, "] and v [", o.batch,
        ", ", o.heads, ", n, ", o.d_value, "], got ", k.shape(), " and ", v.shape());
  for (const Tensor* x : {&k, &v})
    check<DTypeError>(x->dtype() == o.dtype, "KVCache", "needs ", o.dtype, ", got ", x->dtype());
  const Index end = length_ + n;
  check<ValueError>(end <= o.capacity, "KVCache", "has capacity ", o.capacity, ", got ", length_,
                    " cached and ", n, " new tokens; call clear() to start again");
  const auto extended = [&](const Tensor& memory, const Tensor& added) {
    copy_(slice(memory, 2, length_, end), added);
    return slice(memory, 2, 0, end);
  };
  const KV& kv = layers_[std::size_t(layer)];
  end_ = end;
  return {extended(kv.k, k), extended(kv.v, v)};
}

}  // namespace heed::nn
