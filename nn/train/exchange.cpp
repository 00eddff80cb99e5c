#include "nn/train/exchange.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "autograd/base/error.h"
#include "autograd/base/parallel.h"
#include "autograd/kernels/kernels.h"
#include "autograd/ops/ops.h"

namespace heed::nn {

using namespace autograd;

namespace {

constexpr std::size_t kLine = 64;  // the numbers begin at a multiple of so many bytes
constexpr std::int64_t kAtOnce = 1 << 16;

struct Header {
  std::uint64_t word;
  double loss;
};

std::size_t bytes_in(const Tensor& x) { return std::size_t(x.numel() * element_size(x.dtype())); }

// One number with each rank: combine(other's) after each round is what goes into the next one.
template <class F>
void each_round(Exchange& ranks, std::uint64_t& number, F combine) {
  for (int bit = 1; bit < ranks.size; bit *= 2) {
    std::uint64_t other = 0;
    const std::uint64_t sent = number;
    ranks.swap(ranks.rank ^ bit, std::as_bytes(std::span(&sent, 1)),
               std::as_writable_bytes(std::span(&other, 1)));
    combine(other);
  }
}

}  // namespace

std::uint64_t or_words(Exchange& ranks, std::uint64_t word) {
  each_round(ranks, word, [&](std::uint64_t other) { word |= other; });
  return word;
}

std::uint64_t compare_numbers(Exchange& ranks, std::uint64_t number) {
  std::uint64_t word = kNothing;
  each_round(ranks, number, [&](std::uint64_t other) {
    if (other != number) word = kUnlike;
  });
  return or_words(ranks, word);
}

RankSum::RankSum(Exchange& ranks, const std::vector<NamedTensor>& parameters)
    : ranks_(ranks), parameters_(parameters) {
  check<ValueError>(std::has_single_bit(unsigned(ranks.size)), "RankSum",
                    "needs a power of two of ranks, got ", ranks.size);
  numbers_ = (sizeof(Header) + parameters_.size() + kLine - 1) / kLine * kLine;
  std::size_t bytes = numbers_;
  for (const NamedTensor& p : parameters_) {
    check<DTypeError>(p.tensor.dtype() == parameters_[0].tensor.dtype(), "RankSum",
                      "needs parameters of one dtype");
    bytes += bytes_in(p.tensor);
  }
  mine_.resize(bytes), theirs_.resize(bytes);
}

void RankSum::pack(const ShardGradients& part) {
  std::size_t at = numbers_;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& gradient = part.gradients[i];
    mine_[sizeof(Header) + i] = std::byte(gradient.defined());
    const std::size_t bytes = bytes_in(parameters_[i].tensor);
    if (gradient.defined())
      dispatch_any(gradient.dtype(), [&]<class T> {
        std::memcpy(mine_.data() + at, contiguous(gradient).data<T>(), bytes);
      });
    at += bytes;
  }
}

void RankSum::unpack(ShardGradients& part) const {
  std::size_t at = numbers_;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& p = parameters_[i].tensor;
    if (part.gradients[i].defined()) {
      part.gradients[i] = empty_like(p.detach());
      dispatch_any(p.dtype(), [&]<class T> {
        std::memcpy(part.gradients[i].mutable_data<T>(), mine_.data() + at, bytes_in(p));
      });
    }
    at += bytes_in(p);
  }
}

std::uint64_t RankSum::add(ShardGradients& part, std::uint64_t word) {
  const NoGrad guard;
  Header header{word | (ranks_.stop_asked() ? kStop : kNothing), part.loss};
  if (!(word & (kLeft | kTrouble))) pack(part);
  for (int bit = 1; bit < ranks_.size; bit *= 2) {
    std::memcpy(mine_.data(), &header, sizeof header);
    ranks_.swap(ranks_.rank ^ bit, mine_, theirs_);
    Header other{};
    std::memcpy(&other, theirs_.data(), sizeof other);
    header.word |= other.word;
    if (header.word & (kLeft | kTrouble)) continue;
    const auto which = [&](const std::vector<std::byte>& x) {
      return std::span(x).subspan(sizeof header, numbers_ - sizeof header);
    };
    check<ValueError>(std::ranges::equal(which(mine_), which(theirs_)), "RankSum",
                      "other parameters have gradients at rank ", ranks_.rank ^ bit);
    // a + b has the bits of b + a, so both of a pair get those of the tree.
    header.loss += other.loss;
    dispatch_floating(parameters_[0].tensor.dtype(), "RankSum", [&]<class T> {
      auto* to = reinterpret_cast<T*>(mine_.data() + numbers_);
      const auto* from = reinterpret_cast<const T*>(theirs_.data() + numbers_);
      const auto n = std::int64_t((mine_.size() - numbers_) / sizeof(T));
      parallel_for(n, kAtOnce, [&](std::int64_t begin, std::int64_t end) {
        kernels::add_into(to + begin, from + begin, end - begin);
      });
    });
  }
  if (header.word & (kLeft | kTrouble)) return header.word;
  part.loss = header.loss;
  unpack(part);
  return header.word;
}

}  // namespace heed::nn
