// Training of one run by several processes, called ranks. Rank 0 is the root rank; all other ranks
// are worker ranks.
//
// Rank r of N computes the shards rK/N to (r+1)K/N - 1 of the K shards of a batch (see
// nn/lab/train/shards.h). All shards are added as a binary tree, and the shards of one rank are a
// subtree of this tree. For j = 0, 1, ..., log2(N) - 1, ranks r and r xor 2^j exchange their sums
// and add them. These are the remaining additions of the tree, so that the result has the same bits
// as in one process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "nn/lab/train/shards.h"
#include "nn/layers/module.h"

namespace heed::lab {

class Trainer;

/// Communication between the ranks. The program uses MPI, the tests use threads.
struct RankTransport {
  virtual ~RankTransport() = default;
  int rank = 0;  ///< number of this rank, from 0
  int size = 1;  ///< number of ranks
  /// Sends `mine` to rank `peer` and waits until `theirs` is filled with the bytes that `peer`
  /// sends. `peer` must make the matching call with the same number of bytes.
  virtual void swap(int peer, std::span<const std::byte> mine, std::span<std::byte> theirs) = 0;
  /// Returns whether this process received a request to stop (Ctrl-C, SIGTERM).
  virtual bool stop_requested() const { return false; }
};

/// Status bits of a rank. Ranks exchange the first three and combine them by bitwise or.
enum RankStatus : std::uint64_t {
  kReady = 0,      ///< the rank takes the step
  kStop = 1,       ///< a rank received a request to stop; this step is the last one
  kLeft = 2,       ///< the root rank takes no more steps; this step is not taken
  kNotFinite = 4,  ///< a step threw NumericError, on all ranks
  kDiffers = 8,    ///< the ranks run different builds or different runs
};

/// Error that every rank throws if the ranks run different builds or different runs.
struct RanksDiffer : autograd::ValueError {
  using autograd::ValueError::ValueError;
};

/// Connection of one process to a training run that several ranks share:
///   - The root rank calls run_as_root(trainer), then trainer.step() any number of times, and then
///     leave().
///   - Each worker rank calls run_as_worker(make), which creates the same trainer and takes the
///     same steps.
///
/// sync_status(), all_equal(), run_as_root(), leave(), run_as_worker() and sum_gradients() exchange
/// messages. The root's calls of run_as_root() and leave() correspond to one run_as_worker() of
/// each worker. All ranks must call the other three functions in the same order.
class RankSession {
 public:
  /// Creates a session on `transport`, which must outlive it. Throws ValueError unless the number
  /// of ranks is a power of two.
  explicit RankSession(RankTransport& transport);
  /// Throws ValueError unless `ranks` is a power of two and at most `shards`, the number of shards
  /// of a batch. 0 means that it is not known yet.
  static void check_size(int ranks, Index shards = 0);
  /// Returns the number of this rank, from 0.
  int rank() const { return transport_.rank; }
  /// Returns the number of ranks.
  int size() const { return transport_.size; }
  /// Returns whether any rank had received a request to stop when the last step was taken.
  bool stop_requested() const { return (status_ & kStop) != 0; }
  /// Returns whether the session has ended. After that, no rank waits for another rank, and each
  /// may exit independently.
  bool ended() const { return ended_; }

  /// Returns the bitwise or of the statuses of all ranks, on every rank.
  std::uint64_t sync_status(std::uint64_t mine);
  /// Returns whether all ranks called this function with the same text.
  bool all_equal(std::string_view text);

  /// Starts the worker ranks, which then create or resume the run of `trainer`. From then on each
  /// trainer.step() is a step of all ranks. `build` identifies the program. Throws RanksDiffer if
  /// the ranks run different builds or different runs, and the errors of check_size().
  void run_as_root(Trainer& trainer, const std::string& build);
  /// Ends the worker ranks if they wait for the start or for a step.
  void leave();
  /// Waits for the root rank, creates the run with `make`, and takes steps until the run ends.
  /// Returns the reason for the end: kReady (all steps were taken), kLeft, kStop, kNotFinite or
  /// kDiffers. Throws the errors of `make`.
  std::uint64_t run_as_worker(const std::function<Trainer()>& make, const std::string& build);

  /// Sets the parameters whose gradients sum_gradients() sums. Only Trainer calls it.
  void join(const std::vector<NamedTensor>& parameters);
  /// `sum` must be the sum over this rank's shards. Replaces it by the sum over the shards of all
  /// ranks, in log2(N) rounds for N ranks. Returns the bitwise or of all statuses; it contains
  /// kStop if a rank received a request to stop. After kLeft, `sum` is unchanged. Only Shards calls
  /// it.
  std::uint64_t sum_gradients(ShardGradients& sum, std::uint64_t status = kReady);
  /// Ends the session, because all ranks threw the same error in a step. Only Trainer calls it.
  void end() { ended_ = true; }

 private:
  void join_equal(Trainer& trainer, const std::string& build);
  template <class F>
  void for_each_gradient(const ShardGradients& sum, F f);

  RankTransport& transport_;
  Trainer* trainer_ = nullptr;  // set on the root rank only
  bool ended_ = false;
  std::uint64_t status_ = kReady;  // combined status of the last step
  std::vector<NamedTensor> parameters_;
  std::size_t gradients_begin_ = 0;  // byte offset of the gradients in the buffers
  // Buffers to send and to receive. Each contains the status, the loss, one byte per parameter that
  // states whether the parameter has a gradient, and then the gradients.
  std::vector<std::byte> mine_, theirs_;
};

}  // namespace heed::lab
