// Ranks, here threads, train the run that one process trains, bit for bit, and end together.
#include "nn/train/rank_session.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "nn/run/run_folder.h"
#include "tests/support/catch.h"
#include "tests/support/disk.h"

namespace {

using namespace heed::nn;
using heed::autograd::NumericError;
using heed::autograd::ValueError;
using Bytes = std::vector<std::byte>;

// Letters between threads.
class Mail {
 public:
  void send(int from, int to, std::span<const std::byte> bytes) {
    const std::lock_guard lock(mutex_);
    letters_[{from, to}].emplace_back(bytes.begin(), bytes.end());
    came_.notify_all();
  }
  Bytes take(int from, int to) {
    std::unique_lock lock(mutex_);
    std::deque<Bytes>& box = letters_[{from, to}];
    came_.wait(lock, [&] { return closed_ || !box.empty(); });
    if (box.empty()) throw std::runtime_error("another rank has failed");
    Bytes letter = std::move(box.front());
    box.pop_front();
    return letter;
  }
  /// No letter comes any more.
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    came_.notify_all();
  }

 private:
  bool closed_ = false;
  std::mutex mutex_;
  std::condition_variable came_;
  std::map<std::pair<int, int>, std::deque<Bytes>> letters_;
};

struct ThreadRank : RankTransport {
  ThreadRank(Mail& m, int r, int n) : mail(m) { rank = r, size = n; }
  void swap(int peer, std::span<const std::byte> mine, std::span<std::byte> theirs) override {
    mail.send(rank, peer, mine);
    const Bytes letter = mail.take(peer, rank);
    if (letter.size() != theirs.size()) throw ValueError("a letter of another size");
    std::copy(letter.begin(), letter.end(), theirs.begin());
  }
  bool stop_requested() const override { return asked; }
  Mail& mail;
  bool asked = false;
};

// f(rank) on a thread each; the first error is thrown here.
void on_ranks(int n, const std::function<void(ThreadRank&)>& f) {
  Mail mail;
  std::atomic<bool> failed = false;
  std::exception_ptr first;
  {
    std::vector<std::jthread> threads;
    for (int r = 0; r < n; ++r)
      threads.emplace_back([&, r] {
        ThreadRank rank(mail, r, n);
        try {
          f(rank);
        } catch (...) {
          // The first is the reason of the others'.
          if (!failed.exchange(true)) first = std::current_exception();
          mail.close();
        }
      });
  }
  if (first) std::rethrow_exception(first);
}

RunConfig tiny_shared(heed::autograd::DType dtype = heed::autograd::float32) {
  RunConfig c = preset("urn");
  c.model.attention.d_model = 16, c.model.attention.heads = 2, c.model.context = 12, c.batch = 16,
  c.eval_batch = 16;
  c.steps = 6, c.warmup = 2, c.model.attention.dtype = dtype, c.accumulate = 8,
  c.model.attention.dropout = 0.2;
  return c;
}

// Weights, moments, rows and streams; without evaluations, which rank 0 alone makes.
std::uint32_t bits(const Trainer& t) { return hash_of(t.snapshot()); }

void steps(Trainer& t, int n) {
  for (int i = 0; i < n; ++i) t.step();
}

TEST_CASE("2, 4 and 8 ranks have the bits of one process, in either dtype") {
  for (const auto dtype : {heed::autograd::float32, heed::autograd::float64}) {
    Trainer alone(tiny_shared(dtype));
    steps(alone, 6);
    for (const int n : {1, 2, 4, 8}) {
      if (kSanitized && n == 8) continue;
      std::atomic<int> same{0};
      on_ranks(n, [&](ThreadRank& rank) {
        RankSession session(rank);
        Trainer t(tiny_shared(dtype));
        t.join(session);
        for (int i = 0; i < 6; ++i) {
          t.step();
          if (rank.rank == 0 && i % 2 == 0) t.evaluate(false);
        }
        same += bits(t) == bits(alone);
      });
      INFO(n << " ranks");
      CHECK(same == n);
    }
  }
}

TEST_CASE("a run of 2 ranks goes on at 4, and alone") {
  Trainer straight(tiny_shared());
  steps(straight, 6);
  const heed::testing::Folder folder;
  on_ranks(2, [&](ThreadRank& rank) {
    RankSession session(rank);
    Trainer t(tiny_shared());
    t.join(session);
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

// What a session of one root and three workers comes to: run_as_worker()'s status of each worker,
// -1 if it does not end.
struct Workers {
  std::array<std::atomic<int>, 4> status{-1, -1, -1, -1};
  bool all(std::uint64_t expected) const {
    return std::all_of(status.begin() + 1, status.end(),
                       [&](const auto& s) { return s == int(expected); });
  }
};

// `root` gets the root's trainer, after run_as_root().
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

TEST_CASE("workers follow the root to the end, to a stop, and away") {
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
    rank.asked = true;
    steps(t, 1);
    CHECK(session.stop_requested());
    CHECK(t.steps_done == 2);
  });
  CHECK(stopped.all(kStop));
  run_session(left, [&](RankSession&, Trainer& t, ThreadRank&) { steps(t, 2); });
  CHECK(left.all(kLeft));
  on_ranks(2, [&](ThreadRank& rank) {  // the root finds nothing to train
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
  on_ranks(2, [&](ThreadRank& rank) {
    RankSession session(rank);
    Trainer t(tiny_shared());
    t.join(session);
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

TEST_CASE("ranks with other runs end before the first step, each knowing why") {
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

// Only the last row of the batch has a token whose embedding is NaN.
std::string error_of_trouble(Trainer& t) {
  Generator g(1);
  const Batch batch = t.task->sample(16, g);
  auto* tokens = batch.inputs.mutable_data<std::int64_t>();
  const std::int64_t T = batch.inputs.size(1);
  std::fill(tokens, tokens + 15 * T, 0), std::fill(tokens + 15 * T, tokens + 16 * T, 1);
  for (const NamedTensor& p : parameters(t.model))
    if (p.name.starts_with("tok") || p.name.starts_with("emb")) {
      const heed::autograd::NoGrad guard;
      p.tensor.mutable_data<float>()[p.tensor.size(1)] = NAN;
    }
  return message_of<NumericError>([&] { t.step(&batch); });
}

TEST_CASE("what is not finite at one rank ends the step at all, with the error of one process") {
  Trainer alone(tiny_shared());
  const std::string text = error_of_trouble(alone);
  REQUIRE(text.find("the loss of step 1 is nan") != std::string::npos);
  REQUIRE(text.find("first ") != std::string::npos);
  std::atomic<int> same{0};
  on_ranks(4, [&](ThreadRank& rank) {
    RankSession session(rank);
    Trainer t(tiny_shared());
    t.join(session);
    same +=
        error_of_trouble(t) == text && t.steps_done == 0 && t.history().empty() && session.ended();
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

TEST_CASE("ranks are a power of two up to accumulate") {
  Mail mail;
  for (const int n : {3, 5}) {
    ThreadRank rank(mail, 0, n);
    CHECK_THROWS_WITH(RankSession(rank),
                      Contains(std::to_string(n) + " processes cannot share the parts of a batch"));
  }
  Trainer t(tiny_shared());
  ThreadRank rank(mail, 0, 16);
  RankSession session(rank);
  CHECK_THROWS_WITH(t.join(session), Contains("16 processes cannot share the 8 parts"));
}

}  // namespace
