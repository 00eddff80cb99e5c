// Tests of the task `lines` and of words as tokens: held-out lines, counted positions, errors.
#include "autograd/base/utf8.h"
#include "nn/lab/tasks/corpus.h"
#include "tests/support/catch.h"
#include "tests/support/disk.h"
#include "tests/support/files.h"
#include "tests/support/tasks.h"

namespace {

using namespace heed::autograd;
using namespace heed::lab;
using namespace heed::lab::testing;
using heed::testing::File;

// Returns the line of a row: the inputs after the start token, before the next newline.
std::string line_of(const Task& task, const Row& row) {
  const std::string text = text_of(task, row.inputs);
  return text.substr(1, text.find('\n', 1) - 1);
}

std::set<std::string> held_out(const Task& task) {
  std::set<std::string> lines;
  for (const Row& row : rows_of(task.evaluation(0, task.evaluation_size())))
    lines.insert(line_of(task, row));
  return lines;
}

std::string numbers(int n) {
  std::string text;
  for (int i = 0; i < n; ++i) text += std::to_string(i) + "\n";
  return text;
}

std::string text_error(const TextOptions& options) {
  return error_of([&] { make_text(options); });
}

}  // namespace

TEST_CASE("a line starts and ends with a newline; the last one counts, padding does not",
          "[lines]") {
  const File file("\nab\r\n\nabc\nb\n" + numbers(7) + "last");
  const auto task = make_text({.path = file.path(), .context = 6, .by_line = true});
  const Vocabulary& v = task->info().vocabulary;
  CHECK(v.symbols()[0] == "\n");
  CHECK(v.summary() == "\\n 0-6 a b c l s t");  // \r is dropped
  CHECK(task->info().bos == 0);
  CHECK(task->info().stop == 0);
  CHECK(!task->info().endless);
  CHECK(task->info().note == file.path() + ": carriage returns are left out");
  CHECK(task->evaluation_size() == 1);  // a tenth of 11 lines
  Generator g(1);
  std::map<std::string, Row> seen;
  for (const Row& row : rows_of(task->sample(500, g))) seen.emplace(line_of(*task, row), row);
  CHECK(seen.size() == 10);
  for (const std::string& line : held_out(*task)) CHECK(!seen.contains(line));
  std::set<std::string> all = held_out(*task);
  for (const auto& [line, row] : seen) all.insert(line);
  CHECK(all == std::set<std::string>{"ab", "abc", "b", "0", "1", "2", "3", "4", "5", "6", "last"});
  for (const auto& [line, row] : seen) {
    const auto n = line.size();
    INFO(line);
    const Ids letters = v.encode(line);
    CHECK(row.inputs[0] == 0);
    CHECK(std::equal(letters.begin(), letters.end(), row.inputs.begin() + 1));
    CHECK(std::equal(letters.begin(), letters.end(), row.targets.begin()));
    CHECK(row.targets[n] == 0);
    for (std::size_t t = 0; t < 6; ++t) {
      CHECK(row.counted[t] == (t <= n));
      if (t > n) CHECK(row.targets[t] == kIgnored);
    }
  }
  CHECK(task->prompt("ab").inputs.to_vector<std::int64_t>() == v.encode("\nab"));
}

TEST_CASE("a tenth of the lines, at most 1000, is held out, from all parts of the file",
          "[lines]") {
  const File small(numbers(400));
  const auto task = make_text({.path = small.path(), .context = 8, .by_line = true});
  CHECK(task->evaluation_size() == 40);
  const std::set<std::string> lines = held_out(*task);
  CHECK(lines.size() == 40);
  CHECK(lines == held_out(*make_text({.path = small.path(), .context = 9, .by_line = true})));
  int first_half = 0;
  for (const std::string& line : lines) first_half += std::stoi(line) < 200;
  CHECK(first_half > 8);
  CHECK(first_half < 32);
  const File large(numbers(20000));
  CHECK(make_text({.path = large.path(), .context = 8, .by_line = true})->evaluation_size() ==
        1000);
}

TEST_CASE("with answer_after only the answer counts, and accuracy is of whole answers", "[lines]") {
  std::string sums;
  for (int a = 0; a < 5; ++a)
    for (int b = 0; b < 5; ++b)
      sums += std::to_string(a) + "+" + std::to_string(b) + "=" + std::to_string(a * b) + "=\n";
  const File file(sums + "no answer\n" + "111+222=333333333333\n");
  const TextOptions options{
      .path = file.path(), .context = 10, .by_line = true, .answer_after = "="};
  const auto task = make_text(options);
  CHECK(task->info().whole_answers);
  CHECK(task->info().accuracy == "whole answers right");
  CHECK(task->info().note ==
        "1 of 27 lines are longer than 9 tokens (context minus the final newline) and left out; "
        "`context` 21 includes all; 1 of 27 lines have no '=' and are left out");
  Generator g(2);
  for (const Row& row : rows_of(task->sample(100, g))) {
    const std::string line = line_of(*task, row);
    std::string counted;
    for (std::size_t t = 0; t < row.targets.size(); ++t) {
      CHECK((row.targets[t] != kIgnored) == row.counted[t]);
      if (row.counted[t]) counted += task->info().vocabulary.symbols()[std::size_t(row.targets[t])];
    }
    CHECK(counted == line.substr(line.find('=') + 1) + "\n");
  }
  const Batch prompt = task->prompt("3+4=12");
  CHECK(prompt.targets.to_vector<std::int64_t>() ==
        Ids{kIgnored, kIgnored, kIgnored, kIgnored, task->info().vocabulary.encode("1")[0],
            task->info().vocabulary.encode("2")[0], kIgnored});
}

TEST_CASE("decoded words are the text", "[lines][words]") {
  const std::string text = " to be,  or\tnot to be:\n\nthat is to be \xC3\xA9t\xC3\xA9 ";
  std::string long_text;
  for (int i = 0; i < 30; ++i) long_text += text;
  const File file(long_text);
  const auto task = make_text({.path = file.path(), .context = 8, .unit = Unit::kWord});
  const Vocabulary& v = task->info().vocabulary;
  CHECK(v.decode(v.encode(long_text)) == long_text);
  CHECK(v.encode(" to be,  or").size() == 4);  // " to", " be,", " ", " or"
  CHECK(v.symbols()[0] == " to");              // the most frequent word
  CHECK(task->info().note.empty());
  const auto kept = vocabulary_of(task->info().data, Unit::kWord);
  CHECK(kept == v);
  CHECK_THROWS_AS(vocabulary_of({{"vocabulary", "[1"}}, Unit::kWord), IoError);
  CHECK_THROWS_AS(vocabulary_of({{"vocabulary", "a\xFF"}}, Unit::kChar), IoError);

  REQUIRE_THROWS_AS(v.encode("zebra"), ValueError);
}

TEST_CASE("bigrams of lines equal a separate count in which each line has a start symbol",
          "[lines][bigram]") {
  const File file(numbers(150));
  const auto task =
      make_text({.path = file.path(), .context = 6, .bigrams = true, .by_line = true});
  // Counts bigrams of the training lines, which are the lines that are not held out.
  const std::set<std::string> test = held_out(*task);
  std::map<std::string, double> count;  // key "context|next"; ^ starts a line
  std::map<std::string, std::set<char>> followers;
  double symbols = 11;  // the vocabulary: \n and ten digits
  for (int i = 0; i < 150; ++i) {
    if (test.contains(std::to_string(i))) continue;
    const std::string line = "^" + std::to_string(i) + "\n";
    for (std::size_t end = 1; end < line.size(); ++end)
      for (std::size_t n = 1; n <= 2 && n <= end + 1; ++n) {
        const std::string context = line.substr(end + 1 - n, n - 1);
        ++count[context + "|" + line[end]];
        ++count[context + "|"];
        followers[context].insert(line[end]);
      }
  }
  const auto probability = [&](const std::string& history, char next) {
    double p = 1 / symbols;
    for (std::size_t n = 1; n <= 2; ++n) {
      const std::string context = history.substr(history.size() + 1 - n);
      if (!followers.contains(context)) continue;
      const double distinct = double(followers[context].size());
      p = (count[context + "|" + next] + distinct * p) / (count[context + "|"] + distinct);
    }
    return p;
  };
  const Batch batch = task->evaluation(0, task->evaluation_size());
  const std::vector<Row> rows = rows_of(batch);
  const auto& losses = batch.references.at("2-gram");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string line = line_of(*task, rows[i]) + "\n";
    double nats = 0;
    for (std::size_t t = 0; t < line.size(); ++t)
      nats -= std::log(probability("^" + line.substr(0, t), line[t]));
    CHECK(losses[i] == Approx(nats / double(line.size())).epsilon(1e-12));
  }
}

TEST_CASE("files without enough usable lines are rejected", "[lines]") {
  const File few("a\nb\nc\n");
  CHECK(text_error({.path = few.path(), .by_line = true}) ==
        "lines: '" + few.path() +
            "' has 3 usable lines: needs at least 10, because a tenth is held out");
  const File longer(numbers(9) + std::string(20, '7') + "\n" + std::string(30, '8'));
  CHECK(
      text_error({.path = longer.path(), .context = 16, .by_line = true}) ==
      "lines: '" + longer.path() +
          "' has 9 usable lines (2 of 11 lines are longer than 15 tokens (context minus the final "
          "newline) and left out; `context` 31 includes all): needs at least 10, because a tenth "
          "is held out");
  const File many(numbers(100));
  const auto error = [&](bool lines, const std::string& mark) {
    return text_error({.path = many.path(), .by_line = lines, .answer_after = mark});
  };
  CHECK(error(true, "=").starts_with("`answer-after`: '=' never occurs in"));
  CHECK(error(true, "==").starts_with("`answer-after`: needs one character"));
  CHECK(error(false, "1").find("give the file as `lines`") != std::string::npos);
}

TEST_CASE("with words, answer_after must be the end of a word", "[lines]") {
  const std::vector<std::string> three = {"3 + 4 = 7 8", "a=b sum: 7 8", "a=b 7 8"};
  std::string text;
  for (int i = 0; i < 30; ++i) text += three[std::size_t(i) % 3] + "\n";
  const File file(text + "rare so=\n");
  TextOptions options{.path = file.path(),
                      .context = 10,
                      .by_line = true,
                      .unit = Unit::kWord,
                      .answer_after = "="};
  for (const std::string& mark : {std::string("="), std::string(":")}) {
    options.answer_after = mark;
    const auto task = make_text(options);
    Generator g(3);
    for (const Row& row : rows_of(task->sample(20, g))) {
      std::string counted;
      for (std::size_t t = 0; t < row.targets.size(); ++t)
        if (row.counted[t])
          counted += task->info().vocabulary.symbols()[std::size_t(row.targets[t])];
      CHECK((counted == " 7 8\n" || (mark == "=" && counted == "\n")));
    }
    CHECK(task->info().note.find(mark == "="
                                     ? "20 of 31 lines have no word that ends in '=' and are"
                                     : "21 of 31 lines have no word that ends in ':' and are") !=
          std::string::npos);
  }
  options.answer_after = "k";
  CHECK(text_error(options).starts_with("`answer-after`: no word that is a token ends in 'k' in"));
}

TEST_CASE("a text may have at most 65,536 different characters", "[lines][text]") {
  std::string text;
  char32_t c = 1;
  const auto add = [&](int n) {
    for (; n > 0; --n, ++c) {
      if (c == 0xD800) c = 0xE000;
      text += to_utf8(c);
    }
  };
  add((1 << 16) + 1);  // CR is read as LF
  const File most(text);
  const auto task = make_text({.path = most.path(), .context = 4, .bigrams = true});
  CHECK(task->info().classes == 1 << 16);
  const Batch batch = task->evaluation(0, 2);
  CHECK(batch.references.at("2-gram").size() == 2);
  CHECK(std::isfinite(batch.references.at("2-gram")[0]));
  add(1);
  const File more(text);
  CHECK_THROWS_WITH(make_text({.path = more.path(), .context = 4}),
                    Contains("more than 65536 different characters"));
}

TEST_CASE("characters that two pieces of a file share are read correctly", "[lines][text]") {
  // All characters have 3 bytes. A piece of 2^20 bytes is not a multiple of 3 bytes, so that pieces
  // end inside a character.
  std::string text;
  for (int i = 0; i < 800'000; ++i) text += to_utf8(char32_t(0x4E00 + i % 300));
  const File file(text);
  const Corpus corpus = read_corpus({.path = file.path()});
  REQUIRE(corpus.tokens.size() == 800'000);
  CHECK(corpus.vocabulary.size() == 300);
  bool right = true;
  for (std::size_t i = 0; i < corpus.tokens.size(); ++i)
    right = right && corpus.tokens[i] == Index(i % 300);
  CHECK(right);
}
