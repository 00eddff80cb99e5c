// Tests the prompts and the results in the documentation (label tasks). The default model of the
// task induction must correctly continue every induction prompt in a Markdown file, in `heed
// --help` and in `heed tasks`, if it is trained with any of the seeds 1 to 5.
#include <fmt/format.h>

#include <regex>

#include "autograd/base/files.h"
#include "nn/io/json.h"
#include "nn/lab.h"
#include "tests/support/catch.h"
#include "tests/support/recipes.h"

namespace {

using namespace heed::autograd;
using namespace heed::lab;
using heed::lab::testing::seeds_to;
namespace fs = std::filesystem;

// Returns the distinct texts that group 1 of the regular expression `pattern` matches.
std::set<std::string> matches(const std::string& text, const char* pattern) {
  const std::regex regex(pattern);
  std::set<std::string> found;
  for (std::sregex_iterator it(text.begin(), text.end(), regex), end; it != end; ++it)
    found.insert((*it)[1]);
  return found;
}

// Returns the Markdown files, and the source files of commands, whose help shows commands.
std::vector<fs::path> shown_files() {
  const fs::path root = HEED_SOURCE_DIR;
  std::vector<fs::path> files = {root / "README.md"};
  for (const char* room : {"autograd", "nn", "tools", "examples", "tests"})
    for (const auto& entry : fs::recursive_directory_iterator(root / room))
      if (const std::string name = entry.path().filename().string();
          name.ends_with(".md") || name.ends_with("_command.cpp"))
        files.push_back(entry.path());
  return files;
}

// Returns all induction prompts in shown_files() and in the description of the task.
std::set<std::string> shown_prompts() {
  std::set<std::string> prompts;
  std::size_t in_readme = 0;
  for (const fs::path& file : shown_files()) {
    const auto found =
        matches(read_file(file.string()), "heed (?:generate|study)[^\n]* --prompt ([A-Za-z]+)");
    if (file.parent_path() == HEED_SOURCE_DIR) in_readme = found.size();
    prompts.insert(found.begin(), found.end());
  }
  CHECK(in_readme >= 2);
  const auto in_tasks = matches(make_task("induction")->info().prompt, "such as ([A-Za-z]+)");
  CHECK(!in_tasks.empty());
  prompts.insert(in_tasks.begin(), in_tasks.end());
  return prompts;
}

// Returns the length of the shortest block whose repetition begins with the prompt.
std::size_t period_of(const std::string& prompt) {
  std::size_t p = 1;
  while (!prompt.starts_with(prompt.substr(p))) ++p;
  return p;
}

Trainer trained_induction(std::int64_t seed) {
  RunConfig config = preset("induction");
  config.seed = seed;
  Trainer trainer(config);
  while (trainer.steps_done < config.steps) trainer.step();
  return trainer;
}

// Returns the trainer of the first run in README.md, after training.
Trainer& first_run() {
  static Trainer trainer = trained_induction(1);
  return trainer;
}

// Checks that greedy generation continues the prompt with up to 40 correct tokens, and that the
// probability of each of these tokens is above `probability`.
void check_continues(const Trainer& trainer, const std::string& prompt, double probability) {
  INFO(prompt);
  const std::size_t period = period_of(prompt);
  REQUIRE(period < prompt.size());  // otherwise no block is repeated
  const auto ids = trainer.task->prompt(prompt).inputs.to_vector<std::int64_t>();
  const auto room = trainer.task->info().context + 1 - std::ssize(ids);
  const Index count = std::min<Index>(40, room);
  std::string right, got;
  for (std::size_t i = prompt.size(); std::ssize(right) < count; ++i) right += prompt[i % period];
  Generator g(1);
  std::vector<Index> all = ids;
  generate(trainer.model, ids, count, {.greedy = true}, g, [&](Index id) {
    got += trainer.task->info().vocabulary.label(id);
    all.push_back(id);
    return true;
  });
  CHECK(got == right);
  all.resize(std::min(all.size(), std::size_t(trainer.task->info().context)));
  const auto scores = score(trainer.model, from_data(all, {1, std::ssize(all)}));
  double least = 1;
  for (std::size_t t = ids.size(); t < all.size(); ++t)
    least = std::min(least, std::exp(scores[t].value().log_probability));
  // Because got == right, `least` is the lowest probability of a correct token.
  CHECK(least > probability);
  std::cout << "  " << prompt << ": least probability " << least << std::endl;
}

TEST_CASE("the tour of tools/heed/study/README.md gives the stated results") {
  const Trainer& trainer = first_run();
  const Vocabulary& spelling = trainer.task->info().vocabulary;
  const std::string text = read_file(HEED_SOURCE_DIR "/tools/heed/study/README.md");
  std::smatch match;
  REQUIRE(std::regex_search(text, match,
                            std::regex("heed study \\S+ --prompt ([a-z]+) --corrupt ([a-z]+) --of "
                                       "diff:([a-z])-([a-z])")));
  const std::string prompt = match[1];
  const auto last = Index(prompt.size()), before = last - Index(period_of(prompt));
  const Batch clean = trainer.task->prompt(prompt), corrupt = trainer.task->prompt(match[2]);
  const Objective lead{Objective::kDifference,
                       spelling.encode(match.str(3))[0],
                       spelling.encode(match.str(4))[0],
                       {last}};
  const Study s = study(trainer.model, clean, lead);
  // "The head L1H1 puts most of its weight on c ... a higher score for c would raise L more than a
  // higher score for any other token. If the output of L1H1 is set to 0, L is smaller."
  const auto row = [&](const Tensor& maps) {
    return select(select(select(maps, 0, 0), 0, 1), 0, last);
  };
  CHECK(row(s.layers[1].pattern).at({before + 1}) > 0.5);
  CHECK(argmax(row(s.layers[1].scores_grad), 0).item() == double(before + 1));
  const auto zeros = replacements(trainer.model, {}, Ablation::kZero);
  CHECK(ablate({trainer.model, clean, lead}, {{1, 1}}, zeros).mean < 0);
  // "Replacing the output of attention in layer 1 at the last b restores nearly all of L."
  const Patching patched = patching(trainer.model, clean, corrupt, lead);
  bool found = false;
  for (std::size_t i = 0; i < patched.places.size(); ++i)
    if (patched.places[i].name() == "L1 attn_out at " + std::to_string(last)) {
      found = true;
      CHECK(patched.denoise[i].mean > 0.9);
    }
  CHECK(found);
}

}  // namespace

TEST_CASE("every shown induction prompt is continued correctly, for seeds 1 to 5") {
  const std::set<std::string> prompts = shown_prompts();
  for (const std::int64_t seed : seeds_to(5)) {
    std::cout << "seed " << seed << std::endl;
    std::optional<Trainer> other;
    const Trainer& trainer = seed == 1 ? first_run() : other.emplace(trained_induction(seed));
    for (const std::string& prompt : prompts) check_continues(trainer, prompt, 0.9);
    for (const char* prompt : {"abcabc", "abcdabcd", "abcdeabc"})
      check_continues(trainer, prompt, 0);
  }
}

TEST_CASE("the loss, optimum and accuracy in README.md are those of its run") {
  // The sentence may contain line breaks, so each becomes a space.
  const std::string text =
      std::regex_replace(read_file(HEED_SOURCE_DIR "/README.md"), std::regex("\\s+"), " ");
  std::smatch match;
  REQUIRE(std::regex_search(
      text, match,
      std::regex("After (\\d+) steps, the loss on the evaluation sequences is (\\S+) nats per "
                 "token. The best possible loss on them is (\\S+), .*right for (\\S+) % of the "
                 "tokens")));
  const Evaluation e = first_run().evaluate(true);
  CHECK(match[1] == std::to_string(first_run().steps_done));
  CHECK(match[2] == fmt::format("{:.2f}", e.loss));
  CHECK(match[3] == fmt::format("{:.2f}", e.optimal.value()));
  CHECK(match[4] == fmt::format("{:.2f}", 100 * e.accuracy.value()));
}

// examples/induction.safetensors contains the arrays of the first picture in README.md
// (tests/tools/heed/study_pictures_test.cpp). The sequence is BOS and three copies of a block.
TEST_CASE("README.md describes the heads in its picture correctly for every row") {
  const SafeTensors stored = load_safetensors(HEED_SOURCE_DIR "/examples/induction.safetensors");
  const Json tokens = Json::parse(stored.metadata.at("labels"));
  const auto same_token = [&](Index i, Index j) {
    return tokens.items()[std::size_t(i)].text() == tokens.items()[std::size_t(j)].text();
  };
  const auto pattern = [&](const char* name, Index head) {
    return select(select(stored.find(name), 0, 0), 0, head);  // [Tq, Tk]
  };
  // Returns the weight of the last `count` keys up to the query, summed over these keys and
  // averaged over the queries begin to end - 1, for a head of layer 0.
  const auto recent = [&](Index head, Index count, Index begin, Index end) {
    const Tensor rows = pattern("blocks.0.attn.hook_pattern", head);
    double total = 0;
    for (Index i = begin; i < end; ++i)
      for (Index j = i - count + 1; j <= i; ++j) total += rows.at({i, j});
    return total / double(end - begin);
  };
  const Tensor previous = pattern("blocks.0.attn.hook_pattern", 0);
  Index largest = 0;
  for (Index i = 1; i < previous.size(0); ++i)
    largest += argmax(select(previous, 0, i), 0).item() == double(i - 1);
  CHECK(largest >= previous.size(0) - 2);  // "L0H0 ... mostly to the previous token"
  CHECK(recent(1, 2, 1, 17) > 0.6);        // "L0H1 attends to nearby tokens at first"
  CHECK(recent(1, 2, 33, 48) < 0.2);       // "and to many tokens later"
  for (const Index head : {0, 1}) {
    const Tensor rows = pattern("blocks.1.attn.hook_pattern", head);
    for (Index i = 0; i < rows.size(0); ++i) {
      double after_copies = 0, first_two = 0;
      for (Index j = 0; j <= i; ++j) {
        const double weight = rows.at({i, j});
        if (j < 2) first_two += weight;
        if (j > 0 && j - 1 < i && same_token(j - 1, i)) after_copies += weight;
      }
      INFO("L1H" << head << ", row " << i);
      // "In the first block, L1H0 and L1H1 attend to the first two positions ... From the second
      // block on, they attend to the tokens that followed earlier copies of the query's token."
      const bool again = i >= 2 && [&] {
        for (Index j = 1; j < i; ++j)
          if (same_token(j, i)) return true;
        return false;
      }();
      CHECK((again ? after_copies : first_two) > 0.85);
    }
  }
}

TEST_CASE("the gradients that README.md describes are those of the induction circuit") {
  const Trainer& trainer = first_run();
  const Vocabulary& spelling = trainer.task->info().vocabulary;
  const std::string text = read_file(HEED_SOURCE_DIR "/README.md");
  std::smatch command;
  REQUIRE(std::regex_search(
      text, command, std::regex("heed study \\S+ --prompt ([a-z]+) --of diff:([a-z])-([a-z])")));
  const std::string prompt = command[1];
  const auto last = Index(prompt.size()), before = last - Index(period_of(prompt));
  CHECK(prompt[std::size_t(before)] == command.str(2)[0]);
  const Study s = study(trainer.model, trainer.task->prompt(prompt),
                        {.kind = Objective::kDifference,
                         .a = spelling.encode(command.str(2))[0],
                         .b = spelling.encode(command.str(3))[0],
                         .positions = {last}});
  CHECK(s.value > 0);
  const auto gradient_row = [&](std::size_t layer, Index head, Index query) {
    return select(select(select(s.layers[layer].scores_grad, 0, 0), 0, head), 0, query);
  };
  // "In the last row, a higher score on c would raise L most in both heads of layer 1 ... A higher
  // score on `^` would lower L most. In row c, a higher score on b ... would raise L most in both
  // heads of layer 0."
  for (const Index head : {0, 1}) {
    INFO("head " << head);
    CHECK(argmax(gradient_row(1, head, last), 0).item() == double(before + 1));
    CHECK(argmax(-gradient_row(1, head, last), 0).item() == 0);
    CHECK(argmax(gradient_row(0, head, before + 1), 0).item() == double(before));
  }
  // The picture in README.md is drawn from stored arrays (study_pictures_test.cpp). The gradients
  // among them must equal the gradients of this run.
  int compared = 0;
  for (const NamedTensor& stored :
       load_safetensors(HEED_SOURCE_DIR "/examples/study.safetensors").tensors)
    for (const NamedTensor& array : to_named(s))
      if (array.name == stored.name && array.name.ends_with("_grad")) {
        INFO(array.name);
        ++compared;
        // The tolerance is 5 % of the largest value.
        // A different compiler or libm changes values by up to 2 %.
        CHECK(allclose(array.tensor, stored.tensor, 0, 0.05 * max(abs(stored.tensor)).item()));
      }
  CHECK(compared == 2);  // dL/dS of 2 layers
}
