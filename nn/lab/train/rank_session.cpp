#include "nn/lab/train/rank_session.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "autograd/base/error.h"
#include "autograd/base/parallel.h"
#include "autograd/kernels/kernels.h"
#include "autograd/ops/ops.h"
#include "nn/io/crc32c.h"
#include "nn/lab/train/build.h"
#include "nn/lab/train/trainer.h"

namespace heed::lab {

using namespace autograd;

namespace {

constexpr std::size_t kLine = 64;  // alignment in bytes of the gradients in the buffers
constexpr Index kGrain = 1 << 16;  // numbers that a thread adds at a time

struct Header {
  std::uint64_t status;
  double loss;
};

std::size_t bytes_in(const Tensor& x) { return std::size_t(x.numel() * element_size(x.dtype())); }

// Exchanges `number` with one other rank in each of log2(N) rounds, for N ranks. After a round,
// combine(received) may change `number`, which is sent in the next round, so that information from
// each rank reaches all ranks.
template <class F>
void each_round(RankTransport& ranks, std::uint64_t& number, F combine) {
  for (int bit = 1; bit < ranks.size; bit *= 2) {
    std::uint64_t other = 0;
    const std::uint64_t sent = number;
    ranks.swap(ranks.rank ^ bit, std::as_bytes(std::span(&sent, 1)),
               std::as_writable_bytes(std::span(&other, 1)));
    combine(other);
  }
}

}  // namespace

RankSession::RankSession(RankTransport& transport) : transport_(transport) {
  check_size(transport.size);
}

void RankSession::check_size(int ranks, Index shards) {
  check<ValueError>(std::has_single_bit(unsigned(ranks)), "`shards`", ranks,
                    " processes cannot share the shards of a batch; the number of processes must "
                    "be a power of two and at most the number of shards");
  check<ValueError>(shards == 0 || ranks <= shards, "`shards`", ranks, " processes cannot share ",
                    shards, shards == 1 ? " shard" : " shards", "; start at most ", shards,
                    ", or begin a run with a larger `shards`");
}

std::uint64_t RankSession::sync_status(std::uint64_t mine) {
  each_round(transport_, mine, [&](std::uint64_t other) { mine |= other; });
  return mine;
}

bool RankSession::all_equal(std::string_view text) {
  Crc32c sum;
  sum.add(std::as_bytes(std::span(text)));
  std::uint64_t number = sum.value(), status = kReady;
  each_round(transport_, number, [&](std::uint64_t other) {
    if (other != number) status = kDiffers;
  });
  return sync_status(status) == kReady;
}

void RankSession::join_equal(Trainer& t, const std::string& build) {
  const std::string target = simd_target_text();
  ended_ = true;  // stays true if one of the checks below throws
  check<RanksDiffer>(all_equal(build + compiler_text() + target), "simd",
                     "the processes have different SIMD targets or different builds of heed; rank ",
                     rank(), " has ", build, " on ", target,
                     "; choose a target that all machines have, such as avx2");
  std::string run = to_toml(t.config()) + std::to_string(hash_of(t.snapshot()));
  for (const auto& [key, value] : t.task->info().data) run += "\n" + key + " " + value;
  check<RanksDiffer>(all_equal(run), "run",
                     "the processes have different runs: a text or a run directory has different "
                     "contents under the same name; put texts and resumed runs into a directory "
                     "that all machines share");
  ended_ = false;
  t.join(*this);
}

void RankSession::run_as_root(Trainer& trainer, const std::string& build) {
  // Before the workers start, so that only the root rank reports the error.
  check_size(size(), trainer.config().shards);
  sync_status(kReady);
  join_equal(trainer, build);
  trainer_ = &trainer;
}

void RankSession::leave() {
  ShardGradients none;
  if (!trainer_)
    sync_status(kLeft);
  else if (!ended_ && trainer_->steps_done < trainer_->config().steps)
    sum_gradients(none, kLeft);
  ended_ = true;
}

std::uint64_t RankSession::run_as_worker(const std::function<Trainer()>& make,
                                         const std::string& build) {
  std::uint64_t status = sync_status(kReady);
  try {
    if (status == kReady) {
      Trainer t = make();
      join_equal(t, build);
      while (t.steps_done < t.config().steps && status_ == kReady) t.step();
      status = status_;
    }
  } catch (const NumericError&) {  // the root rank throws the same error and reports it
    status = kNotFinite;
  } catch (const RanksDiffer&) {
    status = kDiffers;
  }
  ended_ = true;
  return status;
}

void RankSession::join(const std::vector<NamedTensor>& parameters) {
  parameters_ = parameters;
  gradients_begin_ = (sizeof(Header) + parameters_.size() + kLine - 1) / kLine * kLine;
  std::size_t bytes = gradients_begin_;
  for (const NamedTensor& p : parameters_) bytes += bytes_in(p.tensor);  // all of one dtype
  mine_.resize(bytes), theirs_.resize(bytes);
}

// Calls f(gradient, place, bytes) for each gradient of `sum` and its place in mine_. Writes into
// mine_ which parameters have a gradient.
template <class F>
void RankSession::for_each_gradient(const ShardGradients& sum, F f) {
  std::byte* place = mine_.data() + gradients_begin_;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& gradient = sum.gradients[i];
    mine_[sizeof(Header) + i] = std::byte(gradient.defined());
    const std::size_t bytes = bytes_in(parameters_[i].tensor);
    if (gradient.defined())
      dispatch_any(gradient.dtype(), [&]<class T> { f(gradient.mutable_data<T>(), place, bytes); });
    place += bytes;
  }
}

std::uint64_t RankSession::sum_gradients(ShardGradients& sum, std::uint64_t status) {
  const NoGrad guard;
  Header header{status | (transport_.stop_requested() ? kStop : kReady), sum.loss};
  if (!(status & kLeft))
    for_each_gradient(sum, [](const void* gradient, std::byte* place, std::size_t bytes) {
      std::memcpy(place, gradient, bytes);
    });
  for (int bit = 1; bit < transport_.size; bit *= 2) {
    std::memcpy(mine_.data(), &header, sizeof header);
    transport_.swap(transport_.rank ^ bit, mine_, theirs_);
    Header other{};
    std::memcpy(&other, theirs_.data(), sizeof other);
    header.status |= other.status;
    if (header.status & kLeft) continue;
    const auto which = [&](const std::vector<std::byte>& x) {
      return std::span(x).subspan(sizeof header, gradients_begin_ - sizeof header);
    };
    check<ValueError>(
        std::ranges::equal(which(mine_), which(theirs_)), "ranks", "rank ", transport_.rank ^ bit,
        " has gradients of other parameters; start all processes with the same model");
    // a + b and b + a have the same bits, so that both ranks of a pair compute the same sum.
    header.loss += other.loss;
    dispatch_floating(parameters_[0].tensor.dtype(), "ranks", [&]<class T> {
      auto* to = reinterpret_cast<T*>(mine_.data() + gradients_begin_);
      const auto* from = reinterpret_cast<const T*>(theirs_.data() + gradients_begin_);
      const auto n = Index((mine_.size() - gradients_begin_) / sizeof(T));
      parallel_for(n, kGrain, [&](Index begin, Index end) {
        kernels::add_into(to + begin, from + begin, end - begin);
      });
    });
  }
  status_ = header.status;
  if (status_ != kReady) ended_ = true;
  if (status_ & kLeft) return status_;
  sum.loss = header.loss;
  for_each_gradient(sum, [](void* gradient, const std::byte* place, std::size_t bytes) {
    std::memcpy(gradient, place, bytes);
  });
  return status_;
}

}  // namespace heed::lab
