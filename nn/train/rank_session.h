// Several processes, the ranks, that train one run together. Rank 0 is the root, the others are
// workers.
//
// Rank r of N has the shards rK/N to (r+1)K/N - 1 of the K of nn/train/shards.h: a subtree of their
// sum. Ranks r and r xor 2^j swap their sums for j = 0, 1, ... and add. This is the same tree, so
// the result has the bits of one process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "nn/layers/module.h"
#include "nn/train/shards.h"

namespace heed::nn {

class Trainer;

/// How a process reaches the others: MPI in the program, threads in the tests.
struct RankTransport {
  virtual ~RankTransport() = default;
  int rank = 0, size = 1;
  /// Sends `mine` to rank `peer` and waits for as many bytes from it, which makes the same call.
  virtual void swap(int peer, std::span<const std::byte> mine, std::span<std::byte> theirs) = 0;
  /// Returns whether this process was asked to stop (Ctrl-C, SIGTERM).
  virtual bool stop_requested() const { return false; }
};

/// Bits that ranks exchange, or-ed.
enum RankStatus : std::uint64_t {
  kReady = 0,
  kStop = 1,       ///< a rank was asked to stop: the step is the last
  kLeft = 2,       ///< the root takes no more steps: this one is not taken
  kNotFinite = 4,  ///< the shards of a rank are not finite: the step is not taken
  kDiffers = 8,    ///< the ranks have other builds or other runs than each other
};

/// The ranks have other builds or other runs than each other. Every rank throws it.
struct RanksDiffer : autograd::ValueError {
  using autograd::ValueError::ValueError;
};

/// The protocol of one process:
///   root:    run_as_root(trainer), then trainer.step() as often as it likes, then leave()
///   workers: run_as_worker(make), which makes the same trainer and takes the same steps
/// All functions but the first three exchange messages: each rank must make the same calls.
class RankSession {
 public:
  /// ValueError unless the ranks are a power of two. `transport` outlives this.
  explicit RankSession(RankTransport& transport);
  /// ValueError unless `ranks` processes can share the parts of a batch: a power of two up to
  /// `accumulate` (0: not known yet).
  static void check_size(int ranks, std::int64_t accumulate = 0);
  int rank() const { return transport_.rank; }
  int size() const { return transport_.size; }
  /// Returns whether any rank was asked to stop up to the last step.
  bool stop_requested() const { return (status_ & kStop) != 0; }
  /// Returns whether no rank waits for another any more, so that each may exit on its own.
  bool ended() const { return ended_; }

  /// Returns the statuses of all ranks or-ed, to every rank.
  std::uint64_t sync_status(std::uint64_t mine);
  /// Returns whether all ranks called it with the same text.
  bool all_equal(std::string_view text);

  /// Starts the workers, which now make or resume the run of `trainer`, and joins it: its steps are
  /// those of all ranks. `build` names the program. RanksDiffer.
  void run_as_root(Trainer& trainer, const std::string& build);
  /// Ends the workers, if they wait for a step or to be started.
  void leave();
  /// Waits for the root, makes the run, and takes its steps to the end. Returns what ended it:
  /// kReady (all steps taken), kLeft, kStop, kNotFinite or kDiffers. Errors of `make`.
  std::uint64_t run_as_worker(const std::function<Trainer()>& make, const std::string& build);

  /// For Trainer: the parameters whose gradients sum_gradients() sums.
  void join(const std::vector<NamedTensor>& parameters);
  /// For Trainer: turns the sum of this rank's shards into that of all, in log2 N rounds. Returns
  /// the statuses or-ed, kStop of those that were asked to included; after kLeft and kNotFinite
  /// there is no sum.
  std::uint64_t sum_gradients(ShardGradients& sum, std::uint64_t status);
  /// For Trainer: all ranks have met the same error in a step, and take no more.
  void end() { ended_ = true; }

 private:
  void join_equal(Trainer& trainer, const std::string& build);
  void pack(const ShardGradients& sum);
  void unpack(ShardGradients& sum) const;

  RankTransport& transport_;
  Trainer* trainer_ = nullptr;  // of the root
  bool ended_ = false;
  std::uint64_t status_ = kReady;  // after the last step
  std::vector<NamedTensor> parameters_;
  std::size_t numbers_ = 0;               // where the gradients begin in the buffers
  std::vector<std::byte> mine_, theirs_;  // status, loss, which gradients exist; the gradients
};

}  // namespace heed::nn
