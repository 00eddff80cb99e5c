#include "tools/heed/ranks.h"

#include <dlfcn.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <thread>

#include "autograd/base/parallel.h"
#include "autograd/base/text.h"
#include "nn/io/crc32c.h"
#include "tools/heed/report/output.h"
#include "tools/heed/report/progress.h"
#include "tools/mpi/module.h"

namespace heed {
namespace {

constexpr const char* kVariables[][2] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                         {"PMI_RANK", "PMI_SIZE"}};

class MpiTransport : public lab::RankTransport {
 public:
  explicit MpiTransport(const MpiTable& mpi) : mpi_(mpi) { mpi_.start(&rank, &size); }
  void swap(int peer, std::span<const std::byte> mine, std::span<std::byte> theirs) override {
    mpi_.swap(peer, mine.data(), theirs.data(), mine.size());
  }
  bool stop_requested() const override { return InterruptGuard::interrupted(); }
  const MpiTable& mpi() const { return mpi_; }

 private:
  const MpiTable& mpi_;
};

// Time after which the launcher has ended all processes if one process failed. OpenMPI takes one
// second.
constexpr std::chrono::seconds kLauncherEnds(3);

std::string rank_text(int rank) { return fmt::format("rank {}: ", rank); }

// These objects are global, because MPI can be started only once in a process.
std::unique_ptr<MpiTransport> transport;
std::unique_ptr<lab::RankSession> session;

// Loads libheed_mpi.so. RTLD_GLOBAL is needed because MPI's plugins use the symbols of the MPI
// library.
const MpiTable& load_module(int size) {
  const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  std::string reason = "not found";
  for (const auto& folder : {here, here.parent_path() / HEED_LIBDIR / "heed"}) {
    const std::filesystem::path file = folder / "libheed_mpi.so";
    std::error_code ignored;
    if (!std::filesystem::exists(file, ignored)) continue;
    void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
    void* symbol = library ? ::dlsym(library, kMpiSymbol) : nullptr;
    if (!symbol) {
      reason = ::dlerror();
      continue;
    }
    const MpiTable* mpi = reinterpret_cast<MpiTableFn>(symbol)();
    if (mpi->version == kMpiVersion) return *mpi;
    reason = file.string() + " belongs to another version of heed";
  }
  usage_error(
      "cannot train with {} processes: cannot load the module libheed_mpi.so: {}; run tools/setup "
      "--mpi (Debian: libopenmpi-dev, openmpi-bin) and build heed again",
      size, reason);
}

// Returns the number of cores that this process may use, divided by the number of ranks on this
// machine that may use the same cores.
int own_share_of_cores(const MpiTable& mpi) {
  cpu_set_t which;
  CPU_ZERO(&which);
  ::sched_getaffinity(0, sizeof which, &which);
  nn::Crc32c number;
  number.add(std::as_bytes(std::span(&which, 1)));
  const int sharing = mpi.on_machine_with(number.value());  // all ranks make this call
  return std::max(1, autograd::available_cores() / sharing);
}

}  // namespace

Launcher launcher() {
  for (const auto& [rank_name, size_name] : kVariables) {
    const char *rank_text = std::getenv(rank_name), *size_text = std::getenv(size_name);
    if (!rank_text || !size_text) continue;
    const auto rank = heed::parse_number<int>(rank_text);
    const auto size = heed::parse_number<int>(size_text);
    if (!rank || !size || *size < 1 || *rank < 0 || *rank >= *size)
      usage_error(
          "{}={} and {}={} are not a valid rank and size, which need 0 <= rank < size; start heed "
          "by mpirun, or unset them",
          rank_name, rank_text, size_name, size_text);
    return {*rank, *size};
  }
  return {};
}

lab::RankSession* join_ranks(bool own_threads, Index shards) {
  const Launcher started = launcher();
  if (started.size == 1) return nullptr;
  // This check comes before the start of MPI, so that only the root rank prints the error.
  lab::RankSession::check_size(started.size, shards);
  transport = std::make_unique<MpiTransport>(load_module(started.size));
  if (transport->size != started.size)
    usage_error(
        "the launcher started {0} processes, but {1}, the MPI of heed, counts {2}; use the "
        "launcher of {1}",
        started.size, transport->mpi().library(), transport->size);
  if (transport->rank > 0) set_error_prefix(rank_text(transport->rank));
  const int threads = own_share_of_cores(transport->mpi());
  if (own_threads) autograd::set_num_threads(threads);
  session = std::make_unique<lab::RankSession>(*transport);
  return session.get();
}

void lead_ranks(lab::Trainer& trainer, lab::RankSession* ranks) {
  if (ranks) ranks->run_as_root(trainer, version_text());
}

Out work_as_rank(lab::RankSession& ranks, const std::function<lab::Trainer()>& make) {
  const InterruptGuard interrupt;
  const std::uint64_t status = ranks.run_as_worker(make, version_text());
  Out out;
  out.fail(status & lab::kStop        ? kInterrupted
           : status & lab::kNotFinite ? kNumeric
           : status & lab::kDiffers   ? kUsage
                                      : kOk);
  return out;
}

int leave_ranks(int code) {
  if (!transport) return code;
  session && session->ended() ? transport->mpi().end() : transport->mpi().abort(code);
  return code;
}

int as_rank(const std::function<int()>& f) {
  try {
    return f();
  } catch (const autograd::ValueError&) {
    const int rank = transport ? 0 : launcher().rank;
    if (rank > 0) {
      set_error_prefix(rank_text(rank));
      std::this_thread::sleep_for(kLauncherEnds);
    }
    throw;
  }
}

}  // namespace heed
