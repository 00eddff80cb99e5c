// The task `text`: windows of a text file. The text is split as in nanoGPT's data/shakespeare_char,
// and windows are drawn as in its train.py.
#include <algorithm>

#include "autograd/base/error.h"
#include "nn/tasks/file_task.h"

namespace heed::nn {

using namespace autograd;

namespace {

std::string describe(const TextOptions& o, const Corpus& corpus) {
  const bool words = o.unit == Unit::kWord;
  return (words ? "the next word of " : "the next character of ") + o.path + " (" +
         std::to_string(corpus.tokens.size()) + (words ? " words)" : " characters)");
}

class TextTask : public FileTask {
 public:
  TextTask(const TextOptions& o, Corpus&& corpus)
      : FileTask(o, std::move(corpus), describe(o, corpus), corpus.note),
        // This equals int(0.9 * n) in Python, which nanoGPT uses. The product is computed in
        // float64 as in Python, because 0.9 is rounded and another dtype could give another split.
        cut_(whole() ? 0 : std::int64_t(0.9 * double(tokens().size()))),
        stride_(o.stride > 0 ? o.stride : o.context) {
    const std::int64_t validation = all() - cut_;
    const auto units = [&](std::int64_t n) {
      return std::string(o.unit == Unit::kWord ? " word" : " character") + (n == 1 ? "" : "s");
    };
    check<ValueError>(stride_ <= o.context && o.stride >= 0, "`stride`",
                      "needs 1 to `context` = ", o.context, ", got ", o.stride);
    check<ValueError>(!whole() || validation >= 2, "text", "'", o.path, "' has ", validation,
                      units(validation),
                      ": needs at least 2, because each token is predicted from earlier ones");
    check<ValueError>(
        whole() || std::min(validation, cut_) > o.context, "text", "'", o.path, "' has ", all(),
        units(all()), ", ", cut_, " to train and ", validation,
        " to validate: too few for context ", o.context, "; each part needs at least ",
        o.context + 1, ". Use a longer text",
        validation >= 2 ? " or a context of at most " + std::to_string(validation - 1) : "");
  }

  std::int64_t evaluation_size() const override {
    const std::int64_t after_first = all() - cut_ - 1 - info().context;  // targets
    return 1 + (std::max<std::int64_t>(0, after_first) + stride_ - 1) / stride_;
  }

 private:
  std::int64_t all() const { return std::int64_t(tokens().size()); }

  Sequence draw(Generator& g) const override {
    if (whole()) return FileTask::draw(g);
    return window(draw_below(cut_ - info().context, g));
  }

  std::optional<Sequence> held_out(std::int64_t number) const override {
    Sequence s = window(cut_ + number * stride_);
    // The window before this one has the targets that both windows contain.
    for (std::int64_t t = 0; number > 0 && t < info().context - stride_; ++t) {
      s.targets[std::size_t(t)] = kIgnored;
      s.counted[std::size_t(t)] = false;
    }
    return with_bigrams(std::move(s));
  }

  // After the end of the text, inputs are token 0 and targets are ignored. This padding has no
  // effect, because the output of a causal model at a position does not depend on later inputs.
  Sequence window(std::int64_t start) const {
    Sequence s;
    for (std::int64_t i = start; i < start + info().context; ++i) {
      const auto at = std::size_t(i);
      s.inputs.push_back(i < all() ? tokens()[at] : 0);
      s.targets.push_back(i + 1 < all() ? tokens()[at + 1] : kIgnored);
      s.counted.push_back(i + 1 < all());
      s.padding += i >= all();
    }
    return s;
  }

  bool count_training(BigramModel& model, const std::function<void()>& poll) const override {
    const std::int64_t count = std::min(cut_, kMostCounted);
    for (std::int64_t i = 0; i < count; ++i) {
      if (i % kPolled == 0) poll();
      model.count(tokens()[std::size_t(i)]);
    }
    return count == cut_;
  }

  std::int64_t cut_;     // index of the first validation token
  std::int64_t stride_;  // distance of the starts of two validation windows
};

}  // namespace

std::unique_ptr<Task> make_text(const TextOptions& options) {
  if (options.by_line) return make_lines(options);
  return std::make_unique<TextTask>(options, read_corpus(options));
}

std::unique_ptr<Task> make_whole_text(const TextOptions& options, const Vocabulary& vocabulary) {
  TextOptions o = options;
  o.unit = vocabulary.unit();
  o.bigrams = false;  // they are counted on training tokens, and there are none
  if (o.by_line) return make_lines(o, &vocabulary);
  return std::make_unique<TextTask>(o, read_corpus(o, &vocabulary));
}

}  // namespace heed::nn
