// heed generate: a model goes on with a prompt.
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "nn/train/generate.h"
#include "nn/train/run_folder.h"
#include "tools/heed/commands.h"
#include "tools/heed/find_run.h"
#include "tools/heed/report/output.h"
#include "tools/heed/report/progress.h"

namespace heed {
namespace {

struct GenerateArguments {
  std::string run, weights = "model.safetensors", prompt, stop;
  std::int64_t tokens = 256, seed = 1;
  bool probabilities = false;
  nn::SampleOptions sample;
};

void write_out(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  if (std::fflush(stdout) != 0) throw autograd::IoError("generate: cannot write to stdout");
}

// What is said of the tokens while they come: text, or with --probabilities a line for each.
class Narrator {
 public:
  Narrator(const nn::TaskFacts& facts, bool json, bool probabilities)
      : facts_(facts), json_(json), table_(probabilities) {}

  void prompt(std::vector<std::int64_t> ids) {
    if (json_) return;
    // The newline that starts a line is none to print.
    if (facts_.stop && ids[0] == *facts_.stop) ids.erase(ids.begin());
    write_out(facts_.vocabulary.decode(ids));
    if (table_) write_out(fmt::format("\n{:<12} probability  runner-up\n", "token"));
  }
  void token(const nn::GeneratedToken& t) {
    const nn::Vocabulary& v = facts_.vocabulary;
    last_ = v.symbols()[std::size_t(t.id)];
    if (json_) return;
    write_out(table_ ? fmt::format("{:<12} {:>11.6f}  {} {:.6f}\n", v.label(t.id), t.probability,
                                   v.label(t.runner_up), t.runner_up_probability)
                     : last_);
  }
  void end() {
    if (!json_ && !table_ && last_ != "\n") write_out("\n");
  }

 private:
  const nn::TaskFacts& facts_;
  bool json_, table_;
  std::string last_;
};

void add_probabilities(nn::Json& object, const std::vector<nn::GeneratedToken>& tokens,
                       const nn::Vocabulary& vocabulary) {
  nn::Json symbols = nn::Json::array(), p = symbols, runners_up = symbols, runner_up_p = symbols;
  for (const nn::GeneratedToken& t : tokens) {
    symbols.push_back(vocabulary.symbols()[std::size_t(t.id)]);
    p.push_back(t.probability);
    runners_up.push_back(vocabulary.symbols()[std::size_t(t.runner_up)]);
    runner_up_p.push_back(t.runner_up_probability);
  }
  object["symbols"] = symbols;
  object["probabilities"] = p;
  object["runner_up_symbols"] = runners_up;
  object["runner_up_probabilities"] = runner_up_p;
}

std::string summary(const nn::TaskFacts& facts, std::int64_t count, double seconds, bool stopped,
                    bool ended) {
  std::string text = fmt::format("{} tokens in {}, {} tokens/s", count, seconds_text(seconds),
                                 si_text(seconds > 0 ? double(count) / seconds : 0));
  if (stopped) return text + "; stopped";
  if (ended) text += fmt::format("; {} sequences end after {}", facts.name, facts.context + 1);
  return text;
}

std::vector<std::int64_t> prompt_ids(const GenerateArguments& a, const nn::Task& task) {
  try {
    return task.prompt(a.prompt).inputs.to_vector<std::int64_t>();
  } catch (const autograd::ValueError& e) {
    if (!a.prompt.empty()) throw;
    usage_error("{}; give it as --prompt: {}", e.what(), task.facts().prompt);
  }
}

int generate(const GenerateArguments& a, bool json) {
  if (a.sample.greedy && (a.sample.top_k > 0 || a.sample.top_p < 1))
    usage_error("--greedy always takes the likeliest token; leave out --top-k and --top-p");
  const std::filesystem::path folder = find_run(a.run);
  const nn::LoadedRun run = open_run(folder, a.weights, nn::Use::kPrompts);
  const nn::TaskFacts& facts = run.task->facts();
  const nn::Vocabulary& vocabulary = facts.vocabulary;
  const auto ids = prompt_ids(a, *run.task);
  std::vector<std::int64_t> stops = vocabulary.encode(a.stop, "stop");
  if (facts.stop) stops.push_back(*facts.stop);

  // A task's sequence ends at its context; text goes on.
  const std::int64_t room = facts.context + 1 - std::int64_t(ids.size());
  const std::int64_t most = facts.endless ? a.tokens : std::min(a.tokens, room);
  nn::Generator g(a.seed);
  std::vector<nn::GeneratedToken> tokens;
  bool stopped = false;
  Narrator narrator(facts, json, a.probabilities);
  narrator.prompt(ids);
  Progress progress(!json && ::isatty(STDOUT_FILENO) != 0);  // where the text does not tell
  const Stopwatch clock;
  past_input_checks([&] {
    nn::generate(run.model, ids, most, a.sample, g, [&](const nn::GeneratedToken& token) {
      tokens.push_back(token);
      narrator.token(token);
      progress.at_work(fmt::format("{} of {} tokens", tokens.size(), most));
      stopped = std::find(stops.begin(), stops.end(), token.id) != stops.end();
      return !stopped;
    });
  });
  const double seconds = clock.seconds();
  const auto count = std::ssize(tokens);
  progress.clear();
  narrator.end();
  if (!json) {
    const bool ended = most < a.tokens;
    fmt::print(stderr, "{}: {}\n", folder.string(), summary(facts, count, seconds, stopped, ended));
    return kOk;
  }
  std::string text;
  for (const nn::GeneratedToken& token : tokens)
    text += vocabulary.symbols()[std::size_t(token.id)];
  nn::Json object = nn::Json::object({{"run", folder.string()},
                                      {"prompt", vocabulary.decode(ids)},
                                      {"text", text},
                                      {"tokens", count},
                                      {"stopped", stopped},
                                      {"seconds", seconds},
                                      {"tokens_per_s", seconds > 0 ? double(count) / seconds : 0}});
  if (a.probabilities) add_probabilities(object, tokens, vocabulary);
  print_json(object);
  return kOk;
}

}  // namespace

void generate_command(Command& c) {
  c.name = "generate", c.what = "let a run go on with a prompt, token by token";
  const std::string keys = "run prompt text tokens stopped seconds tokens_per_s";
  c.json_keys[""] = keys;
  c.json_keys["--probabilities"] =
      keys + " symbols probabilities runner_up_symbols runner_up_probabilities";
  c.examples =
      "  heed generate\n"
      "  heed generate --prompt abcdabcd --greedy --tokens 20\n"
      "  heed generate --prompt abcdabcd --greedy --tokens 5 --probabilities\n"
      "  heed generate --temperature 0.8 --top-k 20 --seed 7";
  c.notes =
      "--json prints one object: run; prompt, with what the task adds to it; text, what was\n"
      "generated; tokens, how many; stopped, whether by a stop token, which is the last one then;\n"
      "seconds; tokens_per_s. With --probabilities also symbols, probabilities,\n"
      "runner_up_symbols and runner_up_probabilities, an entry for each token. Probabilities are\n"
      "the model's own, before temperature, top-k and top-p. The text depends on the seed, not on\n"
      "the number of threads.";
  auto a = std::make_shared<GenerateArguments>();
  nn::SampleOptions& sample = a->sample;
  c.arguments = 1;
  c.add("Options",
        {run_setting(a->run),
         {"prompt", a->prompt, "TEXT", "what to go on with, in the task's characters"},
         {"tokens", a->tokens, {1, 1e8}, "most tokens to generate"},
         {"stop", a->stop, "CHARS", "stop after any of these tokens; lines stop at their end"},
         {"probabilities", a->probabilities, "each token with its probability and the runner-up"},
         {"temperature", sample.temperature, {0, 1000, true}, "logits are divided by it"},
         {"top-k", sample.top_k, {0, 1e6}, "draw from the k likeliest; 0: from all"},
         {"top-p", sample.top_p, {0, 1, true}, "draw from the fewest of at least this probability"},
         {"greedy", sample.greedy, "always the likeliest token"},
         {"seed", a->seed, {0, 0xffffffff}, "of the drawing"},
         {"weights", a->weights, "FILE", "weights inside the folder"}});
  c.settings[1].may_be_empty = true;
  c.add_common(Command::kAll);
  c.run = [a](const Command& command) { return generate(*a, command.json); };
}

}  // namespace heed
