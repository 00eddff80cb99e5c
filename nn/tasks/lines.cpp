// The task `lines`: each line of a file is a sequence that starts and ends with `\n`, as in
// Karpathy's makemore.
#include <algorithm>
#include <unordered_set>

#include "autograd/base/error.h"
#include "nn/tasks/file_task.h"

namespace heed::nn {

using namespace autograd;

namespace {

constexpr std::int64_t kFewest = 10;

std::int64_t test_lines(std::int64_t all) { return std::min<std::int64_t>(1000, all / 10); }

// A random set of `count` numbers from 0 to all - 1. It is drawn with a fixed seed, so that equal
// arguments give equal sets in all runs. Requires 0 <= count < all.
class HeldOut {
 public:
  HeldOut(std::int64_t all, std::int64_t count) : all_(all) {
    constexpr std::uint32_t kSplitSeed = 0x5EED11E5;
    Generator g(kSplitSeed);
    while (std::ssize(list_) < count)
      if (const std::int64_t n = draw_below(all_, g); set_.insert(n).second) list_.push_back(n);
  }

  // Returns the held-out numbers in the order in which they were drawn. The first n numbers of the
  // list are a uniform sample of 0 to all - 1, for every n.
  const std::vector<std::int64_t>& list() const { return list_; }
  bool contains(std::int64_t n) const { return set_.contains(n); }
  // Returns a uniform random number that is not held out.
  std::int64_t draw_other(Generator& g) const {
    for (;;)
      if (const std::int64_t n = draw_below(all_, g); !contains(n)) return n;
  }

 private:
  std::int64_t all_;
  std::vector<std::int64_t> list_;
  std::unordered_set<std::int64_t> set_;
};

class LinesTask : public FileTask {
 public:
  LinesTask(const TextOptions& o, Corpus&& corpus, std::vector<std::uint32_t> starts,
            const std::string& description, const std::string& note)
      : FileTask(o, std::move(corpus), description, note),
        starts_(std::move(starts)),
        held_out_(std::ssize(starts_), whole() ? 0 : test_lines(std::ssize(starts_))) {}

  std::int64_t evaluation_size() const override {
    return whole() ? std::ssize(starts_) : std::ssize(held_out_.list());
  }

 private:
  Sequence draw(Generator& g) const override {
    if (whole()) return FileTask::draw(g);
    return sequence(held_out_.draw_other(g));
  }

  std::optional<Sequence> held_out(std::int64_t number) const override {
    return with_bigrams(sequence(whole() ? number : held_out_.list()[std::size_t(number)]));
  }

  std::int64_t newline() const { return *info().bos; }

  // Returns the token at index `at`. After the last token of the file it returns a newline, so that
  // the last line also ends with a newline.
  std::int64_t token(std::size_t at) const {
    return at < tokens().size() ? tokens()[at] : newline();
  }

  Sequence sequence(std::int64_t line) const {
    Sequence s;
    s.inputs = {newline()};
    for (std::size_t at = starts_[std::size_t(line)]; token(at) != newline(); ++at) {
      s.targets.push_back(token(at));
      s.inputs.push_back(token(at));
    }
    s.targets.push_back(newline());
    s.counted.assign(s.targets.size(), true);
    // The padding is at the end, and its targets are ignored. It has no effect, because the output
    // of a causal model at a position does not depend on later inputs.
    const auto context = std::size_t(info().context);
    s.padding = info().context - std::ssize(s.inputs);
    s.inputs.resize(context, newline());
    s.targets.resize(context, kIgnored);
    s.counted.resize(context, false);
    mark_answer(s);
    return s;
  }

  bool count_training(BigramModel& model, const std::function<void()>& poll) const override {
    std::int64_t polled = 0;
    for (std::int64_t line = 0; line < std::ssize(starts_); ++line) {
      if (line == 0 || model.counted() - polled >= kPolled) {
        poll();
        polled = model.counted();
      }
      if (held_out_.contains(line)) continue;
      if (model.counted() >= kMostCounted) return false;
      model.start(newline());
      std::size_t at = starts_[std::size_t(line)];
      for (; token(at) != newline(); ++at) model.count(token(at));
      model.count(newline());
    }
    return true;
  }

  std::vector<std::uint32_t> starts_;  // by line: index of its first token
  HeldOut held_out_;                   // indices into starts_
};

// The lines that are used, and how many lines are left out for each reason.
struct Choice {
  std::vector<std::uint32_t> starts;  // by used line: index of its first token
  std::int64_t too_long = 0, no_answer = 0;
  std::int64_t longest = 0;  // tokens of the longest line, without newline

  std::int64_t all() const { return std::ssize(starts) + too_long + no_answer; }
};

Choice choose_lines(const TextOptions& o, const Corpus& corpus) {
  const std::vector<bool> marks = answer_marks(o, corpus.vocabulary);
  Choice choice;
  const std::int64_t newline = newline_of(corpus.vocabulary);
  bool marked = marks.empty();
  const TokenArray& tokens = corpus.tokens;
  std::size_t start = 0;
  for (std::size_t at = 0; at <= tokens.size(); ++at) {
    const bool ends = at == tokens.size() || tokens[at] == newline;
    if (!ends) {
      marked = marked || marks[std::size_t(tokens[at])];
      continue;
    }
    const auto length = std::int64_t(at - start);
    choice.longest = std::max(choice.longest, length);
    if (length >= o.context)
      ++choice.too_long;
    else if (length > 0 && !marked)
      ++choice.no_answer;
    else if (length > 0)
      choice.starts.push_back(std::uint32_t(start));
    start = at + 1;
    marked = marks.empty();
  }
  return choice;
}

std::string left_out(const TextOptions& o, const Choice& choice) {
  std::string note;
  const auto add = [&](std::int64_t n, const std::string& why) {
    if (n > 0) note += (note.empty() ? "" : "; ") + std::to_string(n) + why;
  };
  const std::string of = " of " + std::to_string(choice.all()) + " lines ";
  add(choice.too_long, of + "are longer than " + std::to_string(o.context - 1) +
                           " tokens (context minus the final newline) and left out; `context` " +
                           std::to_string(choice.longest + 1) + " includes all");
  add(choice.no_answer, of + "have no " + (o.unit == Unit::kWord ? "word that ends in '" : "'") +
                            o.answer_after + "' and are left out");
  return note;
}

}  // namespace

std::unique_ptr<Task> make_lines(const TextOptions& o, const Vocabulary* known) {
  check<ValueError>(o.stride == 0, "`stride`",
                    "has no effect on lines, each of which is a sequence: leave it out");
  Corpus corpus = read_corpus(o, known);
  Choice choice = choose_lines(o, corpus);
  std::string note = left_out(o, choice);
  const std::int64_t n = std::ssize(choice.starts), fewest = known ? 1 : kFewest;
  check<ValueError>(n >= fewest, "lines", "'", o.path, "' has ", n,
                    n == 1 ? " usable line" : " usable lines",
                    note.empty() ? "" : " (" + note + ")", ": needs at least ", fewest,
                    known ? "" : ", because a tenth is held out");
  const std::string description = "a line of " + o.path + " (" + std::to_string(n) + " lines, " +
                                  std::to_string(known ? n : test_lines(n)) + " held out)";
  if (!corpus.note.empty()) note += (note.empty() ? "" : "; ") + corpus.note;
  return std::make_unique<LinesTask>(o, std::move(corpus), std::move(choice.starts), description,
                                     note);
}

}  // namespace heed::nn
