// `heed verify`: verifies that a run's model is causal, that the run resumes bit for bit, or that
// its files are whole.
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "nn/run/run_folder.h"
#include "nn/run/verify_resume.h"
#include "nn/run/verify_run.h"
#include "nn/train/checks/causality.h"
#include "tools/heed/commands.h"
#include "tools/heed/find_run.h"
#include "tools/heed/pictures.h"
#include "tools/heed/report/output.h"
#include "tools/heed/report/progress.h"
#include "tools/plot/text.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

struct VerifyArguments {
  std::string what, weights = nn::RunFolder::kState, out;
  std::vector<std::string> runs;
  std::int64_t length = 0;
};

// Returns the run that was given, or "". Throws UsageError if several runs were given.
std::string only_run(const Command& c) {
  if (c.given("run") && c.values.at("run").size() > 1)
    usage_error("verify {} accepts only one run; leave out '{}'", c.text("what"), c.text("run"));
  return c.text("run");
}

// Result of the causality check for one set of weights.
struct Verified {
  std::string weights;  // "trained" or "random"
  std::vector<nn::Reach> causality;
};

std::string verdict(const nn::Reach& r) {
  const auto leaks = r.leaks(), blind = r.blind();
  if (!leaks.empty())
    return fmt::format(
        "LEAKS: {} derivatives are not 0; the first is d output {} / d input {} = {:g}",
        leaks.size(), leaks[0].output, leaks[0].input, leaks[0].value);
  if (!blind.empty())
    return fmt::format(
        "BLIND: {} outputs do not depend on the input at their position; the first is output {}",
        blind.size(), blind[0].output);
  return "causal";
}

constexpr Column kPlaceKeys[] = {{"output"}, {"input"}, {"value"}};
constexpr Column kPassColumns[] = {{"", "pass"}, {"weights"},    {"pass"},  {"ok"},
                                   {"leaks"},    {"first_leak"}, {"blind"}, {"", "verdict"}};
constexpr Column kCausalityKeys[] = {
    {"ok"}, {"run"}, {"length"}, {"seconds"}, rows("passes", kPassColumns), {"files"}};

void add_passes(Report& report, const std::vector<Verified>& all) {
  Table& table = report.table("passes");
  for (const Verified& v : all)
    for (const nn::Reach& r : v.causality) {
      const std::vector<nn::Reach::Place> leaks = r.leaks();
      const Value first =
          leaks.empty() ? Value()
                        : object_of(kPlaceKeys, {leaks[0].output, leaks[0].input, leaks[0].value});
      table.add({v.weights + " weights, " + r.name, v.weights, r.name, r.ok(), leaks.size(), first,
                 r.blind().size(), verdict(r)});
    }
}

void add_matrix(Report& report, const std::vector<nn::Reach>& trained) {
  const auto failed =
      std::find_if(trained.begin(), trained.end(), [](const nn::Reach& r) { return !r.ok(); });
  const nn::Reach& shown = failed == trained.end() ? trained[0] : *failed;
  report.line(
      "Trained weights, {}: one line per output, one column per input;\n# depends, . exactly 0{}",
      shown.name, shown.ok() ? "" : ", ! leaks, ? does not depend on its own input");
  report.block("\n" + shown.text());
}

Report verify_causality(const VerifyArguments& a, const Command& c) {
  const fs::path folder = find_run(only_run(c));
  if (!a.out.empty()) make_folder(a.out);
  const nn::LoadedRun run = open_run(folder, a.weights, nn::Use::kPrompts);
  const std::int64_t context = run.model.options.context;
  if (a.length > context) usage_error("--length: needs 2 to {}, got {}", context, a.length);
  nn::Generator generator(1);
  const nn::Transformer random(run.model.options, generator);
  const Stopwatch clock;
  Progress progress(false);
  const auto certify = [&](const std::string& weights, const nn::Transformer& model) {
    const Stopwatch own;
    return Verified{weights, nn::causality(model, a.length, [&](std::int64_t n, std::int64_t of) {
                      progress.at_work(fmt::format(
                          "Checking {} weights: {} of {} outputs, {} left", weights, n, of,
                          seconds_text(own.seconds() / double(n) * double(of - n))));
                    })};
  };
  std::vector<Verified> all;
  past_input_checks([&] {
    all.push_back(certify("trained", run.model));
    all.push_back(certify("random", random));
  });
  const double seconds = clock.seconds();
  const bool ok = std::all_of(all.begin(), all.end(), [](const Verified& v) {
    return std::ranges::all_of(v.causality, &nn::Reach::ok);
  });
  Report report(kCausalityKeys);
  report.line("{}: inputs on which each output depends, {}", folder.string(),
              counted(all[0].causality[0].length, "token"));
  report.set("ok", ok);
  report.set("run", folder.string());
  report.set("length", all[0].causality[0].length);
  report.set("seconds", seconds);
  add_passes(report, all);
  add_matrix(report, all[0].causality);
  if (!ok) report.fail(kCheckFailed);
  report.write_files([&] {
    const autograd::Directory out(a.out.empty() ? folder.string() : a.out);  // follows no link
    const PictureSource source = source_of(folder, run.model);
    return write_picture({&out, nn::RunFolder::kCausalityPicture},
                         reach_picture(all[0].causality, source), source);
  });
  report.line("({:.0f} ms){}", 1e3 * seconds, report.error.empty() ? "" : ", no picture");
  return report;
}

constexpr Column kLegColumns[] = {{"leg", "leg"}, {"hash", "hash"}, {"difference", "difference"}};
constexpr Column kResumeKeys[] = {{"ok"}, {"hash"}, {"run"}, {"steps"}, rows("legs", kLegColumns)};

// A temporary directory, which the destructor removes.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::error_code error;
    const fs::path top = fs::temp_directory_path(error);
    if (error)
      heed::fail<autograd::IoError>("verify", "TMPDIR is not a directory: ", error.message(),
                                    "; set it to a directory for temporary files");
    std::string name = (top / "heed-verify-XXXXXX").string();
    if (!::mkdtemp(name.data()))
      heed::fail<autograd::IoError>("verify", "cannot create the directory ", name, ": ",
                                    std::generic_category().message(errno));
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

Report verify_resume(const Command& c) {
  const fs::path folder = find_run(only_run(c));
  const nn::RunConfig config = open_run(folder, nn::RunFolder::kState, nn::Use::kSequences).config;
  if (config.steps == 0)
    usage_error("{} has 0 steps, so nothing can be resumed; give a run of at least 1 step",
                folder.string());
  const TemporaryFolder temporary;
  const InterruptGuard interrupt;
  Progress progress(false);
  const nn::ResumeCheck check = past_input_checks([&] {
    return nn::verify_resume(config, nn::RunFolder(temporary.path()),
                             [&](std::int64_t done, std::int64_t all) {
                               interrupt.check();
                               progress.at_work(fmt::format("Training: step {} of {}", done, all));
                             });
  });
  const auto hash_text = [](std::uint32_t hash) { return fmt::format("{:08x}", hash); };
  const std::string hash = hash_text(check.legs[0].hash);
  Report report(kResumeKeys);
  report.line("{}: its first {}, once without interruption, once stopped and resumed",
              folder.string(), counted(check.steps, "step"));
  report.set("ok", check.ok());
  report.set("hash", hash);
  report.set("run", folder.string());
  report.set("steps", check.steps);
  Table& legs = report.table("legs");
  for (const auto& leg : check.legs) legs.add({leg.name, hash_text(leg.hash), leg.difference});
  report.line("{}",
              check.ok()
                  ? "Every row, weight, moment and random stream is the same, bit for bit: " + hash
                  : "The run that was resumed with 2 threads differs from the uninterrupted run "
                    "with 1 thread");
  report.fail(check.ok() ? kOk : kCheckFailed);
  return report;
}

constexpr Column kFileColumns[] = {
    {"", "file"}, {"run"}, {"file"}, {"state", "state"}, {"verified_by", "verified by"},
    {"reason"}};
constexpr Column kFilesKeys[] = {{"ok"}, rows("files", kFileColumns)};

void add_run(Table& table, const nn::RunFolder& run) {
  for (const auto& [name, verified_by, problem] : nn::verify_run(run)) {
    const std::string path = run.file(name).string();
    if (problem.empty()) {
      const char* state = verified_by == "nothing" ? "unknown" : "whole";
      table.add({path, run.text(), name, state, verified_by, Value()});
      continue;
    }
    const bool has_path = problem.find(path) != problem.npos;
    const std::string why = has_path ? problem : path + ": " + problem;
    table.add({path, run.text(), name, "damaged", Value(), why});
    table.note += plot::visible_text(why) + "\n";
  }
}

Report verify_files(const Command& c) {
  std::vector<Command::Value> given(1);  // the names may contain commas, as in `heed compare`
  if (c.given("run")) given = c.values.at("run");
  Report report(kFilesKeys);
  Table& table = report.table("files");
  Progress progress(false);
  for (const Command::Value& value : given) {
    const nn::RunFolder run(find_run(value.text));
    progress.at_work("Reading " + run.text());
    add_run(table, run);
  }
  report.set("ok", table.note.empty());
  report.fail(table.note.empty() ? kOk : kCheckFailed);
  return report;
}

constexpr const char* kVerifyNotes =
    R"(causality: computes the derivative of every output with respect to every input. It must be
exactly 0 for later inputs and not 0 for the input at the output's position. This is checked without
padding and with padding, on which no other output may depend. With a KV cache, which has no
gradients, tokens are changed one by one instead, and earlier logits must not change by a bit. Checks
the run's weights and random weights of the same model, and draws the matrices.

resume: trains the run's first 40 steps twice: without interruption with 1 thread, and stopped, saved
and resumed with 2 threads. Every row of metrics, weight, moment and random stream must be the same
bit for bit. Prints one hash. Works in a temporary directory and only reads the run.

run: verifies the checksums of {0} and of the checkpoints, and that all copies have the
contents of {0}: the configuration, the weights and the texts. Other files are not read, so
their state is unknown. If {0} is whole, heed train --resume writes the copies again.

The exit code is 1 if a check fails. It is 4 if the check passes but the picture cannot be written;
the result is printed before the error.)";

}  // namespace

void verify_command(Command& c) {
  c.name = "verify", c.what = "verify causality, a resume bit for bit, or the files of runs";
  c.examples =
      "  heed verify causality\n"
      "  heed verify resume runs/induction-1\n"
      "  heed verify run runs/induction-1 runs/induction-2\n"
      "  heed verify causality runs/induction-1 --length 48 --json";
  c.notes = fmt::format(kVerifyNotes, nn::RunFolder::kState);
  auto a = std::make_shared<VerifyArguments>();
  c.arguments = 2;
  nn::Setting runs("run", a->runs, {}, "run directory; `verify run` accepts several");
  runs.unit = "DIR", runs.shown = "the newest under runs/";
  c.add("Options", {{"what", a->what, std::vector<std::string>{"causality", "resume", "run"},
                     "what to verify"},
                    std::move(runs),
                    {"weights", a->weights, "FILE", "weights file in the run directory"},
                    nn::Setting("length", a->length, {2, 4096}, "number of tokens")
                        .shows("the context, at most 32"),
                    nn::Setting("out", a->out, "DIR",
                                fmt::format("directory for {}", nn::RunFolder::kCausalityPicture))
                        .shows("the run")});
  c.add_common(Command::kAll | Command::kCsv);
  c.mark(&nn::Setting::required, {"what"});
  c.modes = {{.key = "what",
              .values = {"causality"},
              .result = kCausalityKeys,
              .run = [a](const Command& command) { return verify_causality(*a, command); }},
             {.key = "what",
              .values = {"resume"},
              .accepts = c.all_but({"weights", "length", "out", "threads"}),
              .result = kResumeKeys,
              .run = verify_resume},
             {.key = "what",
              .values = {"run"},
              .accepts = c.all_but({"weights", "length", "out", "threads", "simd"}),
              .result = kFilesKeys,
              .run = verify_files}};
}

}  // namespace heed
