// The command `heed generate`: continues a prompt with a trained model.
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "nn/lab/run/run_folder.h"
#include "nn/lab/train/generate.h"
#include "tools/heed/commands.h"
#include "tools/heed/find_run.h"
#include "tools/heed/report/output.h"
#include "tools/heed/report/progress.h"

namespace heed {
namespace {

struct GenerateArguments {
  std::string run, weights = lab::RunFolder::kState, prompt, stop;
  Index tokens = 256, seed = 1, samples = 1;
  lab::SampleOptions how;
};

struct Sample {
  std::vector<Index> tokens = {};
  bool stopped = false;
};

void write_out(const std::string& text) {
  put_text(stdout, text);
  if (std::fflush(stdout) != 0) throw autograd::IoError("generate: cannot write to stdout");
}

// Writes each token to stdout when it is generated.
class TokenWriter {
 public:
  explicit TokenWriter(const lab::TaskInfo& info) : info_(info) {}

  void prompt(std::vector<Index> ids) {
    // A sequence of the task `lines` begins with a newline, which is not printed.
    if (info_.stop && ids[0] == *info_.stop) ids.erase(ids.begin());
    write_out(info_.vocabulary.decode(ids));
  }
  void token(Index id) {
    last_ = info_.vocabulary.symbols()[std::size_t(id)];
    write_out(last_);
  }
  void end() {
    if (last_ != "\n") write_out("\n");
  }

 private:
  const lab::TaskInfo& info_;
  std::string last_;
};

Value sample_json(const Sample& sample, const lab::Vocabulary& vocabulary) {
  return Value::object({{"text", vocabulary.decode(sample.tokens)},
                        {"tokens", sample.tokens.size()},
                        {"stopped", sample.stopped}});
}

std::vector<Index> prompt_ids(const GenerateArguments& a, const lab::Task& task) {
  try {
    return task.prompt(a.prompt).inputs.to_vector<std::int64_t>();
  } catch (const autograd::ValueError& e) {
    if (!a.prompt.empty()) throw;
    usage_error("{}; give --prompt {}", e.what(), task.info().prompt);
  }
}

void check_sampling(const lab::SampleOptions& how, Index samples) {
  if (how.greedy && (how.top_k > 0 || how.top_p < 1))
    usage_error("--greedy always chooses the most likely token; leave out --top-k and --top-p");
  if (how.greedy && samples > 1)
    usage_error("--greedy is not random, so all samples would be equal; leave out --samples");
}

struct Generated {
  std::vector<Sample> samples;
  Index tokens = 0;  // number of tokens of all samples
  double seconds = 0;

  double tokens_per_s() const { return seconds > 0 ? double(tokens) / seconds : 0; }
};

// Prints the number of tokens, the time and the speed as one line on stderr.
void print_summary(const std::string& run, const lab::TaskInfo& info, const Generated& g,
                   bool ended) {
  const std::size_t count = g.samples.size();
  std::string text = fmt::format("{} in {}, {} tokens/s", counted(g.tokens, "token"),
                                 seconds_text(g.seconds), si_text(g.tokens_per_s()));
  if (count > 1) text = fmt::format("{} samples, {}", count, text);
  if (count == 1 && g.samples[0].stopped)
    text += "; stopped";
  else if (ended)
    text += fmt::format("; {} sequences end after {} tokens", info.name, info.context + 1);
  put_text(stderr, fmt::format("{}: {}\n", run, text));
}

Out out_of(const Generated& g, const std::string& run, const std::string& prompt,
           const lab::Vocabulary& vocabulary) {
  Out out;
  out.set("run", run);
  out.set("prompt", prompt);
  if (g.samples.size() == 1) {
    out.set_all(sample_json(g.samples[0], vocabulary));
  } else {
    Value list = Value::array();
    for (const Sample& sample : g.samples) list.push_back(sample_json(sample, vocabulary));
    out.set("samples", list);
    out.set("tokens", g.tokens);
  }
  out.set("seconds", g.seconds);
  out.set("tokens_per_s", g.tokens_per_s());
  return out;
}

Out generate(const GenerateArguments& a, bool json) {
  check_sampling(a.how, a.samples);
  const std::filesystem::path folder = find_run(a.run);
  const lab::LoadedRun run = open_run(folder, a.weights, lab::Use::kPrompts);
  const lab::TaskInfo& info = run.task->info();
  const auto ids = prompt_ids(a, *run.task);
  std::vector<Index> stops = info.vocabulary.encode(a.stop, "stop");
  if (info.stop) stops.push_back(*info.stop);

  // A sequence of a task ends at the context length. A text file has no such end.
  const Index room = info.context + 1 - Index(ids.size());
  const Index most = info.endless ? a.tokens : std::min(a.tokens, room);
  std::vector<nn::Generator> streams;
  for (Index i = 0; i < a.samples; ++i) streams.push_back(lab::sample_stream(a.seed, i));
  Generated g{.samples = std::vector<Sample>(streams.size())};
  // If there are several samples, they are generated at the same time and therefore printed at the
  // end.
  const bool live = !json && streams.size() == 1;
  TokenWriter writer(info);
  if (live) writer.prompt(ids);
  Progress progress(live && ::isatty(STDOUT_FILENO) != 0);
  const Stopwatch clock;
  past_input_checks([&] {
    lab::generate_samples(run.model, ids, most, a.how, streams, [&](Index i, Index id) {
      Sample& sample = g.samples[std::size_t(i)];
      sample.tokens.push_back(id);
      ++g.tokens;
      if (live) writer.token(id);
      if (progress.is_due())
        progress.at_work(fmt::format("Generating: {} of {} tokens", sample.tokens.size(), most));
      sample.stopped = std::find(stops.begin(), stops.end(), id) != stops.end();
      return !sample.stopped;
    });
  });
  g.seconds = clock.seconds();
  progress.clear();
  if (json) return out_of(g, folder.string(), info.vocabulary.decode(ids), info.vocabulary);
  for (std::size_t i = 0; i < g.samples.size() && !live; ++i) {
    print("--- sample {} of {}\n", i + 1, g.samples.size());
    writer.prompt(ids);
    for (const Index id : g.samples[i].tokens) writer.token(id);
    writer.end();
  }
  if (live) writer.end();
  print_summary(folder.string(), info, g, most < a.tokens);
  return {};
}

constexpr const char* kGenerateNotes =
    R"(The text depends on the seed, but not on the number of threads. The text of sample i does not
depend on the number of samples, and sample 1 is the text generated without --samples.

[Options]
Within the context length, a new token costs a forward pass of one token. Beyond it, a new token
costs a pass over the last --context tokens, because keys and values are computed anew.

[JSON]
prompt includes the tokens that the task adds to it. tokens is the number of generated tokens, with
--samples of all samples. stopped is true if a stop token ended the text; it is then the last token.)";

}  // namespace

void generate_command(Command& c) {
  c.name = "generate", c.what = "continue a prompt with a trained model";
  c.examples =
      "  heed generate\n"
      "  heed generate --prompt abcdabcd --greedy --tokens 20\n"
      "  heed generate --temperature 0.8 --top-k 20 --seed 7\n"
      "  heed generate --samples 4 --tokens 40";
  c.notes = kGenerateNotes;
  auto a = std::make_shared<GenerateArguments>();
  lab::SampleOptions& sample = a->how;
  c.arguments = 1;
  lab::Setting temperature("temperature", sample.temperature, {0, 1000, true},
                           "divides the logits");
  temperature.remedy = "; for the most likely token, use --greedy";
  c.add("Options",
        {run_setting(a->run),
         {"prompt", a->prompt, "TEXT", "text to continue, in the characters of the task"},
         {"tokens", a->tokens, {1, 1e8}, "largest number of tokens to generate"},
         {"stop", a->stop, "CHARS",
          "stop after any of these tokens; the task lines also stops at the end of a line"},
         temperature,
         {"top-k", sample.top_k, {0, 1e6}, "sample from the k most likely tokens; 0: from all"},
         {"top-p",
          sample.top_p,
          {0, 1, true},
          "sample from the smallest set of most likely tokens with at least this probability"},
         {"greedy", sample.greedy, "always choose the most likely token"},
         {"samples", a->samples, {1, 1024}, "number of texts, generated as one batch"},
         {"seed", a->seed, {0, 0xffffffff}, "seed of sampling"},
         {"weights", a->weights, "FILE", "weights file in the run directory"}});
  c.settings[1].may_be_empty = true;
  c.add_common(Command::kThreads | Command::kJson);
  c.mark(&lab::Setting::common, {"run", "prompt", "tokens", "temperature", "top-k", "top-p",
                                 "greedy", "samples", "seed", "json"});
  const auto run = [a](const Command& command) { return generate(*a, command.json); };
  c.modes = {{.key = "samples",
              .when = [](const Command& command) { return command.text("samples") != "1"; },
              .keys = "run prompt samples (text tokens stopped) tokens seconds tokens_per_s",
              .run = run},
             {.keys = "run prompt text tokens stopped seconds tokens_per_s", .run = run}};
}

}  // namespace heed
