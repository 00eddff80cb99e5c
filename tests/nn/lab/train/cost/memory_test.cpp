// Tests of the memory estimates. A run that needs more memory than is available is rejected before
// memory is allocated, with an error that states both numbers.
#include "nn/lab/train/cost/memory.h"

#include "autograd/base/files.h"
#include "nn/lab/train/trainer.h"
#include "tests/support/catch.h"
#include "tests/support/disk.h"

namespace {

using namespace heed::lab;
using heed::autograd::ValueError;
using heed::autograd::write_file;
namespace fs = std::filesystem;

// Temporary directory that replaces the root directory / in available_memory().
class Machine {
 public:
  void put(const std::string& file, const std::string& text) const {
    fs::create_directories((folder_ / file).parent_path());
    write_file((folder_ / file).string(), text);
  }
  double available() const { return available_memory(folder_.path()); }

 private:
  heed::testing::Folder folder_;
};

TEST_CASE("available memory is MemAvailable, or less because of a cgroup") {
  const Machine m;
  CHECK(std::isinf(m.available()));
  m.put("proc/meminfo", "MemTotal:  4000 kB\nMemAvailable:   2000 kB\n");
  CHECK(m.available() == 2000 * 1024);
  m.put("proc/self/cgroup", "0::/job/step\n");
  CHECK(m.available() == 2000 * 1024);
  m.put("sys/fs/cgroup/job/step/memory.max", "max\n");
  m.put("sys/fs/cgroup/job/memory.max", "1000000\n");  // the parent cgroup
  m.put("sys/fs/cgroup/job/memory.current", "250000\n");
  CHECK(m.available() == 750000);
  m.put("proc/self/cgroup", "9:cpu:/other\n5:memory:/old\n");
  m.put("sys/fs/cgroup/memory/old/memory.limit_in_bytes", "600000");
  m.put("sys/fs/cgroup/memory/old/memory.usage_in_bytes", "500000");
  CHECK(m.available() == 100000);
  m.put("sys/fs/cgroup/memory/old/memory.usage_in_bytes", "700000");
  CHECK(m.available() == 0);
}

TEST_CASE("sizes larger than the machine's memory are rejected before memory is allocated") {
  RunConfig c;
  c.model.mlp = true, c.model.layers = 256, c.model.attention.d_model = 16384,
  c.model.attention.heads = 1, c.batch = 1;
  Generator g(1);
  CHECK_THROWS_WITH(check_run_memory(c, 32, 32), Contains("with its gradients and moments; "));
  CHECK_THROWS_WITH(make_model(c, 32, 32, g), Contains("of memory are available; lower"));
  CHECK_THROWS_AS(Trainer(c), ValueError);
  RunConfig wide;
  wide.model.attention.heads = 1024, wide.model.attention.d_head = 16384, wide.model.layers = 256;
  CHECK_THROWS_AS(check_run_memory(wide, 32, 32), ValueError);
  RunConfig ratio;
  ratio.model.mlp = true, ratio.model.attention.d_model = 16384, ratio.model.mlp_ratio = 64,
  ratio.model.layers = 16;
  CHECK_THROWS_AS(check_run_memory(ratio, 32, 32), ValueError);
  ratio.model.mlp_ratio = 1e-4, ratio.model.attention.kv_heads = 1,
  ratio.model.attention.d_head = ratio.model.attention.d_value = 1;
  CHECK_NOTHROW(check_run_memory(ratio, 32, 32));
  RunConfig logits;
  logits.model.layers = 1, logits.model.attention.d_model = 2, logits.batch = 65536,
  logits.model.context = 65536;
  CHECK_THROWS_WITH(check_run_memory(logits, 32, 65536), Contains("`context`: batch 65536"));
  logits.shards = 65536;  // one sequence per shard
  check_run_memory(logits, 32, 64);
}

TEST_CASE("long contexts are accepted, because scores are not stored") {
  RunConfig c;
  c.model.layers = 2, c.model.attention.heads = 64, c.model.attention.d_model = 64,
  c.model.context = 16384, c.batch = 1;
  check_run_memory(c, 32, 32);  // stored scores would take 137 GB
}

}  // namespace
