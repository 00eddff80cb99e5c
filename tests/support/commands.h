// Calls of the commands of heed in this process, in a directory with a tiny run and other files.
#pragma once

#include <cstdio>

#include "autograd/base/files.h"
#include "nn/lab.h"
#include "tests/support/disk.h"
#include "tests/support/redirected.h"
#include "tools/heed/heed.h"

namespace heed::testing {

/// The run in the directory of a Place.
inline const std::string kRun = "runs/reverse-1";

/// The exit code and the output of a command.
struct Outcome {
  int code;
  std::string out, err;
};

/// A temporary directory with a tiny run and other input files. It is the current directory until
/// the object is destroyed.
class Place {
 public:
  Place() : before_(std::filesystem::current_path()), threads_(heed::autograd::num_threads()) {
    std::filesystem::create_directories(folder_ / "directory");
    std::filesystem::current_path(folder_.path());
    lab::RunConfig c = lab::preset("reverse");
    c.model.attention.d_model = 16, c.steps = 2, c.batch = 4, c.eval_batch = 8;
    lab::Trainer t(c);
    t.step();
    std::filesystem::create_directories("runs/reverse-1");
    lab::RunFolder("runs/reverse-1").save(t.snapshot());
    lab::RunFolder("runs/reverse-1").save_checkpoint(t.snapshot());
    std::filesystem::create_directories("finished/run");
    t.evaluate(false);
    lab::RunFolder("finished/run").save(t.snapshot());
    lab::Snapshot last = t.snapshot();
    last.finished = true, last.result = to_json(lab::RunResult{.steps = 1, .loss = 1});
    lab::RunFolder("finished/run").save(last);
    heed::autograd::write_file("file.txt", std::string_view("text"));
    heed::autograd::write_file("text.txt", std::string_view("the text of a run, which is short\n"));
    lab::RunConfig text = c;
    text.task = "text", text.text = "text.txt", text.model.context = 3;
    std::filesystem::create_directories("text-run");
    lab::RunFolder("text-run").save(lab::Trainer(text).snapshot());
    nn::save_safetensors("m.safetensors", {{"m", heed::autograd::ones({2, 3})}});
  }
  Place(const Place&) = delete;
  ~Place() {
    std::filesystem::current_path(before_);
    heed::autograd::set_num_threads(threads_);
  }
  /// Runs a command. The first argument is its name.
  static Outcome run(const std::vector<std::string>& arguments) {
    std::vector<std::string> all = {"heed"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& a : all) argv.push_back(a.data());
    Outcome o{};
    {
      const Redirected out(stdout, "out"), err(stderr, "err");
      o.code = run_heed(int(argv.size()), argv.data());
    }
    o.out = heed::autograd::read_file("out"), o.err = heed::autograd::read_file("err");
    return o;
  }

 private:
  std::filesystem::path before_;
  Folder folder_;
  int threads_;
};

}  // namespace heed::testing
