#include "tests/fuzz/targets.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "autograd/autograd.h"
#include "autograd/base/text.h"
#include "nn/io/json.h"
#include "nn/io/safetensors.h"
#include "nn/lab/run/snapshot_file.h"
#include "nn/lab/settings/toml.h"
#include "nn/lab/study/cells.h"
#include "nn/lab/tasks/corpus.h"
#include "nn/layers/sites.h"
#include "tools/heed/command_line/cli11.h"
#include "tools/heed/study/subject.h"

namespace heed::fuzz {
namespace {

using autograd::Error;

// A file in memory, because the readers of tensors take a path.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : descriptor_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    require(::write(descriptor_, bytes.data(), bytes.size()) == ssize_t(bytes.size()), "memfd");
  }
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

// Calls f and ignores heed's errors.
template <class F>
void try_to(const F& f) {
  try {
    f();
  } catch (const Error&) {
  }
}

// Splits a text at the first newline.
std::pair<std::string, std::string> first_line(std::string_view text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  return {std::string(text.substr(0, end)),
          std::string(text.substr(std::min(end + 1, text.size())))};
}

void use_vocabulary(const lab::Vocabulary& vocabulary, const std::string& text) {
  static_cast<void>(vocabulary.summary());
  for (Index id = 0; id < vocabulary.size(); ++id) static_cast<void>(vocabulary.label(id));
  try_to([&] {
    require(vocabulary.decode(vocabulary.encode(text)) == text, "a decoded text is different");
  });
}

// Returns the names of all elements of a list, separated by commas.
template <class T>
std::string names_of(const std::vector<T>& list, std::string (*name)(const T&)) {
  std::string names;
  for (const T& element : list) names += (names.empty() ? "" : ",") + name(element);
  return names;
}

// The first line has the rank of each operand as one digit, the rest is the equation.
void einsum_of(std::string_view text) {
  const auto [ranks, equation] = first_line(text);
  std::vector<autograd::Tensor> operands;
  for (const char c : ranks.substr(0, 6))
    operands.push_back(
        autograd::ones(autograd::Dims::filled(std::clamp(c - '0', 0, autograd::kMaxRank), 2)));
  autograd::einsum(equation, operands);
}

void objective_of(std::string_view text) {
  const auto [of, at] = first_line(text);
  lab::TaskInfo info;
  info.name = "fuzz";
  info.vocabulary = lab::Vocabulary::of("abc-,:\u00e9\n");
  info.classes = 7;  // the newline is not predicted
  const lab::Objective o = lab::Objective(parse_objective(of, at, info, 9));
  static_cast<void>(objective_text(o, info));
  for (const Index p : o.positions) require(p >= 0 && p < 9, "a position is out of range");
  require(std::min(o.a, o.b) >= 0 && std::max(o.a, o.b) < 7, "a token is out of range");
}

// Each line is one argument. The command is not run.
void command_line_of(std::string_view text) {
  static const Commands commands = all_commands();  // constructing them takes long
  for (const auto& c : commands) c->values.clear();
  std::vector<std::string> words = split(text, '\n');
  words.insert(words.begin(), "heed");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  const CommandLine line = parse_command_line(commands, int(arguments.size()), arguments.data());
  if (!line.command) return;
  static_cast<void>(line.command->mode());
  for (const lab::Setting& s : line.command->settings)
    if (s.kind != lab::Setting::Kind::kList && line.command->given(s.key))
      s.set(s.key, line.command->text(s.key));
}

}  // namespace

void safetensors(std::string_view bytes) {
  const MemoryFile file(bytes);
  try_to([&] {
    const nn::SafeTensors read = nn::load_safetensors(file.path());
    require(nn::load_metadata(file.path()).size() >= read.metadata.size(), "metadata are missing");
    static_cast<void>(nn::hash_of_tensors(read.tensors));
    for (const lab::Unit unit : {lab::Unit::kChar, lab::Unit::kWord})
      try_to([&] { use_vocabulary(lab::vocabulary_of(read.metadata, unit), "a b"); });
    lab::read_snapshot(read, lab::RunConfig());
  });
  try_to([&] {
    const nn::Json value = nn::Json::parse(bytes);
    require(nn::Json::parse(value.dump()) == value, "JSON that was written reads back differently");
  });
}

void toml(std::string_view bytes) {
  const std::string text(bytes);
  try_to([&] { lab::read_toml(text, "f"); });
  try_to([&] {
    const lab::RunConfig config = lab::from_toml(text, "f");
    lab::validate(config);
    const std::string written = lab::to_toml(config);
    require(lab::to_toml(lab::from_toml(written, "f")) == written,
            "config.toml reads back differently");
  });
}

void language(std::string_view bytes) {
  if (bytes.empty()) return;
  const char which = bytes[0];
  const std::string text(bytes.substr(1));
  try_to([&] {
    if (which == 'e') einsum_of(text);
    if (which == 'h') {
      const std::vector<nn::HeadIndex> heads = nn::parse_heads("--ablate", text, 4, 8);
      require(nn::parse_heads("", names_of(heads, nn::head_name), 4, 8) == heads,
              "heads read back differently");
    }
    if (which == 'k') {
      const std::vector<lab::Cell> cells = lab::parse_cells("--block", text, 4, 8, 12);
      require(lab::parse_cells("--block", names_of(cells, lab::cell_name), 4, 8, 12) == cells,
              "cells read back differently");
      for (std::size_t at = text.find('L'); at != text.npos; at = text.find('L', at + 1)) {
        const std::string head = text.substr(at, text.find_first_of(",[", at) - at);
        require(std::ranges::count(cells, nn::parse_heads("", head, 4, 8)[0], &lab::Cell::head) > 0,
                "a head of --cut is not cut");
      }
    }
    if (which == 'o') objective_of(text);
    if (which == 'c') command_line_of(text);
    if (which == 'v') {
      const auto [symbols, prompt] = first_line(text);
      use_vocabulary(lab::Vocabulary::of(symbols), prompt);
    }
    if (which == 'w') {
      const auto [symbols, prompt] = first_line(text);
      use_vocabulary(lab::vocabulary_of({{"vocabulary", symbols}}, lab::Unit::kWord), prompt);
    }
  });
}

}  // namespace heed::fuzz
