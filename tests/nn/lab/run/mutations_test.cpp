// Reads randomly damaged run directories. Each is either rejected with an error or read with its
// original contents, without a crash and without much memory.
#include <sys/resource.h>

#include "autograd/base/files.h"
#include "nn/lab/run/run_folder.h"
#include "nn/lab/run/snapshot_file.h"
#include "tests/support/catch.h"
#include "tests/support/damage.h"
#include "tests/support/disk.h"

namespace {

using namespace heed::autograd;
using namespace heed::lab;
using namespace heed::testing;

// Returns the number of damaged files to try. HEED_FUZZ=100000 makes the search longer, as in
// `ctest -L soak`.
int rounds() {
  const char* given = std::getenv("HEED_FUZZ");
  return given ? std::atoi(given) : kSanitized ? 500 : 2000;
}

long peak_kilobytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

void put(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// Returns the complete state of a trainer as bytes.
std::string image_of(const Trainer& t) {
  const Snapshot s = t.snapshot();
  std::string image = metrics_csv(s.history) + s.data_stream + s.dropout_stream;
  for (const NamedTensor& x : s.tensors) {
    image += x.name;
    dispatch_any(x.tensor.dtype(), [&]<class T> {
      image.append(reinterpret_cast<const char*>(x.tensor.data<T>()),
                   std::size_t(x.tensor.numel()) * sizeof(T));
    });
  }
  return image + std::to_string(s.step) + " " + std::to_string(s.best_step);
}

// Changes metadata or a tensor at random. The caller writes the file with a correct checksum, so
// only checks of the contents can detect the change.
void change_state(SafeTensors& state, std::mt19937& random) {
  if (random() % 2) {
    auto entry =
        std::next(state.metadata.begin(), std::ptrdiff_t(random() % state.metadata.size()));
    const char* const kValues[] = {"", "-1", "7", "9223372036854775807", "nan", "1e999", "x"};
    entry->second = random() % 2 ? kValues[random() % std::size(kValues)]
                                 : mutated(entry->second, random, entry->second.size() + 1);
    for (char& c : entry->second) c = char(c & 0x7f);  // valid UTF-8
    return;
  }
  const std::size_t i = random() % state.tensors.size();
  Tensor& x = state.tensors[i].tensor;
  switch (random() % 3) {
    case 0:
      state.tensors.erase(state.tensors.begin() + std::ptrdiff_t(i));
      break;
    case 1:
      x = to(x, x.dtype() == float64 ? float32 : float64);
      break;
    default:
      dispatch_any(x.dtype(), [&]<class T> {
        if (x.numel() == 0) return;
        T* value = x.mutable_data<T>() + random() % std::size_t(x.numel());
        if constexpr (sizeof(T) >= 4)
          for (std::size_t b = 0; b < sizeof(T); ++b)
            reinterpret_cast<unsigned char*>(value)[b] = static_cast<unsigned char>(random());
      });
  }
}

#ifdef __SANITIZE_ADDRESS__  // AddressSanitizer keeps up to 256 MB of freed memory
constexpr long kMostKilobytes = 600'000;
#else
constexpr long kMostKilobytes = 200'000;
#endif

TEST_CASE("a damaged run is rejected or read with its original contents", "[mutations]") {
  const Folder folder;
  RunConfig c = preset("reverse");
  c.model.attention.d_model = 8, c.model.attention.heads = 1, c.model.context = 8, c.batch = 2,
  c.eval_batch = 2, c.model.layers = 1;
  c.steps = 8, c.warmup = 2, c.schedule = Decay::kCosine;
  std::string good_image;
  {
    Trainer t(c);
    while (t.steps_done < 6) {
      t.step();
      if (t.steps_done % 3 == 0) t.evaluate(false);
    }
    RunFolder(folder.path()).save(t.snapshot());
    good_image = image_of(t);
  }
  const SafeTensors good_state = load_safetensors(folder / "state.safetensors");
  const long before = peak_kilobytes();
  std::mt19937 random(1);
  const int most = rounds();
  int refused = 0, same = 0, other = 0;
  for (int round = 0; round < most; ++round) {
    const char* const kFiles[] = {"state.safetensors", "config.toml", "model.safetensors"};
    const auto which = random() % 4;
    const char* file = which < 3 ? kFiles[which] : "state.safetensors";
    const std::string good = read_file(folder / file);
    INFO("round " << round << ", " << file);
    try {
      if (which == 3) {
        SafeTensors state = load_safetensors(folder / file);
        change_state(state, random);
        save_safetensors(folder / file, state.tensors, state.metadata);
      } else {
        put(folder / file, mutated(good, random, 6000));
      }
      if (which == 2) {
        const LoadedRun run = RunFolder(folder.path()).open(file, Use::kSequences);
        Trainer t = RunFolder(folder.path()).resume();
        const auto x = parameters(run.model), y = parameters(t.model);
        bool equal = run.step == 6 && run.note.empty();
        for (std::size_t i = 0; i < x.size(); ++i)
          equal = equal && x[i].tensor.to_vector<float>() == y[i].tensor.to_vector<float>();
        (equal ? same : other) += 1;
      } else {
        // A config.toml that differs only causes a warning; any other difference is an error.
        const bool is_whole = which != 1 || read_file(folder / file) == good;
        std::vector<std::string> warnings;
        const Trainer t = Trainer::from(RunFolder(folder.path()).load("", &warnings));
        // A state that was changed and has a correct checksum may be another valid run, but its
        // parts must be consistent.
        if (which == 3)
          CHECK((t.steps_done == 6 && t.history().size() == 6));
        else
          (image_of(t) == good_image && warnings.empty() == is_whole ? same : other) += 1;
      }
    } catch (const Error&) {  // exceptions of other types fail the test
      CHECK(which != 1);      // a damaged config.toml only causes a warning
      ++refused;
    }
    put(folder / file, good);
  }
  INFO(refused << " refused, " << same << " read as they were");
  CHECK(other == 0);
  CHECK(refused > most / 3);
  CHECK(peak_kilobytes() - before < kMostKilobytes);
  CHECK(image_of(RunFolder(folder.path()).resume()) == good_image);
}

}  // namespace
