// Characters of a text file, split and drawn as by nanoGPT's data/shakespeare_char and train.py.
#include <algorithm>
#include <mutex>
#include <optional>

#include "autograd/base/error.h"
#include "autograd/base/files.h"
#include "autograd/base/utf8.h"
#include "nn/tasks/ngram.h"
#include "nn/tasks/tasks.h"

namespace heed::nn {

using namespace autograd;

namespace {

constexpr std::uint64_t kMaxBytes = 1 << 30;
constexpr std::size_t kMaxSymbols = 1 << 16;
using Id = std::uint16_t;  // holds kMaxSymbols; a text is kept in memory

struct Text {
  std::vector<Id> ids;
  std::vector<std::string> symbols;         // in the order of their code points
  std::map<std::string, std::string> data;  // TaskFacts::data
};

// FNV-1a (Fowler, Noll, Vo), as 16 hexadecimal digits.
std::string fnv1a(const std::string& bytes) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  std::string digits;
  for (int shift = 60; shift >= 0; shift -= 4) digits += "0123456789abcdef"[hash >> shift & 15];
  return digits;
}

Text load(const std::string& path) {
  const std::string bytes = read_file(path, kMaxBytes);
  check<IoError>(!bytes.empty(), "text", "'", path, "' is empty");
  constexpr std::size_t kCodePoints = 0x110000;
  std::vector<bool> seen(kCodePoints);
  std::size_t length = 0;
  for (std::size_t at = 0; at < bytes.size(); ++length) {
    const std::size_t start = at;
    const auto c = next_code_point(bytes, at);
    check<IoError>(c.has_value(), "text", "'", path, "' is not UTF-8 at byte ", start, " (value ",
                   int{static_cast<unsigned char>(bytes[start])},
                   "): convert it, as with iconv -f latin1 -t utf-8");
    seen[*c] = true;
  }
  Text text;
  std::vector<Id> ids(kCodePoints);
  for (char32_t c = 0; c < kCodePoints; ++c) {
    if (!seen[c]) continue;
    check<IoError>(text.symbols.size() < kMaxSymbols, "text", "'", path, "' has more than ",
                   kMaxSymbols, " different characters");
    ids[c] = Id(text.symbols.size());
    text.symbols.push_back(to_utf8(c));
  }
  text.ids.reserve(length);
  for (std::size_t at = 0; at < bytes.size();) text.ids.push_back(ids[*next_code_point(bytes, at)]);
  text.data = {{"text_size", std::to_string(bytes.size())}, {"text_hash", fnv1a(bytes)}};
  for (const std::string& symbol : text.symbols) text.data["vocabulary"] += symbol;
  return text;
}

// What is known of a text without its characters: enough to read a prompt.
class TextPrompts : public Task {
 public:
  TextPrompts(const std::string& description, const Vocabulary& vocabulary, std::int64_t context,
              const std::map<std::string, std::string>& data)
      : Task({.name = "text",
              .description = description,
              .accuracy = "characters right",
              .prompt = "any text in the characters of the file; a newline if empty",
              .vocabulary = vocabulary,
              .classes = vocabulary.size(),
              .context = context,
              .endless = true,
              .data = data}) {}

  std::int64_t evaluation_size() const override { return 0; }

 private:
  Sequence draw(Generator&) const override {
    fail<ValueError>("text", "the text itself was not read, only its vocabulary");
  }

  std::vector<std::int64_t> prompt_inputs(const std::string& text) const override {
    const Vocabulary& v = facts().vocabulary;
    return v.encode(!text.empty() ? text : v.contains(U'\n') ? "\n" : v.symbols()[0]);
  }
};

class TextTask : public TextPrompts {
 public:
  TextTask(const TextOptions& options, const Text& text)
      : TextPrompts("the next character of " + options.path + " (" +
                        std::to_string(text.ids.size()) + " characters)",
                    Vocabulary(text.symbols), options.context, text.data),
        ngrams_(options.ngrams) {
    // int(0.9 * n) in float64, as Python computes it: 0.9 is not exact, and the split must agree.
    const auto n = text.ids.size();
    const auto cut = text.ids.begin() + std::ptrdiff_t(0.9 * double(n));
    train_.assign(text.ids.begin(), cut);
    validation_.assign(cut, text.ids.end());
    const std::int64_t shorter = std::ssize(validation_);
    check<ValueError>(options.context >= 1, "text", "needs a context of at least 1, got ",
                      options.context);
    check<ValueError>(
        std::min(shorter, std::ssize(train_)) > options.context, "text", "'", options.path,
        "' has ", n, " characters, ", train_.size(), " to train and ", shorter,
        " to validate: too few for context ", options.context, ", each part needs ",
        options.context, " + 1. Use a longer text",
        shorter >= 2 ? " or a context of at most " + std::to_string(shorter - 1) : "");
    check<ValueError>(options.ngrams >= 0, "text", "needs ngrams of 0 or more, got ",
                      options.ngrams);
  }

  std::int64_t evaluation_size() const override {
    return (std::ssize(validation_) - 1 + facts().context - 1) / facts().context;
  }

 private:
  Sequence draw(Generator& g) const override {
    std::int64_t start = 0;
    g.randint({&start, 1}, 0, std::ssize(train_) - facts().context);
    return window(train_, start);
  }

  std::vector<Sequence> draw_evaluation(std::int64_t first, std::int64_t count) const override {
    // Counted when first needed: most uses of a text never evaluate.
    if (ngrams_ > 0)
      std::call_once(counted_, [&] { model_.emplace(train_, facts().classes, ngrams_); });
    std::vector<Sequence> sequences;
    for (std::int64_t i = first; i < first + count; ++i) {
      Sequence s = window(validation_, i * facts().context);
      if (model_) {
        const std::vector<double> losses = model_->losses(s.inputs, s.targets);
        for (std::size_t n = 2; n <= losses.size(); ++n)
          s.references[std::to_string(n) + "-gram"] = losses[n - 1];
      }
      sequences.push_back(std::move(s));
    }
    return sequences;
  }

  // Beyond the end of the text, inputs are token 0 and targets ignored: no position sees a later
  // one, so the padding changes nothing.
  Sequence window(const std::vector<Id>& ids, std::int64_t start) const {
    Sequence s;
    for (std::int64_t i = start; i < start + facts().context; ++i) {
      const auto at = std::size_t(i);
      s.inputs.push_back(at < ids.size() ? ids[at] : 0);
      s.targets.push_back(at + 1 < ids.size() ? ids[at + 1] : kIgnored);
      s.counted.push_back(at + 1 < ids.size());
    }
    return s;
  }

  std::vector<Id> train_, validation_;
  std::int64_t ngrams_;  // the highest order, 0: none
  mutable std::optional<NgramModel> model_;
  mutable std::once_flag counted_;
};

}  // namespace

std::unique_ptr<Task> make_text(const TextOptions& options) {
  return std::make_unique<TextTask>(options, load(options.path));
}

std::unique_ptr<Task> make_text_prompts(const std::map<std::string, std::string>& data,
                                        std::int64_t context) {
  const auto symbols = data.find("vocabulary");
  check<IoError>(symbols != data.end() && !symbols->second.empty(), "text",
                 "the weights have no 'vocabulary' in their metadata: train again");
  return std::make_unique<TextPrompts>("the next character of a text",
                                       Vocabulary::of(symbols->second), context, data);
}

}  // namespace heed::nn
