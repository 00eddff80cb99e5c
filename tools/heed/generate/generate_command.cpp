// heed generate: a model goes on with a prompt.
#include <cstdio>

#include "nn/train/generate.h"
#include "nn/train/trainer.h"
#include "tools/heed/commands.h"
#include "tools/heed/output.h"
#include "tools/heed/progress.h"
#include "tools/heed/run_folder.h"

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
  const nn::LoadedRun run = nn::load_run(folder, a.weights, nn::Use::kPrompts);
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
    say_json(nn::Json::object({{"run", folder.string()},
                               {"prompt", facts.vocabulary.decode(ids)},
                               {"text", text},
                               {"tokens", count},
                               {"seconds", seconds},
                               {"tokens_per_s", rate}}));
    return kOk;
  }
  say("\n");
  std::fflush(stdout);
  fmt::print(stderr, "{}: {} tokens in {}, {} tokens/s{}\n", folder.string(), count,
             seconds_text(seconds), si_text(rate),
             tokens < a.tokens
                 ? fmt::format("; {} sequences end after {}", facts.name, facts.context + 1)
                 : "");
  return kOk;
}

}  // namespace

std::unique_ptr<Command> generate_command(CLI::App& app) {
  auto command =
      std::make_unique<Command>(app, "generate", "let a run go on with a prompt, token by token",
                                "  heed generate\n"
                                "  heed generate --prompt abcab --greedy --tokens 8\n"
                                "  heed generate --temperature 0.8 --top-k 20 --seed 7");
  auto a = std::make_shared<GenerateArguments>();
  Command* c = command.get();
  c->positional("run", a->run, "run folder (default: the newest under runs/)");
  c->text("prompt", a->prompt, "TEXT", "what to go on with, in the task's characters");
  c->integer("tokens", a->tokens, 1, 100'000'000, "tokens to generate");
  c->real("temperature", a->sample.temperature, 0, 1000, "logits are divided by it, above 0");
  c->integer("top-k", a->sample.top_k, 0, 1'000'000, "draw from the k likeliest; 0: from all");
  c->real("top-p", a->sample.top_p, 0, 1, "draw from the fewest of at least this probability");
  c->flag("greedy", a->sample.greedy, "always the likeliest token");
  c->integer("seed", a->seed, 0, 0xffffffff, "of the drawing");
  c->text("weights", a->weights, "FILE", "weights inside the folder");
  c->config_option();
  c->threads_option();
  c->json_option();
  c->run = [a, c] { return generate(*a, c->json); };
  return command;
}

}  // namespace heed
