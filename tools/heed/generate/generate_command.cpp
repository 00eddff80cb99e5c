// heed generate: a model goes on with a prompt.
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
  std::string run, weights = "model.safetensors", prompt;
  std::int64_t tokens = 256, seed = 1;
  nn::SampleOptions sample;
};

int generate(const GenerateArguments& a, bool json) {
  if (a.sample.greedy && (a.sample.top_k > 0 || a.sample.top_p < 1))
    usage_error("--greedy always takes the likeliest token; leave out --top-k and --top-p");
  if (!(a.sample.temperature > 0) || !(a.sample.top_p > 0))
    usage_error(
        "--temperature and --top-p need numbers above 0; for the likeliest token: --greedy");
  const std::filesystem::path folder = find_run(a.run);
  const nn::LoadedRun run = open_run(folder, a.weights, nn::Use::kPrompts);
  const nn::TaskFacts& facts = run.task->facts();
  const auto ids = run.task->prompt(a.prompt).inputs.to_vector<std::int64_t>();

  // A task's sequence ends at its context; text goes on.
  const std::int64_t room = facts.context + 1 - std::int64_t(ids.size());
  const std::int64_t tokens = facts.endless ? a.tokens : std::min(a.tokens, room);
  nn::Generator g(a.seed);
  std::string text;
  std::int64_t count = 0;
  const Stopwatch clock;
  const auto write = [&](const std::string& piece) {
    text += piece;
    if (json) return;
    std::fputs(piece.c_str(), stdout);
    if (std::fflush(stdout) != 0) throw autograd::IoError("generate: cannot write to stdout");
  };
  if (!json) write(facts.vocabulary.decode(ids));
  past_input_checks([&] {
    nn::generate(run.model, ids, tokens, a.sample, g, [&](std::int64_t id) {
      write(facts.vocabulary.decode({&id, 1}));
      ++count;
      return true;
    });
  });
  const double seconds = clock.seconds();
  const double rate = seconds > 0 ? double(count) / seconds : 0;
  if (json) {
    print_json(nn::Json::object({{"run", folder.string()},
                                 {"prompt", facts.vocabulary.decode(ids)},
                                 {"text", text},
                                 {"tokens", count},
                                 {"seconds", seconds},
                                 {"tokens_per_s", rate}}));
    return kOk;
  }
  print("\n");
  std::fflush(stdout);
  fmt::print(stderr, "{}: {} tokens in {}, {} tokens/s{}\n", folder.string(), count,
             seconds_text(seconds), si_text(rate),
             tokens < a.tokens
                 ? fmt::format("; {} sequences end after {}", facts.name, facts.context + 1)
                 : "");
  return kOk;
}

}  // namespace

void generate_command(Command& c) {
  c.name = "generate", c.what = "let a run go on with a prompt, token by token";
  c.examples =
      "  heed generate\n"
      "  heed generate --prompt thequickbrownthe --greedy --tokens 20\n"
      "  heed generate --temperature 0.8 --top-k 20 --seed 7";
  auto a = std::make_shared<GenerateArguments>();
  nn::SampleOptions& sample = a->sample;
  c.arguments = 1;
  c.add("Options",
        {{"run", a->run, "DIR", "run folder (default: the newest under runs/)"},
         {"prompt", a->prompt, "TEXT", "what to go on with, in the task's characters"},
         {"tokens", a->tokens, {1, 1e8}, "tokens to generate"},
         {"temperature", sample.temperature, {0, 1000}, "logits are divided by it, above 0"},
         {"top-k", sample.top_k, {0, 1e6}, "draw from the k likeliest; 0: from all"},
         {"top-p", sample.top_p, {0, 1}, "draw from the fewest of at least this probability"},
         {"greedy", sample.greedy, "always the likeliest token"},
         {"seed", a->seed, {0, 0xffffffff}, "of the drawing"},
         {"weights", a->weights, "FILE", "weights inside the folder"}});
  c.settings[1].may_be_empty = true;
  c.add_common(Command::kAll);
  c.run = [a](const Command& command) { return generate(*a, command.json); };
}

}  // namespace heed
