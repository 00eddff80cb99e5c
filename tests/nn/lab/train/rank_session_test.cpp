// Tests of RankSession with threads as ranks. The ranks train the same run as one process, bit for
// bit, and end together.
#include "nn/lab/train/rank_session.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "nn/lab/run/run_folder.h"
#include "tests/support/catch.h"
#include "tests/support/disk.h"
#include "tests/support/runs.h"
#include "tests/support/threads.h"

namespace {

using namespace heed::lab;
using heed::autograd::NumericError;
using heed::autograd::ValueError;
using heed::autograd::testing::Threads;
using heed::lab::testing::bytes_of;
using heed::lab::testing::error_of_step;
using heed::lab::testing::FixedBatch;
using Bytes = std::vector<std::byte>;

// Message queues between threads.
class Messages {
 public:
  void send(int from, int to, std::span<const std::byte> bytes) {
    const std::lock_guard lock(mutex_);
    queues_[{from, to}].emplace_back(bytes.begin(), bytes.end());
    arrived_.notify_all();
  }
  Bytes receive(int from, int to) {
    std::unique_lock lock(mutex_);
    std::deque<Bytes>& queue = queues_[{from, to}];
    arrived_.wait(lock, [&] { return closed_ || !queue.empty(); });
    if (queue.empty()) throw std::runtime_error("another rank has failed");
    Bytes message = std::move(queue.front());
    queue.pop_front();
    return message;
  }
  /// After this call, every receive() that has no message to return throws an exception.
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    arrived_.notify_all();
  }

 private:
  bool closed_ = false;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<std::pair<int, int>, std::deque<Bytes>> queues_;
};

struct ThreadRank : RankTransport {
  ThreadRank(Messages& m, int r, int n) : messages(m) { rank = r, size = n; }
  void swap(int peer, std::span<const std::byte> mine, std::span<std::byte> theirs) override {
    messages.send(rank, peer, mine);
    const Bytes message = messages.receive(peer, rank);
    if (message.size() != theirs.size()) throw ValueError("a message of a different size");
    std::copy(message.begin(), message.end(), theirs.begin());
  }
  bool stop_requested() const override { return stop; }
  Messages& messages;
  bool stop = false;
};

// Calls f(rank) on one thread per rank. If ranks throw, rethrows the first error.
void on_ranks(int n, const std::function<void(ThreadRank&)>& f) {
  Messages messages;
  std::atomic<bool> failed = false;
  std::exception_ptr first;
  {
    std::vector<std::jthread> threads;
    for (int r = 0; r < n; ++r)
      threads.emplace_back([&, r] {
        ThreadRank rank(messages, r, n);
        try {
          f(rank);
        } catch (...) {
          // The first error causes the later errors of other ranks.
          if (!failed.exchange(true)) first = std::current_exception();
          messages.close();
        }
      });
  }
  if (first) std::rethrow_exception(first);
}

RunConfig tiny_shared() {
  RunConfig c = preset("markov");
  c.model.layers = 1, c.model.mlp = true, c.model.attention.bias = true;
  c.model.attention.d_model = 16, c.model.attention.heads = 2, c.model.context = 12, c.batch = 16,
  c.eval_batch = 16;
  c.steps = 6, c.warmup = 2, c.shards = 8, c.model.attention.dropout = 0.2;
  return c;
}

Trainer tiny_trainer() { return Trainer(tiny_shared()); }

// Returns a hash of weights, moments, steps and random streams. Evaluations are left out, because
// only rank 0 evaluates.
std::uint32_t bits(const Trainer& t) { return hash_of(t.snapshot()); }

void steps(Trainer& t, int n) {
  for (int i = 0; i < n; ++i) t.step();
}

// Calls f(t, session, rank) on n ranks, whose trainers train one run together.
void train_together(int n, const std::function<Trainer()>& make,
                    const std::function<void(Trainer&, RankSession&, ThreadRank&)>& f) {
  on_ranks(n, [&](ThreadRank& rank) {
    RankSession session(rank);
    Trainer t = make();
    t.join(session);
    f(t, session, rank);
  });
}

// Returns a small model with the form of a speed preset.
RunConfig small_form(const char* name) {
  RunConfig c = preset(name);
  c.task = "markov";
  c.model.layers = std::min<Index>(c.model.layers, 2);
  c.model.attention.d_model = 4 * c.model.attention.heads, c.model.context = 12;
  c.model.attention.dropout = 0.1, c.steps = 4, c.warmup = 1;
  c.shards = c.batch % 8 == 0 ? 8 : 4;
  return c;
}

TEST_CASE("a run and model.safetensors have the same bits at any number of threads, ranks, turns") {
  const Threads restore_at_end;
  for (const auto& [name, dtype] : {std::pair{"micro", heed::autograd::float32},
                                    {"micro", heed::autograd::float64},
                                    {"toy", heed::autograd::float32},
                                    {"chargpt", heed::autograd::float32},
                                    {"small", heed::autograd::float32}}) {
    RunConfig c = small_form(name);
    c.model.attention.dtype = dtype;
    Trainer alone(c);
    steps(alone, 4);
    // Returns the model.safetensors that rank 0 saves. Only rank 0 evaluates between the steps.
    const auto trained = [&](int threads, int ranks, Index accumulate) {
      heed::autograd::set_num_threads(threads);
      c.accumulate = accumulate;
      const heed::testing::Folder folder;
      const RunFolder run(folder.path());
      std::atomic<int> same{0};
      train_together(
          ranks, [&] { return Trainer(c); },
          [&](Trainer& t, RankSession&, const ThreadRank& rank) {
            for (int i = 0; i < 4; ++i) {
              t.step();
              if (rank.rank == 0 && i % 2 == 0) t.evaluate(false);
            }
            same += bits(t) == bits(alone);
            if (rank.rank == 0) run.save(t.snapshot());
          });
      CHECK(same == ranks);
      return bytes_of(run.file(RunFolder::kModel));
    };
    const std::string file = trained(1, 1, 1);
    for (const int threads : {1, 2, 3, 8})
      for (const int ranks : {1, 2, 4, 8})
        for (const Index accumulate : {1, 2, 4}) {
          if (ranks > c.shards || (ranks == 8 && threads * accumulate > 1)) continue;
          if (kSanitized && threads * ranks * accumulate != 12) continue;
          CAPTURE(name, dtype, threads, ranks, accumulate);
          CHECK(trained(threads, ranks, accumulate) == file);
        }
  }
}

TEST_CASE("a run of 2 ranks is resumed by 4 ranks, and by one process") {
  Trainer straight(tiny_shared());
  steps(straight, 6);
  const heed::testing::Folder folder;
  train_together(2, tiny_trainer, [&](Trainer& t, RankSession&, const ThreadRank& rank) {
    steps(t, 3);
    if (rank.rank == 0) RunFolder(folder.path()).save(t.snapshot());
  });
  std::atomic<int> same{0};
  on_ranks(4, [&](ThreadRank& rank) {
    RankSession session(rank);
    Trainer t = RunFolder(folder.path()).resume();
    t.join(session);
    steps(t, 3);
    same += bits(t) == bits(straight);
  });
  CHECK(same == 4);
  Trainer alone = RunFolder(folder.path()).resume();
  steps(alone, 3);
  CHECK(bits(alone) == bits(straight));
}

// Result of a session of one root rank and three worker ranks: for each worker rank, the status
// that run_as_worker() returns, or -1 if it does not return.
struct Workers {
  std::array<std::atomic<int>, 4> status{-1, -1, -1, -1};
  bool all(std::uint64_t expected) const {
    return std::all_of(status.begin() + 1, status.end(),
                       [&](const auto& s) { return s == int(expected); });
  }
};

// Runs a session of one root rank and three worker ranks. Calls `root` on the root rank, after
// run_as_root(), with the trainer of that rank.
void run_session(Workers& workers,
                 const std::function<void(RankSession&, Trainer&, ThreadRank&)>& root) {
  on_ranks(4, [&](ThreadRank& rank) {
    RankSession session(rank);
    if (rank.rank > 0) {
      workers.status[std::size_t(rank.rank)] =
          int(session.run_as_worker([&] { return Trainer(tiny_shared()); }, "a build"));
    } else {
      Trainer t(tiny_shared());
      session.run_as_root(t, "a build");
      root(session, t, rank);
      session.leave();
    }
    if (!session.ended()) throw ValueError("a session has not ended");
  });
}

TEST_CASE("workers end when the root finishes, is stopped, or leaves") {
  Trainer alone(tiny_shared());
  steps(alone, 6);
  Workers straight, stopped, left, nothing;
  run_session(straight, [&](RankSession& session, Trainer& t, ThreadRank&) {
    steps(t, 6);
    CHECK_FALSE(session.stop_requested());
    CHECK(bits(t) == bits(alone));
  });
  CHECK(straight.all(kReady));
  run_session(stopped, [&](RankSession& session, Trainer& t, ThreadRank& rank) {
    steps(t, 1);
    rank.stop = true;
    steps(t, 1);
    CHECK(session.stop_requested());
    CHECK(t.steps_done == 2);
  });
  CHECK(stopped.all(kStop));
  run_session(left, [&](RankSession&, Trainer& t, ThreadRank&) { steps(t, 2); });
  CHECK(left.all(kLeft));
  on_ranks(2, [&](ThreadRank& rank) {  // the root leaves before it creates a run
    RankSession session(rank);
    if (rank.rank == 0)
      session.leave();
    else
      nothing.status[1] = int(session.run_as_worker([]() -> Trainer { throw 1; }, ""));
  });
  CHECK(nothing.status[1] == int(kLeft));
}

TEST_CASE("a step that is not taken leaves the worker's trainer as it was") {
  std::atomic<int> same{0};
  train_together(2, tiny_trainer, [&](Trainer& t, RankSession& session, const ThreadRank& rank) {
    steps(t, 2);
    const auto before = bits(t);
    ShardGradients none;
    if (rank.rank == 0)
      same += session.sum_gradients(none, kLeft) == kLeft;
    else
      same += t.step().step == 0 && t.steps_done == 2 && bits(t) == before;
  });
  CHECK(same == 2);
}

TEST_CASE("ranks with different runs end before the first step, each with the error") {
  std::atomic<int> differ{0};
  on_ranks(4, [&](ThreadRank& rank) {
    RunConfig c = tiny_shared();
    if (rank.rank == 2) c.seed = 9;
    RankSession session(rank);
    std::uint64_t status = kReady;
    try {
      Trainer t(c);
      if (rank.rank == 0) session.run_as_root(t, "a build");
    } catch (const RanksDiffer&) {
      status = kDiffers;
    }
    if (rank.rank > 0) status = session.run_as_worker([&] { return Trainer(c); }, "a build");
    differ += status == kDiffers && session.ended();
  });
  CHECK(differ == 4);
}

// Returns a trainer in which only the last row of each batch has a token whose embedding is NaN.
Trainer trainer_in_trouble() {
  const RunConfig c = tiny_shared();
  std::vector<Sequence> rows(16);
  for (Sequence& row : rows) {
    row.inputs.assign(std::size_t(c.model.context), &row == &rows.back());
    row.targets = row.inputs, row.counted.assign(row.inputs.size(), true);
  }
  Trainer t(c, std::make_unique<FixedBatch>(make_task("markov", c.model.context)->info(), rows));
  const heed::autograd::NoGrad guard;
  t.model.tok.weight.mutable_data<float>()[t.model.tok.weight.size(1)] = NAN;
  return t;
}

TEST_CASE("a NaN on one rank ends the step on all ranks, with the error of one process") {
  Trainer alone = trainer_in_trouble();
  const std::string text = error_of_step(alone);
  REQUIRE(text.find("the loss of step 1 is nan") != std::string::npos);
  REQUIRE(text.find("first ") != std::string::npos);
  std::atomic<int> same{0};
  train_together(4, trainer_in_trouble, [&](Trainer& t, const RankSession& session, ThreadRank&) {
    const auto before = bits(t);
    same += error_of_step(t) == text && t.steps_done == 0 && t.history().empty() &&
            bits(t) == before && session.ended();
  });
  CHECK(same == 4);
}

TEST_CASE("ranks agree on statuses and compare texts") {
  std::atomic<int> right{0};
  on_ranks(8, [&](ThreadRank& rank) {
    RankSession session(rank);
    right += session.sync_status(rank.rank == 5 ? kStop : kReady) == kStop;
    right += session.sync_status(kReady) == kReady;
    right += session.all_equal("a");
    for (int other = 0; other < 8; ++other)
      right += !session.all_equal(rank.rank == other ? "b" : "a");
  });
  CHECK(right == 8 * 11);
}

TEST_CASE("the number of ranks is a power of two and at most shards") {
  Messages messages;
  for (const int n : {3, 5}) {
    ThreadRank rank(messages, 0, n);
    CHECK_THROWS_WITH(RankSession(rank), Contains(std::to_string(n) + " processes cannot share"));
  }
  Trainer t(tiny_shared());
  ThreadRank rank(messages, 0, 16);
  RankSession session(rank);
  CHECK_THROWS_WITH(t.join(session), Contains("16 processes cannot share 8 shards"));
}

}  // namespace
